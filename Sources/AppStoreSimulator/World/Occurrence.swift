// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An event in a simulated App Store, with what the App Store signs about it.
public struct Occurrence: Hashable, Sendable {
    /// When it happened: `signedDate` of all that is signed about it.
    public let date: Timestamp
    /// `notificationUUID` of its notification, the same in every delivery.
    public let id: String
    /// The name of the customer that it is about; `nil` if it is about none.
    public let customer: String?
    /// Production or sandbox.
    public let environment: Environment
    /// Type and subtype of its notification.
    public let notice: Notice
    /// What the notification brings along.
    public let subject: Subject

    /// What a notification brings along. Signed payloads are without their `signedDate`.
    public enum Subject: Hashable, Sendable {
        /// A purchase that is no subscription.
        case purchase(JWSTransactionDecodedPayload)
        /// A subscription: one of its transactions, its renewal info, and where it stands.
        case subscription(JWSTransactionDecodedPayload, JWSRenewalInfoDecodedPayload, SubscriptionStatus)
        /// The end of a mass extension.
        case summary(NotificationSummary)
        /// A token with which the app reports purchases outside the App Store.
        case externalPurchase(ExternalPurchaseToken)
        /// The customer's download of the app.
        case app(AppTransaction)
        /// Only the app's name, in a test notification.
        case nothing
    }

    /// The transaction that it is about, if it is about one.
    public var transaction: JWSTransactionDecodedPayload? {
        switch subject {
        case .purchase(let transaction), .subscription(let transaction, _, _): transaction
        case .summary, .externalPurchase, .app, .nothing: nil
        }
    }

    /// The subscription's renewal info, if it is about a subscription.
    public var renewal: JWSRenewalInfoDecodedPayload? {
        if case .subscription(_, let renewal, _) = subject { renewal } else { nil }
    }

    /// The subscription's status, if it is about a subscription.
    public var status: SubscriptionStatus? {
        if case .subscription(_, _, let status) = subject { status } else { nil }
    }
}

/// The type of a notification of the App Store, version 2.
public struct Notice: Hashable, Sendable {
    /// `notificationType`.
    public let type: NotificationTypeV2
    /// `subtype`.
    public let subtype: NotificationSubtype?
    /// Why the customer wants a refund: of a consumption request only.
    public let reason: ConsumptionRequestReason?

    init(
        _ type: NotificationTypeV2, _ subtype: NotificationSubtype? = nil, reason: ConsumptionRequestReason? = nil
    ) {
        self.type = type
        self.subtype = subtype
        self.reason = reason
    }
}

/// An event that is not possible in the present state.
public struct ImpossibleEvent: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was tried, and the state that does not allow it.
    public let description: String
}
