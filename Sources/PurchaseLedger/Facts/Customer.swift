// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A customer of one app, identified by a number from the ledger. The app may have several ids for the same customer.
public struct Customer: Hashable, Sendable {
    /// The number of the customer, assigned by the storage.
    public var number: Int64
    /// The customer's app.
    public var bundleId: String

    public init(number: Int64, bundleId: String) {
        self.number = number
        self.bundleId = bundleId
    }
}

/// An id that the app uses for a customer.
///
/// Ids are compared byte by byte, as storages and customer proofs compare them. Swift's strings are also equal if they
/// are canonically equivalent in Unicode, such as `K` and the Kelvin sign. With this comparison, a customer would get
/// the answers of a stranger.
public struct CustomerID: Hashable, Sendable {
    /// The app to which the id belongs.
    public var bundleId: String
    /// The id, normalized by `String.normalizedCustomerID`.
    public var id: String

    /// - Parameter id: The app's id, not yet normalized.
    public init(_ id: String, of bundleId: String) {
        self.bundleId = bundleId
        self.id = id.normalizedCustomerID
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.id.isSameID(as: right.id) && left.bundleId == right.bundleId
    }

    public func hash(into hasher: inout Hasher) {
        // Equal bytes have equal hashes as strings too. Canonically equivalent ids only collide.
        hasher.combine(id)
        hasher.combine(bundleId)
    }
}

extension String {
    /// Whether two ids of customers are the same, byte by byte.
    package func isSameID(as other: String) -> Bool {
        // The views of bytes have no address, and take ten times as long.
        var left = self
        var right = other
        return left.withUTF8 { left in right.withUTF8 { left.elementsEqual($0) } }
    }

    /// The form in which the ledger compares customer ids. A UUID, such as an `appAccountToken`, becomes lowercase.
    /// Other ids stay unchanged.
    package var normalizedCustomerID: String {
        guard utf8.count == 36 else { return self }
        var digits = 0
        var isLowercase = true
        for byte in utf8 where byte != UInt8(ascii: "-") {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): break
            case UInt8(ascii: "A")...UInt8(ascii: "F"): isLowercase = false
            default: return self
            }
            digits += 1
        }
        return digits == 32 && !isLowercase ? lowercased() : self
    }

    /// The normalized `appAccountToken` of a document; `nil` if the token is no id of a customer: nobody could read or
    /// delete the customer by it. Apple documents a UUID.
    var normalizedAccountToken: String? { TextForm.customerID.allows(self) ? normalizedCustomerID : nil }
}

/// The reason why a purchase belongs to a customer.
public enum LinkReason: String, CaseIterable, Sendable {
    /// The `appAccountToken` of the purchase is an id of the customer.
    case appAccountToken
    /// The customer presented the purchase.
    case claim
    /// The app's backend or the operator made the customer an owner.
    case correction
}

extension Open<LinkReason> {
    /// Whether the ownership stays when a document names a different account.
    var isDecided: Bool { self == .claim || self == .correction }
}

/// The rule that applies when a customer presents a purchase that belongs to a different customer.
///
/// Presenting another customer's purchase need not be abuse. An Apple Account may be used with several accounts of an
/// app, and an account of an app may be used on many devices.
public enum ClaimPolicy: String, CaseIterable, Sendable {
    /// The same as ``transfer``, with one exception. If the newest `appAccountToken` of the purchase names a customer
    /// other than the one who presents it, and the named customer exists in its own right
    /// (``CustomerRecord/isEstablished``), the purchase stays with its owner. The named customer gets the purchase by
    /// presenting it.
    case accountTokenWins
    /// Ownership moves to the customer that presents the purchase.
    case transfer
    /// Ownership moves only if the purchase is not in force at present: it is over, refunded, refused or a consumable.
    /// A purchase in force stays even if the catalogue gives nothing for it.
    case transferIfInactive
    /// The purchase stays with its owner.
    case keep
    /// The customer that presents the purchase becomes an additional owner.
    case share
}

// Names of the catalogue are compared byte for byte, as ids are: `==` takes the Kelvin sign for a K.

extension Dictionary where Key == String {
    /// The value of a key that has the same bytes.
    package subscript(exactly key: String) -> Value? {
        index(forKey: key).flatMap { self[$0].key.isSameID(as: key) ? self[$0].value : nil }
    }
}

extension Set<String> {
    /// Whether a member has the same bytes.
    package func hasExactly(_ name: String) -> Bool {
        firstIndex(of: name).map { self[$0].isSameID(as: name) } ?? false
    }
}
