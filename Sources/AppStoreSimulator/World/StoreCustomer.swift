// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A customer of a simulated App Store: an Apple Account with its download of the app.
public struct StoreCustomer: Hashable, Sendable {
    /// The name by which tests call the customer. No document has it.
    public let name: String
    public let environment: Environment
    public var storefront: Storefront
    /// The UUID that the app attaches to purchases: the app's own account of the customer.
    public var appAccountToken: String?
    /// Whether charges succeed.
    public internal(set) var canPay = true
    /// The customer's download of the app: a string of digits.
    public let appTransactionId: String
    /// When the customer first downloaded the app.
    public let downloadDate: Timestamp
    /// Members of the customer's family, who get what is shareable.
    public internal(set) var family: [String] = []
    /// Groups of which the customer had a subscription, which ends the right to introductory offers.
    var groupsUsed: Set<String> = []
}
