// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The environment of a purchase, and the values that this server adds to the App Store's facts in an answer.
struct PurchaseStanding: Sendable {
    /// The environment of the purchase.
    var environment: Environment
    /// True if the operator refuses the purchase, otherwise `nil`.
    var refused: Bool?
    /// The number of customers that presented the purchase: the first customer, and the customers of the last 30 days,
    /// at most 16. `nil` if at most one customer presented the purchase, or if the answer omits the number.
    var claimants: Int?

    init(isRefused: Bool, in environment: Environment) {
        self.environment = environment
        refused = isRefused ? true : nil
    }

    /// - Parameters:
    ///   - chain: The original transaction id of the purchase, to which the ledger appends `@` and a time in Xcode and
    ///     LocalTesting.
    ///   - role: The role of the API key. A client key does not see `claimants`.
    init(of chain: String, _ answer: Ledger.CustomerAnswer?, in environment: Environment, for role: APIKey.Role) {
        self.init(isRefused: answer?.holdings.refused.contains(chain) ?? false, in: environment)
        claimants = Roles.readers.contains(role) ? answer?.claimants[chain] : nil
    }
}

/// The JSON of a subscription.
struct SubscriptionBody: Encodable, Sendable {
    /// The transaction id of the first purchase.
    var originalTransactionId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// `active`, `expired`, `billingRetry`, `billingGrace`, `revoked`, `stale` or `upgraded`.
    var status: String
    /// Apple's number of the status: 1 to 5; `null` for `stale` and `upgraded`.
    @Nullable var statusCode: Int?
    /// The product of the governing period, which decides the status; see ``SubscriptionState/governing``.
    var productId: String
    /// The transaction of the governing period.
    var transactionId: String
    /// The id of the subscription group to which the product belongs.
    var subscriptionGroupIdentifier: String?
    /// The end of the governing period, in milliseconds since 1970; `null` if no document says it.
    @Nullable var expiresDate: Timestamp?
    /// Whether the subscription gives access by itself.
    var hasAccess: Bool
    /// The instant at which access ends or ended, exclusive, in milliseconds since 1970; `null` for no end. See
    /// ``Access/until``.
    @Nullable var accessUntil: Timestamp?
    /// The time at which the status may change if no document arrives, in milliseconds since 1970; `null` for never.
    @Nullable var nextChange: Timestamp?
    /// Whether the subscription renews; `null` if unknown.
    @Nullable var willRenew: Bool?
    /// The terms of the next renewal; absent until renewal info arrives.
    var renewal: RenewalTerms?
    /// Apple's number of the reason why the subscription ended.
    var expirationIntent: Open<ExpirationIntent>?
    /// The seats in force of a multi-seat subscription.
    var seats: Int?
    /// The commitment of a subscription that is billed monthly; absent without a commitment.
    var commitment: CommitmentBody?
    /// True if the operator refuses the purchase, otherwise absent.
    var refused: Bool?
    /// The number of customers that presented the purchase, if greater than one; not for a client key. See
    /// ``PurchaseStanding/claimants``.
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
        hasAccess = state.hasAccess
        accessUntil = state.accessUntil
        nextChange = state.nextChange
        willRenew = state.willRenew
        renewal = state.renewal
        expirationIntent = state.expirationIntent
        seats = state.seats
        commitment = state.governing.commitment.map { CommitmentBody($0, state) }
        refused = standing.refused
        claimants = standing.claimants
    }
}

/// The JSON of the commitment of a subscription that is billed monthly.
struct CommitmentBody: Encodable, Sendable {
    /// The number of the governing period's payment, from 1.
    var billingPeriodNumber: Int
    /// The number of payments.
    var totalBillingPeriods: Int?
    /// The end of the commitment, in milliseconds since 1970.
    var expiresDate: Timestamp?
    /// The price of the whole commitment, in thousandths of the currency.
    var price: Int64?
    /// The currency of `price`, such as `EUR`.
    var currency: String?
    /// Whether another commitment follows; `null` if unknown.
    @Nullable var willRenew: Bool?
    /// The product of the next commitment.
    var autoRenewProductId: String?

    init(_ commitment: TransactionStatement.Commitment, _ state: SubscriptionState) {
        billingPeriodNumber = commitment.billingPeriodNumber
        totalBillingPeriods = commitment.totalBillingPeriods
        expiresDate = commitment.expiresDate
        price = commitment.price
        currency = price == nil ? nil : state.governing.currency
        willRenew = state.commitmentWillRenew
        autoRenewProductId = state.nextCommitmentProductId
    }
}

/// The JSON of a subscription with a page of its periods.
struct SubscriptionHistoryBody: Encodable, Sendable {
    /// The maximum number of periods in an answer: 40 years of monthly periods. Some sandbox subscriptions have more.
    static let pageLimit = 500

