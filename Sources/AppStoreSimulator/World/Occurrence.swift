// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An event in a simulated App Store about which the App Store sends a notification, with the payloads that it signs
/// for the notification.
public struct Occurrence: Hashable, Sendable {
    /// The time of the event, and `signedDate` of all documents about the event.
    public let date: Timestamp
    /// `notificationUUID` of the event's notification, equal in every delivery.
    public let id: String
    /// The name of the event's customer; `nil` if the event belongs to no customer.
    public let customer: String?
    /// Production or sandbox.
    public let environment: Environment
    /// The type and subtype of the event's notification.
    public let topic: NotificationTopic
    /// The content of the event's notification.
    public let subject: Subject

    /// The content of a notification. The payloads do not have their `signedDate` yet: signing sets it to
    /// ``Occurrence/date``.
    public enum Subject: Hashable, Sendable {
        /// A purchase other than a subscription.
        case purchase(JWSTransactionDecodedPayload)
        /// A subscription: a transaction, the renewal info and the status.
        case subscription(JWSTransactionDecodedPayload, JWSRenewalInfoDecodedPayload, SubscriptionStatus)
        /// The end of a mass extension.
        case summary(NotificationSummary)
        /// A token by which the app reports purchases outside the App Store.
        case externalPurchase(ExternalPurchaseToken)
        /// The customer's download of the app.
        case app(AppTransaction)
        /// No content of its own: a test notification only identifies the app.
        case nothing
    }

    /// The event's transaction; `nil` if the event has none.
    public var transaction: JWSTransactionDecodedPayload? {
        switch subject {
        case .purchase(let transaction), .subscription(let transaction, _, _): transaction
        case .summary, .externalPurchase, .app, .nothing: nil
        }
    }

    /// The subscription's renewal info; `nil` if the event is not about a subscription.
    public var renewal: JWSRenewalInfoDecodedPayload? {
        if case .subscription(_, let renewal, _) = subject { renewal } else { nil }
    }

    /// The subscription's status; `nil` if the event is not about a subscription.
    public var status: SubscriptionStatus? {
        if case .subscription(_, _, let status) = subject { status } else { nil }
    }
}

/// The type and the subtype of a version 2 notification.
public struct NotificationTopic: Hashable, Sendable {
    /// `notificationType`.
    public let type: NotificationTypeV2
    /// `subtype`.
    public let subtype: NotificationSubtype?
    /// The customer's reason for a refund, in a consumption request only.
    public let reason: ConsumptionRequestReason?

    init(
        _ type: NotificationTypeV2, _ subtype: NotificationSubtype? = nil, reason: ConsumptionRequestReason? = nil
    ) {
        self.type = type
        self.subtype = subtype
        self.reason = reason
    }
}

/// The error for an event that is not possible in the present state.
public struct ImpossibleEvent: Error, Hashable, Sendable, CustomStringConvertible {
    /// The attempted event, and the state that forbids the event.
    public let description: String
}
