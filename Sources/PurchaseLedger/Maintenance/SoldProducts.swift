// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

// Counts the sales of each product, for a comparison with the catalogue.

/// The sales of a product in an app and environment.
package struct SoldProduct: Hashable, Sendable {
    /// The number of transactions: purchases, renewals and restores.
    package private(set) var transactions = 0
    /// The time of the last charge; `nil` if no document contains it.
    package private(set) var lastPurchaseDate: Timestamp?
    /// The id of the last transaction, as an example.
    package private(set) var transactionId: String

    fileprivate init(_ statement: TransactionStatement) {
        transactionId = statement.transactionId
        add(statement)
    }

    fileprivate mutating func add(_ statement: TransactionStatement) {
        transactions += 1
        // If dates are equal, the greater id counts, so that the order in which purchases are read does not matter.
        let last = lastPurchaseDate ?? .distantPast
        let date = statement.purchaseDate ?? .distantPast
        guard (date, statement.transactionId) >= (last, transactionId) else { return }
        lastPurchaseDate = statement.purchaseDate
        transactionId = statement.transactionId
    }
}

/// The sales in a ledger.
package struct SoldProducts: Sendable {
    /// The sales by app and environment, and by product id.
    package private(set) var products: [LedgerScope: [String: SoldProduct]] = [:]
    /// Sentences about unreadable purchases.
    package fileprivate(set) var damage: [String] = []

    fileprivate mutating func add(_ chain: Chain) {
        // A purchase of the app itself has no product.
        guard !chain.key.isAppPurchase else { return }
        for statement in chain.transactions.values.compactMap(chain.current) {
            let id = statement.productId
            guard products[chain.key.scope]?[id] == nil else {
                products[chain.key.scope]?[id]?.add(statement)
                continue
            }
            products[chain.key.scope, default: [:]][id] = SoldProduct(statement)
        }
    }
}

extension Ledger {
    /// The number of chains (purchases with their renewals) read at once, as in ``check(by:onDocuments:)``.
    private static let soldPage = 500

    /// Reads all purchases, page by page. Memory grows only with the number of products.
    ///
    /// - Parameters:
    ///   - app: The app to read; `nil` for all apps.
    ///   - onPurchases: Called with the number of purchases visited so far, of all apps.
    /// - Throws: ``LedgerStorageError`` other than `damaged`.
    package func soldProducts(
        of app: String? = nil, onPurchases: (_ count: Int) -> Void = { _ in }
    ) async throws -> SoldProducts {
        var sold = SoldProducts()
        var cursor: ScanCursor?
        var count = 0
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.soldPage)
            sold.damage += page.damage
            let keys = page.items.filter { app == nil || $0.scope.bundleId == app }
            let damaged = try await Self.skippingDamaged(keys) { keys in
                let records = try await storage.load(LedgerQuery(keys.map(LedgerKey.chain))).chains
                for record in records.values { sold.add(record.chain) }
            }
            sold.damage += damaged.sorted { $0.key < $1.key }.map { Fault(unreadable: $0, $1).error }
            count += page.items.count
            onPurchases(count)
            cursor = page.next
        } while cursor != nil
        return sold
    }
}
