// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// What can happen to a subscription, event by event. The fields that change follow the table of field effects in Apple's
// documentation of notifications and renewal info; an event that Apple does not know in a state is refused.

/// Why an event is not possible.
public struct ImpossibleEvent: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was tried, and the state that does not allow it.
    public let description: String
}

extension SubscriptionChain {
    /// The first purchase in a group: SUBSCRIBED, INITIAL_BUY.
    init(_ sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed) throws(ImpossibleEvent) {
        guard let plan = sale.product.plan else {
            throw ImpossibleEvent(description: "\(sale.product.id) is no subscription")
        }
        transactions = []
        renewal = JWSRenewalInfoDecodedPayload()
        add(sale, plan, ids, .purchase, from: now, original: nil, speed)
        renewal.recentSubscriptionStartDate = now
    }

    /// A customer comes back after the end, by the same or another plan of the group: SUBSCRIBED, RESUBSCRIBE.
    mutating func resubscribe(
        _ sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> Notice {
        guard let plan = sale.product.plan, state == .expired || state == .revoked || isInRetry else {
            throw impossible("resubscribe")
        }
        let gap = now.milliseconds - end.milliseconds
        add(sale, plan, ids, .purchase, from: now, original: transactions[0], speed)
        // Apple ignores gaps of less than 60 days, in the sandbox of 10 minutes.
        let ignored: Int64 = sale.environment == .production ? 60 * 86_400_000 : 600_000
        if gap >= ignored { renewal.recentSubscriptionStartDate = now }
        return notice(.subscribed, .resubscribe)
    }

    /// The App Store charged for the next period, at most a day before it begins: DID_RENEW.
    mutating func renew(
        _ sale: Sale, _ ids: TransactionIds, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> Notice {
        guard let plan = sale.product.plan, state == .active, isRenewing else { throw impossible("renew") }
        add(sale, plan, ids, .renewal, from: end, original: transactions[0], speed)
        return notice(.didRenew)
    }

    /// The App Store charged after all: DID_RENEW, BILLING_RECOVERY. In the grace period the billing date stays; after it,
    /// the period begins on the day of the charge.
    mutating func recover(
        _ sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> Notice {
        guard let plan = sale.product.plan, isInGrace || isInRetry else { throw impossible("recover") }
        add(sale, plan, ids, .renewal, from: isInGrace ? end : now, original: transactions[0], speed)
        return notice(.didRenew, .billingRecovery)
    }

    /// The charge for the next period failed: DID_FAIL_TO_RENEW, with GRACE_PERIOD if there is one.
    mutating func failToRenew(graceUntil grace: Timestamp?, retryUntil retry: Timestamp) throws(ImpossibleEvent) -> Notice {
        guard state == .active, isRenewing else { throw impossible("fail to renew") }
        renewal.isInBillingRetryPeriod = true
        renewal.expirationIntent = Open(.billingError)
        renewal.gracePeriodExpiresDate = grace
        renewal.eligibleWinBackOfferIds = nil
        state = grace.map { .grace(until: $0) } ?? .retry(until: retry)
        return notice(.didFailToRenew, grace == nil ? nil : .gracePeriod)
    }

    /// The grace period is over and the charge still fails: GRACE_PERIOD_EXPIRED.
    mutating func endGrace(retryUntil retry: Timestamp) throws(ImpossibleEvent) -> Notice {
        guard isInGrace else { throw impossible("end a grace period") }
        state = .retry(until: retry)
        return notice(.gracePeriodExpired)
    }

    /// The subscription ends: EXPIRED.
    mutating func expire(_ intent: ExpirationIntent) throws(ImpossibleEvent) -> Notice {
        let isPossible =
            switch intent {
            case .noConsentToPriceIncrease, .productNotAvailable: state == .active
            case .billingError: isInRetry
            case .customerCancelled, .other: state == .active || isInGrace || isInRetry
            }
        guard isPossible else { throw impossible("expire") }
        stop(intent)
        let subtypes: [ExpirationIntent: NotificationSubtype] = [
            .customerCancelled: .voluntary, .billingError: .billingRetry, .noConsentToPriceIncrease: .priceIncrease,
            .productNotAvailable: .productNotForSale,
        ]
        return notice(.expired, subtypes[intent])
    }

    /// The customer turns renewal off: DID_CHANGE_RENEWAL_STATUS, AUTO_RENEW_DISABLED. In grace and retry that ends the
    /// subscription at once.
    mutating func cancel() throws(ImpossibleEvent) -> Notice {
        guard isRenewing else { throw impossible("cancel") }
        if isInGrace || isInRetry { stop(.customerCancelled) } else { renewal.autoRenewStatus = Open(.off) }
        return notice(.didChangeRenewalStatus, .autoRenewDisabled)
    }

    /// The customer turns renewal on again: DID_CHANGE_RENEWAL_STATUS, AUTO_RENEW_ENABLED.
    mutating func resume() throws(ImpossibleEvent) -> Notice {
        guard state == .active, !isRenewing else { throw impossible("resume") }
        renewal.autoRenewStatus = Open(.on)
        return notice(.didChangeRenewalStatus, .autoRenewEnabled)
    }

    /// The customer moves to a plan of a higher level, or of the same level and length, at once:
    /// DID_CHANGE_RENEWAL_PREF, UPGRADE. The notification brings the new transaction only.
    mutating func upgrade(
        to sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> Notice {
        guard let plan = sale.product.plan, state == .active || isInGrace || isInRetry else { throw impossible("upgrade") }
        current.isUpgraded = true
        add(sale, plan, ids, .purchase, from: now, original: transactions[0], speed)
        return notice(.didChangeRenewalPref, .upgrade)
    }

    /// The customer moves to another plan with the next renewal: DID_CHANGE_RENEWAL_PREF, DOWNGRADE; without subtype if
    /// that withdraws a pending change.
    mutating func changeNextPlan(to product: String, price: Int64) throws(ImpossibleEvent) -> Notice {
        guard state == .active || isInGrace || isInRetry else { throw impossible("change the next plan") }
        renewal.autoRenewProductId = product
        renewal.renewalPrice = price
        return notice(.didChangeRenewalPref, product == current.productId ? nil : .downgrade)
    }

    /// The App Store asks for consent to a higher price: PRICE_INCREASE, PENDING; or informs about it: ACCEPTED.
    mutating func increasePrice(to price: Int64, needsConsent: Bool) throws(ImpossibleEvent) -> Notice {
        guard state == .active, isRenewing else { throw impossible("increase the price") }
        guard needsConsent else { return agree(to: price) }
        askedPrice = price
        renewal.priceIncreaseStatus = Open(.pending)
        return notice(.priceIncrease, .pending)
    }

    /// The customer agrees to the price that was asked for: PRICE_INCREASE, ACCEPTED.
    mutating func consent() throws(ImpossibleEvent) -> Notice {
        guard state == .active, let askedPrice else { throw impossible("consent to a price increase") }
        return agree(to: askedPrice)
    }

    private mutating func agree(to price: Int64) -> Notice {
        renewal.priceIncreaseStatus = Open(.agreed)
        renewal.renewalPrice = price
        askedPrice = nil
        return notice(.priceIncrease, .accepted)
    }

    /// The end of the running period moves: RENEWAL_EXTENDED.
    mutating func extend(until end: Timestamp) throws(ImpossibleEvent) -> Notice {
        guard state == .active, end > self.end else { throw impossible("extend") }
        current.expiresDate = end
        renewal.renewalDate = end
        return notice(.renewalExtended)
    }
}

// MARK: - Steps

extension SubscriptionChain {
    var isInGrace: Bool {
        if case .grace = state { true } else { false }
    }

    var isInRetry: Bool {
        if case .retry = state { true } else { false }
    }

    func notice(_ type: NotificationTypeV2, _ subtype: NotificationSubtype? = nil) -> Notice {
        Notice(type, subtype, current.transactionId)
    }

    private func impossible(_ event: String) -> ImpossibleEvent {
        ImpossibleEvent(description: "A subscription that is \(state) cannot \(event)")
    }

    /// Adds a paid period, with which all trouble ends.
    private mutating func add(
        _ sale: Sale, _ plan: SubscriptionPlan, _ ids: TransactionIds, _ reason: TransactionReason,
        from start: Timestamp, original: JWSTransactionDecodedPayload?, _ speed: RenewalSpeed
    ) {
        let period = sale.offer.map { $0.payment == .payAsYouGo ? $0.period : $0.period.times($0.count) } ?? plan.period
        var transaction = sale.transaction(
            ids.transactionId, original: original, reason: reason, from: start,
            until: speed.end(of: period, from: start))
        transaction.webOrderLineItemId = ids.webOrderLineItemId
        transactions.append(transaction)
        renewals = reason == .renewal ? renewals + 1 : 0
        state = .active
        runningOffer = nextRunningOffer(sale.offer)
        askedPrice = nil
        renewal = renewed(sale, transaction)
    }

    private func nextRunningOffer(_ offer: StoreOffer?) -> RunningOffer? {
        guard let offer, offer.payment == .payAsYouGo else { return nil }
        let left = runningOffer?.offer == offer ? (runningOffer?.paymentsLeft ?? 1) - 1 : offer.count - 1
        return left > 0 ? RunningOffer(offer: offer, paymentsLeft: left) : nil
    }

    /// The renewal info after a charge: on, for the same plan, at the plan's or the offer's price.
    private func renewed(_ sale: Sale, _ transaction: JWSTransactionDecodedPayload) -> JWSRenewalInfoDecodedPayload {
        var info = JWSRenewalInfoDecodedPayload()
        info.originalTransactionId = transaction.originalTransactionId
        info.productId = sale.product.id
        info.autoRenewProductId = sale.product.id
        info.autoRenewStatus = Open(.on)
        info.isInBillingRetryPeriod = false
        info.environment = transaction.environment
        info.recentSubscriptionStartDate = renewal.recentSubscriptionStartDate
        info.renewalDate = transaction.expiresDate
        info.currency = sale.storefront.currency
        info.appTransactionId = sale.appTransactionId
        info.appAccountToken = sale.appAccountToken
        info.renewalPrice = sale.product.price.milliunits(in: sale.storefront)
        if let offer = runningOffer?.offer {
            info.renewalPrice = offer.price.milliunits(in: sale.storefront)
            info.offerType = Open(offer.type)
            info.offerIdentifier = offer.id
            info.offerDiscountType = Open(offer.payment)
            info.offerPeriod = offer.period.times(offer.count).iso8601
        }
        return info
    }

    /// Ends the subscription.
    private mutating func stop(_ intent: ExpirationIntent) {
        state = .expired
        renewal.autoRenewStatus = Open(.off)
        renewal.expirationIntent = Open(intent)
        renewal.isInBillingRetryPeriod = false
        renewal.gracePeriodExpiresDate = nil
    }
}
