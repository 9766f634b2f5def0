// SPDX-License-Identifier: Apache-2.0

/// The options of a purchase, apart from the product.
public struct PurchaseOptions: Hashable, Sendable {
    /// The name of a promotional offer, offer code or win-back offer. Without a name, a new subscriber of the group
    /// gets the introductory offer, if the product has one.
    public var offer: String?
    /// The quantity: 1 to 10, and more than 1 for consumables only.
    public var quantity = 1
    /// Whether the customer commits to twelve months and pays monthly.
    public var isMonthly = false
    /// Whether the customer first enters a valid card, which also pays for failed renewals.
    public var hasNewCard = false
    /// The account token that the app attaches to this purchase, a UUID; `nil` for the customer's.
    public var appAccountToken: String?

    /// Creates the options of a purchase.
    public init(
        offer: String? = nil, quantity: Int = 1, isMonthly: Bool = false, hasNewCard: Bool = false,
        appAccountToken: String? = nil
    ) {
        self.appAccountToken = appAccountToken
        self.hasNewCard = hasNewCard
        self.offer = offer
        self.quantity = quantity
        self.isMonthly = isMonthly
    }
}

/// A purchase that waits for a parent's approval.
public struct WaitingPurchase: Hashable, Sendable {
    /// The product's name.
    public let product: String
    /// The customer's name.
    public let customer: String
    /// The options of the purchase.
    public let options: PurchaseOptions
}
