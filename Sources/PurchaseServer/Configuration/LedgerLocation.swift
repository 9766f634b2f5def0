// SPDX-License-Identifier: Apache-2.0

/// Where a ledger is, such as `sqlite:quittance.sqlite`.
public enum LedgerLocation: Hashable, Sendable, CustomStringConvertible {
    /// In a file.
    case sqlite(path: String)

    /// What it may be, for people.
    package static let expected = "sqlite:PATH"

    private static let sqlite = "sqlite:"

    /// - Returns: `nil` if the text names no location.
    public init?(_ text: String) {
        let path = String(text.dropFirst(Self.sqlite.count))
        guard text.hasPrefix(Self.sqlite), !path.isEmpty else { return nil }
        self = .sqlite(path: path)
    }

    public var description: String {
        switch self {
        case .sqlite(let path): Self.sqlite + path
        }
    }
}
