// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseLedger
import PurchaseLedgerTesting
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests a ledger from which old documents were taken, as docs/postgresql.md says.
@Suite(.needsPostgres) struct RetentionTests {
    private static let detach = """
        BEGIN;
        UPDATE quittance.retention SET keeps_documents = false;
        ALTER TABLE quittance.documents DETACH PARTITION quittance.documents_before;
        COMMIT
        """

    @Test(.takesLong) func `facts stay when their documents are taken, also if facts are derived again`() async throws {
        let (database, store) = (try TestPostgres.database(), try TestStore())
        let storage = try await database.storage()
        let now = try await FilledLedger.fill(storage, of: store)
        let (ledger, before) = (Ledger(storage: storage), try await LedgerContent(of: storage))
        #expect(try await ledger.rebuild(by: store.verifier(), at: now).differing == [])
        try database.psql(Self.detach)
        let after = try await LedgerContent(of: storage)
        #expect(after.documents.count < before.documents.count)
        #expect(after.chains == before.chains && after.events == before.events)
        let report = try await ledger.rebuild(by: store.verifier(), at: now)
        #expect(report.differing == [])
        #expect(report.faults == [])
        #expect(try await LedgerContent(of: storage) == after)

        // A document that comes again is stored again, and says nothing new.
        let token = try store.signer.sign(TestStore.transaction("310"), at: now)
        let document = try await store.verifier().evidence(transaction: token, at: now)
        _ = try await ledger.record([document], at: now)
        #expect(try await ledger.rebuild(by: store.verifier(), at: now).differing == [])

        // Without the note in the table the facts would count as errors.
        try database.psql("UPDATE quittance.retention SET keeps_documents = true")
        #expect(try await ledger.rebuild(by: store.verifier(), at: now).differing != [])
    }

    @Test(.takesLong) func `what is in no document that is there is still corrected`() async throws {
        let (database, store) = (try TestPostgres.database(), try TestStore())
        let storage = try await database.storage()
        let now = try await FilledLedger.fill(storage, of: store)
        let before = try await LedgerContent(of: storage)
        // Only what the document of a purchase does not say is known to be wrong: other documents may be missing.
        var found: (record: ChainRecord, statement: TransactionStatement)?
        for record in before.chains.values.sorted(by: { $0.key < $1.key }) where record.chain.predecessors.isEmpty {
            let query = LedgerQuery([.evidence(record.key)])
            let documents = Set(try await storage.load(query).evidence[record.key]?.map(\.name) ?? [])
            let statement = record.chain.purchases.first { documents.contains($0.provenance) }
            if let statement { found = found ?? (record, statement) }
        }
        let record = try #require(found).record
        var wrong = try #require(found).statement
        wrong.transactionId = "999"
        let invented = wrong
        try await storage.commit(LedgerQuery([.chain(record.key)])) { snapshot in
            var (changes, record) = (LedgerChanges(), snapshot.chains[record.key] ?? record)
            record.chain.merge(invented)
            changes.chains = [record]
            return .commit(changes, ())
        }
        try database.psql("UPDATE quittance.retention SET keeps_documents = false")
        let report = try await Ledger(storage: storage).rebuild(by: store.verifier(), at: now)
        #expect(report.differing == [record.key])
        #expect(try await LedgerContent(of: storage).chains[record.key]?.chain == record.chain)
    }

