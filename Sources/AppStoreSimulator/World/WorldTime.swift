// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// The world's clock, and the planned events that happen when the caller turns the clock forward.

extension World {
    /// The time of the next planned event, which may have become impossible by then; `nil` if no event is planned.
    public var nextDue: Timestamp? { agenda.nextDate }

    /// Turns the clock forward. Each due event on the way happens at its own time.
    ///
    /// - Parameter date: A time before ``now`` changes nothing.
    public mutating func advance(to date: Timestamp) {
        while let entry = agenda.next(until: date) {
            now = max(now, entry.date)
            do throws(ImpossibleEvent) {
                try happen(entry)
            } catch {
                // An event that has become impossible does not happen.
            }
        }
        now = max(now, date)
    }

    private mutating func happen(_ entry: Agenda.Entry) throws(ImpossibleEvent) {
        switch entry.event {
        case .refundDecision: try decideRefund(entry.subject)
        case .unreportedToken: remindOfToken(entry.subject, .unreported)
        case .tokenReminder: remindOfToken(entry.subject, .activeTokenReminder)
        case .massExtension: extendAll(by: entry.subject)
        case .charge, .end, .endOfGrace, .endOfRetry:
            guard let chain = subscriptions[entry.subject], chain.end == entry.end,
                let name = customer(ofTransaction: entry.subject)?.name
            else { return }
            try happen(entry, chain, name)
        }
    }

    /// Performs a planned event of a subscription. If the event no longer fits the subscription's state, nothing
    /// happens.
    private mutating func happen(
        _ entry: Agenda.Entry, _ chain: SubscriptionChain, _ name: String
    ) throws(ImpossibleEvent) {
        switch (entry.event, chain.state) {
        case (.charge, .active), (.end, .active):
            if let sale = payableSale(of: chain, name) {
                try renew(entry.subject, chain, sale)
            } else if entry.event == .end {
                try end(entry.subject, chain, name)
            }
        case (.endOfGrace, .grace):
            let retry = speed(of: chain).retryEnd(from: chain.end, isCommitment: chain.commitment != nil)
            try change(entry.subject) { chain throws(ImpossibleEvent) in try chain.endGrace(retryUntil: retry) }
        case (.endOfRetry, .retry):
            try change(entry.subject) { chain throws(ImpossibleEvent) in try chain.expire(.billingError) }
        default: return
        }
    }

    /// The sale that the App Store charges for the next period; `nil` if the App Store cannot or must not charge.
    private func payableSale(of chain: SubscriptionChain, _ name: String) -> Sale? {
        guard chain.plannedEnd == nil, chain.isRenewing, !chain.lacksConsent, customers[name]?.canPay == true,
            !hasRenewedEnough(chain)
        else { return nil }
        // The App Store does not charge for a product that is no longer for sale.
        return try? nextSale(of: chain, name)
    }

    private mutating func renew(_ id: String, _ chain: SubscriptionChain, _ sale: Sale) throws(ImpossibleEvent) {
        let ids = newIds(chain.current.environment)
        let speed = speed(of: chain)
        try change(id) { chain throws(ImpossibleEvent) in try chain.renew(sale, ids, speed) }
    }

    /// The present period ends, and the App Store has charged for no next period. The subscription ends, or its charge
    /// counts as failed.
    private mutating func end(_ id: String, _ chain: SubscriptionChain, _ name: String) throws(ImpossibleEvent) {
        let intent = intent(of: chain)
        guard let intent else { return try fail(id, chain) }
        let offers = intent == .customerCancelled ? winBackOffers(of: chain) : nil
        try change(id) { chain throws(ImpossibleEvent) in
            let topic = try chain.expire(intent)
            chain.renewal.eligibleWinBackOfferIds = offers
            return topic
        }
    }

    /// The reason why a subscription ends with its period; `nil` if it should have renewed, so that only the charge can
    /// have failed.
    private func intent(of chain: SubscriptionChain) -> ExpirationIntent? {
        if let planned = chain.plannedEnd { return planned }
        if hasRenewedEnough(chain) { return .other }
        if !chain.isRenewing { return .customerCancelled }
        if chain.lacksConsent { return .noConsentToPriceIncrease }
        return catalogue[chain.renewal.autoRenewProductId ?? ""]?.isForSale == true ? nil : .productNotAvailable
    }

    /// The charge failed. A commitment has no grace period.
    private mutating func fail(_ id: String, _ chain: SubscriptionChain) throws(ImpossibleEvent) {
        let period = chain.current.productId.flatMap { catalogue[$0]?.plan?.period } ?? Period(1, .month)
        let speed = speed(of: chain)
        let days = chain.commitment == nil ? catalogue.graceDays : nil
        let grace = days.map { speed.graceEnd($0, of: period, from: chain.end) }
        let retry = speed.retryEnd(from: chain.end, isCommitment: chain.commitment != nil)
        try change(id) { chain throws(ImpossibleEvent) in
            try chain.failToRenew(graceUntil: grace, retryUntil: retry)
        }
    }

    private func winBackOffers(of chain: SubscriptionChain) -> [String]? {
        let offers = chain.current.productId.flatMap { catalogue[$0]?.offers } ?? []
        let ids = offers.filter { $0.type == .winBack }.compactMap(\.id)
        return ids.isEmpty ? nil : ids
    }

    /// The number of renewals after which the sandbox ends a subscription.
    private static let sandboxRenewals = 12

    private func hasRenewedEnough(_ chain: SubscriptionChain) -> Bool {
        chain.current.environment != .production && chain.isRenewing && chain.renewals >= Self.sandboxRenewals
    }

    /// The sale of a subscription's next period.
    func nextSale(of chain: SubscriptionChain, _ name: String) throws(ImpossibleEvent) -> Sale {
        let isMonthly = chain.commitment != nil
        let id = chain.renewal.autoRenewProductId ?? ""
        guard let product = catalogue[id], product.isForSale else {
            throw ImpossibleEvent(description: "There is no product \(id) for sale")
        }
        let customer = try customer(name)
        return Sale(
            product: product, offer: chain.offerOfNextRenewal,
            isMonthly: isMonthly && product.plan?.monthly != nil,
            agreedPrice: id == chain.current.productId ? chain.agreedPrice : nil, bundleId: catalogue.bundleId,
            environment: customer.environment, storefront: customer.storefront,
            appTransactionId: customer.appTransactionId, appAccountToken: chain.renewal.appAccountToken)
    }

    func speed(of chain: SubscriptionChain) -> RenewalSpeed {
        chain.current.environment == .production ? .realTime : sandboxSpeed
    }

    func speed(in environment: Environment) -> RenewalSpeed {
        environment == .production ? .realTime : sandboxSpeed
    }
}

extension Timestamp {
    func adding(minutes: Int64) -> Timestamp {
        Timestamp(milliseconds: milliseconds + minutes * 60_000)
    }
}
