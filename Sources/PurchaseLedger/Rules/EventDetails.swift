// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The members of an event's body about its transaction, and about why the transaction's subscription ends or ended.
/// They have the names and values of the answer of `GET /v1/transactions/{id}`. A member is absent if no document says
/// it, and a flag is absent instead of false.
///
/// Only events about payments, and about purchases of the app itself, have all members.
public struct EventDetails: Hashable, Sendable, Decodable {
    /// The kind of product.
    public var type: Open<ProductType>?
    /// Whether the customer bought the product or got it from a family member.
    public var inAppOwnershipType: Open<InAppOwnershipType>?
    /// The number of bought units.
    public var quantity: Int?
    /// The price of all units, in thousandths of ``currency``.
    public var price: Int64?
    /// The ISO 4217 code of the price's currency.
    public var currency: String?
    /// The storefront's country: an ISO 3166-1 alpha-3 code.
    public var storefront: String?
    /// The kind of offer that reduced the price.
    public var offerType: Open<OfferType>?
    /// The offer's id in App Store Connect; for an offer code, the name of the offer there.
    public var offerIdentifier: String?
    /// The payment mode of the offer, such as `FREE_TRIAL`.
    public var offerDiscountType: Open<OfferDiscountType>?
    /// The length of the offer as an ISO 8601 duration, such as `P1M`.
    public var offerPeriod: String?
    /// The time of the refund, or of the loss of shared access.
    public var revocationDate: Timestamp?
    /// The reason for the refund.
    public var revocationReason: Open<RevocationReason>?
    /// Full or prorated refund, or loss of shared access.
    public var revocationType: Open<RevocationType>?
    /// The refunded share in thousandths of a percent.
    public var revocationPercentage: Int?
    /// The reason why the subscription ended or will end.
    public var expirationIntent: Open<ExpirationIntent>?
    /// The end of the grace period that runs.
    public var gracePeriodExpiresDate: Timestamp?
    /// The seats in force of a multi-seat subscription; see ``SubscriptionState/seats``.
    public var seats: Int?

    /// The time of the charge; only in events about payments.
    public var purchaseDate: Timestamp?
    /// The end of the paid period, in events about payments; for a purchase of the app, the end of a volume purchase.
    public var expiresDate: Timestamp?
    /// Whether the customer bought the product or the App Store renewed it; only in events about payments.
    public var transactionReason: Open<TransactionReason>?
    /// True for the period of a free trial.
    public var isTrial: Bool?
    /// True for a paid period that directly follows a free trial. Who shares a period has paid for none.
    public var isTrialConversion: Bool?
    /// The number of the period among the periods of the subscription, from 1; `nil` if an earlier one may be missing.
    public var renewalNumber: Int?
    /// True if the purchase was erased and is presented again.
    public var repeated: Bool?
    /// True if the transaction comes from a backfill.
    public var backfilled: Bool?

    /// The id of the app's purchase; only in events about a purchase of the app itself.
    public var appTransactionId: String?
    /// The time at which the customer bought the app; only in events about a purchase of the app itself.
    public var originalPurchaseDate: Timestamp?
    /// The version of the app that the customer bought.
    public var originalApplicationVersion: String?
    /// The platform of the first purchase.
    public var originalPlatform: Open<PurchasePlatform>?
    /// The kind of receipt in Apple's word, such as `ProductionVPP`.
    public var receiptType: String?

    /// Makes details without members.
    public init() {}

    /// - Parameters:
    ///   - statement: The statement about the event's transaction; `nil` if the transaction is unknown.
    ///   - state: The state of the subscription; `nil` if the purchase is no subscription.
    init(_ statement: TransactionStatement?, _ state: SubscriptionState?) {
        type = statement?.type
        if let app = statement, app.isAppPurchase {
            appTransactionId = app.appTransactionId
            originalPurchaseDate = app.purchaseDate
            originalApplicationVersion = app.originalApplicationVersion
            originalPlatform = app.originalPlatform
            receiptType = app.receiptType
            expiresDate = app.expiresDate
            return
        }
        inAppOwnershipType = statement?.ownership
        quantity = statement?.quantity
        price = statement?.price
        currency = statement?.currency
        storefront = statement?.storefront
        offerType = statement?.offerType
        offerIdentifier = statement?.offerIdentifier
        offerDiscountType = statement?.offerDiscountType
        offerPeriod = statement?.offerPeriod
        revocationDate = statement?.revocation?.date
        revocationReason = statement?.revocation?.reason
        revocationType = statement?.revocation?.type
        revocationPercentage = statement?.revocation?.percentage
        expirationIntent = state?.expirationIntent
        gracePeriodExpiresDate = state?.gracePeriodExpiresDate
        seats = state?.seats
    }

