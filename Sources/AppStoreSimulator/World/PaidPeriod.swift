// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A paid period, from the first purchase, a renewal or a change of plan: its transaction, and the renewal info about
// the next period.

extension SubscriptionChain {
    /// Adds a paid period. The subscription becomes active.
    mutating func add(
        _ sale: Sale, _ plan: SubscriptionPlan, _ ids: TransactionIds, _ reason: TransactionReason,
        from start: Timestamp, _ speed: RenewalSpeed
    ) {
        let end = speed.end(of: sale.period(of: plan), from: start)
        let delay = transactions.isEmpty ? 0 : max(0, start.milliseconds - self.end.milliseconds)
        commitment = commitment(of: sale, plan, reason, from: start, delayedBy: delay, speed)
        var transaction = sale.transaction(
            ids.transactionId, original: transactions.first, reason: reason, from: start, until: end)
        transaction.webOrderLineItemId = ids.webOrderLineItemId
        transaction.commitmentInfo = commitment?.transactionInfo
        transactions.append(transaction)
        renewals = reason == .renewal ? renewals + 1 : 0
        state = .active
        runningOffer = offerThatGoesOn(after: sale.offer)
        nextOffer = nil
        askedPrice = nil
        priceIncreaseStatus = nil
        plannedEnd = nil
        agreedPrice = sale.agreedPrice
        renewal = renewalInfo(after: sale, transaction)
        announce(runningOffer?.offer, else: sale.renewalPrice, sale.storefront)
    }

    /// Sets the price and the offer of the next period in the renewal info.
    mutating func announce(_ offer: StoreOffer?, else price: Int64, _ storefront: Storefront) {
        renewal.renewalPrice = offer?.price.milliunits(in: storefront) ?? price
        renewal.offerType = offer.map { Open($0.type) }
        renewal.offerIdentifier = offer?.id
        renewal.offerDiscountType = offer.map { Open($0.payment) }
        renewal.offerPeriod = offer?.length?.iso8601
    }

    private func commitment(
        of sale: Sale, _ plan: SubscriptionPlan, _ reason: TransactionReason, from start: Timestamp,
        delayedBy delay: Int64, _ speed: RenewalSpeed
    ) -> Commitment? {
        guard sale.isMonthly, let monthly = plan.monthly else { return nil }
        let end = speed.end(of: Period(Commitment.months, .month), from: start)
        if reason == .renewal, let commitment { return commitment.next(delayedBy: delay, endOfNew: end) }
        return Commitment(
            end: end, price: monthly.commitmentPrice.milliunits(in: sale.storefront), nextProduct: sale.product.id)
    }

    private func offerThatGoesOn(after offer: StoreOffer?) -> RunningOffer? {
        guard let offer, offer.payment == .payAsYouGo else { return nil }
        let left = runningOffer?.offer == offer ? (runningOffer?.paymentsLeft ?? 1) - 1 : offer.count - 1
        return left > 0 ? RunningOffer(offer: offer, paymentsLeft: left) : nil
    }

    /// The renewal info after a charge. Renewal is on, for the same product. In the last month of a commitment, the
    /// customer's choice for the next commitment decides instead whether the subscription renews, and for which
    /// product.
    private func renewalInfo(
        after sale: Sale, _ transaction: JWSTransactionDecodedPayload
    ) -> JWSRenewalInfoDecodedPayload {
        var info = JWSRenewalInfoDecodedPayload()
        info.originalTransactionId = transaction.originalTransactionId
        info.productId = sale.product.id
        let last = commitment.flatMap { $0.isLastMonth ? $0 : nil }
        info.autoRenewProductId = last?.nextProduct ?? sale.product.id
        info.autoRenewStatus = Open(last?.isRenewing == false ? .off : .on)
        info.isInBillingRetryPeriod = false
        info.environment = transaction.environment
        info.recentSubscriptionStartDate = renewal.recentSubscriptionStartDate
        info.renewalDate = transaction.expiresDate
        info.currency = sale.storefront.currency
        info.appTransactionId = sale.appTransactionId
        info.appAccountToken = sale.appAccountToken
        if sale.product.plan?.monthly != nil {
            info.renewalBillingPlanType = Open(sale.isMonthly ? .monthly : .billedUpfront)
        }
        info.commitmentInfo = commitment?.renewalInfo
        return info
    }
}
