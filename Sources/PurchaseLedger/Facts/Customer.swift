// SPDX-License-Identifier: Apache-2.0

/// A customer of one app, by the number that the ledger gave. The app's own ids for the same person are its aliases.
public struct Customer: Hashable, Sendable {
    public var number: Int64
    public var bundleId: String

    public init(number: Int64, bundleId: String) {
        self.number = number
        self.bundleId = bundleId
    }
}

extension String {
    /// A customer's id as the ledger compares it: a UUID, as `appAccountToken` is one, is the same in large and small letters; other
    /// ids are as they are.
    package var normalizedCustomerID: String {
        guard utf8.count == 36 else { return self }
        var digits = 0
        for byte in utf8 where byte != UInt8(ascii: "-") {
            guard byte.isHexDigit else { return self }
            digits += 1
        }
        return digits == 32 ? lowercased() : self
    }

    /// An account that a document names; `nil` where that is nobody.
    var normalizedAccountToken: String? { isEmpty ? nil : normalizedCustomerID }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}

/// Why a purchase counts as a customer's.
public enum LinkReason: String, CaseIterable, Sendable {
    /// The purchase bears an `appAccountToken` that is one of the customer's ids.
    case appAccountToken
    /// The customer presented the purchase.
    case claim
}

/// What happens if a customer presents a purchase that another customer has.
///
/// One Apple Account may stand behind several accounts of an app, and one account may be restored on many devices.
public enum ClaimPolicy: String, CaseIterable, Sendable {
    /// As ``transfer``, but for a purchase whose newest `appAccountToken` names another customer, if that customer exists in
    /// its own right (``CustomerRecord/isEstablished``): that purchase stays with its present owner. The customer it names
    /// gets it by presenting it.
    case accountTokenWins
    /// Ownership moves to the customer who presents the purchase.
    case transfer
    /// As ``transfer`` if the purchase entitles its owner to nothing now; else it stays.
    case transferIfInactive
    /// The purchase stays with its present owner.
    case keep
    /// The customer who presents it becomes another owner.
    case share
}
