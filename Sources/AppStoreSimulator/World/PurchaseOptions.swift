// SPDX-License-Identifier: Apache-2.0

/// What a customer asks for beside the product.
public struct PurchaseOptions: Hashable, Sendable {
    /// The name of a promotional offer, offer code or win-back offer. Without one, a new subscriber of the group gets
    /// the introductory offer if there is one.
    public var offer: String?
    /// How many: 1 to 10, more than 1 of consumables only.
    public var quantity = 1
    /// Whether the customer commits to twelve months and pays each of them.
    public var isMonthly = false
    /// Whether the customer first enters a card that can pay.
    public var hasNewCard = false

    /// Creates the options of a purchase.
    public init(offer: String? = nil, quantity: Int = 1, isMonthly: Bool = false, hasNewCard: Bool = false) {
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
    /// What the customer asks for.
    public let options: PurchaseOptions
}
