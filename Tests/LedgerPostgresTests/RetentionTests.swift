// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerPostgres
import PurchaseLedger
import PurchaseLedgerTesting
import TestPostgres
import TestWorld
import Testing

/// Tests a ledger from which old documents were taken, as docs/postgresql.md says.
@Suite(.needsPostgres) struct RetentionTests {
    private static let detach = """
        BEGIN;
        UPDATE retention SET keeps_documents = false;
        ALTER TABLE documents DETACH PARTITION documents_before;
        COMMIT
        """

    @Test func `facts stay when their documents are taken, also if facts are derived again`() async throws {
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
        let verified = try await store.verifier().verify(
            Array(token.utf8), as: JWSTransactionDecodedPayload.self, at: now)
        _ = try await ledger.record([#require(Evidence(verified))], at: now)
        #expect(try await ledger.rebuild(by: store.verifier(), at: now).differing == [])

        // Without the note in the table the facts would count as errors.
        try database.psql("UPDATE retention SET keeps_documents = true")
        #expect(try await ledger.rebuild(by: store.verifier(), at: now).differing != [])
    }

    @Test func `a ledger from which documents were taken is not copied`() async throws {
        let (database, store) = (try TestPostgres.database(), try TestStore())
        let storage = try await database.storage()
        _ = try await FilledLedger.fill(storage, of: store)
        try database.psql(Self.detach)
        let copy = LedgerCopy(from: storage, to: MemoryLedgerStorage(), by: store.verifier())
        await #expect {
            _ = try await copy.run()
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
        for table in try database.psql(tables).split(separator: ",") { try database.psql("DROP TABLE \(table)") }
        try database.psql(
            """
            INSERT INTO documents (signed_date, digest, home, scope, kind, received_at, content)
            VALUES (extract(epoch FROM now()) * 1000, '', '', 1, 'transaction', 1, '')
            """)
        _ = try await database.storage()
        #expect(try database.psql("SELECT count(*) FROM documents_rest") == "1")
        #expect(try database.psql(tables).split(separator: ",").count == 1)
    }
}