    /// The state of the subscription.
    var subscription: SubscriptionBody
    /// At most 500 periods, the earliest purchase first.
    var transactions: [PurchaseBody]
    /// The cursor of the page with the earlier periods; absent if there are none.
    var periodsCursor: String?
    /// The document with the newest renewal info; `null` if there is none.
    @Nullable var renewalInfo: SourceBody?
    /// The first id of each customer that owns the subscription, in the order in which they became owners.
    var customers: [String] = []

    /// - Parameter cursor: The `periodsCursor` of the page before; `nil` for the newest periods.
    /// - Returns: `nil` if the chain (a purchase with all its renewals) is not a subscription.
    /// - Throws: ``Refusal/invalidPeriodsCursor``.
    init?(_ chain: Chain, _ catalogue: Catalogue, before cursor: String?, at now: Timestamp) throws {
        guard let state = chain.subscription(catalogue, at: now) else { return nil }
        // The cursor is the id of the earliest period on the page before. Renewals between two requests therefore do
        // not shift the pages.
        let all = chain.purchases
        let end = cursor.map { cursor in all.firstIndex { $0.transactionId == cursor } } ?? all.endIndex
        guard let end else { throw Refusal.invalidPeriodsCursor }
        let start = max(0, end - Self.pageLimit)
        periodsCursor = start > 0 ? all[start].transactionId : nil
        let standing = PurchaseStanding(isRefused: catalogue.refuses(chain), in: chain.key.scope.environment)
        subscription = SubscriptionBody(state, standing)
        let access = chain.access(catalogue, at: now)
        transactions = all[start..<end].map { PurchaseBody($0, standing, access[$0.transactionId]) }
        renewalInfo = chain.renewal.map { SourceBody($0.provenance) }
    }
}

