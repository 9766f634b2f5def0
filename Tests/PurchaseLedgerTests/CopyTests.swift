// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HostileVectors
import PurchaseLedger
import PurchaseLedgerTesting
import Synchronization
import TestData
import TestWorld
import Testing

/// Tests copies of ledgers in memory. `LedgerPostgresTests` copies between files and databases.
@Suite struct CopyTests {
    private let store: TestStore
    private let source = MemoryLedgerStorage()
    private let target = MemoryLedgerStorage()

    init() async throws {
        store = try TestStore()
        try await FilledLedger.fill(source, of: store, days: 20)
    }

    private func copy(
        _ source: any LedgerStorage, to target: any LedgerStorage, page: Int = 500
    ) async throws -> LedgerCopy.Report {
        var copy = LedgerCopy(from: source, named: "the source", to: target, by: store.verifier())
        copy.page = page
        return try await copy.run(at: TestStore.start)
    }

    private func code(_ source: any LedgerStorage, to target: any LedgerStorage) async -> LedgerCopyError.Code? {
        do {
            _ = try await copy(source, to: target)
            return nil
        } catch {
            return (error as? LedgerCopyError)?.code
        }
    }

    /// A copy of nothing would prove nothing.
    @Test func `the ledger that these tests copy has every kind of record`() async throws {
        let content = try await LedgerContent(of: source)
        let chains = content.chains.values
        #expect(chains.contains { $0.successor != nil })
        #expect(chains.contains { $0.erasedAt != nil && $0.chain.residue.isEmpty })
        #expect(chains.contains { !$0.chain.residue.isEmpty && !$0.hasFacts })
        #expect(chains.contains { $0.owners.count > 1 })
        #expect(chains.contains { $0.report?.nextChange != nil })
        #expect(Set(content.documents.compactMap(\.kind.known)) == Set(Evidence.Kind.allCases))
        #expect(content.evidence.values.joined().contains { $0.chains.count > 1 })
        let named = Set(content.evidence.values.joined().map(\.name))
        #expect(content.documents.contains { !named.contains($0.name) }, "a document of no chain")
        #expect(content.customers.contains { $0.ids.count > 2 && $0.isEstablished })
        #expect(content.customers.contains { !$0.isEstablished })
        #expect(content.customers.contains { $0.consentedAt != nil })
        #expect(content.customers.contains { $0.grants.contains { $0.end != nil } && $0.grants.count == 3 })
        #expect(content.jobs.contains { $0.failure != nil } && content.jobs.contains { $0.attempts == 1 })
        #expect(content.apiKeys.map(\.name).sorted() == ["one", "three", "two"])
        #expect(content.apiKeys.contains { $0.revokedAt != nil })
        #expect(content.records.contains { $0.key == CatalogueDigest.key(FilledLedger.scope.bundleId) })
        #expect(content.records.contains { $0.key.kind == CustomerAttributes.recordKind && !$0.entries.isEmpty })
        let failed = content.records.filter { $0.key.kind == FailedDelivery.recordKind }
        #expect(Set(failed.map { $0.dueAt != nil }) == [true, false])
        #expect(content.records.contains { $0.key.kind == WebhookEndpoint.recordKind })
        #expect(content.records.contains { $0.key.kind == RecordKind(rawValue: "webhookAttempts") })
        #expect(content.events.count == 2)
        #expect(content.erasedEvents.values.contains { $0 > 0 })
    }

    @Test func `a copy has everything, and says what was copied and compared`() async throws {
        let report = try await copy(source, to: target)
        let content = try await LedgerContent(of: source)
        #expect(try await LedgerContent(of: target) == content)
        #expect(report.copied == report.compared)
        #expect(report.compared.documents == content.documents.count)
        #expect(report.compared.purchases == content.chains.count)
        #expect(report.compared.customers == content.customers.count)
        #expect(report.compared.events == content.events.values.joined().count)
        #expect((report.compared.jobs, report.compared.apiKeys) == (content.jobs.count, content.apiKeys.count))
        let counted = content.jobs.count + content.apiKeys.count
        #expect(report.compared.records > 0 && report.compared.records + counted == content.records.count)
        let again = try await copy(source, to: target)
        #expect(again.copied.documents + again.copied.purchases + again.copied.customers + again.copied.events == 0)
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)

