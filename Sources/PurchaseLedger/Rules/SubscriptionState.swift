// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Where a subscription stands at one instant: Apple's status, recomputed from signed facts alone.
public struct SubscriptionState: Hashable, Sendable {
    /// Apple's five, and two that only facts can tell.
    public enum Status: String, CaseIterable, Sendable {
        /// 1: paid for.
        case active
        /// 2: over.
        case expired
        /// 3: the charge failed, and there is no grace, or no more.
        case billingRetry
        /// 4: the charge failed, and service goes on.
        case billingGrace
        /// 5: refunded, or family sharing was lost.
        case revoked
        /// The period is over by the facts, but nothing says that the subscription is: the renewal, or word that there is
        /// none, has not arrived. Ask the App Store before denying.
        case stale
        /// Every period was upgraded to another subscription, which counts in its place.
        case upgraded

        /// Apple's number; `nil` where Apple has none.
        public var number: Int? {
            switch self {
            case .active: 1
            case .expired: 2
            case .billingRetry: 3
            case .billingGrace: 4
            case .revoked: 5
            case .stale, .upgraded: nil
            }
        }
    }

    public var status: Status
    /// The period that decides: of those that have begun the one that was bought last, unless another purchase superseded it.
    public var governing: TransactionStatement
    /// The last of the periods of the same product that are paid for without a gap: ``governing``, or a renewal that was
    /// charged ahead.
    public var lastPaid: TransactionStatement
    /// Until when the customer may use the product, that instant not included; `nil` for not at all.
    public var accessUntil: Timestamp?
    /// When this answer will change by itself if no further fact arrives; `nil` for never.
    public var nextChange: Timestamp?
    /// Whether it will renew; `nil` if that is not known, as of a period about which no renewal info has arrived.
    public var willRenew: Bool?
    /// The product of the next period.
    public var nextProductId: String?
    /// Why it ended or is about to.
    public var expirationIntent: Open<ExpirationIntent>?
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?

    /// Whether the App Store still tries to charge; `nil` if nothing says what became of the period.
    package var isInBillingRetry: Bool? {
        switch status {
        case .billingRetry, .billingGrace: true
        case .active, .expired: false
        case .revoked, .stale, .upgraded: nil
        }
    }

    fileprivate init(_ status: Status, _ governing: TransactionStatement) {
        self.status = status
        self.governing = governing
        lastPaid = governing
    }
}

extension Chain {
    /// Decides where the subscription stands at `now`; `nil` if the chain is no subscription.
    ///
    /// The first that applies: the governing period was revoked, it still runs, it is in grace, in billing retry, its end was
    /// announced. If it is over and nothing says that the subscription is, the state is `stale`.
    public func subscription(at now: Timestamp) -> SubscriptionState? {
        history(at: now).subscription(renewal, at: now)
    }
}

extension PurchaseHistory {
    /// Where the subscription stands at `now`; `nil` if there is none.
    ///
    /// - Parameter renewal: The newest renewal info of the chain. It decides nothing about a period that it does not speak of.
    func subscription(_ renewal: RenewalFact?, at now: Timestamp) -> SubscriptionState? {
        guard let lastPeriod else { return nil }
        guard let governing = governing(at: now) else {
            var state = SubscriptionState(.upgraded, lastPeriod)
            state.nextProductId = renewal?.autoRenewProductId
            return state
        }
        let about = renewal.flatMap { $0.isAbout(governing) ? $0 : nil }
        var state = SubscriptionState(Self.status(of: governing, about, at: now), governing)
        switch state.status {
        case .active:
            state.lastPaid = lastPaid(after: governing)
            state.accessUntil = state.lastPaid.expiresDate
        case .billingGrace:
            state.accessUntil = about?.gracePeriodExpiresDate
        case .expired, .billingRetry, .revoked, .stale, .upgraded:
            break
        }
        state.nextChange = nextChange(of: state, about, at: now)
        state.willRenew = about?.willRenew
        state.nextProductId = renewal?.autoRenewProductId
        state.expirationIntent = about?.expirationIntent
        state.priceIncreaseStatus = about?.priceIncreaseStatus
        return state
    }

    /// The period that was bought last of those that have begun. If none has, the first counts as running: a renewal that was
    /// charged ahead proves that there is one before it.
    private func governing(at now: Timestamp) -> TransactionStatement? {
        periods.indices.last { periods[$0].start <= now }.map { periods[$0] } ?? periods.first
    }

    private static func status(
        of governing: TransactionStatement, _ renewal: RenewalFact?, at now: Timestamp
    ) -> SubscriptionState.Status {
        if governing.revocation != nil { return .revoked }
        if now < governing.end { return .active }
        guard let renewal else { return .stale }
        if renewal.isInBillingRetry {
            return renewal.gracePeriodExpiresDate.map { now < $0 } ?? false ? .billingGrace : .billingRetry
        }
        // If nothing says that the subscription ends, its renewal has only not arrived here.
        return renewal.willRenew == false || renewal.expirationIntent != nil ? .expired : .stale
    }

    /// The last period of the same product that follows a period without a gap.
    private func lastPaid(after period: TransactionStatement) -> TransactionStatement {
        var last = period
        for index in periods.indices where periods[index].continues(after: last.end) {
            guard periods[index].productId == period.productId, periods[index].revocation == nil else { continue }
            last = periods[index]
        }
        return last
    }

    /// The end of what counts now, or the date of the next purchase if that is earlier.
    private func nextChange(of state: SubscriptionState, _ renewal: RenewalFact?, at now: Timestamp) -> Timestamp? {
        let end = state.status == .billingGrace ? renewal?.gracePeriodExpiresDate : state.governing.expiresDate
        let next = starts.first { $0 > now }
        return [end, next].compactMap { $0 }.filter { $0 > now }.min()
    }
}

extension TransactionStatement {
    /// Whether what is paid for until `end` goes on with this period, without a gap.
    func continues(after end: Timestamp) -> Bool { start.second <= end.second && end < self.end }
}
