// SPDX-License-Identifier: Apache-2.0

/// A wire value whose vocabulary Apple may extend without notice.
///
/// `Known` lists the words that this version understands. Any other value is kept exactly as received: a new word
/// never fails decoding, and encoding never loses it.
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

    public init(rawValue: Known.RawValue) {
        self.rawValue = rawValue
    }

    public init(_ known: Known) {
        self.init(rawValue: known.rawValue)
    }

    /// The word, or `nil` when this version does not know it.
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

// Optional on the left, since nearly every member of Apple's payloads may be missing.

/// Whether there is a value and it is `word`.
@inlinable
public func == <Known>(value: Open<Known>?, word: Known) -> Bool { value?.rawValue == word.rawValue }

/// Whether there is no value or it is another than `word`.
@inlinable
public func != <Known>(value: Open<Known>?, word: Known) -> Bool { value?.rawValue != word.rawValue }
