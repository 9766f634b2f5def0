// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An entitlement of a customer: its name, the purchase or grant that gives it, and its end.
public struct Entitlement: Hashable, Sendable {
    /// The reason for an entitlement.
    public enum Reason: String, CaseIterable, Sendable {
        /// A subscription in a paid period.
        case subscription
        /// A subscription in its grace period, after a failed charge.
        case billingGrace
        /// An ended subscription without news of its renewal, within ``Catalogue/staleLeeway`` after its end.
        case stale
        /// A non-consumable, or a non-renewing subscription.
        case purchase
        /// A grant by the app's operator (``CustomerGrant``).
        case grant
        /// The purchase of the app itself; see ``Catalogue/appPurchase``.
        case appPurchase
    }

    /// The entitlement, as named in the catalogue.
    public var name: String
    /// The reason for the entitlement.
    public var reason: Reason
    /// The granting product; `nil` if the entitlement comes from a grant or from the purchase of the app itself, as are
    /// the next two members.
    public var productId: String?
    /// The granting transaction.
    public var transactionId: String?
    /// The original transaction id of the granting purchase.
    public var originalTransactionId: String?
    /// The id of the grant (``CustomerGrant/id``); `nil` if the entitlement comes from a purchase.
    public var grantId: String?
    /// The end of the entitlement; `nil` for no end.
    public var until: Timestamp?
    /// Whether the customer bought the product or got it from a family member.
    public var ownership: Open<InAppOwnershipType>?
}

/// A purchase of a consumable. The app itself counts the used units.
public struct ConsumablePurchase: Hashable, Sendable {
    /// The product of the purchase.
    public var productId: String
    /// The transaction id, by which the app can make sure that it credits the purchase only once.
    public var transactionId: String
    /// The name of the chain; see ``ChainKey/name``.
    public var chainName: String
    /// The date of the purchase.
    public var purchaseDate: Timestamp?
    /// The number of bought units. Never negative.
    public var quantity: Int
    /// The number of refunded units, rounded down; all units if the operator refuses the purchase.
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
    /// The number of revoked units among ``quantity``: seats of a multi-seat subscription, or refunded consumables,
    /// rounded down. `nil` for a consumable without a refund, and for any purchase that is neither a consumable nor a
    /// multi-seat subscription. The refunded part of any other subscription is a period of time, not a number of units.
    package var revokedQuantity: Int? {
        // Never more than `quantity`, whatever the document says.
        if let revokedSeats { return min(max(0, revokedSeats), quantity) }
        guard type == .consumable, let revocation else { return nil }
        // Only a prorated refund has a percentage. Any other refund is complete.
        let percentage = revocation.type == .refundProrated ? revocation.percentage ?? 100_000 : 100_000
        let taken = quantity.multipliedReportingOverflow(by: min(max(0, percentage), 100_000))
        return taken.overflow ? quantity : taken.partialValue / 100_000
    }

    /// The same as ``revokedQuantity``, except for a purchase that the operator refuses: all its units count as
    /// revoked.
    package func revokedQuantity(isRefused: Bool) -> Int? {
        guard isRefused else { return revokedQuantity }
        return type == .consumable || revokedSeats != nil ? quantity : nil
    }
}
