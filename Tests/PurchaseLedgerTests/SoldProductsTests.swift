// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization
import Testing

/// Tests how all purchases are read to find out which products were bought.
@Suite struct SoldProductsTests {
    /// The number of chains that a load named.
    private final class Loads: Sendable {
        let sizes = Mutex<[Int]>([])
    }

    @Test func `a large ledger is read in pages, each chain once, with progress`() async throws {
        let loads = Loads()
        let storage = InterceptedStorage(afterLoad: { query in
            loads.sizes.withLock { $0.append(query.keys.chains.count) }
        })
        let chains = (1...1234).map { number in
            let product = number % 3 == 0 ? "year" : "month"
            return Facts.chain(
                [
                    Facts.transaction("\(number)", original: "\(number)", product: product, from: Double(number)),
                    Facts.transaction("\(number)9999", original: "\(number)", product: "coins", from: 0),
                ], original: "\(number)")
        }
        try await storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.chains = chains.map { chain in
                var record = ChainRecord(chain.key)
                record.chain = chain
                return record
            }
            return .commit(changes, ())
        }
        var progress: [Int] = []
        let sold = try await Ledger(storage: storage).soldProducts { progress.append($0) }
        #expect(sold.damage.isEmpty)
        let products = try #require(sold.products[Facts.scope])
        #expect(products.mapValues(\.transactions) == ["year": 411, "month": 823, "coins": 1234])
        #expect(products["month"]?.transactionId == "1234" && products["month"]?.lastPurchaseDate == Facts.day(1234))
        #expect(products["coins"]?.lastPurchaseDate == Facts.day(0))
        let sizes = loads.sizes.withLock { $0 }
        #expect(sizes.reduce(0, +) == 1234 && (sizes.max() ?? 0) <= 500, "\(sizes)")
        #expect(progress.last == 1234 && progress.count >= 3)
        let none = try await Ledger(storage: storage).soldProducts(of: "com.example.other")
        #expect(none.products.isEmpty)
    }

    @Test func `a damaged chain is named, and all others count`() async throws {
        let damaged = ChainKey("2", in: Facts.scope)
        let storage = InterceptedStorage(afterLoad: { query in
            guard query.keys.chains.contains(damaged) else { return }
            throw LedgerStorageError(.damaged, "The row is damaged")
        })
        try await storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.chains = (1...3).map { number in
                let statement = Facts.transaction("\(number)", original: "\(number)")
                var record = ChainRecord(ChainKey("\(number)", in: Facts.scope))
                record.chain.merge(statement)
                return record
            }
            return .commit(changes, ())
        }
        let sold = try await Ledger(storage: storage).soldProducts()
        #expect(sold.products[Facts.scope]?["month"]?.transactions == 2)
        #expect(sold.damage == ["The purchase 2 of com.example cannot be read: The row is damaged"])
    }
}
