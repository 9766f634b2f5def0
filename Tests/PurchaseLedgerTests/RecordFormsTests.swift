// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import PurchaseLedger
import TestData
import Testing

/// Tests the list of the kinds of records that this version reads, and that a check finds damage in each.
@Suite struct RecordFormsTests {
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)
    private static let kinds = RecordKind.forms.keys.map(\.rawValue).sorted()

    /// The faults of a ledger that has one record.
    private static func faults(_ record: LedgerRecord) async throws -> [Ledger.Fault] {
        let storage = MemoryLedgerStorage()
        try await storage.commit(LedgerQuery([.record(record.key)])) { _ in
            var changes = LedgerChanges()
            changes.records = [record]
            return .commit(changes, ())
        }
        let verifier = AppStoreVerifier(apps: .any, environments: [.production])
        return try await Ledger(storage: storage).check(by: verifier).faults
    }

    @Test func `each kind that is named in the sources is in the list`() throws {
        let sources = Project.root.appending(path: "Sources")
        var named: Set<String> = []
        for path in FileManager.default.subpaths(atPath: sources.path) ?? []
        where path.hasSuffix(".swift") && !path.hasPrefix("PurchaseLedgerTesting/") {
            let text = try String(contentsOf: sources.appending(path: path), encoding: .utf8)
            named.formUnion(text.matches(of: /(?:RecordKind|Job\.Kind)\(rawValue: "(\w+)"\)/).map { String($0.1) })
        }
        #expect(named.count > 8 && named.subtracting(Self.kinds) == [])
    }

    @Test(arguments: kinds) func `a check finds a record that is not in the form of its kind`(kind: String) async throws
    {
        let key = RecordKey(RecordKind(rawValue: kind), "name", of: .ledger)
        let faults = try await Self.faults(LedgerRecord(key, payload: Array("x".utf8)))
        #expect(faults.count == 1 && faults.first?.code == "damaged", "\(faults)")
    }

    @Test(arguments: Job.kinds.map(\.rawValue)) func `a check finds a job whose record is cut`(
        kind: String
    ) async throws {
        let job = Job(Job.ID(Job.Kind(rawValue: kind), "name", in: Self.scope), dueAt: Timestamp(milliseconds: 1))
        #expect(try await Self.faults(job.record) == [])
        var record = job.record
        record.payload = Array("x".utf8)
        let faults = try await Self.faults(record)
        #expect(
            faults.map(\.error) == ["The record \(kind) name of com.example is not in a form that this version reads"])
    }

    @Test func `a record of a kind that only a newer version knows is no fault`() async throws {
        let key = RecordKey(RecordKind(rawValue: "kindOfTheNextVersion"), "name", of: .ledger)
        #expect(try await Self.faults(LedgerRecord(key, payload: Array("x".utf8))) == [])
    }
}
