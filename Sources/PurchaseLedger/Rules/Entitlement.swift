// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What a customer may use, by which purchase and until when.
public struct Entitlement: Hashable, Sendable {
    /// Why it is granted.
    public enum Reason: String, CaseIterable, Sendable {
        /// A subscription in a paid period.
        case subscription
        /// A subscription in its grace period, after a failed charge.
        case billingGrace
        /// A subscription whose renewal has not arrived, within the configured leeway.
        case stale
        /// A non-consumable, or a non-renewing subscription.
        case purchase
    }

    /// The entitlement, as named in the catalogue.
    public var name: String
    /// Why the customer is entitled.
    public var reason: Reason
    /// The product that grants it.
    public var productId: String
    /// The transaction that grants it.
    public var transactionId: String
    /// The first purchase of the chain that grants it.
    public var originalTransactionId: String
    /// The instant at which it ends; `nil` for no end.
    public var until: Timestamp?
    /// Whether the customer bought the product or got it from a family member.
    public var ownership: Open<InAppOwnershipType>?
}

/// A purchase of a consumable. The app itself keeps count of what was used.
public struct ConsumablePurchase: Hashable, Sendable {
    /// The product that was bought.
    public var productId: String
    /// The transaction id, by which an app credits the purchase once.
    public var transactionId: String
    /// The name of the chain; see ``ChainKey/name``.
    public var chainName: String
    /// When the product was bought.
    public var purchaseDate: Timestamp?
    /// How many were bought. Never negative.
    public var quantity: Int
    /// How many of them were refunded, rounded down; all if the purchase is refused.
    public var revokedQuantity: Int
}

extension PurchaseHistory {
    /// The consumables among the purchases.
    var consumables: [ConsumablePurchase] {
        purchases.elements { $0.type == .consumable }.map { ConsumablePurchase($0, isRefused: isRefused) }
    }
}

extension ConsumablePurchase {
    fileprivate init(_ purchase: TransactionStatement, isRefused: Bool) {
        productId = purchase.productId
        transactionId = purchase.transactionId
        chainName = purchase.chainName
        purchaseDate = purchase.purchaseDate
        quantity = purchase.quantity
        revokedQuantity = purchase.revokedQuantity(isRefused: isRefused) ?? 0
    }
}

extension TransactionStatement {
    /// How many of ``quantity`` were taken back: seats of a multi-seat subscription, and refunded consumables, rounded
    /// down. `nil` for all other purchases: the refunded part of a subscription is time, not a number.
    package var revokedQuantity: Int? {
        // Never more than there are, whatever the document says.
        if let revokedSeats { return min(max(0, revokedSeats), quantity) }
        guard type == .consumable, let revocation else { return nil }
        // Only a prorated refund has a percentage. Any other refund is of all of it.
        let percentage = revocation.type == .refundProrated ? revocation.percentage ?? 100_000 : 100_000
        let taken = quantity.multipliedReportingOverflow(by: min(max(0, percentage), 100_000))
        return taken.overflow ? quantity : taken.partialValue / 100_000
    }

    /// As ``revokedQuantity``. Of a refused purchase all counts as taken back.
    package func revokedQuantity(isRefused: Bool) -> Int? {
        guard isRefused else { return revokedQuantity }
        return type == .consumable || revokedSeats != nil ? quantity : nil
    }
}
