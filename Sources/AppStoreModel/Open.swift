// SPDX-License-Identifier: Apache-2.0

/// A wire value whose vocabulary Apple may extend without notice.
///
/// `Known` lists the words that this version understands. Any other value is kept exactly as received: decoding never
/// fails for a new word, and encoding never loses it.
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

    /// The word, or `nil` if this version does not know it.
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

/// Whether there is a value and it is `word`.
@inlinable
public func == <Known>(value: Open<Known>?, word: Known) -> Bool { value?.rawValue == word.rawValue }

/// Whether there is no value, or one other than `word`.
@inlinable
public func != <Known>(value: Open<Known>?, word: Known) -> Bool { value?.rawValue != word.rawValue }
