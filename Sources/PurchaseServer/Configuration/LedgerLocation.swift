// SPDX-License-Identifier: Apache-2.0

/// The location of a ledger.
public enum LedgerLocation: Hashable, Sendable, CustomStringConvertible {
    /// A SQLite file.
    case sqlite(path: String)
    /// A PostgreSQL database, by its URI. The URI may contain a password.
    case postgresql(uri: String)

    /// The allowed forms, for error texts.
    package static let expected = "sqlite:PATH or postgresql://USER@HOST/DATABASE"

    private static let sqlite = "sqlite:"
    private static let schemes = ["postgresql://", "postgres://"]

    /// Parses a location, ignoring white space around the text; `nil` if the text is not a location.
    public init?(_ text: String) {
        // For the reason of a failure, callers use ``parse(_:)``.
        guard let location = try? Self.parse(text) else { return nil }
        self = location
    }

    /// Parses a location, ignoring white space around the text.
    ///
    /// - Throws: ``Fault``.
    package static func parse(_ text: String) throws(Fault) -> LedgerLocation {
        let text = String(text.trimming(while: \.isWhitespace))
        if schemes.contains(where: text.hasPrefix) { return .postgresql(uri: text) }
        guard text.hasPrefix(sqlite) else { throw Fault(ofScheme: text) }
        let path = String(text.dropFirst(sqlite.count))
        guard !path.isEmpty else { throw Fault("There is no path after sqlite:") }
        // Otherwise the password of a database would become a part of a file's name.
        guard !path.contains("://"), !path.hasPrefix("//") || !path.contains("@"), !path.contains("password=") else {
            throw Fault("After sqlite: comes the path of a file, not an address")
        }
        return .sqlite(path: path)
    }

    /// For a file, the text that ``init(_:)`` parses. For a database, a text without the address, because the address
    /// may contain a password.
    public var description: String {
        switch self {
        case .sqlite(let path): Self.sqlite + path
        case .postgresql: "postgresql://…"
        }
    }
}

extension LedgerLocation {
    /// The reason why a text is not a location. The error repeats no part of the text, because the text may contain a
    /// password.
    package struct Fault: Error, CustomStringConvertible {
        private let reason: String

        fileprivate init(_ reason: String) { self.reason = reason }

        /// - Parameter text: A text without a known scheme at its beginning.
        fileprivate init(ofScheme text: String) {
            if text.isEmpty {
                reason = "There is nothing"
            } else if text.contains("://") {
                reason = "The address begins with another scheme"
            } else if text.contains("=") {
                reason = "libpq's other form, with host=…, is not taken"
            } else {
                reason = "The address begins with neither sqlite: nor postgresql://"
            }
        }

        /// A sentence with the accepted forms and the reason.
        package var description: String { "Expected \(LedgerLocation.expected). \(reason)." }
    }
}
