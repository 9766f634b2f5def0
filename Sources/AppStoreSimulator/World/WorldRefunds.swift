// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Refunds: requested, granted, declined, reversed.

extension World {
    /// The customer requests a refund, and the App Store asks the app for consumption data: CONSUMPTION_REQUEST.
    ///
    /// The sandbox decides five minutes later: it grants a full refund, or a refund of the share that the app prefers.
    /// With `declines` and the reason `ConsumptionRequestReason.other`, the sandbox declines the request, as if the
    /// customer had written the text DECLINE. In production, the caller decides: ``refund(_:_:)`` or
    /// ``declineRefund(_:)``.
    public mutating func requestRefund(
        _ transactionId: String, _ reason: ConsumptionRequestReason = .unintendedPurchase, declines: Bool = false
    ) throws(ImpossibleEvent) {
        guard let transaction = transaction(transactionId) else { throw .noTransaction(transactionId) }
        guard transaction.revocationDate == nil, refundRequests[transactionId] == nil else {
            throw ImpossibleEvent(description: "Transaction \(transactionId) is refunded, or its refund requested")
        }
        guard !declines || reason == .other else {
            throw ImpossibleEvent(description: "The sandbox declines only a refund for the reason OTHER")
        }
        refundRequests[transactionId] = RefundRequest(reason: reason, declines: declines)
        notify(NotificationTopic(.consumptionRequest, reason: reason), ofTransaction: transactionId)
        if transaction.environment != .production {
            agenda.add(now.adding(minutes: 5), .refundDecision, transactionId)
        }
    }

    /// The App Store repeats its question to the app about an undecided refund: CONSUMPTION_REQUEST.
    public mutating func repeatConsumptionRequest(_ transactionId: String) throws(ImpossibleEvent) {
        guard let request = refundRequests[transactionId] else {
            throw ImpossibleEvent(description: "No refund of transaction \(transactionId) is requested")
        }
        notify(NotificationTopic(.consumptionRequest, reason: request.reason), ofTransaction: transactionId)
    }

    /// The App Store declines the customer's refund request: REFUND_DECLINED.
    public mutating func declineRefund(_ transactionId: String) throws(ImpossibleEvent) {
        guard refundRequests.removeValue(forKey: transactionId) != nil else {
            throw ImpossibleEvent(description: "No refund of transaction \(transactionId) is requested")
        }
        notify(NotificationTopic(.refundDeclined), ofTransaction: transactionId)
    }

    /// The App Store refunds a transaction: REFUND. Family members lose their shares: REVOKE.
    public mutating func refund(_ transactionId: String, _ refund: Refund = Refund()) throws(ImpossibleEvent) {
        let now = now
        if var purchase = purchases[transactionId], let name = customer(ofTransaction: transactionId)?.name {
            guard purchase.canBeRefunded(refund), purchase.inAppOwnershipType == .purchased else {
                throw ImpossibleEvent(description: "Transaction \(transactionId) cannot be refunded")
            }
            purchase.refund(refund, at: now)
            refundRequests[transactionId] = nil
            enter(purchase, of: name)
            notify(NotificationTopic(.refund), ofTransaction: transactionId)
            for share in shares(of: transactionId) { revokeShare(share.id, from: share.member) }
        } else {
            let id = try subscription(ofTransaction: transactionId)
            let wasAskedFor = refundRequests[transactionId] != nil
            try change(id, about: transactionId) { chain throws(ImpossibleEvent) in
                try chain.refund(transactionId, refund, at: now)
            }
            refundRequests[transactionId] = nil
            // If the customer has requested the refund in the app, the App Store also turns renewal off after the
            // refund.
            if wasAskedFor, subscriptions[id]?.isRunning != true { try cancel(id) }
        }
    }

    /// The App Store reverses a refund: REFUND_REVERSED.
    public mutating func reverseRefund(_ transactionId: String) throws(ImpossibleEvent) {
        let now = now
        if var purchase = purchases[transactionId], let name = customer(ofTransaction: transactionId)?.name {
            guard purchase.revocationDate != nil, purchase.inAppOwnershipType == .purchased else {
                throw ImpossibleEvent(description: "Transaction \(transactionId) is not refunded")
            }
            purchase.reverseRefund()
            enter(purchase, of: name)
            notify(NotificationTopic(.refundReversed), ofTransaction: transactionId)
        } else {
            let id = try subscription(ofTransaction: transactionId)
            try change(id, about: transactionId) { chain throws(ImpossibleEvent) in
                try chain.reverseRefund(transactionId, at: now)
            }
        }
    }

    /// The app answers a consumption request.
    ///
    /// - Parameter percentage: The share that the app wants to refund, in thousandths of a percent; `nil` for a full
    ///   refund.
    public mutating func answerConsumptionRequest(_ transactionId: String, refunds percentage: Int?) {
        refundRequests[transactionId]?.preferredPercentage = percentage
    }

    /// The sandbox decides a refund request.
    mutating func decideRefund(_ transactionId: String) throws(ImpossibleEvent) {
        guard let request = refundRequests[transactionId] else { return }
        if request.declines {
            try declineRefund(transactionId)
        } else {
            try refund(transactionId, Refund(percentage: request.preferredPercentage ?? 100_000))
        }
    }

    /// The original transaction id of a transaction's subscription.
    private func subscription(ofTransaction id: String) throws(ImpossibleEvent) -> String {
        guard let original = chain(ofTransaction: id)?.current.originalTransactionId else { throw .noTransaction(id) }
        return original
    }

    /// Records a notification without a change of state.
    mutating func notify(_ topic: NotificationTopic, ofTransaction id: String) {
        if let chain = chain(ofTransaction: id), let original = chain.current.originalTransactionId {
            occur(topic, of: original, chain, about: id)
        } else if let purchase = purchases[id], let customer = customer(ofTransaction: id) {
            occur(topic, .purchase(purchase), of: customer.name, in: customer.environment)
        }
    }
}
