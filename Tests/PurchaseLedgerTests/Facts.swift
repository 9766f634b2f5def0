// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld

/// Facts for tests. Times are in days: the first period is bought on day 0, and a period has 30 days.
enum Facts {
    static let scope = LedgerScope(bundleId: "com.example", environment: .production)
    static let key = ChainKey("1", in: scope)

    static func day(_ days: Double) -> Timestamp { TestStore.day(days) }

    /// The digest of a document, derived from a text.
    static func digest(_ text: String) -> DocumentDigest { DocumentDigest(Array(text.utf8)) }

    static func provenance(_ signed: Double, _ text: String) -> Provenance {
        Provenance(signedDate: day(signed), digest: digest("\(signed) \(text)"))
    }

    /// A subscription's period as a receipt states it, created on day `signed`. A receipt names neither the type nor
    /// the group.
    static func receipt(
        _ id: String = "1", product: String = "month", signed: Double = 0, from: Double = 0, until: Double = 30,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) -> TransactionStatement {
        transaction(id, product: product, signed: signed, from: from, until: until, group: nil, source: .receipt) {
            $0.type = nil
            change(&$0)
        }
    }

    /// A transaction, signed on day `signed`.
    static func transaction(
        _ id: String = "1", original: String = "1", product: String = "month", signed: Double = 0,
        from: Double = 0, until: Double? = 30, type: ProductType = .autoRenewableSubscription, group: String? = "g",
        source: TransactionStatement.Source = .signedTransaction,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) -> TransactionStatement {
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = id
        payload.originalTransactionId = original
        payload.productId = product
        payload.type = Open(type)
        payload.subscriptionGroupIdentifier = group
        payload.purchaseDate = day(from)
        payload.expiresDate = until.map(day)
        payload.signedDate = day(signed)
        change(&payload)
        let provenance = provenance(signed, "\(payload)")
        guard let statement = TransactionStatement(payload, source: source, provenance: provenance, in: .production)
        else {
            preconditionFailure("`change` removed the transaction id or the product")
        }
        return statement
    }

    /// Renewal info, signed on day `signed`.
    static func renewal(
        original: String = "1", signed: Double, renews: Bool = true, retry: Bool? = nil, grace: Double? = nil,
        intent: ExpirationIntent? = nil
    ) -> RenewalFact {
        var payload = JWSRenewalInfoDecodedPayload()
        payload.originalTransactionId = original
        payload.autoRenewStatus = Open(renews ? .on : .off)
        payload.isInBillingRetryPeriod = retry
        payload.gracePeriodExpiresDate = grace.map(day)
        payload.expirationIntent = intent.map { Open($0) }
        payload.signedDate = day(signed)
        guard let fact = RenewalFact(payload, provenance: provenance(signed, "\(payload)")) else {
            preconditionFailure("the payload names no subscription")
        }
        return fact
    }

    static func chain(
        _ statements: [TransactionStatement], _ renewals: [RenewalFact] = [], original: String = "1"
    ) -> Chain {
        var chain = Chain(ChainKey(original, in: scope))
        for statement in statements { chain.merge(statement) }
        for renewal in renewals { chain.merge(renewal) }
        return chain
    }
}
