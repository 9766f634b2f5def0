// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A refund by the App Store.
public struct Refund: Hashable, Sendable {
    /// `revocationReason`.
    public var reason: RevocationReason
    /// The refunded share, in thousandths of a percent: 100,000 is a full refund.
    public var percentage: Int

    /// Creates a refund of a share.
    ///
    /// - Parameter percentage: 1 to 100,000. A number out of this range becomes the nearest number in the range.
    public init(_ reason: RevocationReason = .other, percentage: Int = 100_000) {
        self.reason = reason
        self.percentage = min(max(percentage, 1), 100_000)
    }
}

/// A customer's request for a refund.
public struct RefundRequest: Hashable, Sendable {
    /// The customer's reason.
    public let reason: ConsumptionRequestReason
    /// Whether the sandbox will decline the request.
    let declines: Bool
    /// The share that the app wants to refund, in thousandths of a percent; `nil` for a full refund.
    public internal(set) var preferredPercentage: Int?
}

extension JWSTransactionDecodedPayload {
    /// Whether the transaction can get this refund: it has no refund yet, or one of a smaller share.
    func canBeRefunded(_ refund: Refund) -> Bool {
        revocationDate == nil || refund.percentage > revocationPercentage ?? 100_000
    }

    mutating func refund(_ refund: Refund, at now: Timestamp) {
        revocationDate = now
        revocationReason = Open(refund.reason)
        revocationType = Open(refund.percentage == 100_000 ? .refundFull : .refundProrated)
        revocationPercentage = refund.percentage
    }

    /// Revokes a family member's access.
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
    /// Refunds a period: REFUND. A refund of the newest period ends the subscription. A refund of an older period
    /// changes only its transaction.
    mutating func refund(
        _ transactionId: String, _ refund: Refund, at now: Timestamp
    ) throws(ImpossibleEvent) -> NotificationTopic {
        let index = try index(of: transactionId)
        guard transactions[index].canBeRefunded(refund), sharedFrom == nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) cannot be refunded")
        }
        transactions[index].refund(refund, at: now)
        if index == transactions.count - 1 { endRevoked() }
        return NotificationTopic(.refund)
    }

    /// Reverses a refund: REFUND_REVERSED. The renewal date stays.
    mutating func reverseRefund(_ transactionId: String, at now: Timestamp) throws(ImpossibleEvent) -> NotificationTopic
    {
        let index = try index(of: transactionId)
        guard transactions[index].revocationDate != nil, sharedFrom == nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) is not refunded")
        }
        transactions[index].reverseRefund()
        if index == transactions.count - 1 { state = now < end ? .active : .expired }
        return NotificationTopic(.refundReversed)
    }

    /// Revokes a family member's access: REVOKE.
    mutating func revokeSharing(at now: Timestamp) throws(ImpossibleEvent) -> NotificationTopic {
        guard sharedFrom != nil else { throw impossible("lose what a family shares") }
        if current.revocationDate == nil { current.revokeSharing(at: now) }
        endRevoked()
        return NotificationTopic(.revoke)
    }

    private mutating func endRevoked() {
        state = .revoked
        renewal.autoRenewStatus = Open(.off)
        renewal.isInBillingRetryPeriod = false
        renewal.gracePeriodExpiresDate = nil
        commitment?.isRenewing = false
        renewal.commitmentInfo = nil
    }

    private func index(of transactionId: String) throws(ImpossibleEvent) -> Int {
        guard let index = transactions.lastIndex(where: { $0.transactionId == transactionId }) else {
            throw .noTransaction(transactionId)
        }
        return index
    }
}
