// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The state of a subscription.
struct SubscriptionBody: Encodable, Sendable {
    var originalTransactionId: String
    var status: String
    @Nullable var statusCode: Int?
    var productId: String
    var transactionId: String
    var subscriptionGroupIdentifier: String?
    @Nullable var expiresDate: Timestamp?
    @Nullable var accessUntil: Timestamp?
    @Nullable var nextChange: Timestamp?
    @Nullable var willRenew: Bool?
    var autoRenewProductId: String?
    var expirationIntent: Open<ExpirationIntent>?
    var priceIncreaseStatus: Open<PriceIncreaseStatus>?

    init(_ originalTransactionId: String, _ state: SubscriptionState) {
        self.originalTransactionId = originalTransactionId
        status = state.status.rawValue
        statusCode = state.status.number
        productId = state.governing.productId
        transactionId = state.governing.transactionId
        subscriptionGroupIdentifier = state.governing.subscriptionGroup
        expiresDate = state.governing.expiresDate
        accessUntil = state.accessUntil
        nextChange = state.nextChange
        willRenew = state.willRenew
        autoRenewProductId = state.nextProductId
        expirationIntent = state.expirationIntent
        priceIncreaseStatus = state.priceIncreaseStatus
    }
}

/// A subscription with all its periods.
struct SubscriptionHistoryBody: Encodable, Sendable {
    var subscription: SubscriptionBody
    var transactions: [PurchaseBody]
    @Nullable var renewalInfo: RenewalInfo?

    struct RenewalInfo: Encodable, Sendable {
        var id: String
        @Nullable var signedDate: Timestamp?
    }

    /// - Returns: `nil` if the chain is no subscription.
    init?(_ chain: Chain, at now: Timestamp) {
        guard let state = chain.subscription(at: now) else { return nil }
        subscription = SubscriptionBody(chain.key.originalTransactionId, state)
        transactions = chain.purchases.map { PurchaseBody($0) }
        renewalInfo = chain.renewal.map {
            RenewalInfo(id: "\($0.provenance)", signedDate: Nullable(wrappedValue: $0.provenance.date))
        }
    }
}

/// A transaction, and the document that its facts are from.
struct PurchaseBody: Encodable, Sendable {
    var transactionId: String
    var originalTransactionId: String
    var productId: String
    var type: Open<ProductType>?
    @Nullable var purchaseDate: Timestamp?
    @Nullable var expiresDate: Timestamp?
    var quantity: Int
    var isUpgraded: Bool
    @Nullable var revocationDate: Timestamp?
    var revocationReason: Open<RevocationReason>?
    var revocationType: Open<RevocationType>?
    var inAppOwnershipType: Open<InAppOwnershipType>?
    var webOrderLineItemId: String?
    var evidence: Source?

    /// The document.
    struct Source: Encodable, Sendable {
        var id: String
        var kind: String
        @Nullable var signedDate: Timestamp?
    }

    init(_ statement: TransactionStatement, showsEvidence: Bool = true) {
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        productId = statement.productId
        type = statement.type
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
        quantity = statement.quantity
        isUpgraded = statement.isUpgraded
        revocationDate = statement.revocation?.date
        revocationReason = statement.revocation?.reason
        revocationType = statement.revocation?.type
        inAppOwnershipType = statement.ownership
        webOrderLineItemId = statement.webOrderLineItemId
        guard showsEvidence else { return }
        evidence = Source(
            id: "\(statement.provenance)", kind: statement.source == .receipt ? "receipt" : "signedTransaction",
            signedDate: Nullable(wrappedValue: statement.provenance.date))
    }
}

/// A signed document as it arrived.
struct EvidenceBody: Encodable, Sendable {
    var id: String
    var kind: String
    var environment: String
    @Nullable var signedDate: Timestamp?
    var receivedAt: Timestamp
    var notificationType: String?
    var subtype: String?
    var notificationUUID: String?
    var document: String

    init(_ stored: StoredDocument) {
        id = "\(stored.name)"
        kind = stored.kind.rawValue
        environment = stored.scope.environment.rawValue
        signedDate = stored.signedDate
        receivedAt = stored.receivedAt
        notificationType = stored.notification?.type
        subtype = stored.notification?.subtype
        notificationUUID = stored.notification?.uuid
        // A receipt as everybody sends them, a token as the text that it is.
        document =
            stored.kind == .receipt
            ? Base64.encode(stored.document) : String(decoding: stored.document, as: UTF8.self)
    }
}
