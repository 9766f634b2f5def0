// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

// Maps an occurrence (an event) to the types of its version 1 notifications, by Apple's table of the counterparts of
// version 2 types.

extension World {
    /// The types of the version 1 notifications about an occurrence. Some events have two types. Many have none,
    /// because version 1 has no type for the event, or does not send the type about family members or in the sandbox.
    package func typesV1(of occurrence: Occurrence) -> [NotificationTypeV1] {
        let isMember = occurrence.transaction?.inAppOwnershipType == .familyShared
        return counterpartsV1(of: occurrence).filter { type in
            (occurrence.environment == .production || type.isSentInSandbox) && !(isMember && type.isForPurchasers)
        }
    }

    private func counterpartsV1(of occurrence: Occurrence) -> [NotificationTypeV1] {
        switch (occurrence.topic.type, occurrence.topic.subtype) {
        case (.subscribed, .initialBuy): [.initialBuy]
        // A customer who comes back to the same product has turned renewal on again.
        case (.subscribed, .resubscribe) where isReturn(occurrence): [.didChangeRenewalStatus]
        case (.subscribed, .resubscribe): [.interactiveRenewal, .didChangeRenewalStatus]
        case (.didRenew, .billingRecovery): [.didRecover]
        case (.didRenew, _): [.didRenew]
        case (.didFailToRenew, _): [.didFailToRenew]
        case (.didChangeRenewalPref, .upgrade), (.offerRedeemed, .upgrade):
            [.didChangeRenewalStatus, .interactiveRenewal]
        case (.didChangeRenewalPref, _), (.offerRedeemed, .downgrade): [.didChangeRenewalPref]
        case (.didChangeRenewalStatus, _), (.expired, .billingRetry): [.didChangeRenewalStatus]
        case (.refund, _) where occurrence.transaction?.type != .autoRenewableSubscription: [.refund]
        // The refund of an older period does not turn renewal off.
        case (.refund, _) where occurrence.status != .revoked: [.cancel]
        case (.refund, _): [.cancel, .didChangeRenewalStatus]
        case (.revoke, _): [.revoke]
        case (.consumptionRequest, _) where occurrence.transaction?.type == .consumable: [.consumptionRequest]
        case (.priceIncrease, .pending): [.priceIncreaseConsent]
        default: []
        }
    }

    /// Whether a customer came back to the product of the previous period.
    private func isReturn(_ occurrence: Occurrence) -> Bool {
        let id = occurrence.transaction?.transactionId ?? ""
        let transactions = chain(ofTransaction: id)?.transactions ?? []
        guard let index = transactions.lastIndex(where: { $0.transactionId == id }), index > 0 else { return false }
        return transactions[index - 1].productId == transactions[index].productId
    }
}

extension NotificationTypeV1 {
    fileprivate var isSentInSandbox: Bool {
        [
            .initialBuy, .didChangeRenewalPref, .didChangeRenewalStatus, .didRenew, .interactiveRenewal, .cancel,
            .refund,
        ].contains(self)
    }

    /// Whether family members never get the type.
    fileprivate var isForPurchasers: Bool {
        [.cancel, .initialBuy, .priceIncreaseConsent, .refund, .consumptionRequest].contains(self)
    }
}