    /// All members about a payment.
    ///
    /// - Parameter place: The place of the transaction among the periods of its subscription; `nil` if unknown.
    init(payment statement: TransactionStatement, at place: PurchaseHistory.Place?) {
        self.init(statement, nil)
        purchaseDate = statement.purchaseDate
        expiresDate = statement.expiresDate
        transactionReason = statement.transactionReason
        isTrial = statement.isTrial ? true : nil
        let isConversion = !statement.isTrial && !statement.isShare && place?.previous?.isTrial == true
        isTrialConversion = isConversion ? true : nil
        renewalNumber = place?.number
    }
}

extension TransactionStatement {
    fileprivate var isTrial: Bool { offerDiscountType == .freeTrial }

    /// Whether somebody else paid: a member of the family, or the payer of a seat. After an erasure, the kind of the
    /// revocation may be all that is known. From a receipt alone, a share looks like a purchase.
    var isShare: Bool {
        ownership == .familyShared || ownership == .assigned
            || revocation?.type == .familyRevoke || revocation?.type == .assignmentRevoke
    }
}

extension EventDetails {
    /// Writes the members into an object.
    func write(to writer: inout JSONWriter) {
        writer.member("type", type?.rawValue)
        writer.member("inAppOwnershipType", inAppOwnershipType?.rawValue)
        writer.member("quantity", quantity.map(Int64.init))
        writer.member("price", price)
        writer.member("currency", currency)
        writer.member("storefront", storefront)
        writer.member("offerType", (offerType?.rawValue).map(Int64.init))
        writer.member("offerIdentifier", offerIdentifier)
        writer.member("offerDiscountType", offerDiscountType?.rawValue)
        writer.member("offerPeriod", offerPeriod)
        writer.member("revocationDate", revocationDate?.milliseconds)
        writer.member("revocationReason", (revocationReason?.rawValue).map(Int64.init))
        writer.member("revocationType", revocationType?.rawValue)
        writer.member("revocationPercentage", revocationPercentage.map(Int64.init))
        writer.member("expirationIntent", (expirationIntent?.rawValue).map(Int64.init))
        writer.member("gracePeriodExpiresDate", gracePeriodExpiresDate?.milliseconds)
        writer.member("seats", seats.map(Int64.init))
        writer.member("purchaseDate", purchaseDate?.milliseconds)
        writer.member("expiresDate", expiresDate?.milliseconds)
        writer.member("transactionReason", transactionReason?.rawValue)
        writer.member("isTrial", isTrial)
        writer.member("isTrialConversion", isTrialConversion)
        writer.member("renewalNumber", renewalNumber.map(Int64.init))
        writer.member("repeated", repeated)
        writer.member("backfilled", backfilled)
        writer.member("appTransactionId", appTransactionId)
        writer.member("originalPurchaseDate", originalPurchaseDate?.milliseconds)
        writer.member("originalApplicationVersion", originalApplicationVersion)
        writer.member("originalPlatform", originalPlatform?.rawValue)
        writer.member("receiptType", receiptType)
    }

    /// A digest of the members (FNV-1a, 64 bits), by which a report notices that they changed. It need not resist an
    /// attacker: who could choose the members could only keep an update of their own purchase from being published.
    ///
    /// - Parameter text: What answers show and events do not.
    func digest(besides text: String?) -> Int64 {
        var writer = JSONWriter(reservingCapacity: 512)
        writer.object { write(to: &$0) }
        let digest = (writer.bytes + (text ?? "").utf8).reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
            ($0 ^ UInt64($1)) &* 0x100_0000_01b3
        }
        return Int64(bitPattern: digest)
    }
}

extension JSONWriter {
    /// Writes a name and a number, if `number` is not `nil`.
    mutating func member(_ name: StaticString, _ number: Int64?) {
        guard let number else { return }
        member(name, number: number)
    }

    fileprivate mutating func member(_ name: StaticString, _ flag: Bool?) {
        guard let flag else { return }
        self.name(name)
        bool(flag)
    }
}
