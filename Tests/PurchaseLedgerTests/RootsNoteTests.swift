// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedgerTesting
import Synchronization
import TestData
import TestWorld
import Testing

@testable import PurchaseLedger

/// Tests what a ledger notes about the roots of its documents, and what it refuses for it.
@Suite struct RootsNoteTests {
    private static let production = Facts.scope
    private static let sandbox = LedgerScope(bundleId: "com.example", environment: .sandbox)
    private static let other = LedgerScope(bundleId: "com.example.other", environment: .production)
    private static let now = TestStore.start

    /// Roots that no document of these tests has: rules about roots look at nothing else.
    private static let (simulator, secondSimulator) = (
        TrustAnchor(name: "5a", isSimulated: true), TrustAnchor(name: "5b", isSimulated: true)
    )
    private static let (company, secondCompany) = (TrustAnchor(name: "c0"), TrustAnchor(name: "c1"))

    /// A storage that keeps which records were asked for in commits.
    private final class WatchedStorage: ForwardingStorage {
        let inner: any LedgerStorage = MemoryLedgerStorage()
        let records = Mutex<[Set<RecordKey>]>([])

        func commit<Output: Sendable>(
            _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
        ) async throws -> Output {
            let keys = query.keys.compactMap { if case .record(let key) = $0 { key } else { nil } }
            records.withLock { $0.append(Set(keys)) }
            return try await inner.commit(query, decide)
        }
    }

    /// A document of a root. Its content says nothing.
    private static func document(
        _ name: String, of anchor: TrustAnchor?, in scope: LedgerScope = production, parts: [Evidence] = []
    ) -> Evidence {
        Evidence(
            parts.isEmpty ? .appTransaction : .notification, Array("e30.\(name).AA".utf8), scope, now, anchor: anchor,
            parts: parts
        ) { _ in ([], []) }
    }

    fileprivate static func notes(_ storage: any LedgerStorage) async throws -> [LedgerScope: Set<TrustAnchor>] {
        let records = try await storage.records(RecordSelection(RootsNote.recordKind), after: nil, limit: 1000)
            .items
        return try Dictionary(uniqueKeysWithValues: records.map { try RootsNote($0) }.map { ($0.scope, $0.anchors) })
    }

    private static func note(_ storage: any LedgerStorage) async throws -> LedgerRecord? {
        let key = RootsNote.key(production)
        return try await storage.load(LedgerQuery([.record(key)])).records[key]
    }

    private static func message(_ body: () async throws -> Void) async -> String? {
        do {
            try await body()
            return nil
        } catch let error as LedgerStorageError where error.code == .otherRoots {
            return error.message
        } catch {
            return "another error: \(error)"
        }
    }

    // MARK: - Noting

    @Test func `the first document of a root notes it, and those after it load and write nothing more`() async throws {
        let storage = WatchedStorage()
        let ledger = Ledger(storage: storage)
        for name in ["a", "b", "a"] {
            _ = try await ledger.record([Self.document(name, of: Self.simulator)], at: Self.now)
        }
        #expect(storage.records.withLock { $0 } == [[RootsNote.key(Self.production)], [], []])
        let note = try #require(try await Self.note(storage))
        #expect(String(decoding: note.payload, as: UTF8.self) == #"[{"root":"5a","isSimulated":true}]"#)
        // Another process looks once.
        let second = Ledger(storage: storage)
        for name in ["c", "d"] { _ = try await second.record([Self.document(name, of: Self.simulator)], at: Self.now) }
        #expect(storage.records.withLock { $0.suffix(2) } == [[RootsNote.key(Self.production)], []])
        #expect(try await Self.note(storage) == note)
    }

    @Test func `a note is never due, and is no job that anybody lists`() async throws {
        let storage = MemoryLedgerStorage()
        let ledger = Ledger(storage: storage)
        _ = try await ledger.record([Self.document("a", of: .apple)], at: Self.now)
        #expect(try await ledger.jobs().items.isEmpty)
        let last = Timestamp(milliseconds: .max - 1)
        #expect(try await storage.records(RecordSelection(dueAt: last), limit: 9).isEmpty)
        #expect(try await storage.records(RecordSelection(), limit: 9).count == 1)
    }

