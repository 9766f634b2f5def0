// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// What a customer is about to buy, with all that the App Store signs of the circumstances.
struct Sale: Hashable, Sendable {
    var product: StoreProduct
    /// The offer that reduces the price.
    var offer: StoreOffer?
    var quantity = 1
    var bundleId: String
    var environment: Environment
    var storefront: Storefront
    /// The customer's download of the app.
    var appTransactionId: String
    /// The UUID that the app attaches.
    var appAccountToken: String?
    var ownership = InAppOwnershipType.purchased

    /// The price of one payment in milliunits, offer and quantity counted in.
    var price: Int64 { (offer?.price ?? product.price).milliunits(in: storefront) * Int64(quantity) }

    /// The transaction of a purchase or renewal that begins at `start`.
    ///
    /// - Parameter end: The end of the period; `nil` for what is no subscription.
    func transaction(
        _ id: String, original: JWSTransactionDecodedPayload?, reason: TransactionReason, from start: Timestamp,
        until end: Timestamp?
    ) -> JWSTransactionDecodedPayload {
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = id
        payload.originalTransactionId = original?.originalTransactionId ?? id
        payload.bundleId = bundleId
        payload.productId = product.id
        payload.subscriptionGroupIdentifier = product.plan?.group
        payload.purchaseDate = start
        payload.originalPurchaseDate = original?.originalPurchaseDate ?? start
        payload.expiresDate = end
        payload.quantity = quantity
        payload.type = Open(product.type)
        payload.appAccountToken = appAccountToken
        payload.inAppOwnershipType = Open(ownership)
        payload.environment = Open(environment)
        payload.storefront = storefront.country
        payload.storefrontId = storefront.id
        payload.transactionReason = Open(reason)
        payload.price = price
        payload.currency = storefront.currency
        payload.appTransactionId = appTransactionId
        if let offer {
            payload.offerType = Open(offer.type)
            payload.offerIdentifier = offer.id
            payload.offerDiscountType = Open(offer.payment)
            payload.offerPeriod = offer.period.times(offer.count).iso8601
        }
        return payload
    }
}

/// How fast subscriptions go: as on the calendar, or as in the sandbox, where a month takes minutes.
public struct RenewalSpeed: Hashable, Sendable {
    /// Minutes that a month takes; `nil` for real time.
    private let monthMinutes: Int64?
    /// Minutes that a week takes.
    private let weekMinutes: Int64

    /// As on the calendar.
    public static let realTime = RenewalSpeed(monthMinutes: nil, weekMinutes: 0)
    /// The sandbox's own speed: a month takes five minutes.
    public static let fiveMinutes = RenewalSpeed(monthMinutes: 5, weekMinutes: 3)
    public static let fifteenMinutes = RenewalSpeed(monthMinutes: 15, weekMinutes: 5)
    public static let thirtyMinutes = RenewalSpeed(monthMinutes: 30, weekMinutes: 10)
    public static let oneHour = RenewalSpeed(monthMinutes: 60, weekMinutes: 15)

    /// The end of a subscription's period that begins at `start`.
    ///
    /// A day has no length of its own in Apple's table: it is a seventh of a week.
    func end(of period: Period, from start: Timestamp) -> Timestamp {
        guard let monthMinutes else { return period.end(from: start) }
        let count = Int64(period.count)
        let milliseconds: Int64 =
            switch period.unit {
            case .day: count * weekMinutes * 60_000 / 7
            case .week: count * weekMinutes * 60_000
            case .month: count * monthMinutes * 60_000
            case .year: count * 12 * monthMinutes * 60_000
            }
        return Timestamp(milliseconds: start.milliseconds + milliseconds)
    }

    /// How long the App Store charges again after a failed charge: 60 days, or twice an accelerated month.
    func retryEnd(from start: Timestamp) -> Timestamp {
        guard let monthMinutes else { return start.adding(days: 60) }
        return Timestamp(milliseconds: start.milliseconds + 2 * monthMinutes * 60_000)
    }

    /// The end of a grace period: half of an accelerated month in the sandbox.
    func graceEnd(_ days: GraceDays, of period: Period, from start: Timestamp) -> Timestamp {
        guard let monthMinutes else { return days.period(after: period).end(from: start) }
        return Timestamp(milliseconds: start.milliseconds + monthMinutes * 30_000)
    }
}
