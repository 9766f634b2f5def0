// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The parts of a request's target: a path or a URL (RFC 9112 section 3.2), with or without a query.
struct RequestTarget {
    /// The host and port of a URL; `nil` if the target is a path.
    private(set) var authority: Substring?
    /// The path as sent, with its escapes.
    private(set) var path: Substring
    /// The query with its question mark; empty without a query.
    private(set) var query: Substring

    /// - Returns: `nil` if the text is neither a path that begins with `/` nor an http URL, or has a fragment.
    init?(_ text: String) {
        var text = text
        let (hasFragment, hasQuery) = text.withUTF8 { ($0.has(UInt8(ascii: "#")), $0.has(UInt8(ascii: "?"))) }
        guard !hasFragment else { return nil }
        var rest = text[...]
        if text.utf8.first != UInt8(ascii: "/") {
            let scheme = ["http://", "https://"].first { text.prefix($0.count).lowercased() == $0 }
            guard let scheme else { return nil }
            let host = rest.dropFirst(scheme.count).prefix { $0 != "/" && $0 != "?" }
            authority = host
            rest = rest[host.endIndex...]
        }
        let end = hasQuery ? rest.utf8.firstIndex(of: UInt8(ascii: "?")) ?? rest.endIndex : rest.endIndex
        path = rest[..<end]
        query = rest[end...]
    }

    /// Whether the path has two adjacent slashes. A slash at the end of the path makes no empty segment.
    var hasEmptySegment: Bool {
        var last: UInt8?
        for byte in path.utf8 {
            if byte == UInt8(ascii: "/"), last == byte { return true }
            last = byte
        }
        return false
    }

    /// The path without unnecessary escapes: an escaped unreserved character means the same as the character (RFC 3986
    /// section 6.2.2.2). A path with a `%` without two digits stays unchanged.
    var normalizedPath: String {
        var bytes: [UInt8] = []
        var rest = path.utf8
        while let byte = rest.popFirst() {
            bytes.append(byte)
            guard byte == UInt8(ascii: "%") else { continue }
            let digits = rest.prefix(2)
            guard let value = rest.popEscaped() else { return String(path) }
            if value.isUnreserved { bytes[bytes.count - 1] = value } else { bytes += digits }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// The host and port of a URL or a Host field (RFC 3986 section 3.2).
enum RequestAuthority {
    /// Whether the text is a host, with or without a port. The host must not be empty (RFC 9110 section 4.2.1).
    static func isValid(_ text: Substring) -> Bool {
        let host: Substring
        let port: Substring
        if text.utf8.first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: "]") else { return false }
            host = text[..<end].dropFirst()
            port = text[end...].dropFirst()
            // Only IPv6 addresses have brackets. The colon is required because `IPAddress` also accepts IPv4 addresses.
            guard host.contains(":"), IPAddress(host) != nil else { return false }
        } else {
            let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) ?? text.endIndex
            host = text[..<colon]
            port = text[colon...]
            guard isName(host) else { return false }
        }
        return port.isEmpty || port.first == ":" && isPort(port.dropFirst())
    }

    /// Whether the text is a port. An empty port stands for the default port (RFC 3986 section 3.2.3).
    private static func isPort(_ text: Substring) -> Bool {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        return text.isEmpty || text.utf8.allSatisfy(digits.contains) && UInt16(text) != nil
    }

    /// Whether the text is a registered name or an IPv4 address (RFC 3986 section 3.2.2).
    private static func isName(_ text: Substring) -> Bool {
        var rest = text.utf8
        while let byte = rest.popFirst() {
            if byte.isUnreserved || "!$&'()*+,;=".utf8.contains(byte) { continue }
            guard byte == UInt8(ascii: "%"), rest.popEscaped() != nil else { return false }
        }
        return !text.isEmpty
    }
}

extension UInt8 {
    /// Whether the byte is an unreserved character (RFC 3986 section 2.3).
    fileprivate var isUnreserved: Bool { isLetterOrDigit || "-._~".utf8.contains(self) }
}
