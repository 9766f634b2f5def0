// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The ledger's facts about a transaction.
///
/// A fact keeps the newest statement of a signed transaction and the newest statement of a receipt. `current` combines
/// both, because a receipt lacks many fields of a signed transaction. Merging is commutative, associative and
/// idempotent, so that neither the order of arrival nor a duplicate nor a replay can change the outcome.
public struct TransactionFact: Hashable, Sendable {
    /// The key and the statements, behind a reference. Statements are large, and each step of a commit copies records.
    /// With the reference, a copy of a fact copies no statement.
    @usableFromInline private(set) var content: Content

    /// Makes a fact from the statement of its first document.
    package init(_ key: TransactionKey, _ statement: consuming TransactionStatement) {
        switch statement.source.known {
        case .signedTransaction: content = Content(key, statement, nil)
        case .receipt: content = Content(key, nil, statement)
        case nil: content = Content(key, nil, nil, [statement])
        }
    }

    /// The transaction in its scope.
    @inlinable public var key: TransactionKey { content.key }

    /// The newest statement of a signed transaction (JWS).
    @inlinable public var signed: TransactionStatement? { content.signed }

    /// The newest statement of a receipt: an app receipt or a transaction receipt.
    @inlinable public var receipt: TransactionStatement? { content.receipt }

    /// The newest statement from each kind of document unknown to this version, ordered by the kind. These statements
    /// are kept for the version that knows the kind, and no rule of this version reads them.
    package var others: [TransactionStatement] { content.others }

    /// Merges the statement of a further document. Of two statements from the same kind of document, the newer
    /// statement stays, with what it does not say from the older (``TransactionStatement/olderMembers``).
    public mutating func merge(_ statement: TransactionStatement) {
        switch statement.source.known {
        case .signedTransaction: content = Content(key, newer(signed, statement), receipt, others)
        case .receipt: content = Content(key, signed, newer(receipt, statement), others)
        case nil:
            let old = others.first { $0.source == statement.source }
            let rest = others.filter { $0.source != statement.source } + [newer(old, statement)]
            content = Content(key, signed, receipt, rest.sorted { $0.source.rawValue < $1.source.rawValue })
        }
    }

    private func newer(_ old: TransactionStatement?, _ new: TransactionStatement) -> TransactionStatement {
        old?.merged(with: new) ?? new
    }

    /// The newest statement of each kind of document.
    package var statements: [TransactionStatement] { [signed, receipt].compactMap(\.self) + others }

    /// The number of statements, without copying them.
    package var statementCount: Int { content.statementCount }

    /// The newer of the signed transaction's and the receipt's statement. If the receipt's statement is newer, the
    /// signed transaction supplies the fields that the receipt lacks, such as the group, the account, the ownership,
    /// the price, an upgrade, and the details of a revocation.
    package var current: TransactionStatement? {
        guard let receipt else { return signed }
        guard let signed else { return receipt }
        let isReceiptNewer = receipt.provenance.signedDate > signed.provenance.signedDate
        var current = isReceiptNewer ? receipt.completed(by: signed) : signed
        current.knownSince = earliest(receipt.knownSince, signed.knownSince)
        return current
    }

    /// Whether the present statement is a receipt's, and only the receipt reports the transaction as cancelled.
    /// Receipts use the same field for a refund and for an upgrade.
    var isCancelledByReceiptAlone: Bool {
        guard let receipt, receipt.revocation != nil, signed?.revocation == nil else { return false }
        return current?.source == .receipt
    }
}

extension TransactionFact {
    /// The content of a fact. Several facts can share a content, because a content never changes.
    @usableFromInline final class Content: Hashable, Sendable {
        @usableFromInline let key: TransactionKey
        @usableFromInline let signed: TransactionStatement?
        @usableFromInline let receipt: TransactionStatement?
        let others: [TransactionStatement]
        let statementCount: Int

        init(
            _ key: TransactionKey, _ signed: consuming TransactionStatement?,
            _ receipt: consuming TransactionStatement?, _ others: [TransactionStatement] = []
        ) {
            self.key = key
            statementCount = (signed == nil ? 0 : 1) + (receipt == nil ? 0 : 1) + others.count
            self.signed = signed
            self.receipt = receipt
            self.others = others
        }

