// SPDX-License-Identifier: Apache-2.0

/// A customer of one app, under the number that the ledger assigned. The app's own ids for one person are aliases of
/// it.
public struct Customer: Hashable, Sendable {
    /// The number that the storage gave to the customer.
    public var number: Int64
    /// The app to which the id belongs.
    public var bundleId: String

    public init(number: Int64, bundleId: String) {
        self.number = number
        self.bundleId = bundleId
    }
}

/// One of the app's own ids for a customer.
public struct CustomerID: Hashable, Sendable {
    /// The app to which the id belongs.
    public var bundleId: String
    /// Normalized, see `String.normalizedCustomerID`.
    public var id: String

    /// - Parameter id: In any form.
    public init(_ id: String, of bundleId: String) {
        self.bundleId = bundleId
        self.id = id.normalizedCustomerID
    }
}

extension String {
    /// A customer's id as the ledger compares it. A UUID, the form of an `appAccountToken`, is in small letters; other
    /// ids stay as they are.
    package var normalizedCustomerID: String {
        guard utf8.count == 36 else { return self }
        var (digits, isLowercase) = (0, true)
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

    /// The `appAccountToken` of a document; `nil` if it is empty, which names no account.
    var normalizedAccountToken: String? { isEmpty ? nil : normalizedCustomerID }
}

/// Why a purchase belongs to a customer.
public enum LinkReason: String, CaseIterable, Sendable {
    /// The `appAccountToken` of the purchase is one of the customer's ids.
    case appAccountToken
    /// The customer presented the purchase.
    case claim
}

/// What happens if a customer presents a purchase that belongs to another customer.
///
/// One Apple Account may be used with several accounts of an app, and one account on many devices.
public enum ClaimPolicy: String, CaseIterable, Sendable {
    /// As ``transfer``, except for a purchase whose newest `appAccountToken` names another customer that exists in its
    /// own right (``CustomerRecord/isEstablished``). That purchase stays with its owner. The customer that the token
    /// names gets it by presenting it.
    case accountTokenWins
    /// Ownership moves to the customer who presents the purchase.
    case transfer
    /// As ``transfer`` if the purchase entitles its owner to nothing now. Otherwise it stays.
    case transferIfInactive
    /// The purchase stays with its owner.
    case keep
    /// The customer who presents the purchase becomes another owner.
    case share
}

extension LinkReason: Storable {}