    @Test func `each app and environment has its own note, with the roots of tokens inside others too`() async throws {
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let part = Self.document("part", of: Self.secondSimulator)
        _ = try await ledger.record([Self.document("a", of: Self.simulator, parts: [part])], at: Self.now)
        _ = try await ledger.record(
            [Self.document("b", of: Self.simulator, in: Self.sandbox), Self.document("c", of: nil, in: Self.other)],
            at: Self.now)
        #expect(
            try await Self.notes(ledger.storage)
                == [Self.production: [Self.simulator, Self.secondSimulator], Self.sandbox: [Self.simulator]])
    }

    @Test func `unused roots are not noted, nor those of documents from Xcode`() async throws {
        let store = try TestStore()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let verifier = AppStoreVerifier(
            apps: .any, environments: Set(Environment.allCases), roots: store.roots.union(.apple))
        for environment in [Environment.xcode, .localTesting, .production] {
            #expect(try await Self.notes(ledger.storage).isEmpty, "before \(environment)")
            let token = try store.sign(TestStore.transaction { $0.environment = Open(environment) })
            let document = try await verifier.evidence(transaction: token, at: Self.now)
            _ = try await ledger.record([document], at: Self.now)
        }
        let noted = try #require(try await Self.notes(ledger.storage)[Self.production])
        #expect(noted.count == 1 && noted.allSatisfy(\.isSimulated))
    }

    @Test func `members of a note that this version does not know stay`() async throws {
        let storage = MemoryLedgerStorage()
        let stored = #"[{"root":"5a","isSimulated":true,"since":1},{"text":2},"x"]"#
        try await storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.records = [LedgerRecord(RootsNote.key(Self.production), payload: Array(stored.utf8))]
            return .commit(changes, ())
        }
        let ledger = Ledger(storage: storage)
        for anchor in [Self.simulator, Self.secondSimulator] {
            _ = try await ledger.record([Self.document(anchor.name, of: anchor)], at: Self.now)
        }
        let note = try #require(try await Self.note(storage))
        #expect(
            String(decoding: note.payload, as: UTF8.self) == stored.dropLast() + #",{"root":"5b","isSimulated":true}]"#)
    }

    // MARK: - Mixing

    @Test(
        arguments: [
            (.apple, simulator, false), (simulator, .apple, false), (.apple, company, false), (company, .apple, false),
            (simulator, company, false), (company, simulator, false), (.apple, .apple, true),
            (simulator, secondSimulator, true), (company, secondCompany, true),
        ] as [(TrustAnchor, TrustAnchor, Bool)])
    func `documents of different origin are not mixed, and nothing of the refused commit is stored`(
        first: TrustAnchor, second: TrustAnchor, isAccepted: Bool
    ) async throws {
        for scope in [Self.production, Self.sandbox, Self.other] {
            let ledger = Ledger(storage: MemoryLedgerStorage())
            _ = try await ledger.record([Self.document("a", of: first)], at: Self.now)
            let before = try await LedgerContent(of: ledger.storage)
            let documents = [Self.document("b", of: second, in: scope), Self.document("c", of: first)]
            for document in [documents, [Self.document("d", of: first, in: scope, parts: [documents[0]])]] {
                let message = await Self.message {
                    _ = try await ledger.record(document, claimedBy: "anna", at: Self.now)
                }
                #expect((message == nil) == isAccepted)
                guard let message else { continue }
                #expect(message.contains("\(first)") && message.contains("\(second)"), "\(message)")
                #expect(try await LedgerContent(of: ledger.storage) == before)
            }
        }
    }

    @Test func `documents of different origin are not the first ones together`() async throws {
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let mixed = [Self.document("a", of: .apple), Self.document("b", of: Self.simulator)]
        let message = await Self.message { _ = try await ledger.record(mixed, at: Self.now) }
        #expect(
            message == """
                These documents are of Apple's roots and the simulator's root 5a, which one ledger does not mix: trust \
                one alone
                """)
        #expect(try await Self.notes(ledger.storage).isEmpty)
        // What was refused is not taken for noted.
        _ = try await ledger.record([mixed[1]], at: Self.now)
        #expect(await Self.message { _ = try await ledger.record([mixed[0]], at: Self.now) } != nil)
    }

    @Test func `a refused mixture does not count as a failed storage`() async throws {
        let failures = Mutex<[String]>([])
        var ledger = Ledger(storage: MemoryLedgerStorage())
        ledger.onCommit = { failure in failures.withLock { $0.append(failure.map { "\($0)" } ?? "none") } }
        _ = try await ledger.record([Self.document("a", of: .apple)], at: Self.now)
        let message = await Self.message { [ledger] in
            _ = try await ledger.record([Self.document("b", of: Self.simulator)], at: Self.now)
        }
        #expect(message != nil)
        #expect(failures.withLock { $0 } == ["none"])
    }

    /// Each process starts without knowledge. The decisions are made twice, and others come in between.
    @Test func `of two processes that record documents of different origin at once, one wins`() async throws {
        for round in 0..<20 {
            let storage = UnsteadyStorage(around: MemoryLedgerStorage())
            let accepted = try await withThrowingTaskGroup(of: TrustAnchor?.self) { group in
                for anchor in [TrustAnchor.apple, Self.simulator] {
                    group.addTask {
                        let ledger = Ledger(storage: storage)
                        let documents = [Self.document("\(round) \(anchor.name)", of: anchor)]
                        return await Self.message { _ = try await ledger.record(documents, at: Self.now) } == nil
                            ? anchor : nil
                    }
                }
                return try await group.reduce(into: Set<TrustAnchor>()) { if let won = $1 { $0.insert(won) } }
            }
            #expect(accepted.count == 1)
            #expect(try await Self.notes(storage) == [Self.production: accepted])
        }
    }
}