        @usableFromInline static func == (left: Content, right: Content) -> Bool {
            left === right
                || left.key == right.key && left.signed == right.signed && left.receipt == right.receipt
                    && left.others == right.others
        }

        @usableFromInline func hash(into hasher: inout Hasher) {
            hasher.combine(key)
            hasher.combine(signed)
            hasher.combine(receipt)
            hasher.combine(others)
        }
    }
}

/// The earlier of two instants; the known instant if only one is known; `nil` if both are unknown.
func earliest(_ left: Timestamp?, _ right: Timestamp?) -> Timestamp? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
}

/// A document's statement about a transaction: the fields read by rules and reports.
public struct TransactionStatement: Hashable, Sendable {
    /// The kinds of documents that make statements about transactions.
    public enum Source: Int, Storable, Sendable {
        case signedTransaction = 0
        case receipt = 1
    }

    /// The kind of the document. A newer version may have stored a kind unknown to this version.
    public var source: Open<Source>
    /// The document and its signing date.
    public var provenance: Provenance
    /// The signing date of the first document of this kind about the transaction. In `TransactionFact.current`, signed
    /// transactions and receipts count together. `nil` if no such document has a date.
    public var knownSince: Timestamp?
    /// The transaction id: a string of digits.
    public var transactionId: String
    /// The name of the chain that has the statement; see ``ChainKey/name``.
    public var chainName: String
    /// The name of the chain in the document, if it is not ``chainName``; see ``Chain/counts(_:)``. The document may
    /// name a predecessor of the chain (``Chain/predecessors``), or a different chain.
    public var otherChain: String?
    /// The product id, as in App Store Connect.
    public var productId: String
    /// The kind of product; `nil` if the document does not say.
    public var type: Open<ProductType>?
    /// The subscription's group; `nil` for other products, or if only a receipt is known.
    public var subscriptionGroup: String?
    /// The time of the charge; `nil` if the document does not say.
    public var purchaseDate: Timestamp?
    /// The end of the period, for auto-renewable subscriptions only.
    public var expiresDate: Timestamp?
    /// The number of bought units, usually 1. Never negative.
    public var quantity: Int
    /// Whether the customer upgraded to a different subscription. The upgraded transaction then no longer counts.
    public var isUpgraded: Bool
    /// The refund, or the loss of shared access; `nil` without either.
    public var revocation: Revocation?
    /// Whether the customer bought the product or got it from a family member.
    public var ownership: Open<InAppOwnershipType>?
    /// The app's account for the purchase. A UUID is in lowercase.
    public var appAccountToken: String?
    /// The kind of offer that reduced the price; `nil` without an offer.
    public var offerType: Open<OfferType>?
    /// The offer's id in App Store Connect; `nil` without an offer, and for introductory offers.
    public var offerIdentifier: String?
    /// The payment mode of the offer; `nil` without an offer.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// The length of the offer as an ISO 8601 duration, such as `P1M`; `nil` without an offer.
    public var offerPeriod: String?
    /// The id of a subscription's purchase event, the same on all devices. The text is stored as it is in the document,
    /// and may mean "no id"; see ``lineItem``.
    public var webOrderLineItemId: String?
    /// Whether the customer bought the product or the App Store renewed it. A receipt does not say, but the first
    /// transaction of a chain is always a purchase.
    public var transactionReason: Open<TransactionReason>?

    /// The price in thousandths of ``currency``. The price is for reports; no rule reads it.
    public var price: Int64?
    /// The ISO 4217 code of the price's currency.
    public var currency: String?
    /// The storefront's country: an ISO 3166-1 alpha-3 code.
    public var storefront: String?
    /// The commitment to which the payment belongs; `nil` without a commitment.
    public var commitment: Commitment?
    /// The number of revoked seats of a multi-seat subscription; `nil` for all other purchases.
    public var revokedSeats: Int?

    /// The version of the app that the customer bought, in Apple's text; only for a purchase of the app itself
    /// (``isAppPurchase``), as are the next two members.
    public var originalApplicationVersion: String?
    /// The platform of the app's first purchase; `nil` in a receipt.
    public var originalPlatform: Open<PurchasePlatform>?
    /// The kind of receipt in Apple's word, such as `Production` or `ProductionVPP`. A signed app transaction states
    /// only the environment.
    public var receiptType: String?

