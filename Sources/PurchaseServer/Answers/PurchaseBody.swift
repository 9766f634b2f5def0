// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a subscription.
struct SubscriptionBody: Encodable, Sendable {
    var originalTransactionId: String
    var environment: String
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
    var seats: Int?
    var commitment: CommitmentBody?

    init(_ state: SubscriptionState, in environment: Environment) {
        originalTransactionId = state.governing.originalTransactionId
        self.environment = environment.rawValue
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
        seats = state.seats
        commitment = state.governing.commitment.map { CommitmentBody($0, state) }
    }
}

/// The JSON of the commitment of a subscription that is billed monthly.
struct CommitmentBody: Encodable, Sendable {
    var billingPeriodNumber: Int
    var totalBillingPeriods: Int?
    var expiresDate: Timestamp?
    var price: Int64?
    var currency: String?
    @Nullable var willRenew: Bool?
    var autoRenewProductId: String?

    init(_ commitment: TransactionStatement.Commitment, _ state: SubscriptionState) {
        billingPeriodNumber = commitment.billingPeriodNumber
        totalBillingPeriods = commitment.totalBillingPeriods
        expiresDate = commitment.expiresDate
        (price, currency) = (commitment.price, commitment.price == nil ? nil : state.governing.currency)
        willRenew = state.commitmentWillRenew
        autoRenewProductId = state.nextCommitmentProductId
    }
}

/// The JSON of a subscription with all its periods.
struct SubscriptionHistoryBody: Encodable, Sendable {
    var subscription: SubscriptionBody
    var transactions: [PurchaseBody]
    @Nullable var renewalInfo: SourceBody?

    /// - Returns: `nil` if the chain is not a subscription.
    init?(_ chain: Chain, at now: Timestamp) {
        guard let state = chain.subscription(at: now) else { return nil }
        let environment = chain.key.scope.environment
        subscription = SubscriptionBody(state, in: environment)
        transactions = chain.purchases.map { PurchaseBody($0, in: environment) }
        renewalInfo = chain.renewal.map { SourceBody($0.provenance) }
    }
}

/// The JSON of a transaction, with the document that proves it.
struct PurchaseBody: Encodable, Sendable {
    var transactionId: String
    var originalTransactionId: String
    var environment: String
    var productId: String
    var type: Open<ProductType>?
    @Nullable var purchaseDate: Timestamp?
    @Nullable var expiresDate: Timestamp?
    var quantity: Int
    var isUpgraded: Bool
    @Nullable var revocationDate: Timestamp?
    var revocationReason: Open<RevocationReason>?
    var revocationType: Open<RevocationType>?
    var revocationPercentage: Int?
    var revokedQuantity: Int?
    var inAppOwnershipType: Open<InAppOwnershipType>?
    var webOrderLineItemId: String?
    var offerType: Open<OfferType>?
    var offerIdentifier: String?
    var offerDiscountType: Open<OfferDiscountType>?
    var offerPeriod: String?
    var price: Int64?
    var currency: String?
    var storefront: String?
    var billingPeriodNumber: Int?
    var evidence: SourceBody?

    init(_ statement: TransactionStatement, in environment: Environment, showsEvidence: Bool = true) {
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        self.environment = environment.rawValue
        productId = statement.productId
        type = statement.type
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
        quantity = statement.quantity
        isUpgraded = statement.isUpgraded
        revocationDate = statement.revocation?.date
        revocationReason = statement.revocation?.reason
        revocationType = statement.revocation?.type
        revocationPercentage = statement.revocation?.percentage
        revokedQuantity = statement.revokedQuantity
        inAppOwnershipType = statement.ownership
        webOrderLineItemId = statement.lineItem
        (offerType, offerIdentifier) = (statement.offerType, statement.offerIdentifier)
        (offerDiscountType, offerPeriod) = (statement.offerDiscountType, statement.offerPeriod)
        (price, currency, storefront) = (statement.price, statement.currency, statement.storefront)
        billingPeriodNumber = statement.commitment?.billingPeriodNumber
        guard showsEvidence else { return }
        evidence = SourceBody(
            statement.provenance, kind: statement.source == .receipt ? "receipt" : "signedTransaction")
    }
}

/// The JSON of the name of a stored document, and of the date on which it was signed.
struct SourceBody: Encodable, Sendable {
    var id: String
    var kind: String?
    @Nullable var signedDate: Timestamp?

    init(_ name: Provenance, kind: String? = nil) {
        id = "\(name)"
        self.kind = kind
        signedDate = name.date
    }
}

/// The JSON of a stored document.
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
        // A receipt is binary, a token is text.
        document =
            stored.kind == .receipt
            ? Base64.encode(stored.document) : String(decoding: stored.document, as: UTF8.self)
    }
}