/// Tests what a start does about the roots of earlier starts.
@Suite struct RequiredRootsTests {
    private let store: TestStore
    private let storage = MemoryLedgerStorage()
    private static let now = TestStore.start
    /// Another simulator, and its verifier.
    private static let replaced = Result {
        try TestStore(StoreAuthority(CertificateAuthority(from: TestStore.day(-9))))
    }

    init() throws {
        store = try TestStore()
    }

    private static let apple = AppStoreVerifier(apps: .any, environments: [.production, .sandbox])

    private func start(_ verifier: AppStoreVerifier, _ storage: (any LedgerStorage)? = nil) async throws {
        try await Ledger(storage: storage ?? self.storage).requireRoots(verifier.roots)
    }

    private func refusal(_ verifier: AppStoreVerifier) async -> String? {
        do {
            try await start(verifier)
            return nil
        } catch let error as LedgerStorageError where error.code == .otherRoots {
            return error.message
        } catch {
            return "another error: \(error)"
        }
    }

    private func record(_ id: String, of store: TestStore) async throws {
        let token = try store.sign(TestStore.transaction(id))
        let document = try await store.verifier().evidence(transaction: token, at: Self.now)
        _ = try await Ledger(storage: storage).record([document], at: Self.now)
    }

    private var notes: Set<LedgerRecord> {
        get async throws {
            Set(try await storage.records(RecordSelection(RootsNote.recordKind), limit: 1000))
        }
    }

    private var noted: [LedgerScope: Set<TrustAnchor>] { get async throws { try await RootsNoteTests.notes(storage) } }

    // MARK: - Notes

