// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests durability, group commit, and errors of the file and of its rows.
@Suite struct StorageTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private static let now = Timestamp(milliseconds: 0)

    private static func add(_ text: String, to storage: SQLiteLedgerStorage) async throws -> Bool {
        try await storage.store(.unverified(Array(text.utf8)))
    }

    private static func documents(of storage: SQLiteLedgerStorage) async throws -> [String] {
        try await storage.texts()
    }

    /// The code of the error that is thrown.
    private static func code(_ body: () async throws -> Void) async -> LedgerStorageError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? LedgerStorageError)?.code
        }
    }

    // MARK: Durability

    @Test func `SQLite is set to flush every commit, to check references, and to let reads run beside writes`()
        async throws
    {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        #expect(try await storage.number("PRAGMA synchronous") == 2)
        #expect(try await storage.number("PRAGMA foreign_keys") == 1)
        #expect(try await storage.number("SELECT journal_mode = 'wal' FROM pragma_journal_mode") == 1)
    }

    @Test func `documents are still there after the ledger was closed and opened again`() async throws {
        for round in 0..<3 {
            let storage = try SQLiteLedgerStorage(path: folder.path())
            #expect(try await Self.add("\(round)", to: storage))
            #expect(try await Self.documents(of: storage) == (0...round).map { "\($0)" })
            try storage.close()
            #expect(await Self.code { _ = try await Self.add("late", to: storage) } == .unavailable)
            #expect(await Self.code { _ = try await Self.documents(of: storage) } == .unavailable)
        }
    }

    @Test func `the file and its log, which remain after a crash, have every acknowledged write`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path("running.sqlite"))
        for number in 0..<20 {
            _ = try await Self.add("\(number)", to: storage)
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(
                    atPath: folder.path("running.sqlite\(suffix)"), toPath: folder.path("\(number).sqlite\(suffix)"))
            }
        }
        for number in 0..<20 {
            let copy = try SQLiteLedgerStorage(path: folder.path("\(number).sqlite"))
            #expect(try await Self.documents(of: copy) == (0...number).map { "\($0)" })
        }
    }

    // MARK: Known receipts

    @Test func `a known receipt is recorded again without a commit, unless a customer presents it`() async throws {
        let (storage, store) = (try SQLiteLedgerStorage(path: folder.path()), try TestStore())
        let ledger = Ledger(storage: storage)
        func evidence(_ ids: [String]) async throws -> Evidence {
            let receipt = TestStore.receipt(ids.map { TestStore.purchase($0) })
            return try await store.verifier().evidence(receipt: store.sign(receipt), at: TestStore.start)
        }
        let first = try await evidence(["1"])
        func record(_ evidence: Evidence, by customer: String? = nil) async throws -> [Int] {
            let before = storage.commits
            let result = try await ledger.record([evidence], claimedBy: customer, at: TestStore.start)
            return [result.new, result.known, storage.commits - before]
        }
        #expect(try await record(first) == [1, 0, 1])
        for _ in 0..<2 { #expect(try await record(first) == [0, 1, 0]) }
        // A further receipt is new, whatever it has in common with the first.
        #expect(try await record(evidence(["1", "2"])) == [1, 0, 1])
        #expect(try await record(first) == [0, 1, 0])
        // The customer is new, and then only presents the receipt again.
        for _ in 0..<2 { #expect(try await record(first, by: "anna") == [0, 1, 1]) }
        let owner = try await ledger.customer("anna", in: first.scope, at: TestStore.start)
        #expect(owner?.purchases.map(\.transactionId) == ["1"])
        #expect(try await storage.documentCount() == 2)
    }

    @Test func `a known receipt whose row is damaged is stored again`() async throws {
        let (storage, store) = (try SQLiteLedgerStorage(path: folder.path()), try TestStore())
        let receipt = try await store.verifier().evidence(
            receipt: store.sign(TestStore.receipt([TestStore.purchase("1")])), at: TestStore.start)
        let ledger = Ledger(storage: storage)
        _ = try await ledger.record([receipt], at: TestStore.start)
        try await storage.execute("UPDATE documents SET content = x'00'")
        _ = try await ledger.record([receipt], at: TestStore.start)
        #expect(try await storage.scanned().documents.map(\.document) == [receipt.document])
    }

    @Test func `a known receipt is not acknowledged after its ledger was removed`() async throws {
        let (storage, store) = (try SQLiteLedgerStorage(path: folder.path()), try TestStore())
        let receipt = try await store.verifier().evidence(
            receipt: store.sign(TestStore.receipt([TestStore.purchase("1")])), at: TestStore.start)
        let ledger = Ledger(storage: storage)
        _ = try await ledger.record([receipt], at: TestStore.start)
        try FileManager.default.removeItem(atPath: folder.path())
        #expect(await Self.code { _ = try await ledger.record([receipt], at: TestStore.start) } == .unavailable)
    }

    // MARK: Statements

    /// Connections come to lie where closed ones lay.
    @Test func `a statement ends with its connection, and with the tables that it was prepared for`() async throws {
        for round in 0..<40 {
            let path = folder.path("\(round % 3).sqlite")
            let storage = try SQLiteLedgerStorage(path: path)
            let before = try await Self.documents(of: storage)
            #expect(before == (0..<round).filter { $0 % 3 == round % 3 }.map { "\($0)" })
            #expect(try await Self.add("\(round)", to: storage))
            // GRDB forgets all statements of the connection.
            try await storage.execute("CREATE INDEX later ON documents (receivedAt)")
            try await storage.execute("DROP INDEX later")
            #expect(try await Self.add("\(round)", to: storage) == false)
            #expect(try await Self.documents(of: storage) == before + ["\(round)"])
            try storage.close()
        }
    }

    // MARK: Group commit

    @Test func `concurrent writes share commits`() async throws {
        let (storage, count) = (try SQLiteLedgerStorage(path: folder.path()), 1000)
        let (hasBegun, begins) = AsyncStream.makeStream(of: Void.self)
        // The first write continues only after all others wait for it, however busy the machine is.
        async let first: Void = storage.commit(LedgerQuery()) { _ in
            begins.finish()
            while storage.waiting < count { Thread.sleep(forTimeInterval: 0.001) }
            return .commit(LedgerChanges(), ())
        }
        for await _ in hasBegun {}
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<count { group.addTask { try await Self.add("\(number)", to: storage) } }
            for try await isNew in group { #expect(isNew) }
        }
        try await first
        #expect(try await Self.documents(of: storage).count == count)
        // The commit of the first write, and five of 200 writes each.
        #expect(storage.commits == 6)
    }

    @Test func `a decision that throws, or cannot be written, does not make others fail`() async throws {
        struct Refused: Error {}
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let outcomes = await withTaskGroup(of: String.self) { group in
            for number in 0..<300 {
                group.addTask {
                    do {
                        try await storage.commit { changes in
                            let document = Evidence.unverified(Array("\(number)".utf8))
                            changes.documents = [NewDocument(document, for: [], receivedAt: Self.now)]
                            if number % 3 == 1 { throw Refused() }
                            // An owner that does not exist.
                            guard number % 3 == 2 else { return }
                            var record = ChainRecord(ChainKey("\(number)", in: AppStore.scope))
                            let missing = Customer(number: 1, bundleId: AppStore.bundleId)
                            record.owners = [ChainRecord.Owner(missing, .claim)]
                            changes.chains = [record]
                        }
                        return "written"
                    } catch is Refused {
                        return "refused"
                    } catch {
                        return "\((error as? LedgerStorageError)?.code.rawValue ?? "other")"
                    }
                }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }
        #expect(outcomes == ["written": 100, "refused": 100, "unavailable": 100])
        #expect(Set(try await Self.documents(of: storage)) == Set((0..<100).map { "\($0 * 3)" }))
    }

    @Test func `a cancelled caller still gets its result, and does not affect others`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let tasks = (0..<100).map { number in Task { try await Self.add("\(number)", to: storage) } }
        for (number, task) in tasks.enumerated() where number % 2 == 0 { task.cancel() }
        for task in tasks { #expect(try await task.value) }
        #expect(try await Self.documents(of: storage).count == 100)
    }

    // MARK: Trouble

    @Test func `a full disk is reported and loses nothing, and writes succeed again after there is space`()
        async throws
    {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        _ = try await Self.add("before", to: storage)
        let pages = try await storage.number("PRAGMA page_count")
        try await storage.execute("PRAGMA max_page_count = \(pages + 10)")
        let large = String((0..<100_000).map { _ in Character(UnicodeScalar(UInt8.random(in: 32..<127))) })
        for _ in 0..<3 { #expect(await Self.code { _ = try await Self.add(large, to: storage) } == .full) }
        _ = try await Self.add("small", to: storage)
        try await storage.execute("PRAGMA max_page_count = 1000000")
        #expect(try await Self.add(large, to: storage))
        #expect(try await Self.documents(of: storage) == ["before", "small", large])
    }

    @Test func `after a write fails on a read-only connection, the next write gets a new connection`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.execute("PRAGMA query_only = 1")
        #expect(await Self.code { _ = try await Self.add("1", to: storage) } == .readOnly)
        #expect(try await Self.documents(of: storage) == [])
        #expect(try await Self.add("1", to: storage))
        #expect(try await storage.number("PRAGMA synchronous") == 2)
        #expect(try await Self.documents(of: storage) == ["1"])
    }

    @Test(.enabled(if: geteuid() != 0, "to the superuser no file is read-only"))
    func `a read-only ledger can be read, and written after its mode has changed`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        _ = try await Self.add("1", to: storage)
        try storage.close()
        try FileManager.default.setAttributes([.posixPermissions: 0o444], ofItemAtPath: folder.path())
        let readOnly = try SQLiteLedgerStorage(path: folder.path())
        #expect(try await Self.documents(of: readOnly) == ["1"])
        for _ in 0..<2 { #expect(await Self.code { _ = try await Self.add("2", to: readOnly) } == .readOnly) }
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: folder.path())
        #expect(try await Self.add("2", to: readOnly))
        #expect(try await Self.documents(of: readOnly) == ["1", "2"])
    }

    @Test func `a file that is no ledger is reported as damaged, and stays unchanged`() async throws {
        let garbage = Data("What is this? ".utf8) + Data(repeating: 7, count: 10_000)
        try garbage.write(to: URL(fileURLWithPath: folder.path()))
        #expect(await Self.code { _ = try SQLiteLedgerStorage(path: folder.path()) } == .damaged)
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path())) == garbage)
    }

    @Test func `a ledger of a newer version is refused`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.execute("PRAGMA user_version = 999")
        try storage.close()
        #expect(await Self.code { _ = try SQLiteLedgerStorage(path: folder.path()) } == .damaged)
    }

    @Test func `a ledger in a folder that does not exist is unavailable`() async {
        #expect(await Self.code { _ = try SQLiteLedgerStorage(path: folder.path("nowhere/ledger")) } == .unavailable)
    }

    @Test(arguments: [
        "UPDATE statements SET evidence = x'00'", "UPDATE residue SET evidence = x'00'",
        "UPDATE chains SET publishedRevoked = '['", "UPDATE ownerChanges SET times = '['",
        "UPDATE links SET reason = 'good luck'",
        "UPDATE chains SET claimants = ''", "UPDATE chains SET claimants = '1 2,'",
        "UPDATE chains SET claimants = '1 x'",
    ])
    func `rows that this software never writes are reported as damage, and other decisions succeed`(
        damage: String
    ) async throws {
        var storage = try SQLiteLedgerStorage(path: folder.path())
        let key = ChainKey("1", in: AppStore.scope)
        let customer = Customer(number: 1, bundleId: AppStore.bundleId)
        try await storage.commit { changes in
            changes.documents = [NewDocument(.unverified([1]), for: [key], receivedAt: Self.now)]
            changes.customers = [CustomerRecord(customer, ids: ["anna"])]
            var record = ChainRecord(key)
            record.chain.merge(
                TransactionStatement(
                    source: .receipt, provenance: Provenance(signedDate: Self.now, digest: DocumentDigest([1])),
                    transactionId: "1", chain: "1", productId: "p"))
            record.chain.mergeResidue(
                TransactionStatement(
                    source: .receipt, provenance: Provenance(signedDate: Self.now, digest: DocumentDigest([1])),
                    transactionId: "2", chain: "1", productId: "p"))
            let state = ChainState(status: .active, hasAccess: true)
            record.report = ChainReport(state, isSubscription: false, revoked: ["1"])
            record.owners = [ChainRecord.Owner(customer, .claim)]
            record.ownerChanges = [Self.now]
            changes.chains = [record]
        }
        try await storage.execute(damage)
        try storage.close()
        storage = try SQLiteLedgerStorage(path: folder.path())
        let (damaged, whole) = (LedgerQuery([.chain(key), .evidence(key)]), storage)
        #expect(await Self.code { _ = try await whole.load(damaged) } == .damaged)
        // A decision whose records cannot be loaded does not make others fail.
        async let isStored = whole.store(.unverified([2], in: LedgerScope(bundleId: "two", environment: .production)))
        #expect(await Self.code { try await whole.commit(damaged) { _ in .commit(LedgerChanges(), ()) } } == .damaged)
        #expect(try await isStored)
    }

    @Test(arguments: ["UPDATE scopes SET environment = 'Moon'", "UPDATE documents SET content = x'07'"])
    func `a scan reports rows that this software never writes as damage, and ends`(damage: String) async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.store((UInt8(0)..<3).map { .unverified([$0], about: "1") })
        try await storage.execute(damage)
        try storage.close()
        let scanned = try await SQLiteLedgerStorage(path: folder.path()).scanned()
        #expect(scanned.documents.isEmpty && !scanned.damage.isEmpty)
    }

    // MARK: What is written

    @Test func `a decision that changes nothing writes nothing`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let ledger = Ledger(storage: storage)
        var appStore = try AppStore()
        let evidence = try await appStore.evidence(of: appStore.notification())
        _ = try await ledger.record([evidence], at: Self.now)
        let before = try await storage.number("SELECT total_changes()")
        #expect(try await ledger.record([evidence], at: Self.now).known == 1)
        #expect(try await storage.number("SELECT total_changes()") == before)
    }
}
