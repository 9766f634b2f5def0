// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Something that happened in a simulated App Store, and what the App Store signs about it.
public struct Occurrence: Hashable, Sendable {
    /// When it happened: `signedDate` of all that is signed about it.
    public let date: Timestamp
    /// `notificationUUID` of its notification, the same in every delivery.
    public let id: String
    /// The customer that it happened to; `nil` if it is about none.
    public let customer: String?
    public let environment: Environment
    public let notice: Notice
    /// The transaction as it was then, without `signedDate`.
    public let transaction: JWSTransactionDecodedPayload?
    /// A subscription's renewal info as it was then, without `signedDate`.
    public let renewal: JWSRenewalInfoDecodedPayload?
    /// Apple's verdict on the subscription then.
    public let status: SubscriptionStatus?
}

extension SubscriptionChain.State {
    /// The status that Apple signs.
    var status: SubscriptionStatus {
        switch self {
        case .active: .active
        case .grace: .billingGracePeriod
        case .retry: .billingRetry
        case .expired: .expired
        case .revoked: .revoked
        }
    }
}
