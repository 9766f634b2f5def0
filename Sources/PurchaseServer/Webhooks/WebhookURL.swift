// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The checked address of an endpoint, such as `https://example.com/hooks?app=notes`.
///
/// The check is strict, so that the HTTP client cannot read a different host in the same text. A host that a resolver
/// may take for a number, such as `2130706433` or `0x7f.1`, is refused.
package struct WebhookURL: Hashable, Sendable {
    /// The address in its normal form: scheme and host in lower case.
    package let text: String
    /// Whether the scheme is `https`.
    package let isSecure: Bool
    /// The host: a name in lower case, or an IP address without brackets.
    package let host: String
    /// The port, also if the text has none.
    package let port: Int
    /// The path and the query, such as `/hooks?app=notes`.
    package let target: String

    /// - Parameter networks: The networks that the operator allows. Only with such networks may the scheme be `http`.
    package init(_ text: String, allowing networks: [IPNetwork]) throws(WebhookURLError) {
        if let fault = TextForm.webhookURL.fault(in: text) {
            throw WebhookURLError(
                "\(fault) Write names with other letters in their ASCII form (xn--…), and other characters of the "
                    + "path with %.")
        }
        guard !text.contains("#") else { throw WebhookURLError("The URL has a fragment (#…). Leave it out.") }
        let scheme = text.prefix { $0 != ":" }.lowercased()
        guard ["https", "http"].contains(scheme), text.dropFirst(scheme.count).hasPrefix("://") else {
            throw WebhookURLError("The URL does not begin with https://, or http:// for an allowed network.")
        }
        isSecure = scheme == "https"
        guard isSecure || !networks.isEmpty else {
            throw WebhookURLError("The URL must be https, unless the setting webhookNetworks has its address.")
        }
        let rest = text.dropFirst(scheme.count + 3)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let target = rest[authority.endIndex...]
        guard Self.hasValidEscapes(target) else { throw WebhookURLError("A % is not followed by two digits.") }
        let (host, portText) = try Self.split(authority)
        self.host = host
        port = try Self.port(portText, default: isSecure ? 443 : 80)
        if let address = IPAddress(host), !networks.permitWebhook(to: address, isSecure: isSecure) {
            throw WebhookURLError(forbidden: address, isSecure: isSecure)
        }
        let bracketed = host.contains(":") ? "[\(host)]" : host
        self.target = (target.hasPrefix("/") ? "" : "/") + target
        self.text = "\(scheme)://\(bracketed)\(portText.map { ":\($0)" } ?? "")\(self.target)"
    }

    private static func hasValidEscapes(_ target: Substring) -> Bool {
        target.split(separator: "%", omittingEmptySubsequences: false).dropFirst().allSatisfy {
            $0.prefix(2).count == 2 && $0.prefix(2).allSatisfy(\.isHexDigit)
        }
    }

    private static func split(_ authority: Substring) throws(WebhookURLError) -> (host: String, port: Substring?) {
        guard !authority.contains("@") else {
            throw WebhookURLError("The URL has a user or a password (…@). Leave them out: each request is signed.")
        }
        let isV6 = authority.hasPrefix("[")
        let end = isV6 ? authority.firstIndex(of: "]") : authority.firstIndex(of: ":") ?? authority.endIndex
        guard let end else { throw WebhookURLError("The URL has an invalid host.") }
        let host = (isV6 ? authority[..<end].dropFirst() : authority[..<end]).lowercased()
        let rest = isV6 ? authority[end...].dropFirst() : authority[end...]
        guard rest.isEmpty || rest.hasPrefix(":") else { throw WebhookURLError("The URL has an invalid host.") }
        guard isV6 ? host.contains(":") && IPAddress(host) != nil : IPAddress(host) != nil || isName(host) else {
            throw WebhookURLError(
                host.hasSuffix(".")
                    ? "The host ends with a point. Leave the point out."
                    : "The URL has an invalid host: expected a name, or an address such as 192.0.2.1 or [2001:db8::1].")
        }
        if isV6, let address = IPAddress(host), address.isV4 {
            throw WebhookURLError("The host is an IPv4 address in an IPv6 form. Write \(address.text).")
        }
        return (host, rest.isEmpty ? nil : rest.dropFirst())
    }

    private static func port(_ text: Substring?, default: Int) throws(WebhookURLError) -> Int {
        guard let text else { return `default` }
        // Without the second condition, `+443` and `0443` would be ports too.
        guard let port = UInt16(text), port > 0, "\(port)" == text else {
            throw WebhookURLError("The port is not a number from 1 to 65535.")
        }
        return Int(port)
    }

    /// Whether a text in lower case is a name of the DNS, and no resolver can take the text for a number.
    private static func isName(_ text: String) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        // RFC 1035 section 2.3.4.
        guard text.utf8.count <= 253, let last = labels.last else { return false }
        guard labels.allSatisfy({ (1...63).contains($0.utf8.count) && isLabel($0) }) else { return false }
        return !last.allSatisfy(\.isNumber) && !(last.hasPrefix("0x") && last.dropFirst(2).allSatisfy(\.isHexDigit))
    }

    /// An underscore is not allowed in names of hosts, but names in private networks often have one.
    private static func isLabel(_ label: Substring) -> Bool {
        !label.hasPrefix("-") && !label.hasSuffix("-")
            && label.utf8.allSatisfy { byte in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "-_".utf8.contains(byte)
            }
    }
}

/// The reason why a URL is not the address of an endpoint.
package struct WebhookURLError: Error, Hashable, CustomStringConvertible {
    /// A sentence.
    package var description: String

    init(_ description: String) {
        self.description = description
    }

    init(forbidden address: IPAddress, isSecure: Bool) {
        self.init(
            isSecure
                ? "The address \(address.text) is forbidden. Allow its network in the setting webhookNetworks."
                : "The address \(address.text) is not in the setting webhookNetworks, so the URL must be https.")
    }
}
