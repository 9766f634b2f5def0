// SPDX-License-Identifier: Apache-2.0

/// Where a ledger is.
public enum LedgerLocation: Hashable, Sendable, CustomStringConvertible {
    /// A SQLite file.
    case sqlite(path: String)
    /// A PostgreSQL database, by its URI, which may contain a password.
    case postgresql(uri: String)

    /// The allowed forms, for error texts.
    package static let expected = "sqlite:PATH or postgresql://…"

    private static let sqlite = "sqlite:"

    /// Parses a location; `nil` if the text is not one.
    public init?(_ text: String) {
        if text.hasPrefix("postgresql://") || text.hasPrefix("postgres://") {
            self = .postgresql(uri: text)
            return
        }
        let path = String(text.dropFirst(Self.sqlite.count))
        guard text.hasPrefix(Self.sqlite), !path.isEmpty else { return nil }
        self = .sqlite(path: path)
    }

    /// The text that ``init(_:)`` parses; for an address with a password only its beginning.
    public var description: String {
        switch self {
        case .sqlite(let path): Self.sqlite + path
        case .postgresql(let uri) where Self.hasPassword(uri): "postgresql://…"
        case .postgresql(let uri): uri
        }
    }

    /// Whether a URI may contain a password: before the host, or as a parameter.
    private static func hasPassword(_ uri: String) -> Bool {
        let rest = uri.drop { $0 != "/" }.dropFirst(2)
        guard let end = rest.lastIndex(of: "@") else { return uri.contains("password") }
        return rest[..<end].contains(":") || uri.contains("password")
    }
}
