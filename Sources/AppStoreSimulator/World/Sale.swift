// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A purchase or renewal, with the circumstances from which the signed transaction follows.
struct Sale: Hashable, Sendable {
    var product: StoreProduct
    /// The offer that reduces the price.
    var offer: StoreOffer?
    var quantity = 1
    /// Whether the customer pays a commitment monthly.
    var isMonthly = false
    /// The price that the customer agreed to, in milliunits; `nil` if the catalogue's price applies.
    var agreedPrice: Int64?
    var bundleId: String
    var environment: Environment
    var storefront: Storefront
    /// The id of the customer's download of the app.
    var appTransactionId: String
    /// The UUID that the app attaches to the purchase.
    var appAccountToken: String?
    var ownership = InAppOwnershipType.purchased

    /// The price of a payment in milliunits, with the offer and the quantity.
    var price: Int64 {
        let one = offer?.price.milliunits(in: storefront) ?? renewalPrice
        let (total, overflows) = one.multipliedReportingOverflow(by: Int64(quantity))
        return overflows ? one : total
    }

    /// The price of a renewal without an offer, in milliunits.
    var renewalPrice: Int64 {
        if isMonthly, let plan = product.plan?.monthly { return plan.price.milliunits(in: storefront) }
        return agreedPrice ?? product.price.milliunits(in: storefront)
    }

    /// The period that a payment covers.
    func period(of plan: SubscriptionPlan) -> Period {
        if let offer { return offer.payment == .payAsYouGo ? offer.period : offer.period.times(offer.count) }
        return isMonthly ? Period(1, .month) : plan.period
    }

    /// The transaction of a purchase or renewal that begins at `start`.
    ///
    /// - Parameter end: The end of the period; `nil` if the product is not a subscription.
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
        payload.appTransactionId = appTransactionId
        // A family member paid nothing. Apple's pages do not document the price for this case, so the price is absent.
        if ownership == .purchased {
            payload.price = price
            payload.currency = storefront.currency
        }
        if product.plan?.monthly != nil { payload.billingPlanType = Open(isMonthly ? .monthly : .billedUpfront) }
        if let offer {
            payload.offerType = Open(offer.type)
            payload.offerIdentifier = offer.id
            payload.offerDiscountType = Open(offer.payment)
            payload.offerPeriod = offer.length?.iso8601
        }
        return payload
    }
}
