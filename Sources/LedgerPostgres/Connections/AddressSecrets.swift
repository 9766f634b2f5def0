// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Removes passwords and other secrets from error messages. libpq quotes any part of an address that it cannot parse,
/// and PostgreSQL quotes names that do not exist. If an `@` or `/` in a password is not escaped, the rest of the
/// password is taken for a host, a port or a name, and so may appear in a message.
struct AddressSecrets: Sendable {
    @Hidden private var passwords: [String]
    @Hidden private var others: [String]

    /// The parameters whose values may be repeated in messages. Without these values, an operator could not find the
    /// mistake.
    private static let shown: Set = [
        "host", "hostaddr", "port", "user", "dbname", "application_name", "fallback_application_name", "sslrootcert",
        "sslcert", "sslkey", "sslcrl", "passfile", "service", "client_encoding", "connect_timeout",
    ]

    /// - Parameters:
    ///   - given: The parameters of the address.
    ///   - environment: The parameters from environment variables, such as `PGPASSWORD`.
    init(_ given: [String: String], _ environment: [String: String]) {
        let all = given.map { ($0.key, $0.value) } + environment.map { ($0.key, $0.value) }
        passwords = all.filter { $0.0.hasSuffix("password") && !$0.1.isEmpty }.map(\.1)
        others = given.filter { !Self.shown.contains($0.key) && !$0.value.isEmpty }.map(\.value)
    }

    /// The message, with an ellipsis in place of each password and of each quoted value that must stay secret.
    func remove(from message: String) -> String {
        let message = others.reduce(message) { $0.replacing("\"\($1)\"", with: "\"…\"") }
        return passwords.reduce(message) { $0.replacing($1, with: "…") }
    }
}

extension AddressSecrets {
    /// The reason to refuse a URI before libpq parses it; `nil` if the URI is acceptable, or if the text is no URI. The
    /// reason repeats no part of the URI.
    static func fault(in uri: String) -> String? {
        guard let scheme = ["postgresql://", "postgres://"].first(where: uri.hasPrefix) else { return nil }
        let rest = uri.dropFirst(scheme.count)
        // libpq looks for a user and a password only before the first slash.
        let front = rest.prefix { $0 != "/" }
        let start = front.firstIndex(of: "@").map(rest.index(after:)) ?? rest.startIndex
        let hosts = rest[start...].prefix { !"/?".contains($0) }
        let database = rest[hosts.endIndex...].prefix { $0 != "?" }
        guard !hosts.contains("@"), !database.contains("@") else { return escape }
        let ports = hosts.split(separator: ",").map { host in
            host.drop { $0 != "]" }.isEmpty ? host.drop { $0 != ":" }.dropFirst() : host.drop { $0 != "]" }.dropFirst(2)
        }
        guard ports.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }) else { return "A port is not a number. \(escape)" }
        return nil
    }

    private static let escape =
        "In a user or a password, @ is written %40, : %3A, / %2F, ? %3F and % %25; or leave it to PGPASSWORD"

    /// Whether libpq's error about a parameter of a URI may be shown. The error quotes the parameter's name. If a
    /// question mark in a password is not escaped, the supposed name may be the end of the password. An `@` after the
    /// question mark is a sign of this mistake.
    static func mayName(parametersOf uri: String) -> Bool {
        !(uri.firstIndex(of: "?").map { uri[$0...] } ?? "").contains("@")
    }
}

extension Character {
    fileprivate var isASCIIDigit: Bool { isASCII && isNumber }
}
