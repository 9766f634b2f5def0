// SPDX-License-Identifier: Apache-2.0

/// The location of a ledger, such as `sqlite:quittance.sqlite`.
public enum LedgerLocation: Hashable, Sendable, CustomStringConvertible {
    /// A SQLite file.
    case sqlite(path: String)

    /// The allowed form, for error texts.
    package static let expected = "sqlite:PATH"

    private static let sqlite = "sqlite:"

    /// Parses a location; `nil` if the text is not one.
    public init?(_ text: String) {
        let path = String(text.dropFirst(Self.sqlite.count))
        guard text.hasPrefix(Self.sqlite), !path.isEmpty else { return nil }
        self = .sqlite(path: path)
    }

    /// The text that ``init(_:)`` parses.
    public var description: String {
        switch self {
        case .sqlite(let path): Self.sqlite + path
        }
    }
}