    @Test func `a ledger of a simulator is refused with Apple's roots, and both are named with the cure`()
        async throws
    {
        try await record("1", of: store)
        let message = try #require(await refusal(Self.apple))
        let root = try #require(store.roots.anchors.first { message.contains($0.name) }).name
        #expect(
            message == """
                The ledger has documents of the simulator's root \(root), and the configuration trusts Apple's roots: \
                choose another database. If you pass --trust-other-roots to quittance serve once, the purchases in \
                the ledger go on counting as if they were genuine
                """)
        #expect(await refusal(store.verifier()) == nil)
        // Apple's beside it: for a simulator the configuration refuses that.
        let both = AppStoreVerifier(apps: .any, environments: [], roots: store.roots.union(.apple))
        #expect(await refusal(both) == nil)
    }

    @Test(.enabled(if: TestData.isThere, "\(TestData.whyNot)"))
    func `a ledger of the App Store is refused with a simulator's roots`() async throws {
        let receipt = try TestData.receipt("receipts/ios-production-2016-sha1-1-purchase.b64")
        let document = try await Self.apple.evidence(receipt: receipt, at: Self.now)
        _ = try await Ledger(storage: storage).record([document], at: Self.now)
        let message = try #require(await refusal(store.verifier()))
        let names = store.roots.anchors.map(\.name)
        #expect(names.allSatisfy { message.contains($0) } && message.contains("Apple"), "\(message)")
        #expect(await refusal(Self.apple) == nil)
    }

    @Test func `a new ledger starts with any roots, and nothing is written`() async throws {
        for verifier in [Self.apple, store.verifier()] { try await start(verifier) }
        #expect(try await notes.isEmpty)
    }

    // MARK: - Replaced roots

    @Test func `replaced roots are refused until the operator trusts what the others signed, and then noted anew`()
        async throws
    {
        let replaced = try Self.replaced.get()
        try await record("1", of: store)
        let ledger = Ledger(storage: storage)
        #expect(await refusal(replaced.verifier()) != nil)
        let forgotten = try await ledger.forgetRoots(besides: replaced.roots, at: Self.now)
        #expect(forgotten.count == 1 && forgotten.isSubset(of: store.roots.anchors))
        // From then on without the option, and the old documents are not searched for their roots.
        #expect(await refusal(replaced.verifier()) == nil)
        #expect(await refusal(replaced.verifier()) == nil)
        try await record("2", of: replaced)
        #expect(await refusal(store.verifier()) != nil)
        #expect(await refusal(replaced.verifier()) == nil)
        // Nothing is left to forget, and nothing is written.
        let before = try await LedgerContent(of: storage)
        #expect(try await ledger.forgetRoots(besides: replaced.roots, at: Self.now) == [])
        #expect(try await LedgerContent(of: storage) == before)
    }

    @Test func `a root that is still trusted stays noted`() async throws {
        let replaced = try Self.replaced.get()
        for (id, store) in [("1", store), ("2", replaced)] { try await record(id, of: store) }
        let ledger = Ledger(storage: storage)
        let forgotten = try await ledger.forgetRoots(besides: replaced.roots, at: Self.now)
        #expect(forgotten.isSubset(of: store.roots.anchors))
        let kept = try await notes.flatMap { try RootsNote($0).anchors }
        #expect(kept.count == 1 && replaced.roots.anchors.isSuperset(of: kept))
    }

    @Test func `a simulator's ledger can be served with Apple's roots if the operator says so`() async throws {
        try await record("1", of: store)
        let forgotten = try await Ledger(storage: storage).forgetRoots(besides: .apple, at: Self.now)
        #expect(forgotten.contains { $0.isSimulated })
        #expect(await refusal(Self.apple) == nil)
    }

    // MARK: - Check and copy

    @Test func `a check says which noted roots are not trusted, also if no document is left`() async throws {
        try await record("1", of: store)
        let ledger = Ledger(storage: storage)
        #expect(try await ledger.check(by: store.verifier()).faults == [])
        let faults = try await ledger.check(by: Self.apple).faults
        #expect(faults.count == 2)
        #expect(faults.last?.error.hasPrefix("The ledger has documents of the simulator's root ") == true, "\(faults)")
    }

    @Test func `a copy has the notes, and counts no job for them`() async throws {
        try await record("1", of: store)
        let target = MemoryLedgerStorage()
        let report = try await LedgerCopy(from: storage, named: "the source", to: target, by: store.verifier()).run(
            at: TestStore.start)
        #expect(report.copied.jobs == 0 && report.compared.jobs == 0)
        #expect(try await LedgerContent(of: target) == LedgerContent(of: storage))
        #expect(try await !LedgerContent(of: target).records.isEmpty)
    }

    @Test func `a copy is refused if either ledger has documents of other roots`() async throws {
        try await record("1", of: store)
        let empty = MemoryLedgerStorage()
        for (source, target) in [(storage, empty), (empty, storage)] {
            let before = try await (LedgerContent(of: source), LedgerContent(of: target))
            await #expect {
                _ = try await LedgerCopy(from: source, named: "the source", to: target, by: Self.apple).run(
                    at: TestStore.start)
            } throws: { ($0 as? LedgerStorageError)?.code == .otherRoots }
            #expect(try await LedgerContent(of: source) == before.0)
            #expect(try await LedgerContent(of: target) == before.1)
        }
    }

    @Test func `a copy into a ledger with another note is refused, and names the note`() async throws {
        let replaced = try Self.replaced.get()
        let target = MemoryLedgerStorage()
        try await record("1", of: store)
        try await target.commit(LedgerQuery()) { _ in
            var (changes, note) = (LedgerChanges(), RootsNote(in: Facts.scope))
            note.insert(replaced.roots.anchors)
            changes.records = [note.record]
            return .commit(changes, ())
        }
        let both = AppStoreVerifier(
            apps: .any, environments: [.production], roots: store.roots.union(replaced.roots))
        await #expect {
            _ = try await LedgerCopy(from: storage, named: "the source", to: target, by: both).run(at: TestStore.start)
        } throws: { error in
            "\(error)".hasPrefix("targetInUse: The target has the record trustAnchors of com.example")
        }
    }
}