    /// Which members are from an older document, because the newest does not have them, with the signing date of that
    /// document.
    public var olderMembers = MemberDates()

    /// The transaction id of the chain's first purchase: a string of digits.
    public var originalTransactionId: String { ChainName.originalTransactionId(in: chainName) }

    /// Makes a statement without the optional fields.
    ///
    /// - Parameter chain: The name of the chain; see ``ChainKey/name``.
    public init(
        source: Source, provenance: Provenance, transactionId: String, chain: String, productId: String
    ) {
        self.source = Open(source)
        self.provenance = provenance
        knownSince = provenance.date
        self.transactionId = transactionId
        chainName = chain
        self.productId = productId
        quantity = 1
        isUpgraded = false
    }

    /// A refund, or the loss of shared access.
    public struct Revocation: Hashable, Sendable {
        /// The time of the refund or of the loss of access.
        public var date: Timestamp
        /// The reason for the revocation; `nil` if the document does not say.
        public var reason: Open<RevocationReason>?
        /// Full or prorated refund, or loss of shared access; `nil` in documents from before 2025.
        public var type: Open<RevocationType>?
        /// The refunded share in thousandths of a percent: 100000 is a full refund. `nil` if the document does not say.
        public var percentage: Int?

        public init(
            date: Timestamp, reason: Open<RevocationReason>? = nil, type: Open<RevocationType>? = nil,
            percentage: Int? = nil
        ) {
            self.date = date
            self.reason = reason
            self.type = type
            self.percentage = percentage
        }
    }

    /// A commitment of several monthly payments. The commitment itself grants no access: each payment grants access for
    /// its own month.
    public struct Commitment: Hashable, Sendable {
        /// The number of this payment within the commitment, from 1.
        public var billingPeriodNumber: Int
        /// The number of payments in the commitment.
        public var totalBillingPeriods: Int?
        /// The end of the commitment.
        public var expiresDate: Timestamp?
        /// The total price of all payments, in thousandths of the purchase's ``TransactionStatement/currency``.
        public var price: Int64?

        public init(billingPeriodNumber: Int) {
            self.billingPeriodNumber = billingPeriodNumber
        }
    }

    /// The id of a subscription's purchase event, from ``webOrderLineItemId``; `nil` if there is none.
    public var lineItem: String? { webOrderLineItemId.orNone }

    /// Whether the statement is about a period of an auto-renewable subscription. Old receipts lack the product's type.
    /// The expiration date then decides, because only auto-renewable subscriptions have one in a receipt.
    public var isSubscription: Bool {
        type.map { $0 == .autoRenewableSubscription } ?? (expiresDate != nil)
    }
}

// MARK: - Stored fields

extension TransactionStatement: StoredFields {
    @usableFromInline package static let blank = TransactionStatement(
        source: .signedTransaction, provenance: .blank, transactionId: "", chain: "", productId: "")

    /// All fields except `chainName`, because the chain's key contains the name. A new field needs a new column in each
    /// storage.
    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("transactionId", &transactionId)
        try coder.field("source", &source)
        try coder.field("signedDate", &provenance.signedDate)
        try coder.field("evidence", &provenance.digest)
        try coder.field("productId", &productId)
        try coder.field("type", &type)
        try coder.field("subscriptionGroup", &subscriptionGroup)
        try coder.field("purchaseDate", &purchaseDate)
        try coder.field("expiresDate", &expiresDate)
        try coder.field("quantity", &quantity)
        try coder.field("isUpgraded", &isUpgraded)
        try coder.group(&revocation)
        try coder.field("ownership", &ownership)
        try coder.field("appAccountToken", &appAccountToken)
        try coder.field("offerType", &offerType)
        try coder.field("webOrderLineItemId", &webOrderLineItemId)
        try coder.field("transactionReason", &transactionReason)
        try coder.field("knownSince", &knownSince)
        try coder.field("price", &price)
        try coder.field("currency", &currency)
        try coder.field("offerIdentifier", &offerIdentifier)
        try coder.field("offerDiscountType", &offerDiscountType)
        try coder.field("offerPeriod", &offerPeriod)
        try coder.field("storefront", &storefront)
        try coder.group(&commitment)
        try coder.field("revokedSeats", &revokedSeats)
        try coder.field("originalApplicationVersion", &originalApplicationVersion)
        try coder.field("originalPlatform", &originalPlatform)
        try coder.field("receiptType", &receiptType)
        try coder.field("olderMembers", &olderMembers)
        try coder.field("otherChain", &otherChain)
    }
}

