// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Rows of records that no version writes.
@Suite(.needsPostgres) struct DamagedRecordTests {
    @Test func `a record whose owner is missing is damage of its page, and all others are found`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        let others = ["a", "z"].map { RecordKey(RecordKind(rawValue: "k"), $0, of: .ledger) }
        try await storage.commit(LedgerQuery(others.map(LedgerKey.record))) { _ in
            var changes = LedgerChanges()
            changes.records = others.map { LedgerRecord($0, dueAt: Timestamp(milliseconds: 1)) }
            return .commit(changes, ())
        }
        try database.psql(
            """
            INSERT INTO quittance.records (kind, owner, home, name, version, due_at, payload)
            VALUES ('k', 99, '', 'lost', 1, 1, '')
            """)
        for dueAt in [nil, Timestamp(milliseconds: 1)] {
            let page = try await storage.records(RecordSelection(dueAt: dueAt), after: nil, limit: 10)
            #expect(Set(page.items.map(\.key)) == Set(others))
            #expect(page.damage.count == 1 && page.damage[0].contains("k lost"), "\(page.damage)")
        }
        // A page may have nothing but damage, and is followed by the next one.
        var (cursor, found) = (ScanCursor?.none, [RecordKey]())
        repeat {
            let page = try await storage.records(RecordSelection(), after: cursor, limit: 1)
            found += page.items.map(\.key)
            cursor = page.next
        } while cursor != nil
        #expect(Set(found) == Set(others))
    }

    @Test func `an empty list of entries is none`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try database.psql(
            """
            INSERT INTO quittance.records (kind, owner, home, name, version, entries, payload)
            VALUES ('k', 0, '', 'n', 1, '{}', '\\x01')
            """)
        let record = LedgerRecord(RecordKey(RecordKind(rawValue: "k"), "n", of: .ledger), payload: [1])
        #expect(try await storage.records(RecordSelection(), limit: 10) == [record])
        #expect(try await storage.load(LedgerQuery([.record(record.key)])).records[record.key] == record)
    }
}
