// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The state of a subscription at one instant, computed from signed facts and the operator's refusals, without asking
/// the App Store.
public struct SubscriptionState: Hashable, Sendable {
    /// Apple's five statuses, and two statuses of the ledger.
    public enum Status: String, CaseIterable, Sendable {
        /// 1: paid for.
        case active
        /// 2: the subscription ended.
        case expired
        /// 3: the charge failed, and there is no grace period, or the grace period is over.
        case billingRetry
        /// 4: the charge failed, and the grace period runs.
        case billingGrace
        /// 5: the period was refunded, family sharing ended, or the operator refuses the purchase.
        case revoked
        /// The period is over, and no document about a renewal or about the end of the subscription has arrived. Ask
        /// the App Store before denying access.
        case stale
        /// Every period was upgraded to, or superseded by, a different subscription, which counts instead.
        case upgraded

        /// Apple's number for the status; `nil` for the ledger's own statuses.
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

    /// The status at the given instant.
    public var status: Status
    /// The period that decides the status. Of the running periods that were not revoked, the last bought period
    /// governs. If there is none, the last bought period that has begun governs. Periods that were upgraded, or
    /// superseded by the purchase of a different product, are ignored, unless there are no other periods.
    public var governing: TransactionStatement
    /// The last period of the same product that is paid for without a gap: ``governing``, or a renewal that was charged
    /// ahead.
    public var lastPaid: TransactionStatement
    /// Whether the subscription gives access by itself; see ``Access/isGiven``. A ``Status/stale`` subscription does
    /// for ``Catalogue/staleLeeway``.
    public var hasAccess: Bool { access.isGiven }
    /// The instant at which access to the product ends or ended; see ``Access/until``.
    public var accessUntil: Timestamp? { access.until }
    package var access: Access
    /// The end of the grace period that runs, as the App Store signed it; `nil` without one.
    package var gracePeriodExpiresDate: Timestamp?
    /// The next time at which this state may change without a further fact; `nil` for never.
    public var nextChange: Timestamp?
    /// Whether the subscription will renew; `nil` if unknown, because no renewal info about the period in ``governing``
    /// has arrived.
    public var willRenew: Bool?
    /// The terms of the next renewal. The newest renewal info always tells the next product, and the other terms only
    /// if it is about the period in ``governing``. `nil` if no renewal info has arrived.
    public var renewal: RenewalTerms?
    /// The reason why the subscription ended or will end; `nil` if unknown.
    public var expirationIntent: Open<ExpirationIntent>?
    /// Whether a further commitment follows the present commitment to several monthly payments. Within the present
    /// commitment, each month renews in any case. `nil` if unknown, and without a commitment.
    public var commitmentWillRenew: Bool?
    /// The product of the next commitment; `nil` if unknown, and without a commitment.
    public var nextCommitmentProductId: String?
    /// The number of seats of a multi-seat subscription, without revoked seats; `nil` if unknown, and for all other
    /// subscriptions.
    public var seats: Int?

    /// Whether only ``Catalogue/staleLeeway`` gives access after the end of the period.
    package var isUncertain: Bool { status == .stale || status == .billingGrace && gracePeriodExpiresDate == nil }

    /// Whether the App Store still tries to charge; `nil` if unknown.
    package var isInBillingRetry: Bool? {
        switch status {
        case .billingRetry, .billingGrace: true
        case .active, .expired: false
        case .revoked, .stale, .upgraded: nil
        }
    }

    fileprivate init(_ status: Status, _ governing: TransactionStatement) {
        self.status = status
        // Until something says more: the subscription never gave access.
        access = .ended(governing.date)
        self.governing = governing
        lastPaid = governing
    }
}

extension Chain {
    /// The state of the subscription at `now`; `nil` if the chain is no subscription.
    ///
    /// The first applicable rule about the governing period decides: the period was revoked, still runs, is in its
    /// grace period, is in billing retry, or its end was announced. Otherwise the status is `stale`. If every period
    /// was superseded, the status is `upgraded`. If the operator refuses the chain (``Catalogue/refuses(_:)``), the
    /// status is `revoked` in any case.
    public func subscription(_ catalogue: Catalogue, at now: Timestamp) -> SubscriptionState? {
        history(catalogue, at: now).subscription(renewal)
    }
}

extension PurchaseHistory {
    /// The state of the subscription; `nil` if there is none.
    ///
    /// - Parameter renewal: The newest renewal info of the chain. Its next product always counts. Its other facts count
    ///   only if the renewal info is about the governing period.
    func subscription(_ renewal: RenewalFact?) -> SubscriptionState? {
        guard let lastPeriod else { return nil }
        guard let governing else {
            var state = SubscriptionState(isRefused ? .revoked : .upgraded, lastPeriod)
            state.renewal = renewal?.terms.productAlone
            return state
        }
        let applicable = renewal.flatMap { $0.isAbout(governing) ? $0 : nil }
        let grace = applicable?.graceEnd(of: governing, catalogue)
        let status = isRefused ? .revoked : Self.status(of: governing, applicable, grace, at: now)
        var state = SubscriptionState(status, governing)
        if status == .active { state.lastPaid = lastPaid(after: governing) }
        if !isRefused { state.access = access(by: state, grace) }
        if status == .billingGrace { state.gracePeriodExpiresDate = applicable?.gracePeriodExpiresDate }
        state.nextChange = nextChange(of: state)
        state.willRenew = applicable?.willRenew
        state.renewal = applicable.flatMap(\.terms.orNone) ?? renewal?.terms.productAlone
        state.expirationIntent = applicable?.expirationIntent
        state.commitmentWillRenew = applicable?.commitmentWillRenew
        state.nextCommitmentProductId = applicable?.commitmentAutoRenewProductId
        state.seats = seats(of: governing)
        return state
    }

