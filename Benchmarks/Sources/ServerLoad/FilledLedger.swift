// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import LedgerSQLite
import PurchaseLedger

/// A ledger whose customers have a subscription of five periods each, and an API key to read them.
enum FilledLedger {
    static let periods = 5
    private static let batch = 500

    static func customerId(_ number: Int) -> String { "customer-\(number)" }

    /// The API key in each of these ledgers, and the text that a client sends.
    static func key() -> (key: APIKey, text: String) {
        var random = SeededRandom(seed: 6)
        return APIKey.make(
            name: "load", role: .client, bundleId: SimulatedStore.scope.bundleId, at: SimulatedStore.now,
            using: &random)
    }

    static var rules: LedgerRules {
        let premium = Catalogue.Product(entitlements: [SimulatedStore.entitlement])
        let catalogue = Catalogue(products: [SimulatedStore.product: premium])
        return LedgerRules(catalogues: [SimulatedStore.scope.bundleId: catalogue])
    }

    /// Adds the customers that an earlier run has not added to a ledger.
    static func fill(_ path: String, customers: Int) async throws {
        let storage = try SQLiteLedgerStorage(path: path)
        defer { try? storage.close() }
        let ledger = Ledger(storage: storage, rules: rules)
        // Done while the ledger is empty, so that the server need not evaluate all of it when it starts.
        _ = try await ledger.publishCatalogueChanges(at: SimulatedStore.now)
        for first in stride(from: try await known(in: storage, of: customers), to: customers, by: batch) {
            let ids = (first..<min(first + batch, customers)).map(id)
            try await storage.commit(query(ids)) { snapshot in
                var changes = LedgerChanges()
                for (place, id) in ids.enumerated() {
                    guard let number = snapshot.newNumbers[id] else { continue }
                    let customer = Customer(number: number, bundleId: id.bundleId)
                    changes.customers.append(CustomerRecord(customer, ids: [id.id]))
                    changes.chains.append(chain(of: first + place, owner: customer))
                }
                return .commit(changes, ())
            }
        }
        try await ledger.put(key().key)
    }

    private static func id(_ number: Int) -> CustomerID {
        CustomerID(customerId(number), of: SimulatedStore.scope.bundleId)
    }

    private static func query(_ ids: [CustomerID]) -> LedgerQuery {
        LedgerQuery(ids.map(LedgerKey.customerID))
    }

    /// The number of customers already in the ledger. Looking up the first customer of each batch suffices, since a
    /// batch is written completely or not at all.
    private static func known(in storage: SQLiteLedgerStorage, of customers: Int) async throws -> Int {
        for number in stride(from: 0, to: customers, by: batch) {
            if try await storage.load(query([id(number)])).ids.isEmpty { return number }
        }
        return customers
    }

    /// The subscription of a customer. Its transaction ids are random, since those of many customers come in no order.
    private static func chain(of number: Int, owner: Customer) -> ChainRecord {
        var random = SeededRandom(seed: UInt64(number))
        let key = ChainKey("\(random.next() >> 14)", in: SimulatedStore.scope)
        var record = ChainRecord(key)
        for period in 0..<periods {
            let id = period == 0 ? key.originalTransactionId : "\(random.next() >> 14)"
            record.chain.merge(statement(id, of: key, by: customerId(number), period))
        }
        record.chain.merge(renewal(of: key, by: customerId(number)))
        record.report = report(of: key)
        record.owners = [ChainRecord.Owner(owner, .appAccountToken)]
        return record
    }

    private static let expiry = Timestamp(milliseconds: start(of: periods))

    /// When a period begins. The last one has not ended.
    private static func start(of period: Int) -> Int64 {
        SimulatedStore.now.milliseconds - 86_400_000 + Int64(period - periods + 1) * 2_592_000_000
    }

    private static func renewal(of chain: ChainKey, by customer: String) -> RenewalFact {
        let signed = Timestamp(milliseconds: start(of: periods - 1))
        var renewal = RenewalFact(
            provenance: Provenance(
                signedDate: signed, digest: DocumentDigest(Array(chain.originalTransactionId.utf8))),
            chain: chain.name)
        renewal.terms.autoRenewProductId = SimulatedStore.product
        renewal.willRenew = true
        renewal.appAccountToken = customer
        return renewal
    }

    private static func report(of chain: ChainKey) -> ChainReport {
        ChainReport(
            ChainState(
                status: .active, productId: SimulatedStore.product, transactionId: chain.originalTransactionId,
                hasAccess: true, until: expiry, willRenew: true),
            isSubscription: true, expiresDate: expiry, isEntitling: true, nextChange: expiry)
    }

    private static func statement(
        _ id: String, of chain: ChainKey, by customer: String, _ period: Int
    ) -> TransactionStatement {
        let signed = Timestamp(milliseconds: start(of: period))
        var statement = TransactionStatement(
            source: .signedTransaction,
            provenance: Provenance(signedDate: signed, digest: DocumentDigest(Array(id.utf8))), transactionId: id,
            chain: chain.name, productId: SimulatedStore.product)
        statement.type = Open(.autoRenewableSubscription)
        statement.subscriptionGroup = "21034567"
        statement.purchaseDate = signed
        statement.expiresDate = Timestamp(milliseconds: start(of: period + 1))
        statement.ownership = Open(.purchased)
        statement.appAccountToken = customer
        statement.webOrderLineItemId = id
        return statement
    }
}
