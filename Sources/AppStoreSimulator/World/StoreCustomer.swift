// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A customer of a simulated App Store: an Apple Account with its download of the app.
public struct StoreCustomer: Hashable, Sendable {
    /// The name by which tests identify the customer. No document contains the name.
    public let name: String
    /// Production or sandbox. A customer has only one environment.
    public let environment: Environment
    /// The App Store in which the customer shops.
    public var storefront: Storefront
    /// The UUID that the app attaches to purchases: the app's own account of the customer.
    public var appAccountToken: String?
    /// Whether charges succeed.
    public internal(set) var canPay = true
    /// Whether a parent must approve purchases (Ask to Buy).
    public internal(set) var asksToBuy = false
    /// The id of the customer's download of the app: a string of digits.
    public let appTransactionId: String
    /// The time of the customer's first download of the app.
    public let downloadDate: Timestamp
    /// `identifierForVendor` of the customer's device, a UUID in lower case. The hash in a receipt shows for which
    /// device the receipt is.
    public let device: String
    /// The device's verification id (`AppStore.deviceVerificationID`), a UUID in lower case. With this id, an app can
    /// check that a document from StoreKit is for the device.
    public let deviceVerificationID: String
    /// The names of the family's other members. All members share the shareable products.
    public internal(set) var family: [String] = []
    /// Original transaction ids of the customer's subscriptions, in the order of the first purchases.
    public internal(set) var subscriptions: [String] = []
    /// Transaction ids of the customer's purchases other than subscriptions, in the order of the purchases.
    public internal(set) var purchases: [String] = []
    /// The groups in which the customer has had a subscription. In these groups, the customer has no right to
    /// introductory offers.
    var groupsUsed: Set<String> = []
}
