// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

extension ChainReport {
    /// What there is to tell about a chain at `now`.
    init(_ chain: Chain, _ catalogue: Catalogue, at now: Timestamp) {
        self.init()
        let history = chain.history(at: now)
        let purchases = history.purchases
        revoked = Set(purchases.lazy.filter { $0.revocation != nil }.map { $0.transactionId })
        transactionId = purchases.last?.transactionId
        productId = purchases.last?.productId
        let holdings = Holdings([(chain, history)], catalogue, at: now)
        nextChange = holdings.nextChange
        isEntitling = holdings.isEntitling
        guard let state = holdings.subscriptions[chain.key.originalTransactionId] else { return }
        status = state.status
        productId = state.governing.productId
        transactionId = state.lastPaid.transactionId
        expiresDate = state.lastPaid.expiresDate
        willRenew = state.willRenew
    }

    /// Something to tell.
    struct Change {
        var kind: LedgerEvent.Kind
        var transactionId: String?
        var productId: String?
    }

    /// What changed since `old` was told; all of it where nothing was.
    func changes(since old: ChainReport?, _ chain: Chain) -> [Change] {
        var changes = purchases(since: old, chain)
        if status != nil { changes += subscription(since: old) }
        // By time alone: a non-renewing subscription, or the leeway of one whose renewal did not come.
        if changes.isEmpty, old?.isEntitling == true, !isEntitling {
            changes.append(Change(kind: .accessEnded, transactionId: transactionId, productId: productId))
        }
        return changes
    }

    /// One-time purchases, refunds and their reversals.
    private func purchases(since old: ChainReport?, _ chain: Chain) -> [Change] {
        var changes: [Change] = []
        let known = old?.revoked ?? []
        if status == nil, old == nil {
            changes.append(Change(kind: .purchased, transactionId: transactionId, productId: productId))
        }
        for purchase in revoked == known ? [] : chain.purchases {
            let isRevoked = revoked.contains(purchase.transactionId)
            guard isRevoked != known.contains(purchase.transactionId) else { continue }
            changes.append(
                Change(
                    kind: isRevoked ? .refunded : .refundReversed, transactionId: purchase.transactionId,
                    productId: purchase.productId))
        }
        return changes
    }

    private func subscription(since old: ChainReport?) -> [Change] {
        func change(_ kind: LedgerEvent.Kind) -> Change {
            Change(kind: kind, transactionId: transactionId, productId: productId)
        }
        var changes: [Change] = []
        guard let old, let before = old.status else {
            return [change(.subscriptionStarted)] + (statusEvent.map { [change($0)] } ?? [])
        }
        let isPaidAgain = status == .active && before != .active && before != .stale
        let isLater = (expiresDate ?? .distantFuture) > (old.expiresDate ?? .distantFuture)
        if isPaidAgain {
            changes.append(change(.subscriptionRecovered))
        } else if status == .active, productId == old.productId, isLater {
            changes.append(change(transactionId == old.transactionId ? .subscriptionExtended : .subscriptionRenewed))
        }
        if productId != old.productId { changes.append(change(.subscriptionProductChanged)) }
        if status != before, let event = statusEvent { changes.append(change(event)) }
        if let willRenew, let before = old.willRenew, willRenew != before {
            changes.append(change(willRenew ? .subscriptionRenewalEnabled : .subscriptionRenewalDisabled))
        }
        return changes
    }

    /// What a status is told as when it is entered; being active is told as having started, renewed or recovered.
    private var statusEvent: LedgerEvent.Kind? {
        switch status {
        case .billingGrace: .subscriptionGraceEntered
        case .billingRetry: .subscriptionRetryEntered
        case .expired: .subscriptionExpired
        case .stale: .subscriptionStale
        case .revoked: .subscriptionRevoked
        case .active, .upgraded, nil: nil
        }
    }
}
