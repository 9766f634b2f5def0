// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A refund as the App Store grants it.
public struct Refund: Hashable, Sendable {
    /// `revocationReason`.
    public var reason: RevocationReason
    /// The share that is refunded, in thousandths of a percent: 100,000 is all of it.
    public var percentage: Int

    /// Creates a refund of a share.
    ///
    /// - Parameter percentage: 1 to 100,000; a number out of this range becomes the nearest in it.
    public init(_ reason: RevocationReason = .other, percentage: Int = 100_000) {
        self.reason = reason
        self.percentage = min(max(percentage, 1), 100_000)
    }
}

/// A refund that a customer asked for.
public struct RefundRequest: Hashable, Sendable {
    /// Why.
    public let reason: ConsumptionRequestReason
    /// Whether the sandbox will decline it.
    let declines: Bool
    /// The share that the app wants refunded, in thousandths of a percent; `nil` for all of it.
    public internal(set) var preferredPercentage: Int?
}

extension JWSTransactionDecodedPayload {
    /// A part refund can be followed by one of a larger share.
    func canBeRefunded(_ refund: Refund) -> Bool {
        revocationDate == nil || refund.percentage > revocationPercentage ?? 100_000
    }

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
    /// Refunds a period: REFUND. The refund of the newest one ends the subscription; that of an older one changes
    /// nothing else.
    mutating func refund(
        _ transactionId: String, _ refund: Refund, at now: Timestamp
    ) throws(ImpossibleEvent) -> Notice {
        let index = try index(of: transactionId)
        guard transactions[index].canBeRefunded(refund), sharedFrom == nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) cannot be refunded")
        }
        transactions[index].refund(refund, at: now)
        if index == transactions.count - 1 { endRevoked() }
        return Notice(.refund)
    }

    /// Takes a refund back: REFUND_REVERSED. The renewal date stays.
    mutating func reverseRefund(_ transactionId: String, at now: Timestamp) throws(ImpossibleEvent) -> Notice {
        let index = try index(of: transactionId)
        guard transactions[index].revocationDate != nil, sharedFrom == nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) is not refunded")
        }
        transactions[index].reverseRefund()
        if index == transactions.count - 1 { state = now < end ? .active : .expired }
        return Notice(.refundReversed)
    }

    /// Takes a family member's access: REVOKE.
    mutating func revokeSharing(at now: Timestamp) throws(ImpossibleEvent) -> Notice {
        guard sharedFrom != nil else { throw impossible("lose what a family shares") }
        if current.revocationDate == nil { current.revokeSharing(at: now) }
        endRevoked()
        return Notice(.revoke)
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