extension TransactionStatement.Commitment: StoredFields {
    @usableFromInline package static let blank = Self(billingPeriodNumber: 0)

    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("commitmentPeriod", &billingPeriodNumber)
        try coder.field("commitmentPeriods", &totalBillingPeriods)
        try coder.field("commitmentExpiresDate", &expiresDate)
        try coder.field("commitmentPrice", &price)
    }
}

extension TransactionStatement.Revocation: StoredFields {
    @usableFromInline package static let blank = Self(date: .distantPast)

    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("revocationDate", &date)
        try coder.field("revocationReason", &reason)
        try coder.field("revocationType", &type)
        try coder.field("revocationPercentage", &percentage)
    }
}

// MARK: - What documents say

extension TransactionStatement {
    /// Reads a statement from a payload.
    ///
    /// - Parameters:
    ///   - payload: The payload of a signed transaction, or a purchase in a receipt, converted to the same form.
    ///   - source: The kind of the payload's document.
    ///   - provenance: The payload's document. A document without a signing date counts as signed at the beginning of
    ///     time.
    ///   - environment: The environment of the purchase.
    /// - Returns: `nil` if the payload names no transaction or no product.
    public init?(
        _ payload: JWSTransactionDecodedPayload, source: Source, provenance: Provenance, in environment: Environment
    ) {
        guard let transactionId = payload.transactionId, let productId = payload.productId else { return nil }
        let chain = ChainName.name(payload, transactionId, in: environment)
        self.init(
            source: source, provenance: provenance, transactionId: transactionId, chain: chain, productId: productId)
        type = payload.type
        subscriptionGroup = payload.subscriptionGroupIdentifier
        purchaseDate = payload.purchaseDate
        expiresDate = payload.expiresDate
        quantity = max(0, payload.quantity ?? 1)
        isUpgraded = payload.isUpgraded ?? false
        revocation = payload.revocationDate.map { date in
            Revocation(
                date: date, reason: payload.revocationReason, type: payload.revocationType,
                percentage: payload.revocationPercentage)
        }
        ownership = payload.inAppOwnershipType
        appAccountToken = payload.appAccountToken?.normalizedAccountToken
        offerType = payload.offerType
        offerIdentifier = payload.offerIdentifier
        offerDiscountType = payload.offerDiscountType
        offerPeriod = payload.offerPeriod
        webOrderLineItemId = payload.webOrderLineItemId
        transactionReason = payload.transactionReason
        price = payload.price
        currency = payload.currency
        storefront = payload.storefront
        commitment = payload.commitmentInfo.flatMap { Commitment($0) }
        revokedSeats = payload.multiSeatInfo.map { $0.revokedSeatQuantity ?? 0 }
    }

    /// A receipt's statement, completed with the signed transaction's values for fields that the receipt lacks.
    fileprivate func completed(by signed: TransactionStatement) -> TransactionStatement {
        var statement = completed(with: signed)
        // The signed transaction has the milliseconds. If only they differ, a later receipt changes nothing.
        if let date = signed.purchaseDate, purchaseDate?.isNear(date) ?? false { statement.purchaseDate = date }
        if let date = signed.expiresDate, expiresDate?.isNear(date) ?? false { statement.expiresDate = date }
        statement.isUpgraded = signed.isUpgraded
        // A receipt gives an upgraded period a cancellation date, as if the period had been refunded.
        if signed.isUpgraded, signed.revocation == nil { statement.revocation = nil }
        // Receipts do not report refunds of consumables, so the refund in a signed transaction stays.
        if let revoked = signed.revocation, revocation != nil || statement.type == .consumable {
            statement.revocation = revoked
        }
        return statement
    }
}

extension TransactionStatement.Commitment {
    /// - Returns: `nil` if the payload lacks the number of the payment.
    fileprivate init?(_ payload: TransactionCommitmentInfo) {
        guard let number = payload.billingPeriodNumber else { return nil }
        self.init(billingPeriodNumber: number)
        totalBillingPeriods = payload.totalBillingPeriods
        expiresDate = payload.commitmentExpiresDate
        price = payload.commitmentPrice
    }
}