    /// The statements of docs/postgresql.md, with the name and the bounds of another table.
    @Test(.takesLong) func `documents are put back, also if one of them arrived again meanwhile`() async throws {
        let (database, store) = (try TestPostgres.database(), try TestStore())
        let storage = try await database.storage()
        let now = try await FilledLedger.fill(storage, of: store)
        let before = try await LedgerContent(of: storage)
        let bounds = try database.psql(
            "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'documents_before'")
        try database.psql(Self.detach)
        let document = try #require(before.documents.first { $0.kind == .transaction })
        let verified = try await store.verifier().verify(
            document.document, as: JWSTransactionDecodedPayload.self, at: now)
        _ = try await Ledger(storage: storage).record([#require(Evidence(verified))], at: document.receivedAt)
        #expect(try database.psql("SELECT count(*) FROM quittance.documents_rest") == "1")
        try database.psql(
            """
            BEGIN;
            CREATE TEMP TABLE again ON COMMIT DROP AS SELECT * FROM quittance.documents_rest;
            UPDATE again SET is_pinned = 1 FROM quittance.documents_before
                WHERE documents_before.signed_date = again.signed_date AND documents_before.digest = again.digest;
            DELETE FROM quittance.documents_rest USING again WHERE documents_rest.signed_date = again.signed_date
                AND documents_rest.digest = again.digest;
            DELETE FROM quittance.documents_before USING again WHERE documents_before.signed_date = again.signed_date
                AND documents_before.digest = again.digest;
            ALTER TABLE quittance.documents ATTACH PARTITION quittance.documents_before \(bounds);
            INSERT INTO quittance.documents SELECT * FROM again;
            COMMIT;
            UPDATE quittance.retention SET keeps_documents = true
            """)
        let after = try await LedgerContent(of: storage)
        // The notification in the table that was put back needs the token, which nothing may displace.
        let again = try #require(after.documents.first { $0.id == document.id })
        #expect(again.wording != nil && again.isPinned)
        #expect(after.documents.filter { $0 != again } == before.documents.filter { $0 != document })
        #expect(again.document == document.document)
        #expect(after.evidence == before.evidence)
        #expect(try await Ledger(storage: storage).rebuild(by: store.verifier(), at: now).differing == [])
    }

    @Test func `a ledger from which documents were taken is not copied`() async throws {
        let (database, store) = (try TestPostgres.database(), try TestStore())
        let storage = try await database.storage()
        _ = try await FilledLedger.fill(storage, of: store)
        try database.psql(Self.detach)
        let copy = LedgerCopy(from: storage, named: "the source", to: MemoryLedgerStorage(), by: store.verifier())
        await #expect {
            _ = try await copy.run(at: TestStore.start)
        } throws: { error in
            (error as? LedgerCopyError)?.code == .incompleteSource
        }
    }

    @Test func `a start adds the tables of this quarter and the next one`() async throws {
        let database = try TestPostgres.database()
        let quarters = #"SELECT count(*) FROM pg_class WHERE relname ~ '^documents_\d{4}q[1-4]$' AND relispartition"#
        _ = try await database.storage()
        #expect(try database.psql(quarters) == "2")
        _ = try await database.storage()
        #expect(try database.psql(quarters) == "2")
    }

    @Test func `a start goes on if documents of a quarter are in the table of the rest already`() async throws {
        let database = try TestPostgres.database()
        _ = try await database.storage()
        let tables = #"SELECT string_agg(relname, ',') FROM pg_class WHERE relname ~ '^documents_\d{4}q[1-4]$'"#
        for table in try database.psql(tables).split(separator: ",") {
            try database.psql("DROP TABLE quittance.\(table)")
        }
        try database.psql(
            """
            INSERT INTO quittance.documents (signed_date, digest, home, scope, kind, received_at, content)
            VALUES (extract(epoch FROM now()) * 1000, '', '', 1, 'transaction', 1, '')
            """)
        _ = try await database.storage()
        #expect(try database.psql("SELECT count(*) FROM quittance.documents_rest") == "1")
        #expect(try database.psql(tables).split(separator: ",").count == 1)
    }

    // MARK: - Servers that run for long

    /// The instant some quarters, of at most 92 days, after now.
    private static func later(quarters: Int64) -> Timestamp {
        let now = Int64(Date().timeIntervalSince1970) * 1000
        return Timestamp(milliseconds: now + quarters * 92 * 86_400_000)
    }

    /// Stores a document that was signed at an instant.
    private static func add(at instant: Timestamp, to database: TestDatabase) throws {
        try database.psql(
            """
            INSERT INTO quittance.documents (signed_date, digest, home, scope, kind, received_at, content)
            VALUES (\(instant.milliseconds), '', '', 1, 'transaction', 1, '')
            """)
    }

    @Test func `a server that runs for years adds the table of each quarter in time`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        for quarter in 0..<9 as Range<Int64> {
            await storage.prepare(at: Self.later(quarters: quarter))
            #expect(storage.condition.concern == nil)
            try Self.add(at: Self.later(quarters: quarter), to: database)
        }
        #expect(try database.psql("SELECT count(*) FROM quittance.documents_rest") == "0")
    }

    @Test func `a quarter that was missed is a concern, and the statements in it mend that`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try Self.add(at: Self.later(quarters: 3), to: database)
        try Self.add(at: Self.later(quarters: 4), to: database)
        // The server did not run for a year. Quarters without documents are added.
        await storage.prepare(at: Self.later(quarters: 4))
        let concern = try #require(storage.condition.concern)
        #expect(concern.matches(of: #/have no table documents_\d{4}q[1-4],/#).count == 2)
        for part in concern.split(separator: " run: ").dropFirst() {
            let end = try #require(part.firstRange(of: "COMMIT;")).upperBound
            try database.psql(String(part[..<end]))
        }
        await storage.prepare(at: Self.later(quarters: 4))
        #expect(storage.condition.concern == nil)
        #expect(try database.psql("SELECT count(*) FROM quittance.documents_rest") == "0")
        #expect(try database.psql("SELECT count(*) FROM quittance.documents") == "2")
    }

    @Test func `a quarter that was taken out of the ledger is not missed`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        for quarter in 0..<4 as Range<Int64> { await storage.prepare(at: Self.later(quarters: quarter)) }
        let tables = #"SELECT min(relname) FROM pg_class WHERE relname ~ '^documents_\d{4}q[1-4]$' AND relispartition"#
        let first = try database.psql(tables)
        try database.psql(
            """
            UPDATE quittance.retention SET keeps_documents = false;
            ALTER TABLE quittance.documents DETACH PARTITION quittance.\(first);
            DROP TABLE quittance.\(first)
            """)
        try Self.add(at: Self.later(quarters: 0), to: database)
        await storage.prepare(at: Self.later(quarters: 4))
        #expect(storage.condition.concern == nil)
        #expect(try database.psql("SELECT to_regclass('quittance.\(first)') IS NULL") == "t")
    }

    @Test func `a server that may not add tables says what their owner must do`() async throws {
        let database = try TestPostgres.database()
        try await database.storage().close()
        let role = "role_\(database.name)"
        try database.psql(
            """
            CREATE ROLE \(role) LOGIN; GRANT USAGE ON SCHEMA quittance TO \(role);
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA quittance TO \(role)
            """)
        let address = database.server.address(database.name)
            .replacingOccurrences(of: "user=postgres", with: "user=\(role)")
        let storage = try await PostgresLedgerStorage(
            PostgresSettings(address), upgrades: false, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
        await storage.prepare(at: Self.later(quarters: 0))
        #expect(storage.condition.concern == nil)
        await storage.prepare(at: Self.later(quarters: 1))
        #expect(storage.condition.concern?.contains("CREATE TABLE quittance.documents_") == true)
    }
}
