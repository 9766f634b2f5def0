// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerSQLite
import PurchaseLedger

/// A ledger with customers who have a subscription of five periods each, and a key to ask for them.
enum FilledLedger {
    static let periods = 5
    private static let batch = 500

    static func customerId(_ number: Int) -> String { "customer-\(number)" }

    /// The key that each of these ledgers has, and the text that its holder sends.
    static func key() -> (key: APIKey, text: String) {
        var random = SeededRandom(seed: 6)
        return APIKey.make(
            name: "load", role: .client, bundleId: SimulatedStore.scope.bundleId, at: SimulatedStore.now,
            using: &random)
    }

    /// Fills a ledger, unless an earlier run has.
    static func fill(_ path: String, customers: Int) async throws {
        let storage = try SQLiteLedgerStorage(path: path)
        defer { try? storage.close() }
        let ledger = Ledger(storage: storage)
        for first in stride(from: try await known(in: ledger, of: customers), to: customers, by: batch) {
            try await storage.write { writer in
                for number in first..<min(first + batch, customers) { try addCustomer(number, to: writer) }
            }
        }
        try await storage.write { try $0.put(key().key) }
    }

    /// How many customers there are: whole batches, since a batch is there or not.
    private static func known(in ledger: Ledger, of customers: Int) async throws -> Int {
        try await ledger.storage.read { reader in
            try stride(from: 0, to: customers, by: batch).first {
                try reader.customer(customerId($0), of: SimulatedStore.scope.bundleId) == nil
            } ?? customers
        }
    }

    /// The ids of transactions come in no order, as those of many people's purchases do.
    private static func addCustomer(_ number: Int, to writer: any LedgerWriter) throws {
        var random = SeededRandom(seed: UInt64(number))
        let chain = ChainKey("\(random.next() >> 14)", in: SimulatedStore.scope)
        for period in 0..<periods {
            let id = period == 0 ? chain.originalTransactionId : "\(random.next() >> 14)"
            try writer.put(statement(id, of: chain, by: customerId(number), period), in: chain)
        }
        try writer.put(renewal(of: chain, by: customerId(number)), in: chain)
        try writer.put(report(of: chain), for: chain)
        let customer = try writer.addCustomer(customerId(number), of: SimulatedStore.scope.bundleId)
        try writer.link(chain, to: customer, .appAccountToken)
    }

    private static let expiry = Timestamp(milliseconds: start(of: periods))

    /// When a period begins; the last still runs.
    private static func start(of period: Int) -> Int64 {
        SimulatedStore.now.milliseconds - 86_400_000 + Int64(period - periods + 1) * 2_592_000_000
    }

    private static func renewal(of chain: ChainKey, by customer: String) -> RenewalFact {
        let signed = Timestamp(milliseconds: start(of: periods - 1))
        var renewal = RenewalFact(
            provenance: Provenance(
                signedDate: signed, evidence: EvidenceID(Array(chain.originalTransactionId.utf8))),
            originalTransactionId: chain.originalTransactionId)
        renewal.productId = SimulatedStore.product
        renewal.autoRenewProductId = SimulatedStore.product
        renewal.willRenew = true
        renewal.appAccountToken = customer
        return renewal
    }

    private static func report(of chain: ChainKey) -> ChainReport {
        ChainReport(
            status: .active, productId: SimulatedStore.product, transactionId: chain.originalTransactionId,
            expiresDate: expiry, willRenew: true, isEntitling: true, nextChange: expiry)
    }

    private static func statement(
        _ id: String, of chain: ChainKey, by customer: String, _ period: Int
    ) -> TransactionStatement {
        let signed = Timestamp(milliseconds: start(of: period))
        var statement = TransactionStatement(
            source: .signedTransaction,
            provenance: Provenance(signedDate: signed, evidence: EvidenceID(Array(id.utf8))), transactionId: id,
            originalTransactionId: chain.originalTransactionId, productId: SimulatedStore.product)
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
