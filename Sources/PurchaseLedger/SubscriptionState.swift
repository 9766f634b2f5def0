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
    /// The period that decides: the one that ends last of those that were not upgraded.
    public var governing: TransactionStatement
    /// Until when it may be used, that instant not included; `nil` for not at all.
    public var accessUntil: Timestamp?
    /// When this answer will change by itself if no further fact arrives; `nil` for never.
    public var nextChange: Timestamp?
    /// Whether it will renew, as far as is known.
    public var willRenew: Bool?
    /// The product of the next period.
    public var nextProductId: String?
    /// Why it ended or is about to.
    public var expirationIntent: Open<ExpirationIntent>?
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?
}

extension Chain {
    /// Decides where the subscription stands at `now`; `nil` where the chain is none.
    ///
    /// The first that applies: a revoked period, one that still runs, grace, billing retry, an end that was told; and if
    /// the period is over but nobody said that the subscription is, `stale`.
    public func subscription(at now: Timestamp) -> SubscriptionState? { subscription(of: purchases, at: now) }

    /// The same for whoever has put ``purchases`` in order already.
    func subscription(of purchases: [TransactionStatement], at now: Timestamp) -> SubscriptionState? {
        let periods = purchases.filter(\.isSubscription)
        guard let last = periods.last else { return nil }
        let standing = periods.filter { !$0.isUpgraded }
        guard let governing = standing.max(by: { $0.end < $1.end }) else {
            return SubscriptionState(status: .upgraded, governing: last)
        }
        var state = state(of: governing, at: now)
        state.willRenew = renewal?.willRenew
        state.nextProductId = renewal?.autoRenewProductId
        state.expirationIntent = renewal?.expirationIntent
        state.priceIncreaseStatus = renewal?.priceIncreaseStatus
        return state
    }

    private func state(of governing: TransactionStatement, at now: Timestamp) -> SubscriptionState {
        func state(_ status: SubscriptionState.Status, until end: Timestamp? = nil) -> SubscriptionState {
            SubscriptionState(status: status, governing: governing, accessUntil: end, nextChange: end)
        }
        if governing.revocation != nil { return state(.revoked) }
        guard let end = governing.expiresDate, now >= end else { return state(.active, until: governing.expiresDate) }
        guard let renewal else { return state(.stale) }
        if renewal.isInBillingRetry {
            guard let grace = renewal.gracePeriodExpiresDate, now < grace else { return state(.billingRetry) }
            return state(.billingGrace, until: grace)
        }
        // A renewal was promised and no reason told why it should not have come: it has not arrived here.
        let isPromised = renewal.willRenew == true && renewal.expirationIntent == nil
        return state(isPromised ? .stale : .expired)
    }
}

extension TransactionStatement {
    /// The order of periods: by their end, then by what else sets them apart.
    fileprivate var end: (Timestamp, Timestamp, String) {
        (expiresDate ?? .distantFuture, purchaseDate ?? .distantPast, transactionId)
    }
}

extension Timestamp {
    /// After all that the App Store signs.
    static let distantFuture = Timestamp(milliseconds: .max)
}

private func < (left: (Timestamp, Timestamp, String), right: (Timestamp, Timestamp, String)) -> Bool {
    (left.0.milliseconds, left.1.milliseconds, left.2) < (right.0.milliseconds, right.1.milliseconds, right.2)
}