/// The JSON of a transaction and the name of the document that proves it.
struct PurchaseBody: Encodable, Sendable {
    /// The transaction.
    var transactionId: String
    /// The transaction id of the first purchase.
    var originalTransactionId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// The product.
    var productId: String
    /// Apple's word for the type of the product.
    var type: Open<ProductType>?
    /// The time of the purchase, in milliseconds since 1970; `null` if no document says it.
    @Nullable var purchaseDate: Timestamp?
    /// The end of the period, in milliseconds since 1970; `null` if it has none.
    @Nullable var expiresDate: Timestamp?
    /// Whether the purchase gives access by itself.
    var hasAccess: Bool
    /// The instant at which access ends or ended, exclusive, in milliseconds since 1970; `null` for no end. See
    /// ``Access/until``.
    @Nullable var accessUntil: Timestamp?
    /// The number of bought items.
    var quantity: Int
    /// Whether an upgrade ended the period.
    var isUpgraded: Bool
    /// The time of the refund or revocation, in milliseconds since 1970; `null` without one.
    @Nullable var revocationDate: Timestamp?
    /// Apple's number of the reason for the revocation.
    var revocationReason: Open<RevocationReason>?
    /// Apple's word for the kind of the revocation.
    var revocationType: Open<RevocationType>?
    /// The refunded part, in thousandths of a percent: 100000 is a full refund.
    var revocationPercentage: Int?
    /// The number of revoked items of a consumable or of revoked seats; `quantity` if the purchase is refused. Absent
    /// for all other purchases, because the refunded part of a subscription is time.
    var revokedQuantity: Int?
    /// `PURCHASED` or `FAMILY_SHARED`.
    var inAppOwnershipType: Open<InAppOwnershipType>?
    /// Apple's id of the period.
    var webOrderLineItemId: String?
    /// Apple's number of the kind of the offer.
    var offerType: Open<OfferType>?
    /// The id of the offer; introductory offers have no id.
    var offerIdentifier: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT` or `ONE_TIME`.
    var offerDiscountType: Open<OfferDiscountType>?
    /// The length of the offer, such as `P1M`.
    var offerPeriod: String?
    /// The price of all `quantity` items, in thousandths of the currency.
    var price: Int64?
    /// The currency of `price`, such as `EUR`.
    var currency: String?
    /// The country of the storefront, such as `DEU`.
    var storefront: String?
    /// The number of the payment within a commitment, from 1.
    var billingPeriodNumber: Int?
    /// True if the operator refuses the purchase, otherwise absent.
    var refused: Bool?
    /// The number of customers that presented the purchase, if greater than one; not for a client key. See
    /// ``PurchaseStanding/claimants``.
    var claimants: Int?
    /// The name of the document that proves the transaction; not for a client key.
    var evidence: SourceBody?
    /// The first id of each customer that owns the purchase, in the order in which they became owners; only in the
    /// answer about a transaction or an order.
    var customers: [String]?

    /// A transaction of a chain (a purchase with all its renewals); `nil` if the chain has no transaction with this id.
    init?(_ transactionId: String, of chain: Chain, _ catalogue: Catalogue, at now: Timestamp) {
        guard let statement = chain.transactions[transactionId].flatMap(chain.current), !statement.isAppPurchase
        else { return nil }
        self.init(
            statement, PurchaseStanding(isRefused: catalogue.refuses(chain), in: chain.key.scope.environment),
            chain.access(catalogue, at: now)[transactionId])
    }

    init(
        _ statement: TransactionStatement, _ standing: PurchaseStanding, _ access: Access?, showsEvidence: Bool = true
    ) {
        transactionId = statement.transactionId
        originalTransactionId = statement.originalTransactionId
        environment = standing.environment.rawValue
        productId = statement.productId
        type = statement.type
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
        hasAccess = access?.isGiven ?? false
        accessUntil = access.map(\.until) ?? statement.purchaseDate
        quantity = statement.quantity
        isUpgraded = statement.isUpgraded
        revocationDate = statement.revocation?.date
        revocationReason = statement.revocation?.reason
        revocationType = statement.revocation?.type
        revocationPercentage = statement.revocation?.percentage
        revokedQuantity = statement.revokedQuantity(isRefused: standing.refused ?? false)
        inAppOwnershipType = statement.ownership
        webOrderLineItemId = statement.lineItem
        offerType = statement.offerType
        offerIdentifier = statement.offerIdentifier
        offerDiscountType = statement.offerDiscountType
        offerPeriod = statement.offerPeriod
        price = statement.price
        currency = statement.currency
        storefront = statement.storefront
        billingPeriodNumber = statement.commitment?.billingPeriodNumber
        refused = standing.refused
        claimants = standing.claimants
        guard showsEvidence else { return }
        evidence = SourceBody(
            statement.provenance, kind: statement.source == .receipt ? "receipt" : "signedTransaction")
    }
}

/// The JSON of a customer's purchase of the app itself.
struct AppPurchaseBody: Encodable, Sendable {
    /// Apple's id of the purchase; absent if only documents without an id prove the purchase.
    var appTransactionId: String?
    /// `Production` or `Sandbox`.
    var environment: String
    /// The version that the customer bought, in Apple's text: the build number on iOS; in the sandbox always `1.0`.
    var originalApplicationVersion: String?
    /// The time of the purchase, in milliseconds since 1970; `null` if no document says it.
    @Nullable var originalPurchaseDate: Timestamp?
    /// Whether the purchase gives access by itself. Only a volume purchase ends.
    var hasAccess: Bool
    /// The instant at which access ends or ended, exclusive, in milliseconds since 1970; `null` for no end. See
    /// ``Access/until``.
    @Nullable var accessUntil: Timestamp?
    /// The platform of the first purchase: `iOS`, `macOS`, `tvOS` or `visionOS`; absent in receipts.
    var originalPlatform: Open<PurchasePlatform>?
    /// Apple's word for the kind of receipt, such as `Production`; `ProductionVPP` is a volume purchase.
    var receiptType: String?
    /// True if the configuration refuses the purchase, otherwise absent.
    var refused: Bool?
    /// The number of customers that presented the purchase, if greater than one; not for a client key. See
    /// ``PurchaseStanding/claimants``.
    var claimants: Int?
    /// The name of the document that proves the purchase; not for a client key.
    var evidence: SourceBody?

    init(_ statement: TransactionStatement, _ standing: PurchaseStanding, _ access: Access?, showsEvidence: Bool) {
        appTransactionId = statement.appTransactionId
        environment = standing.environment.rawValue
        originalApplicationVersion = statement.originalApplicationVersion
        originalPurchaseDate = statement.purchaseDate
        hasAccess = access?.isGiven ?? false
        accessUntil = access?.until
        originalPlatform = statement.originalPlatform
        receiptType = statement.receiptType
        refused = standing.refused
        claimants = standing.claimants
        guard showsEvidence else { return }
        evidence = SourceBody(
            statement.provenance, kind: statement.source == .receipt ? "receipt" : "appTransaction")
    }
}

/// The JSON of a stored document's name and signing date.
struct SourceBody: Encodable, Sendable {
    /// The name of the document: `GET /v1/evidence/{id}` returns it.
    var id: String
    /// `receipt`, `signedTransaction` (of which the kind of the evidence is `transaction`) or `appTransaction`; absent
    /// for renewal info.
    var kind: String?
    /// The time at which the App Store signed the document, in milliseconds since 1970; `null` if it has no date.
    @Nullable var signedDate: Timestamp?

    init(_ name: Provenance, kind: String? = nil) {
        id = "\(name)"
        self.kind = kind
        signedDate = name.date
    }
}
