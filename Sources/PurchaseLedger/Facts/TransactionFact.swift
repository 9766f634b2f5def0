// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What the ledger knows about one transaction.
///
/// It keeps the newest word of a signed transaction and the newest word of a receipt, since each knows things that the
/// other has no words for. ``current`` is what both say together. Merging is commutative, associative and idempotent, so
/// that no order of arrival, no duplicate and no replay can change the outcome.
public struct TransactionFact: Hashable, Sendable {
    public let key: TransactionKey
    /// The newest signed transaction (JWS).
    public private(set) var signed: TransactionStatement?
    /// The newest app receipt, or transaction receipt, that has it.
    public private(set) var receipt: TransactionStatement?

    public init(_ key: TransactionKey, signed: TransactionStatement? = nil, receipt: TransactionStatement? = nil) {
        self.key = key
        self.signed = signed
        self.receipt = receipt
    }

    /// Takes in what another document says. Of two from the same kind of document the newer one stays.
    public mutating func merge(_ statement: TransactionStatement) {
        switch statement.source {
        case .signedTransaction: signed = newer(signed, statement)
        case .receipt: receipt = newer(receipt, statement)
        }
    }

    private func newer(_ known: TransactionStatement?, _ new: TransactionStatement) -> TransactionStatement {
        guard let known else { return new }
        var newer = known.provenance > new.provenance ? known : new
        newer.knownSince = earliest(known.knownSince, new.knownSince)
        return newer
    }

    /// Both words.
    package var statements: [TransactionStatement] { [signed, receipt].compactMap(\.self) }

    /// The rule: what the newer of the two says holds. Where that is the receipt, the signed transaction still speaks about
    /// what receipts have no words for: the group, the account, who owns it, an upgrade, why it was revoked.
    package var current: TransactionStatement? {
        guard let receipt else { return signed }
        guard let signed else { return receipt }
        let isReceiptNewer = receipt.provenance.signedDate > signed.provenance.signedDate
        var current = isReceiptNewer ? receipt.completed(by: signed) : signed
        current.knownSince = earliest(receipt.knownSince, signed.knownSince)
        return current
    }

    /// Whether only a receipt says that this was taken back. A receipt has one word for a refund and for an upgrade.
    var isCancelledByReceiptAlone: Bool {
        guard let receipt, receipt.revocation != nil, signed?.revocation == nil else { return false }
        return current?.source == .receipt
    }
}

/// The earlier of two instants, of which either may be unknown.
func earliest(_ left: Timestamp?, _ right: Timestamp?) -> Timestamp? {
    guard let left, let right else { return left ?? right }
    return min(left, right)
}

/// What one document says about a transaction, as far as it decides anything.
public struct TransactionStatement: Hashable, Sendable {
    /// The kind of document that says it.
    public enum Source: Int, Sendable {
        case signedTransaction = 0
        case receipt = 1
    }

    public var source: Source
    public var provenance: Provenance
    /// The earliest date at which a document of this kind with this transaction was signed; `nil` if none says its date.
    public var knownSince: Timestamp?
    public var transactionId: String
    public var originalTransactionId: String
    public var productId: String
    public var type: Open<ProductType>?
    public var subscriptionGroup: String?
    public var purchaseDate: Timestamp?
    /// Auto-renewable subscriptions only.
    public var expiresDate: Timestamp?
    public var quantity: Int
    /// The customer upgraded to another subscription, which now counts in place of this.
    public var isUpgraded: Bool
    public var revocation: Revocation?
    public var ownership: Open<InAppOwnershipType>?
    /// A UUID in small letters: it is the same in either.
    public var appAccountToken: String?
    public var offerType: Open<OfferType>?
    public var webOrderLineItemId: String?
    /// Whether the customer bought it or the App Store renewed it. Receipts do not say.
    public var transactionReason: Open<TransactionReason>?

    /// In thousandths of ``currency``. It decides nothing; charts and reports need it.
    public var price: Int64?
    /// Of the price, as ISO 4217 calls it.
    public var currency: String?

    /// The least that a statement says, as storages need it.
    public init(
        source: Source, provenance: Provenance, transactionId: String, originalTransactionId: String, productId: String
    ) {
        self.source = source
        self.provenance = provenance
        knownSince = provenance.date
        self.transactionId = transactionId
        self.originalTransactionId = originalTransactionId
        self.productId = productId
        quantity = 1
        isUpgraded = false
    }

    /// How a purchase was taken back.
    public struct Revocation: Hashable, Sendable {
        public var date: Timestamp
        public var reason: Open<RevocationReason>?
        public var type: Open<RevocationType>?
        /// In thousandths of a percent: 100000 is all of it. `nil` where the document does not say.
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

    /// Whether it is a period of an auto-renewable subscription. Receipts of old did not say what kind of product it is,
    /// but only such subscriptions have an end there.
    public var isSubscription: Bool {
        type.map { $0 == .autoRenewableSubscription } ?? (expiresDate != nil)
    }
}

extension TransactionStatement {
    /// What it says about the purchase alone.
    var withoutNames: TransactionStatement {
        var statement = self
        (statement.appAccountToken, statement.offerType) = (nil, nil)
        (statement.price, statement.currency) = (nil, nil)
        return statement
    }

    /// Reads what decides from a payload; `nil` where it names no transaction or product, so that it says nothing.
    ///
    /// - Parameter provenance: The document that the payload is from. A payload that does not say when it was signed counts
    ///   from the beginning of time.
    public init?(_ payload: JWSTransactionDecodedPayload, source: Source, provenance: Provenance) {
        guard let transactionId = payload.transactionId, let productId = payload.productId else { return nil }
        self.init(
            source: source, provenance: provenance, transactionId: transactionId,
            originalTransactionId: payload.originalTransactionId ?? transactionId, productId: productId)
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
        webOrderLineItemId = payload.webOrderLineItemId
        transactionReason = payload.transactionReason
        price = payload.price
        currency = payload.currency
    }

    /// A receipt's statement with what only a signed transaction can say.
    fileprivate func completed(by signed: TransactionStatement) -> TransactionStatement {
        var statement = self
        statement.type = type ?? signed.type
        statement.subscriptionGroup = subscriptionGroup ?? signed.subscriptionGroup
        statement.ownership = ownership ?? signed.ownership
        statement.appAccountToken = appAccountToken ?? signed.appAccountToken
        statement.offerType = offerType ?? signed.offerType
        statement.webOrderLineItemId = webOrderLineItemId ?? signed.webOrderLineItemId
        statement.transactionReason = transactionReason ?? signed.transactionReason
        statement.price = price ?? signed.price
        statement.currency = currency ?? signed.currency
        statement.isUpgraded = signed.isUpgraded
        // A receipt gives an upgraded period a cancellation date as if it had been refunded.
        if signed.isUpgraded, signed.revocation == nil { statement.revocation = nil }
        // Nor has it a word for the refund of a consumable, so that its silence does not mean that there was none.
        if let known = signed.revocation, revocation != nil || statement.type == .consumable {
            statement.revocation = known
        }
        return statement
    }
}
