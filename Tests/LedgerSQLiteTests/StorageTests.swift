// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import GRDB
import LedgerSQLite
import PurchaseLedger
import Testing

@Suite struct StorageTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    private static let now = Timestamp(milliseconds: 0)

    private static func add(_ text: String, to storage: SQLiteLedgerStorage) async throws -> Bool {
        try await storage.write { try $0.add(.unverified(Array(text.utf8)), receivedAt: now) }
    }

    private static func documents(of storage: SQLiteLedgerStorage) async throws -> [String] {
        try await storage.read { try $0.documents(after: 0, limit: 1000) }.map {
            String(decoding: $0.document, as: UTF8.self)
        }
    }

    /// The code that a storage answers with.
    private static func code(_ work: () async throws -> Void) async -> LedgerStorageError.Code? {
        do {
            try await work()
            return nil
        } catch {
            return (error as? LedgerStorageError)?.code
        }
    }

    // MARK: Durability

    @Test func `every commit is flushed, keys are checked, readers do not wait`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        #expect(try await storage.number("PRAGMA synchronous") == 2)
        #expect(try await storage.number("PRAGMA foreign_keys") == 1)
        #expect(try await storage.number("SELECT journal_mode = 'wal' FROM pragma_journal_mode") == 1)
    }

    @Test func `what was written is there after it was closed and opened again`() async throws {
        for round in 0..<3 {
            let storage = try SQLiteLedgerStorage(path: folder.path())
            #expect(try await Self.add("\(round)", to: storage))
            #expect(try await Self.documents(of: storage) == (0...round).map { "\($0)" })
            try storage.close()
            #expect(await Self.code { _ = try await Self.add("late", to: storage) } == .unavailable)
            #expect(await Self.code { _ = try await Self.documents(of: storage) } == .unavailable)
        }
    }

    @Test func `what a crash leaves, the file and its log, has all that was acknowledged`() async throws {
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

    // MARK: Group commit

    @Test func `writes that come at once share commits`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<1000 { group.addTask { try await Self.add("\(number)", to: storage) } }
            for try await isNew in group { #expect(isNew) }
        }
        #expect(try await Self.documents(of: storage).count == 1000)
        #expect(storage.commits < 500)
    }

    @Test func `work that throws or fails takes nothing from those beside it`() async throws {
        struct Refused: Error {}
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let outcomes = await withTaskGroup(of: String.self) { group in
            for number in 0..<300 {
                group.addTask {
                    do {
                        try await storage.write { writer in
                            _ = try writer.add(.unverified(Array("\(number)".utf8)), receivedAt: Self.now)
                            if number % 3 == 1 { throw Refused() }
                            // An id that is somebody's already is against the rules, and hidden here.
                            if number % 3 == 2 {
                                for _ in 0..<2 { _ = try? writer.addCustomer("\(number)", of: "app") }
                            }
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

    @Test func `a caller that is cancelled harms nobody, and learns what became of its work`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        let tasks = (0..<100).map { number in Task { try await Self.add("\(number)", to: storage) } }
        for (number, task) in tasks.enumerated() where number % 2 == 0 { task.cancel() }
        for task in tasks { #expect(try await task.value) }
        #expect(try await Self.documents(of: storage).count == 100)
    }

    // MARK: Trouble

    @Test func `a full disk is said to be full, keeps what it has, and is written again when there is room`()
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

    @Test func `a connection that may not write says so, and the next write gets another`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.execute("PRAGMA query_only = 1")
        #expect(await Self.code { _ = try await Self.add("1", to: storage) } == .readOnly)
        #expect(try await Self.documents(of: storage) == [])
        #expect(try await Self.add("1", to: storage))
        #expect(try await storage.number("PRAGMA synchronous") == 2)
        #expect(try await Self.documents(of: storage) == ["1"])
    }

    @Test(.enabled(if: geteuid() != 0, "to the superuser no file is read-only"))
    func `a read-only file is read, and written as soon as it may be`() async throws {
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

    @Test func `a file that is no ledger is damaged, and stays as it is`() async throws {
        let garbage = Data("What is this? ".utf8) + Data(repeating: 7, count: 10_000)
        try garbage.write(to: URL(fileURLWithPath: folder.path()))
        #expect(await Self.code { _ = try SQLiteLedgerStorage(path: folder.path()) } == .damaged)
        #expect(try Data(contentsOf: URL(fileURLWithPath: folder.path())) == garbage)
    }

    @Test func `a ledger of a newer version is not touched`() async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        try await storage.execute("INSERT INTO grdb_migrations VALUES ('999 from the future')")
        try storage.close()
        #expect(await Self.code { _ = try SQLiteLedgerStorage(path: folder.path()) } == .damaged)
    }

    @Test func `a folder that is not there is unavailable`() async {
        #expect(await Self.code { _ = try SQLiteLedgerStorage(path: folder.path("nowhere/ledger")) } == .unavailable)
    }

    @Test(arguments: [
        "UPDATE chains SET lastDocument = NULL", "UPDATE chains SET lastDocument = 1",
        "UPDATE documents SET previous = NULL", "UPDATE documents SET previous = 2 WHERE number = 1",
        "UPDATE documents SET previous = 1 WHERE number = 5", "UPDATE documents SET previous = 5 WHERE number = 1",
        "UPDATE chains SET lastDocument = 2 WHERE id = 1", "UPDATE chains SET lastDocument = 99 WHERE id = 1",
    ])
    func `documents that a deletion would not find are faults`(damage: String) async throws {
        let storage = try SQLiteLedgerStorage(path: folder.path())
        for number in 0..<6 {
            _ = try await storage.write { writer in
                try writer.add(.unverified([UInt8(number)], about: "\(number % 2)"), receivedAt: Self.now)
            }
        }
        #expect(try await storage.faults() == [])
        try await storage.execute(damage)
        #expect(try await storage.faults().isEmpty == false)
        // A deletion finds them all the same, and nobody else's.
        let first = ChainKey("0", in: AppStore.scope)
        #expect(try await storage.write { try $0.forget([first], at: Self.now) } == (3, 0))
        #expect(try await storage.number("SELECT count(*) FROM documents WHERE chain = 2") == 3)
    }

    @Test func `a purchase whose last document is another's takes none of those along`() async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        let key = ChainKey("1", in: AppStore.scope)
        try await storage.write { writer in
            _ = try writer.add(.unverified([1], about: "0"), receivedAt: Self.now)
            try writer.put(ChainReport(), for: key)
        }
        try await storage.execute("UPDATE chains SET lastDocument = 1 WHERE id = 2")
        #expect(try await storage.faults().count == 1)
        #expect(try await storage.write { try $0.forget([key], at: Self.now) } == (0, 0))
        #expect(try await storage.faults() == [])
    }

    @Test(arguments: [
        "UPDATE documents SET kind = 'poem'", "UPDATE statements SET evidence = x'00'",
        "UPDATE statements SET source = 9",
        "UPDATE scopes SET environment = 'Moon'", "UPDATE chains SET toldStatus = 'happy'",
        "UPDATE chains SET toldRevoked = '['", "UPDATE ownerChanges SET times = '['",
    ])
    func `rows that nobody here wrote are damage, not an end`(damage: String) async throws {
        let storage = try SQLiteLedgerStorage.inMemory()
        let key = ChainKey("1", in: AppStore.scope)
        try await storage.write { writer in
            _ = try writer.add(.unverified([1]), receivedAt: Self.now)
            try writer.put(
                TransactionStatement(
                    source: .receipt, provenance: Provenance(signedDate: Self.now, evidence: EvidenceID([1])),
                    transactionId: "1", originalTransactionId: "1", productId: "p"), in: key)
            try writer.put(ChainReport(status: .active, revoked: ["1"]), for: key)
            try writer.put(ownerChanges: [Self.now], of: key)
        }
        try await storage.execute(damage)
        let code = await Self.code {
            try await storage.read { reader in
                _ = try reader.documents(after: 0, limit: 9)
                _ = try reader.chain(key)
                _ = try reader.report(key)
                _ = try reader.ownerChanges(of: key)
            }
        }
        #expect(code == .damaged)
    }

    // MARK: Older files

    @Test func `customers of an older file exist in their own right if something shows that their ids were used`()
        async throws
    {
        let path = folder.path("old.sqlite")
        let key = ChainKey("1", in: AppStore.scope)
        let old = try SQLiteLedgerStorage(path: path)
        try await old.write { writer in
            func customer(_ ids: String..., app: String = AppStore.scope.bundleId) throws -> Customer {
                let customer = try writer.addCustomer(ids[0], of: app)
                for id in ids.dropFirst() { try writer.add(id: id, to: customer) }
                return customer
            }
            var statement = TransactionStatement(
                source: .signedTransaction, provenance: Provenance(signedDate: Self.now, evidence: EvidenceID([1])),
                transactionId: "1", originalTransactionId: "1", productId: "p")
            statement.appAccountToken = "named"
            try writer.put(statement, in: key)
            (statement.transactionId, statement.appAccountToken) = ("2", "claimed")
            try writer.put(statement, in: key)
            (statement.transactionId, statement.appAccountToken) = ("3", "one of two")
            try writer.put(statement, in: key)
            var renewal = RenewalFact(provenance: statement.provenance, originalTransactionId: "1")
            renewal.appAccountToken = "named by renewal info"
            try writer.put(renewal, in: key)
            for id in ["named", "named by renewal info", "own"] { _ = try customer(id) }
            _ = try customer("one of two", "named too")
            // In this app no purchase names it.
            _ = try customer("named", app: "com.example.two")
            try writer.append(
                LedgerEvent(.linked, in: key.scope, at: Self.now, customer: try customer("claimed"), detail: "claim"))
        }
        for step in [
            "DROP TABLE ownerChanges", "ALTER TABLE customers DROP COLUMN isEstablished",
            "DELETE FROM grdb_migrations WHERE identifier >= '008'",
        ] { try await old.execute(step) }
        try old.close()

        let storage = try SQLiteLedgerStorage(path: path)
        let marks = try await storage.read { reader in
            func mark(_ id: String, _ app: String = AppStore.scope.bundleId) throws -> Bool? {
                try reader.customer(id, of: app).map(reader.isEstablished)
            }
            return try [
                mark("named"), mark("named by renewal info"), mark("own"), mark("one of two"), mark("claimed"),
                mark("named", "com.example.two"),
            ]
        }
        #expect(marks == [false, false, true, true, true, true])
        #expect(try await storage.faults() == [])
        #expect(try await storage.read { try $0.ownerChanges(of: key) } == [])
    }

    @Test func `in an older file renewal info stays about the newest period`() async throws {
        let path = folder.path("old.sqlite")
        let key = ChainKey("1", in: AppStore.scope)
        let (start, end) = (Self.now, Self.now.advanced(by: .seconds(86_400)))
        let old = try SQLiteLedgerStorage(path: path)
        try await old.write { writer in
            let provenance = Provenance(signedDate: end, evidence: EvidenceID([1]))
            var statement = TransactionStatement(
                source: .signedTransaction, provenance: provenance, transactionId: "1", originalTransactionId: "1",
                productId: "p")
            (statement.purchaseDate, statement.expiresDate) = (start, end)
            try writer.put(statement, in: key)
            var renewal = RenewalFact(provenance: provenance, originalTransactionId: "1")
            (renewal.willRenew, renewal.isInBillingRetry) = (true, true)
            try writer.put(renewal, in: key)
            // The transaction was signed once more since.
            statement.provenance.signedDate = end.advanced(by: .seconds(60))
            try writer.put(statement, in: key)
        }
        for step in [
            "DROP TABLE ownerChanges", "ALTER TABLE customers DROP COLUMN isEstablished",
            "ALTER TABLE statements DROP COLUMN knownSince", "ALTER TABLE statements DROP COLUMN transactionReason",
            "ALTER TABLE chains DROP COLUMN renewalDate", "DELETE FROM grdb_migrations WHERE identifier >= '007'",
        ] { try await old.execute(step) }
        try old.close()

        let storage = try SQLiteLedgerStorage(path: path)
        let state = try await storage.read { try $0.chain(key)?.subscription(at: end.advanced(by: .seconds(3600))) }
        #expect(state?.status == .billingRetry)
    }
}