    /// - Parameter grace: The end of the grace period; `nil` without one.
    private func access(by state: SubscriptionState, _ grace: Timestamp?) -> Access {
        let end = state.governing.end
        return switch state.status {
        case .active: .given(until: state.lastPaid.expiresDate)
        case .billingGrace: .given(until: grace)
        case .billingRetry: .ended(max(end, grace ?? end))
        case .stale: Access(until: end.advanced(by: catalogue.staleLeeway), at: now)
        case .expired: .ended(end)
        case .revoked: Access(lost: state.governing)
        case .upgraded: state.access
        }
    }

    /// The number of seats that were not revoked. If a period has several transactions, the number is unknown, because
    /// Apple does not document how the transactions share the revoked seats.
    private func seats(of period: TransactionStatement) -> Int? {
        guard let revoked = period.revokedQuantity(isRefused: isRefused) else { return nil }
        let count = purchases.indices.count { index in
            purchases[index].end == period.end && purchases[index].productId == period.productId
        }
        return count == 1 ? max(0, period.quantity - max(0, revoked)) : nil
    }

    /// The governing period; `nil` if every period was superseded. Among the running periods, the last bought period
    /// governs. A later bought period that was revoked or is over does not change this, because the running period was
    /// paid for and grants access.
    ///
    /// If no period runs, the last bought period that has begun governs (``hasBegun(_:)``). If no period has begun,
    /// the first period governs. It is a renewal that was charged ahead, which proves that a period before it is
    /// running.
    private var governing: TransactionStatement? {
        let begun = periods.indices.filter { hasBegun(periods[$0]) }
        let last = begun.last { periods[$0].revocation == nil && now < periods[$0].end } ?? begun.last
        return last.map { periods[$0] } ?? periods.first
    }

    private static func status(
        of governing: TransactionStatement, _ renewal: RenewalFact?, _ grace: Timestamp?, at now: Timestamp
    ) -> SubscriptionState.Status {
        if governing.revocation != nil { return .revoked }
        if now < governing.end { return .active }
        guard let renewal else { return .stale }
        if renewal.isInBillingRetry || renewal.hasGraceWithoutEnd {
            return grace.map { now < $0 } ?? false ? .billingGrace : .billingRetry
        }
        // The renewal is only late, unless a document announced the end.
        return renewal.willRenew == false || renewal.expirationIntent != nil ? .expired : .stale
    }

    /// The last period of the same product that continues `period` without a gap.
    private func lastPaid(after period: TransactionStatement) -> TransactionStatement {
        var last = period
        for index in periods.indices where periods[index].continues(after: last.end) {
            guard periods[index].productId == period.productId, periods[index].revocation == nil else { continue }
            last = periods[index]
        }
        return last
    }

    /// The end of the governing period or of the access after it, or the start of a renewal that was charged ahead if
    /// it is earlier. `nil` if all of these are over.
    private func nextChange(of state: SubscriptionState) -> Timestamp? {
        let end = state.status == .active ? state.governing.expiresDate : state.accessUntil
        return [end, nextStart(after: now)].compactMap { $0 }.filter { $0 > now }.min()
    }
}

extension RenewalFact {
    /// The end of the grace period after `period`; `nil` without one. If the App Store signed the grace period without
    /// its end, the period is as long as that of a late renewal.
    fileprivate func graceEnd(of period: TransactionStatement, _ catalogue: Catalogue) -> Timestamp? {
        gracePeriodExpiresDate ?? (hasGraceWithoutEnd ? period.end.advanced(by: catalogue.staleLeeway) : nil)
    }
}

extension TransactionStatement {
    /// Whether this period extends access that is paid for until `end`, without a gap.
    func continues(after end: Timestamp) -> Bool { start.second <= end.second && end < self.end }
}
