// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests the chains of customers with many purchases.
@Suite(.needsPostgres) struct HoldingTests {
    private static let scope = TroubleTests.scope
    private static let id = CustomerID("anna", of: scope.bundleId)

    /// Gives the customer more purchases, one in each commit or all in one.
    private static func sell(
        _ numbers: Range<Int>, to id: CustomerID = id, together: Bool = true, in scope: LedgerScope = scope,
        through storage: any LedgerStorage
    ) async throws {
        let keys = numbers.map { ChainKey("\(2_000_000_000 + $0)", in: scope) }
        for keys in together ? [keys] : keys.map({ [$0] }) {
            try await storage.commit(LedgerQuery(keys.map(LedgerKey.chain) + [.customerID(id)])) { snapshot in
                let customer = snapshot.ids[id] ?? Customer(number: snapshot.newNumbers[id] ?? 0, bundleId: id.bundleId)
                var changes = LedgerChanges()
                if snapshot.ids[id] == nil { changes.customers = [CustomerRecord(customer, ids: [id.id])] }
                changes.chains = keys.map { key in
                    var record = LongHistory.chain(key.name, periods: 3, in: scope)
                    record.owners = [ChainRecord.Owner(customer, .appAccountToken)]
                    return record
                }
                return .commit(changes, ())
            }
        }
    }

    private static func held(
        _ storage: any LedgerStorage, by id: CustomerID = id, in environments: Set<Environment> = [.production]
    ) async throws -> Set<String> {
        let query = LedgerQuery.holdings(of: [id], in: environments)
        return Set(try await storage.load(query).chains.keys.map(\.name))
    }

    /// A row for each chain that repeats all names would make it the square.
    @Test func `what a customer's read receives grows with the purchases, not with their square`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        var sizes: [Int] = []
        for range in [0..<50, 50..<400] {
            try await Self.sell(range, through: storage)
            let query = LedgerQuery.holdings(of: [Self.id], in: [.production])
            let readSet = [query].readSet
            let scopes = try await storage.scopeNumbers(readSet.apps, readSet.scopes, in: 0)
            let plan = LoadPlan(readSet, scopes, homes: nil)
            let answers = try await storage.requests.read(plan.statements)
            #expect(answers.flatMap(\.rows).count == 1 + range.upperBound)
            sizes.append(answers.flatMap(\.rows).joined().reduce(0) { $0 + ($1.size) })
            #expect(try await Self.held(storage).count == range.upperBound)
        }
        #expect(sizes[1] < sizes[0] * 9)
    }

    @Test func `only the environments that are asked are read`() async throws {
        let storage = try await TestPostgres.database().storage()
        let sandbox = LedgerScope(bundleId: Self.scope.bundleId, environment: .sandbox)
        try await Self.sell(0..<3, through: storage)
        try await Self.sell(10..<12, in: sandbox, through: storage)
        for (environments, count) in [([.production], 3), ([.sandbox], 2), ([.production, .sandbox], 5)]
            as [(Set<Environment>, Int)]
        {
            #expect(try await Self.held(storage, in: environments).count == count)
            let query = LedgerQuery.holdings(of: [Self.id], in: environments)
            let all = LedgerQuery.holdings(of: [Self.id], in: [.production, .sandbox])
            let (some, every) = (
                try await storage.statementCount(query), try await storage.statementCount(all)
            )
            #expect(count == 5 ? some == every : some < every)
        }
    }

    /// Two commits must not each miss what the other one does.
    @Test func `a purchase and a deletion of its customer at the same time leave no holding behind`() async throws {
        let database = try TestPostgres.database()
        let storages = [try await database.storage(), try await database.storage()]
        for round in 0..<10 {
            let id = CustomerID("customer \(round)", of: Self.scope.bundleId)
            try await Self.sell(round * 10..<round * 10 + 2, to: id, through: storages[0])
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await Self.sell(round * 10 + 2..<round * 10 + 3, to: id, through: storages[1]) }
                group.addTask {
                    try await storages[0].commit(
                        .holdings(of: [id], in: [.production])
                    ) { snapshot in
                        var changes = LedgerChanges()
                        changes.erasedCustomers = Set(snapshot.customers.keys)
                        changes.chains = snapshot.chains.values.map { record in
                            var record = record
                            record.owners = []
                            return record
                        }
                        return .commit(changes, ())
                    }
                }
                try await group.waitForAll()
            }
            let left = try await Self.held(storages[0], by: id)
            let owned = try database.psql(
                """
                SELECT count(*) FROM quittance.chains JOIN quittance.customers ON number = owner
                WHERE customers.home = '\(id.id)'
                """)
            #expect("\(left.count)" == owned)
        }
        let orphans = """
            SELECT count(*) FROM quittance.holdings
            WHERE NOT EXISTS (SELECT 1 FROM quittance.customers WHERE number::text = holdings.home)
            """
        #expect(try database.psql(orphans) == "0")
    }

    @Test func `a holding that is missing is a fault, which a rebuild mends`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.sell(0..<5, through: storage)
        #expect(try await storage.faults() == [])
        try database.psql("DELETE FROM quittance.holdings WHERE chain >= '2000000003'")
        let faults = try await storage.faults()
        #expect(faults.count == 2 && faults.contains { $0.contains("2000000003") && $0.contains("quittance rebuild") })
        #expect(try await Self.held(storage).count == 3)
        try await storage.mend()
        #expect(try await storage.faults() == [])
        #expect(try await Self.held(storage).count == 5)
    }

    @Test func `a holding of a customer who was erased is a fault, which a rebuild mends`() async throws {
        let database = try TestPostgres.database()
        let storage = try await database.storage()
        try await Self.sell(0..<1, through: storage)
        try database.psql("INSERT INTO quittance.holdings SELECT '999', scope, '12' FROM quittance.holdings")
        #expect(try await storage.faults().map { $0.contains("purchase 12") && $0.contains("999") } == [true])
        try await storage.mend()
        #expect(try await storage.faults() == [])
        #expect(try await Self.held(storage).count == 1)
    }

    /// Prints the times of a read of a customer with many purchases, and compares them with those of a file.
    @Test(.enabled(if: Seeds.isSoak, "QUITTANCE_SOAK is not set"), arguments: [1000, 4000, 6000])
    func `a read of many purchases takes at most three times as long as from a file`(count: Int) async throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("holdings-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let storages: [any LedgerStorage] = [
            try SQLiteLedgerStorage(path: path), try await TestPostgres.database().storage(),
        ]
        var times: [[Duration]] = [[], []]
        for storage in storages {
            for start in stride(from: 0, to: count, by: 500) {
                try await Self.sell(start..<start + 500, through: storage)
            }
        }
        for _ in 0..<9 {
            for (place, storage) in storages.enumerated() {
                let start = ContinuousClock.now
                #expect(try await Self.held(storage).count == count)
                times[place].append(ContinuousClock.now - start)
            }
        }
        let medians = times.map { $0.sorted()[4] }
        print("\(count) purchases: SQLite \(medians[0]), PostgreSQL \(medians[1]), ratio \(medians[1] / medians[0])")
        #expect(medians[1] <= medians[0] * 3)
    }
}

extension PostgresValue {
    fileprivate var size: Int {
        switch self {
        case .null, .integer: 8
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .texts(let texts): texts.reduce(0) { $0 + $1.utf8.count }
        default: 0
        }
    }
}
