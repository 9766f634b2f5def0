// SPDX-License-Identifier: Apache-2.0

/// Where a ledger is.
public enum LedgerLocation: Hashable, Sendable, CustomStringConvertible {
    /// A SQLite file.
    case sqlite(path: String)
    /// A PostgreSQL database, by its URI, which may contain a password.
    case postgresql(uri: String)

    /// The allowed forms, for error texts.
    package static let expected = "sqlite:PATH or postgresql://USER@HOST/DATABASE"

    private static let sqlite = "sqlite:"
    private static let schemes = ["postgresql://", "postgres://"]

    /// Parses a location, without the white space around it; `nil` if the text is not one.
    public init?(_ text: String) {
        // ``parse(_:)`` is for those who say why.
        guard let location = try? Self.parse(text) else { return nil }
        self = location
    }

    /// Parses a location, without the white space around it.
    ///
    /// - Throws: ``Fault``.
    package static func parse(_ text: String) throws(Fault) -> LedgerLocation {
        let text = String(text.trimming(while: \.isWhitespace))
        if schemes.contains(where: text.hasPrefix) { return .postgresql(uri: text) }
        guard text.hasPrefix(sqlite) else { throw Fault(ofScheme: text) }
        let path = String(text.dropFirst(sqlite.count))
        guard !path.isEmpty else { throw Fault("There is no path after sqlite:") }
        // Otherwise the password of a database would be the name of a file.
        guard !path.contains("://"), !path.hasPrefix("//") || !path.contains("@"), !path.contains("password=") else {
            throw Fault("After sqlite: comes the path of a file, not an address")
        }
        return .sqlite(path: path)
    }

    /// The text that ``init(_:)`` parses for a file. Nothing of the address of a database, which may have a password.
    public var description: String {
        switch self {
        case .sqlite(let path): Self.sqlite + path
        case .postgresql: "postgresql://…"
        }
    }
}

extension LedgerLocation {
    /// Why a text is no location. It repeats nothing of the text, which may have a password.
    package struct Fault: Error, CustomStringConvertible {
        private let reason: String

        fileprivate init(_ reason: String) { self.reason = reason }

        /// - Parameter text: A text that begins with no known scheme.
        fileprivate init(ofScheme text: String) {
            if text.isEmpty {
                reason = "There is nothing"
            } else if text.contains("://") {
                reason = "It begins with another scheme"
            } else if text.contains("=") {
                reason = "libpq's other form, with host=…, is not taken"
            } else {
                reason = "It begins with neither sqlite: nor postgresql://"
            }
        }

        /// A sentence, with the forms that are taken.
        package var description: String { "Expected \(LedgerLocation.expected). \(reason)." }
    }
}