        func next() -> Int {
            count.withLock { count in
                count += 1
                return count
            }
        }

        var value: Int { count.withLock { $0 } }
    }

    /// Fails before or after a commit, as if the program had been killed there.
    @Test(.takesLong, arguments: [true, false])
    func `a copy that is interrupted at any commit goes on and ends equal`(isBefore: Bool) async throws {
        let expected = try await LedgerContent(of: source)
        for number in 1... {
            let (target, commits) = (MemoryLedgerStorage(), Counter())
            let stop: @Sendable () throws -> Void = {
                if commits.next() == number { throw LedgerStorageError(.unavailable, "Stopped") }
            }
            let stopping =
                isBefore
                ? InterceptedStorage(inner: target, before: stop) : InterceptedStorage(inner: target, after: stop)
            let isComplete: Bool
            do {
                _ = try await copy(source, to: stopping, page: 20)
                isComplete = true
            } catch is LedgerStorageError {
                isComplete = false
            }
            #expect(isComplete == (commits.value < number))
            let report = try await copy(source, to: target, page: 30)
            #expect(number <= 2 || report.copied.customers == 0, "the commit after the note is not repeated")
            #expect(try await LedgerContent(of: target) == expected, "commit \(number)")
            guard !isComplete else {
                #expect(number > 10)
                return
            }
        }
    }

    /// A storage that notes in which order it was written.
    private struct ToldStorage: ForwardingStorage {
        let inner: any LedgerStorage
        let steps = Steps()

        final class Steps: Sendable {
            private let all = Mutex<[String]>([])
            var list: [String] { all.withLock { $0 } }
            func add(_ step: String) { all.withLock { if $0.last != step { $0.append(step) } } }
        }

        func commit<Output: Sendable>(
            _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
        ) async throws -> Output {
            try await inner.commit(query) { snapshot in
                let decision = try decide(snapshot)
                if case .commit(let changes, _) = decision {
                    let isEnd = changes.erasedRecords.contains(UnfinishedCopy.key)
                    steps.add(isEnd ? "no note" : query.keys.contains(.record(UnfinishedCopy.key)) ? "note" : "commit")
                }
                return decision
            }
        }

        func adaptToSize() async throws { steps.add("size") }
    }

    @Test func `the target has a note before anything else, and none once all was compared`() async throws {
        let told = ToldStorage(inner: target)
        _ = try await copy(source, to: told)
        // The last commit has the documents of no purchase.
        #expect(told.steps.list == ["note", "commit", "size", "commit", "no note"])
        let again = ToldStorage(inner: target)
        _ = try await copy(source, to: again)
        #expect(again.steps.list == ["size"], "a copy that is complete is never half a copy again")
    }

    @Test func `an interrupted copy keeps its beginning, and is not copied from`() async throws {
        let commits = Counter()
        let stopping = InterceptedStorage(
            inner: target,
            after: { if commits.next() == 4 { throw LedgerStorageError(.unavailable, "Stopped") } })
        await #expect(throws: LedgerStorageError.self) { try await copy(source, to: stopping, page: 20) }
        let note = UnfinishedCopy(source: "the source", beganAt: TestStore.start)
        #expect(try await target.unfinishedCopy() == note)
        let error = await #expect(throws: LedgerStorageError.self) {
            try await copy(target, to: MemoryLedgerStorage())
        }
        #expect(error?.code == .unfinishedCopy)
        let later = Timestamp(milliseconds: TestStore.start.milliseconds + 60_000)
        let (earlier, commit) = (commits.value, Counter())
        let watching = InterceptedStorage(
            inner: target,
            before: {
                _ = commit.next()
                let found = try await target.unfinishedCopy()
                #expect(found == note)
            })
        _ = try await LedgerCopy(from: source, named: "the source", to: watching, by: store.verifier()).run(at: later)
        #expect(earlier == 4 && commit.value > 0)
        #expect(try await target.unfinishedCopy() == nil)
    }

    @Test func `progress is that of all documents, also of those that an earlier run copied`() async throws {
        let total = try await source.documentCount()
        var continued = 0
        for number in 1...10 {
            let (target, commits) = (MemoryLedgerStorage(), Counter())
            let stopping = InterceptedStorage(
                inner: target,
                after: { if commits.next() == number { throw LedgerStorageError(.unavailable, "Stopped") } })
            _ = try? await copy(source, to: stopping, page: 20)
            let earlier = try await target.documentCount()
            var progress: [LedgerCopy.Progress] = []
            var second = LedgerCopy(from: source, named: "the source", to: target, by: store.verifier())
            second.page = 20
            _ = try await second.run(at: TestStore.start) { progress.append($0) }
            #expect(progress.allSatisfy { $0.total == total })
            let copied = progress.filter { $0.stage == .copied }.map(\.documents)
            #expect(copied == copied.sorted() && copied.allSatisfy { $0 >= earlier })
            #expect(progress.last?.stage == .compared && progress.last?.documents == total)
            if earlier > 0 { continued += copied.count }
        }
        #expect(continued > 0)
    }

    @Test func `clients go on from their cursors, and new events and customers get new numbers`() async throws {
        let app = FilledLedger.scope.bundleId
        let page = try await source.events(of: app, after: nil, limit: 5)
        let rest = try await source.events(of: app, after: page.next, limit: 10_000).events
        _ = try await copy(source, to: target)
        let old = try #require(try await LedgerContent(of: source).customers.map(\.customer.number).max())
        let used = try await source.marks().lastCustomer
        #expect(used >= old)
        let (ledger, now) = (Ledger(storage: target), Timestamp(milliseconds: 1_900_000_000_000))
        let token = try store.signer.sign(TestStore.transaction("900"), at: RandomWorld.start)
        let document = try await store.verifier().evidence(transaction: token, at: RandomWorld.start)
        _ = try await ledger.record([document], claimedBy: "new", at: now)
        let found = try await ledger.events(of: app, after: page.next, limit: 10_000).events
        #expect(Array(found.prefix(rest.count)) == rest)
        let new = found.dropFirst(rest.count)
        #expect(!new.isEmpty && new.allSatisfy { $0.originalTransactionId == "900" })
        let cursors = found.compactMap(\.cursor?.number)
        #expect(cursors == cursors.sorted() && Set(cursors).count == found.count)
        #expect(new.compactMap(\.customer?.number).allSatisfy { $0 > used })
        let error = await #expect(throws: EventCursorError.self) {
            try await ledger.events(of: app, after: EventCursor(0), limit: 1)
        }
        let marks = try await source.marks()
        #expect(try await target.marks().epochs == marks.epochs)
        let oldest = try #require(marks.epochs[app]?.cursor(marks.erasedEvents[app] ?? 0))
        #expect(error == .expired(oldest: oldest))
    }

    @Test func `a target with anything else is refused and stays as it is`() async throws {
        var random = SystemRandomNumberGenerator()
        let key = APIKey.make(name: "a", role: .client, bundleId: "com.example", at: TestStore.start, using: &random)
        let changes: [@Sendable (inout LedgerChanges) -> Void] = [
            { $0.records = [key.key.record] },
            { $0.customers = [CustomerRecord(Customer(number: 99, bundleId: "com.example"), ids: ["someone"])] },
            { $0.customers = [CustomerRecord(Customer(number: 1, bundleId: "com.example"), ids: ["someone"])] },
            { changes in
                var record = ChainRecord(ChainKey("1", in: FilledLedger.scope))
                record.erasedAt = TestStore.start
                changes.chains = [record]
            },
            { $0.records = [LedgerRecord(RecordKey(RecordKind(rawValue: "k"), "n", of: .ledger))] },
            { $0.events = [LedgerEvent(.customerDeleted, in: FilledLedger.scope, at: TestStore.start)] },
        ]
        for change in changes {
            let target = MemoryLedgerStorage()
            try await target.commit(LedgerQuery()) { _ in
                var changes = LedgerChanges()
                change(&changes)
                return .commit(changes, ())
            }
            let before = try await LedgerContent(of: target)
            #expect(await code(source, to: target) == .targetInUse)
            #expect(try await LedgerContent(of: target) == before)
            #expect(try await target.unfinishedCopy() == nil)
        }
        #expect(await code(target, to: source) == .targetInUse, "an empty ledger into one with everything")
    }

    /// Changes one document whenever it is read.
    private struct TamperedStorage: ForwardingStorage {
        let inner: any LedgerStorage
        let kind: Evidence.Kind

        func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
            var snapshot = try await inner.load(query)
            for (name, document) in snapshot.documents where document.kind == kind {
                snapshot.documents[name] = tampered(document)
            }
            return snapshot
        }

        func documents(
            _ selection: DocumentSelection, after cursor: ScanCursor?, limit: Int
        ) async throws -> ScanPage<StoredDocument> {
            var page = try await inner.documents(selection, after: cursor, limit: limit)
            page.items = page.items.map { $0.kind == kind ? tampered($0) : $0 }
            return page
        }

        private func tampered(_ document: StoredDocument) -> StoredDocument {
            var document = document
            document.document[document.document.count / 2] ^= 1
            return document
        }
    }

    @Test func `a copy whose first document does not verify leaves half a copy, and no ledger`() async throws {
        let token = Array(try store.sign(TestStore.transaction()).utf8)
        let verified = try await store.verifier().verify(
            token, as: JWSTransactionDecodedPayload.self, at: TestStore.start)
        let source = MemoryLedgerStorage()
        let document = try #require(Evidence(verified))
        _ = try await Ledger(storage: source).record([document], at: TestStore.start)
        let tampered = TamperedStorage(inner: source, kind: .transaction)
        #expect(await code(tampered, to: target) == .invalidDocument)
        #expect(try await target.unfinishedCopy() != nil)
        #expect(try await target.documentCount() == 0)
    }

    @Test(arguments: Evidence.Kind.allCases)
    func `a document that does not verify stops the copy, and is named`(kind: Evidence.Kind) async throws {
        let error = await #expect(throws: LedgerCopyError.self) {
            try await copy(TamperedStorage(inner: source, kind: kind), to: target)
        }
        #expect(error?.code == .invalidDocument)
        #expect(error?.message.hasPrefix("The document ") == true, "\(error?.message ?? "")")
        let copied = try await LedgerContent(of: target).documents
        #expect(copied.allSatisfy { $0.kind != kind })
    }

    /// Of a ledger whose roots are noted, the notes stop it before.
    @Test func `a document of another App Store stops the copy of a ledger without notes`() async throws {
        let selection = RecordSelection(RecordKind(rawValue: "trustAnchors"))
        let notes = Set(try await source.records(selection, limit: 1000).map(\.key))
        #expect(!notes.isEmpty)
        try await source.commit(LedgerQuery(notes.map(LedgerKey.record))) { _ in
            var changes = LedgerChanges()
            changes.erasedRecords = notes
            return .commit(changes, ())
        }
        let error = await #expect(throws: LedgerCopyError.self) {
            var verifier = store.verifier()
            verifier.roots = .apple
            return try await LedgerCopy(from: source, named: "the source", to: target, by: verifier).run(
                at: TestStore.start)
        }
        #expect(error?.message.contains("untrustedChain: ") == true)
    }

    @Test func `what is written to the source during the copy is noticed, and copied by the next run`() async throws {
        let (source, target, late) = (source, target, Counter())
        // After the events were copied.
        let busy = InterceptedStorage(inner: target) {
            guard try await target.marks().lastEvent > 0, late.next() == 1 else { return }
            let id = CustomerID("late", of: FilledLedger.scope.bundleId)
            try await source.commit(LedgerQuery([.customerID(id)])) { snapshot in
                var changes = LedgerChanges()
                let customer = Customer(number: snapshot.newNumbers[id] ?? 0, bundleId: id.bundleId)
                changes.customers = [CustomerRecord(customer, ids: [id.id])]
                return .commit(changes, ())
            }
        }
        #expect(await code(source, to: busy) == .differs)
        #expect(try await copy(source, to: target).copied.customers == 1)
        #expect(try await LedgerContent(of: target) == LedgerContent(of: source))
    }

    /// As after a decision of a server that uses the target.
    @Test func `what is written to the target during the copy is noticed`() async throws {
        let (target, late) = (target, Counter())
        let busy = InterceptedStorage(inner: target) {
            guard try await target.marks().lastEvent > 0, late.next() == 1 else { return }
            try await target.commit(LedgerQuery()) { _ in
                var changes = LedgerChanges()
                changes.events = [LedgerEvent(.customerDeleted, in: FilledLedger.scope, at: TestStore.start)]
                return .commit(changes, ())
            }
        }
        #expect(await code(source, to: busy) == .differs)
    }
}
