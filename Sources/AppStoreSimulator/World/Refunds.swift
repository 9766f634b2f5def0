// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A refund as the App Store grants it.
public struct Refund: Hashable, Sendable {
    public var reason: RevocationReason
    /// The share that is refunded, in thousandths of a percent: 100,000 is all of it.
    public var percentage: Int

    /// - Parameter percentage: 1 to 100,000; what is beyond counts as the nearest of them.
    public init(_ reason: RevocationReason = .other, percentage: Int = 100_000) {
        self.reason = reason
        self.percentage = min(max(percentage, 1), 100_000)
    }
}

extension JWSTransactionDecodedPayload {
    mutating func refund(_ refund: Refund, at now: Timestamp) {
        revocationDate = now
        revocationReason = Open(refund.reason)
        revocationType = Open(refund.percentage == 100_000 ? .refundFull : .refundProrated)
        revocationPercentage = refund.percentage
    }

    /// Takes a family member's access.
    mutating func revokeSharing(at now: Timestamp) {
        revocationDate = now
        revocationReason = Open(.other)
        revocationType = Open(.familyRevoke)
    }

    mutating func reverseRefund() {
        revocationDate = nil
        revocationReason = nil
        revocationType = nil
        revocationPercentage = nil
    }
}

extension SubscriptionChain {
    /// Refunds a period: REFUND. That of the newest one ends the subscription, that of an older one changes nothing else.
    mutating func refund(
        _ transactionId: String, _ refund: Refund, at now: Timestamp
    ) throws(ImpossibleEvent) -> Notice {
        let index = try index(of: transactionId)
        guard transactions[index].revocationDate == nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) is refunded already")
        }
        transactions[index].refund(refund, at: now)
        if index == transactions.count - 1 { endRevoked() }
        return Notice(.refund, nil, transactionId)
    }

    /// Takes a refund back: REFUND_REVERSED. The renewal date stays.
    mutating func reverseRefund(_ transactionId: String, at now: Timestamp) throws(ImpossibleEvent) -> Notice {
        let index = try index(of: transactionId)
        guard transactions[index].revocationDate != nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) is not refunded")
        }
        transactions[index].reverseRefund()
        if index == transactions.count - 1 { state = now < end ? .active : .expired }
        return Notice(.refundReversed, nil, transactionId)
    }

    /// Takes a family member's access: REVOKE.
    mutating func revokeSharing(at now: Timestamp) throws(ImpossibleEvent) -> Notice {
        guard current.inAppOwnershipType == .familyShared, state != .revoked else {
            throw ImpossibleEvent(description: "Transaction \(current.transactionId ?? "") is not shared by a family")
        }
        current.revokeSharing(at: now)
        endRevoked()
        return notice(.revoke)
    }

    private mutating func endRevoked() {
        state = .revoked
        renewal.autoRenewStatus = Open(.off)
        renewal.isInBillingRetryPeriod = false
        renewal.gracePeriodExpiresDate = nil
    }

    private func index(of transactionId: String) throws(ImpossibleEvent) -> Int {
        guard let index = transactions.lastIndex(where: { $0.transactionId == transactionId }) else {
            throw ImpossibleEvent(description: "There is no transaction \(transactionId)")
        }
        return index
    }
}
