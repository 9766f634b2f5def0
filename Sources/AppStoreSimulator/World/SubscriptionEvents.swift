// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The events of a subscription. Apple's pages of notifications, transactions and renewal info name the fields that an
// event changes. An event that is impossible in the present state throws.

extension SubscriptionChain {
    /// The first purchase in a group: SUBSCRIBED, INITIAL_BUY.
    init(_ sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed) throws(ImpossibleEvent) {
        guard let plan = sale.product.plan else {
            throw ImpossibleEvent(description: "\(sale.product.id) is no subscription")
        }
        transactions = []
        renewal = JWSRenewalInfoDecodedPayload()
        renewal.recentSubscriptionStartDate = now
        add(sale, plan, ids, .purchase, from: now, speed)
    }

    /// The customer comes back after access has ended, to any plan of the group: SUBSCRIBED, RESUBSCRIBE.
    mutating func resubscribe(
        _ sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> NotificationTopic {
        guard let plan = sale.product.plan, !isRunning || isInRetry else { throw impossible("resubscribe") }
        let gap = now.milliseconds - end.milliseconds
        if gap >= speed.ignoredGap { renewal.recentSubscriptionStartDate = now }
        add(sale, plan, ids, .purchase, from: now, speed)
        return NotificationTopic(.subscribed, .resubscribe)
    }

    /// The App Store charged for the next period, at most a day before the period begins: DID_RENEW.
    mutating func renew(
        _ sale: Sale, _ ids: TransactionIds, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> NotificationTopic {
        guard let plan = sale.product.plan, state == .active, isRenewing else { throw impossible("renew") }
        add(sale, plan, ids, .renewal, from: end, speed)
        return NotificationTopic(.didRenew)
    }

    /// A retried charge succeeded: DID_RENEW, BILLING_RECOVERY. In the grace period, the new period begins at the end
    /// of the old one. Without a grace period or after it, the new period begins at the time of the charge.
    mutating func recover(
        _ sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> NotificationTopic {
        guard let plan = sale.product.plan, isInGrace || isInRetry else { throw impossible("recover") }
        let start = isInGrace ? end : now
        if now.milliseconds - end.milliseconds >= speed.ignoredGap { renewal.recentSubscriptionStartDate = now }
        add(sale, plan, ids, .renewal, from: start, speed)
        return NotificationTopic(.didRenew, .billingRecovery)
    }

    /// The charge for the next period failed: DID_FAIL_TO_RENEW, with GRACE_PERIOD if a grace period begins. A further
    /// failure changes nothing.
    mutating func failToRenew(
        graceUntil grace: Timestamp?, retryUntil retry: Timestamp
    ) throws(ImpossibleEvent) -> NotificationTopic {
        if isInGrace { return NotificationTopic(.didFailToRenew, .gracePeriod) }
        if isInRetry { return NotificationTopic(.didFailToRenew) }
        guard state == .active, isRenewing else { throw impossible("fail to renew") }
        renewal.isInBillingRetryPeriod = true
        renewal.expirationIntent = Open(.billingError)
        renewal.gracePeriodExpiresDate = grace
        renewal.eligibleWinBackOfferIds = nil
        state = grace.map { .grace(until: $0) } ?? .retry(until: retry)
        return NotificationTopic(.didFailToRenew, grace == nil ? nil : .gracePeriod)
    }

    /// The grace period is over, and the charge still fails: GRACE_PERIOD_EXPIRED.
    mutating func endGrace(retryUntil retry: Timestamp) throws(ImpossibleEvent) -> NotificationTopic {
        guard isInGrace else { throw impossible("end a grace period") }
        state = .retry(until: retry)
        return NotificationTopic(.gracePeriodExpired)
    }

    /// The subscription ends: EXPIRED.
    mutating func expire(_ intent: ExpirationIntent) throws(ImpossibleEvent) -> NotificationTopic {
        let isPossible =
            switch intent {
            case .noConsentToPriceIncrease, .productNotAvailable: state == .active
            case .billingError: isInRetry
            case .customerCancelled, .other: isRunning
            }
        guard isPossible else { throw impossible("expire") }
        stop(intent)
        let subtypes: [ExpirationIntent: NotificationSubtype] = [
            .customerCancelled: .voluntary, .billingError: .billingRetry, .noConsentToPriceIncrease: .priceIncrease,
            .productNotAvailable: .productNotForSale,
        ]
        return NotificationTopic(.expired, subtypes[intent])
    }

    /// The customer turns renewal off: DID_CHANGE_RENEWAL_STATUS, AUTO_RENEW_DISABLED. In the grace and retry periods
    /// the subscription ends at once. A commitment continues to its last month. If the subscription has already ended,
    /// the notification is the only effect.
    mutating func cancel() throws(ImpossibleEvent) -> NotificationTopic {
        let isOff = !isRenewing || commitment?.isRenewing == false
        guard state != .active || !isOff else { throw impossible("cancel") }
        if isInGrace || isInRetry {
            stop(.customerCancelled)
        } else if state == .active, commitment != nil {
            commitment?.isRenewing = false
            renewal.commitmentInfo = commitment?.renewalInfo
            if commitment?.isLastMonth == true { renewal.autoRenewStatus = Open(.off) }
        } else {
            renewal.autoRenewStatus = Open(.off)
        }
        return NotificationTopic(.didChangeRenewalStatus, .autoRenewDisabled)
    }

    /// The customer turns renewal on again: DID_CHANGE_RENEWAL_STATUS, AUTO_RENEW_ENABLED.
    mutating func resume() throws(ImpossibleEvent) -> NotificationTopic {
        guard state == .active, !isRenewing || commitment?.isRenewing == false else { throw impossible("resume") }
        renewal.autoRenewStatus = Open(.on)
        commitment?.isRenewing = true
        renewal.commitmentInfo = commitment?.renewalInfo
        return NotificationTopic(.didChangeRenewalStatus, .autoRenewEnabled)
    }

    /// The customer moves at once to a plan of a higher level, or of the same level and length:
    /// DID_CHANGE_RENEWAL_PREF, UPGRADE. With an offer: OFFER_REDEEMED, UPGRADE. The notification contains the new
    /// transaction, and not the transaction that ends.
    mutating func upgrade(
        to sale: Sale, _ ids: TransactionIds, at now: Timestamp, _ speed: RenewalSpeed
    ) throws(ImpossibleEvent) -> NotificationTopic {
        guard let plan = sale.product.plan, isRunning else { throw impossible("upgrade") }
        current.isUpgraded = true
        add(sale, plan, ids, .purchase, from: now, speed)
        return NotificationTopic(sale.offer == nil ? .didChangeRenewalPref : .offerRedeemed, .upgrade)
    }

    /// The customer moves to a different plan with the next renewal: DID_CHANGE_RENEWAL_PREF, DOWNGRADE. If the
    /// customer withdraws a pending change, the subtype is absent. With an offer: OFFER_REDEEMED, DOWNGRADE; if the
    /// offer is for the present plan, the subtype is absent.
    ///
    /// A commitment changes its plan when the commitment ends.
    mutating func changeNextPlan(to sale: Sale) throws(ImpossibleEvent) -> NotificationTopic {
        guard isRunning else { throw impossible("change the next plan") }
        guard !isRenewing || sale.offer != nil || renewal.autoRenewProductId != sale.product.id else {
            throw impossible("be bought again: its next plan is \(sale.product.id) already")
        }
        let isPresentPlan = sale.product.id == current.productId
        nextOffer = sale.offer
        if commitment != nil {
            commitment?.nextProduct = sale.product.id
            renewal.commitmentInfo = commitment?.renewalInfo
        }
        if commitment == nil || sale.offer != nil {
            renewal.autoRenewProductId = sale.product.id
            let price = isPresentPlan ? agreedPrice : nil
            announce(offerOfNextRenewal, else: price ?? sale.renewalPrice, sale.storefront)
            renewal.priceIncreaseStatus = isPresentPlan ? priceIncreaseStatus : nil
        }
        let subtype: NotificationSubtype? = isPresentPlan ? nil : .downgrade
        return NotificationTopic(sale.offer == nil ? .didChangeRenewalPref : .offerRedeemed, subtype)
    }

    /// The App Store asks for consent to a higher price: PRICE_INCREASE, PENDING. If no consent is needed, the App
    /// Store only informs the customer: PRICE_INCREASE, ACCEPTED.
    mutating func increasePrice(to price: Int64, needsConsent: Bool) throws(ImpossibleEvent) -> NotificationTopic {
        guard isRunning, isRenewing, renewsPresentPlan, commitment == nil else {
            throw impossible("increase the price of the next period")
        }
        guard needsConsent else { return agree(to: price) }
        askedPrice = price
        priceIncreaseStatus = Open(.pending)
        renewal.priceIncreaseStatus = priceIncreaseStatus
        return NotificationTopic(.priceIncrease, .pending)
    }

    /// The customer agrees to the higher price: PRICE_INCREASE, ACCEPTED.
    mutating func consent() throws(ImpossibleEvent) -> NotificationTopic {
        guard isRunning, lacksConsent, let askedPrice else { throw impossible("consent to a price increase") }
        return agree(to: askedPrice)
    }

    private mutating func agree(to price: Int64) -> NotificationTopic {
        askedPrice = nil
        agreedPrice = price
        priceIncreaseStatus = Open(.agreed)
        renewal.priceIncreaseStatus = priceIncreaseStatus
        // If an offer reduces the next period, its price stays. The new price applies after the offer.
        if offerOfNextRenewal == nil { renewal.renewalPrice = price }
        return NotificationTopic(.priceIncrease, .accepted)
    }

    /// The developer moves the end of the running period: RENEWAL_EXTENDED.
    mutating func extend(until end: Timestamp, at now: Timestamp) throws(ImpossibleEvent) -> NotificationTopic {
        guard state == .active, end > self.end else { throw impossible("extend") }
        current.expiresDate = end
        renewal.renewalDate = end
        extensions.append(now)
        return NotificationTopic(.renewalExtended)
    }

    /// After the purchase, the app sets the token of the customer's account in the app; see Set App Account Token.
    mutating func setAppAccountToken(_ token: String) {
        for index in transactions.indices { transactions[index].appAccountToken = token }
        renewal.appAccountToken = token
    }

    func impossible(_ event: String) -> ImpossibleEvent {
        ImpossibleEvent(description: "A subscription that is \(state) cannot \(event)")
    }

    /// Ends the subscription.
    private mutating func stop(_ intent: ExpirationIntent) {
        state = .expired
        renewal.autoRenewStatus = Open(.off)
        renewal.expirationIntent = Open(intent)
        renewal.isInBillingRetryPeriod = false
        renewal.gracePeriodExpiresDate = nil
        commitment?.isRenewing = false
        renewal.commitmentInfo = nil
    }
}
