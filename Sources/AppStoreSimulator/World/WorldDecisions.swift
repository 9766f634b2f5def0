// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The decisions of customers and developers about subscriptions: renewal, prices, extensions.

extension World {
    /// The customer turns renewal off.
    public mutating func cancel(_ subscription: String) throws(ImpossibleEvent) {
        try change(purchased(subscription)) { chain throws(ImpossibleEvent) in try chain.cancel() }
    }

    /// The customer turns renewal on again.
    public mutating func resume(_ subscription: String) throws(ImpossibleEvent) {
        try change(purchased(subscription)) { chain throws(ImpossibleEvent) in try chain.resume() }
    }

    /// The App Store raises the price of a subscription, in milliunits of its currency.
    public mutating func increasePrice(
        of subscription: String, to price: Int64, needsConsent: Bool
    ) throws(ImpossibleEvent) {
        try change(purchased(subscription)) { chain throws(ImpossibleEvent) in
            try chain.increasePrice(to: price, needsConsent: needsConsent)
        }
    }

    /// The customer agrees to the higher price.
    public mutating func consent(_ subscription: String) throws(ImpossibleEvent) {
        try change(purchased(subscription)) { chain throws(ImpossibleEvent) in try chain.consent() }
    }

    /// The subscription ends: EXPIRED; without subtype for `ExpirationIntent.other`. An active subscription ends with
    /// its period. A subscription with a failed charge ends now.
    public mutating func expire(
        _ subscription: String, _ intent: ExpirationIntent = .other
    ) throws(ImpossibleEvent) {
        if try self.subscription(purchased(subscription)).state == .active {
            subscriptions[subscription]?.plannedEnd = intent
        } else {
            try change(subscription) { chain throws(ImpossibleEvent) in try chain.expire(intent) }
        }
    }

    /// The App Store retries the charge for a failed renewal: DID_RENEW, BILLING_RECOVERY. If the customer still cannot
    /// pay: DID_FAIL_TO_RENEW again.
    public mutating func chargeAgain(_ subscription: String) throws(ImpossibleEvent) {
        let chain = try self.subscription(purchased(subscription))
        guard chain.isInGrace || chain.isInRetry, let name = customer(ofTransaction: subscription)?.name else {
            throw ImpossibleEvent(description: "No charge for subscription \(subscription) has failed")
        }
        guard customers[name]?.canPay != true else { return try fixBilling(of: name) }
        try change(subscription) { chain throws(ImpossibleEvent) in
            try chain.failToRenew(graceUntil: nil, retryUntil: chain.end)
        }
    }

    /// The reason why the App Store does not extend a subscription.
    public enum ExtensionRefusal: Hashable, Sendable {
        /// The subscription is unknown, inactive, past its end or in a free trial, or the customer has not paid for any
        /// period.
        case ineligible
        /// Extended twice within 365 days.
        case tooOften
        /// A family member's subscription. Only the purchaser's subscription can be extended.
        case familyShared
    }

    /// The reason why a subscription cannot be extended now; `nil` if an extension is possible.
    public func extensionRefusal(_ subscription: String) -> ExtensionRefusal? {
        guard let chain = subscriptions[subscription] else { return .ineligible }
        if chain.sharedFrom != nil { return .familyShared }
        let isFree = chain.current.offerDiscountType == .freeTrial
        let hasPaid = chain.transactions.contains { $0.offerDiscountType != .freeTrial }
        guard chain.state == .active, !isFree, hasPaid, now < chain.end else { return .ineligible }
        let year = now.adding(days: -365)
        return chain.extensions.filter { $0 > year }.count >= 2 ? .tooOften : nil
    }

    /// The developer moves the end of the running period by some days. In the sandbox, a day is shortened like periods.
    ///
    /// - Parameter days: 1 to 90.
    /// - Throws: ``ImpossibleEvent`` if ``extensionRefusal(_:)`` returns a reason or the days are out of range.
    public mutating func extend(_ subscription: String, days: Int) throws(ImpossibleEvent) {
        guard extensionRefusal(subscription) == nil, (1...90).contains(days) else {
            throw ImpossibleEvent(description: "Subscription \(subscription) cannot be extended by \(days) days")
        }
        let now = now
        let speed = try speed(of: self.subscription(subscription))
        try change(subscription) { chain throws(ImpossibleEvent) in
            try chain.extend(until: speed.extended(chain.end, byDays: days), at: now)
        }
    }

    /// The developer extends all running subscriptions of a product, except those of family members. Subscriptions in a
    /// grace or retry period are tried too, but refused. An extended subscription gets RENEWAL_EXTENDED, and a refused
    /// one gets RENEWAL_EXTENSION, FAILURE. At the end, RENEWAL_EXTENSION, SUMMARY follows.
    ///
    /// - Parameters:
    ///   - request: `requestIdentifier`, a UUID.
    ///   - countries: ISO 3166-1 alpha-3 codes; `nil` for all countries.
    /// - Returns: The summary.
    @discardableResult
    public mutating func extendAll(
        of product: String, days: Int, in environment: Environment, request: String, countries: [String]? = nil
    ) -> NotificationSummary {
        var summary = NotificationSummary()
        var succeeded: Int64 = 0
        var failed: Int64 = 0
        let concerned = subscriptions.filter { _, chain in
            chain.current.productId == product && chain.current.environment == environment && chain.sharedFrom == nil
                && chain.isRunning && countries?.contains(chain.current.storefront ?? "") != false
        }
        for id in concerned.keys.sorted() {
            do {
                try extend(id, days: days)
                succeeded += 1
            } catch {
                notify(NotificationTopic(.renewalExtension, .failure), ofTransaction: id)
                failed += 1
            }
        }
        summary.environment = Open(environment)
        summary.appAppleId = environment == .production ? catalogue.appAppleId : nil
        summary.bundleId = catalogue.bundleId
        summary.productId = product
        summary.requestIdentifier = request
        summary.storefrontCountryCodes = countries
        summary.succeededCount = succeeded
        summary.failedCount = failed
        occur(NotificationTopic(.renewalExtension, .summary), .summary(summary), of: nil, in: environment)
        return summary
    }

    private func purchased(_ id: String) throws(ImpossibleEvent) -> String {
        guard try subscription(id).sharedFrom == nil else {
            throw ImpossibleEvent(
                description: "Subscription \(id) is a family member's: only the purchaser can change it")
        }
        return id
    }
}
