// SPDX-License-Identifier: Apache-2.0

/// A wire value whose vocabulary Apple may extend without notice.
///
/// `Known` lists the words known to this version of the library. Any other value is kept exactly as received. Decoding
/// never fails because of a new word, and encoding never loses the word.
///
/// ```swift
/// switch transaction.type?.known {
/// case .autoRenewableSubscription: …
/// case nil: keepForLater(transaction.type?.rawValue)
/// …
/// }
/// ```
public struct Open<Known>: RawRepresentable, Hashable, Sendable
where Known: RawRepresentable & Sendable, Known.RawValue: Hashable & Codable & Sendable {
    /// The value as it appears on the wire.
    public let rawValue: Known.RawValue

    /// A value as it appears on the wire.
    public init(rawValue: Known.RawValue) {
        self.rawValue = rawValue
    }

    /// The value of a known word.
    public init(_ known: Known) {
        self.init(rawValue: known.rawValue)
    }

    /// The known word, or `nil` if this version does not know the value.
    public var known: Known? { Known(rawValue: rawValue) }
}

extension Open: Codable {
    public init(from decoder: any Decoder) throws {
        self.init(rawValue: try decoder.singleValueContainer().decode(Known.RawValue.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }
}

extension Open: CustomStringConvertible {
    /// The wire value as text.
    public var description: String { "\(rawValue)" }
}

// The left side is optional, since nearly every member of Apple's payloads may be missing.

/// Whether the value exists and equals `word`.
@inlinable
public func == <Known>(value: Open<Known>?, word: Known) -> Bool { value?.rawValue == word.rawValue }

/// Whether the value is missing or differs from `word`.
@inlinable
public func != <Known>(value: Open<Known>?, word: Known) -> Bool { value?.rawValue != word.rawValue }
