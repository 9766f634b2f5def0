// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// Where a purchase was made, and what answers say about it that the App Store did not sign.
struct PurchaseStanding: Sendable {
    /// Where the purchase was made.
    var environment: Environment
    /// True if the configuration refuses the purchase, otherwise `nil`.
    var refused: Bool?
    /// How many customers presented the purchase; `nil` if at most one did, or the answer does not say it.
    var claimants: Int?

    init(isRefused: Bool, in environment: Environment) {
        self.environment = environment
        refused = isRefused ? true : nil
    }

    /// - Parameters:
    ///   - chain: The name of the purchase's chain.
    ///   - role: The role of the API key. A client key does not see `claimants`.
    init(of chain: String, _ answer: Ledger.CustomerAnswer?, in environment: Environment, for role: APIKey.Role) {
        self.init(isRefused: answer?.holdings.refused.contains(chain) ?? false, in: environment)
        claimants = role == .server ? answer?.claimants[chain] : nil
    }
}

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
    var refused: Bool?
    var claimants: Int?

    init(_ state: SubscriptionState, _ standing: PurchaseStanding) {
        originalTransactionId = state.governing.originalTransactionId
        environment = standing.environment.rawValue
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
        refused = standing.refused
        claimants = standing.claimants
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

/// The JSON of a subscription with its periods, or a page of them.
struct SubscriptionHistoryBody: Encodable, Sendable {
    /// The most periods of an answer: 40 years of months. Some sandbox subscriptions have more.
    static let pageLimit = 500

    var subscription: SubscriptionBody
    var transactions: [PurchaseBody]
    /// Where the earlier periods continue; `nil` if there are none.
    var periodsCursor: String?
    @Nullable var renewalInfo: SourceBody?

    /// - Parameter cursor: The `periodsCursor` of the page before; `nil` for the newest periods.
    /// - Returns: `nil` if the chain is not a subscription.
    /// - Throws: ``Refusal/invalidPeriodsCursor``.
    init?(_ chain: Chain, _ catalogue: Catalogue, before cursor: String?, at now: Timestamp) throws {
        guard let state = chain.subscription(catalogue, at: now) else { return nil }
        // The id of the first period of the page. Later renewals do not move it.
        let all = chain.purchases
        let end = cursor.map { cursor in all.firstIndex { $0.transactionId == cursor } } ?? all.endIndex
        guard let end else { throw Refusal.invalidPeriodsCursor }
        let start = max(0, end - Self.pageLimit)
        periodsCursor = start > 0 ? all[start].transactionId : nil
        let standing = PurchaseStanding(isRefused: catalogue.refuses(chain), in: chain.key.scope.environment)
        subscription = SubscriptionBody(state, standing)
        transactions = all[start..<end].map { PurchaseBody($0, standing) }
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
    var refused: Bool?
    var claimants: Int?
    var evidence: SourceBody?

    /// A transaction of a chain; `nil` if the chain has none with this id.
    init?(_ transactionId: String, of chain: Chain, _ catalogue: Catalogue) {
        guard let statement = chain.transactions[transactionId].flatMap(chain.current) else { return nil }
        self.init(
            statement, PurchaseStanding(isRefused: catalogue.refuses(chain), in: chain.key.scope.environment))
    }

    init(_ statement: TransactionStatement, _ standing: PurchaseStanding, showsEvidence: Bool = true) {
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        environment = standing.environment.rawValue
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
        revokedQuantity = statement.revokedQuantity(isRefused: standing.refused ?? false)
        inAppOwnershipType = statement.ownership
        webOrderLineItemId = statement.lineItem
        (offerType, offerIdentifier) = (statement.offerType, statement.offerIdentifier)
        (offerDiscountType, offerPeriod) = (statement.offerDiscountType, statement.offerPeriod)
        (price, currency, storefront) = (statement.price, statement.currency, statement.storefront)
        billingPeriodNumber = statement.commitment?.billingPeriodNumber
        (refused, claimants) = (standing.refused, standing.claimants)
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
