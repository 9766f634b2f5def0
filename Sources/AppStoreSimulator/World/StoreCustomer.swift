// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A customer of a simulated App Store: an Apple Account with its download of the app.
public struct StoreCustomer: Hashable, Sendable {
    /// The name by which tests call the customer. No document has it.
    public let name: String
    /// Production or sandbox. A customer belongs to one of them.
    public let environment: Environment
    /// The App Store in which the customer shops.
    public var storefront: Storefront
    /// The UUID that the app attaches to purchases: the app's own account of the customer.
    public var appAccountToken: String?
    /// Whether charges succeed.
    public internal(set) var canPay = true
    /// Whether a parent must approve purchases (Ask to Buy).
    public internal(set) var asksToBuy = false
    /// The customer's download of the app: a string of digits.
    public let appTransactionId: String
    /// When the customer first downloaded the app.
    public let downloadDate: Timestamp
    /// `identifierForVendor` of the customer's device, a UUID in lower case: the device hash of receipts binds them to
    /// it.
    public let device: String
    /// The device's verification id (`AppStore.deviceVerificationID`), a UUID in lower case: what StoreKit gives an app
    /// is bound to the device by it.
    public let deviceVerificationID: String
    /// The names of the family's other members, who get what is shareable.
    public internal(set) var family: [String] = []
    /// Original transaction ids of the customer's subscriptions, in the order of the first purchases.
    public internal(set) var subscriptions: [String] = []
    /// Transaction ids of what the customer bought and what is no subscription, in the order of the purchases.
    public internal(set) var purchases: [String] = []
    /// Groups of which the customer had a subscription, which ends the right to introductory offers.
    var groupsUsed: Set<String> = []
}
