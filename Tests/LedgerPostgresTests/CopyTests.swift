// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerPostgres
import LedgerSQLite
import PurchaseLedger
import PurchaseLedgerTesting
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests copies of ledgers between files and databases.
@Suite(.needsPostgres) struct CopyTests {
    private let store: TestStore
    private let folder = FileManager.default.temporaryDirectory.appendingPathComponent("copy-\(UUID())")

    init() throws {
        store = try TestStore()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    private func file(_ name: String) throws -> SQLiteLedgerStorage {
        try SQLiteLedgerStorage(path: folder.appendingPathComponent(name).path)
    }

    @discardableResult
    private func copy(
        _ source: any LedgerStorage, to target: any LedgerStorage, page: Int = 500
    ) async throws -> LedgerCopy.Report {
        var copy = LedgerCopy(from: source, named: "the source", to: target, by: store.verifier())
        copy.page = page
        return try await copy.run(at: TestStore.start)
    }

    @Test(.takesLong) func `a ledger that was copied into a database and back is the same, and goes on`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let (first, last) = (try file("first"), try file("last"))
        let now = try await FilledLedger.fill(first, of: store)
        let databases = [try TestPostgres.database(), try TestPostgres.database()]
        let content = try await LedgerContent(of: first)
        var (source, path): (any LedgerStorage, [any LedgerStorage]) = (first, [])
        for database in databases { path.append(try await database.storage()) }
        for target in path + [last] {
            let report = try await copy(source, to: target, page: 50)
            #expect(report.copied == report.compared)
            #expect(report.compared.documents == content.documents.count)
            #expect(try await LedgerContent(of: target) == content)
            source = target
        }
        #expect(try await last.faults() == [])
        // Tokens that are documents of their own are not stored a second time.
        let size = "SELECT sum(length(content)) FROM documents"
        let (firstSize, lastSize) = (try await first.number(size), try await last.number(size))
        #expect(lastSize <= firstSize * 11 / 10)
        // The same happens to each of them now.
        for storage in [first, last] + path { try await goOn(storage, after: content, now) }
    }

    /// A new customer, a renewal and an erasure: with new numbers, and with events after all others.
    private func goOn(_ storage: any LedgerStorage, after content: LedgerContent, _ now: Timestamp) async throws {
        let (ledger, app) = (Ledger(storage: storage), FilledLedger.scope.bundleId)
        let used = try await storage.marks()
        for cursor in (content.events[app] ?? []).map(\.cursor) {
            #expect(try await ledger.events(of: app, after: cursor, limit: 1).events.first?.cursor != cursor)
        }
        let end = content.events[app]?.last?.cursor
        #expect(try await ledger.events(of: app, after: end, limit: 100).events == [])
        let later = Timestamp(milliseconds: now.milliseconds + 86_400_000)
        for (id, claimant) in [("310", "moving"), ("901", "new")] {
            let token = try store.signer.sign(TestStore.transaction(id), at: later)
            let document = try await store.verifier().evidence(transaction: token, at: later)
            _ = try await ledger.record([document], claimedBy: claimant, at: later)
        }
        _ = try await ledger.delete("moving", in: FilledLedger.scope, at: later)
        let new = try await ledger.events(of: app, after: end, limit: 100).events
        #expect(new.contains { $0.originalTransactionId == "901" } && new.contains { $0.kind == .customerDeleted })
        #expect(new.compactMap(\.cursor?.number).allSatisfy { $0 > used.lastEvent })
        let customers = try await LedgerContent(of: storage).customers
        let added = try #require(customers.first { $0.ids == ["new"] })
        #expect(added.customer.number > used.lastCustomer)
        #expect(!customers.contains { $0.ids.contains("moving") })
    }

    /// A storage that throws at one commit.
    private struct StoppingStorage: ForwardingStorage {
        let inner: any LedgerStorage
        let countdown: Countdown

        func commit<Output: Sendable>(
            _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
        ) async throws -> Output {
            let output = try await inner.commit(query, decide)
            if await countdown.isOver() { throw LedgerStorageError(.unavailable, "Stopped") }
            return output
        }
    }

    private actor Countdown {
        private var count: Int

        init(_ count: Int) { self.count = count }

        func isOver() -> Bool {
            count -= 1
            return count == 0
        }
    }

    @Test(.takesLong) func `a copy into a database that stops after any commit goes on and ends equal`() async throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let source = try file("source")
        try await FilledLedger.fill(source, of: store, days: 10)
        let content = try await LedgerContent(of: source)
        for number in [1, 2, 3, 5, 8, 13] {
            let target = try await TestPostgres.database().storage()
            let stopping = StoppingStorage(inner: target, countdown: Countdown(number))
            await #expect(throws: LedgerStorageError.self) { try await copy(source, to: stopping, page: 25) }
            try await copy(source, to: target, page: 100)
            #expect(try await LedgerContent(of: target) == content, "commit \(number)")
        }
    }
}
