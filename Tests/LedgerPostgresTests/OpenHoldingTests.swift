// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests that both storages leave out the same purchases if only those are wanted that may give something.
@Suite(.needsPostgres) struct OpenHoldingTests {
    private static func storages(_ folder: TemporaryFolder) async throws -> [any LedgerStorage] {
        [
            MemoryLedgerStorage(), try SQLiteLedgerStorage(path: folder.path()),
            try await TestPostgres.database().storage(),
        ]
    }

    /// The customer's purchases end on day 450, but for two that end on day 1200.
    @Test func `of a hundred purchases those two are loaded that still give something`() async throws {
        let folder = try TemporaryFolder()
        let scope = TroubleTests.scope
        let id = CustomerID("anna", of: scope.bundleId)
        let rules = LedgerRules(catalogues: [
            scope.bundleId: Catalogue(products: ["month": .init(entitlements: ["pro"])])
        ])
        for storage in try await Self.storages(folder) {
            var ledger = Ledger(storage: storage, rules: rules)
            try await storage.commit(LedgerQuery([.customerID(id)])) { snapshot in
                let customer = Customer(number: snapshot.newNumbers[id] ?? 0, bundleId: id.bundleId)
                var changes = LedgerChanges()
                changes.customers = [CustomerRecord(customer, ids: [id.id])]
                changes.chains = (0..<100).map { number in
                    let periods = number % 50 == 0 ? 40 : 15
                    var record = LongHistory.chain("\(2_000_000_000 + number)", periods: periods, in: scope)
                    record.owners = [ChainRecord.Owner(customer, .claim)]
                    return record
                }
                return .commit(changes, ())
            }
            func chains(at day: Double, asks: Bool = false) async throws -> [ChainRecord] {
                let settled = SettledChains(
                    at: TestStore.day(day), catalogue: ledger.rules.catalogue(of: scope.bundleId),
                    keepsStale: asks)
                let query = LedgerQuery.holdings(of: [id], in: [.production], besides: settled)
                return Array(try await storage.load(query).chains.values)
            }
            func count(at day: Double, asks: Bool = false) async throws -> Int {
                try await chains(at: day, asks: asks).count
            }
            #expect(try await count(at: 1000) == 100)
            _ = try await ledger.publishCatalogueChanges(at: TestStore.day(1000))
            #expect(try await count(at: 1000) == 2)
            #expect(try await count(at: 440) == 100)
            // The last period begins on day 1170. Until the leeway of an hour is over, the one before counts too.
            for (day, periods) in [(1169, 40), (1170.01, 2), (1170.1, 1), (1190, 1)] {
                let loaded = try await chains(at: day).map(\.chain.transactions.count)
                #expect(loaded == [periods, periods], "\(day)")
            }
            // No document says how they ended.
            #expect(try await count(at: 1000, asks: true) == 100)
            #expect(try await count(at: 1300) == 0)
            ledger.rules.catalogues[scope.bundleId]?.products["month"]?.level = 7
            #expect(try await count(at: 1000) == 100)
            // The chains without a product of the new catalogue are named alone.
            ledger.rules.catalogues[scope.bundleId] = Catalogue(products: ["year": .init(entitlements: ["pro"])])
            _ = try await ledger.publishCatalogueChanges(at: TestStore.day(1000))
            #expect(try await count(at: 1300) == 0)
            let found = try await ledger.openHoldings(
                of: id.id, of: scope.bundleId, in: [.production, .sandbox], at: TestStore.day(1300))
            #expect(found?.environments[.production]?.unknownProducts == ["month"])
            #expect(found?.environments[.sandbox] == Holdings())
        }
    }

    @Test func `after a year both storages answer without the settled purchases as with all`() async throws {
        let folder = try TemporaryFolder()
        var year = try RandomYear(seed: 65, customers: 6)
        try await year.run(steps: 60)
        for storage in try await Self.storages(folder) {
            _ = try await LedgerCopy(from: year.ledger.storage, named: "the year", to: storage, by: year.verifier)
                .run(at: year.now)
            let ledger = Ledger(storage: storage, rules: year.ledger.rules)
            for customer in try await ledger.customers(of: RandomYear.scope.bundleId, limit: 100).items {
                for days in [-200.0, -30, -1, 0, 1, 30, 400] {
                    let instant = year.now.advanced(by: .seconds(days * 86_400))
                    let (id, app) = (customer.ids[0], RandomYear.scope.bundleId)
                    let all = try await ledger.holdings(of: id, of: app, in: [.production], at: instant)
                    let open = try await ledger.openHoldings(of: id, of: app, in: [.production], at: instant)
                    let (left, right) = (all?.environments[.production], open?.environments[.production])
                    #expect(left?.entitlements == right?.entitlements, "\(id) \(days)")
                    #expect(left?.nextChange == right?.nextChange, "\(id) \(days)")
                    #expect(left?.unknownProducts == right?.unknownProducts, "\(id) \(days)")
                }
            }
        }
    }
}
