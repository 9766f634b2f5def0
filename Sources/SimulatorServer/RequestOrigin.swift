// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird

// Pages of other sites, open in the same browser, must not command a simulator.

extension Request {
    /// Whether the request comes from a program, or from a page of this very host.
    ///
    /// A site whose name resolves to this machine is refused too (DNS rebinding): the host must be one that no site of
    /// the Internet can have.
    ///
    /// - Parameter hostname: The name that the port is bound to, which is always accepted.
    func hasOwnOrigin(hostname: String) -> Bool {
        let isOtherSite = Self.site.flatMap { headers[$0] }.map { ["cross-site", "same-site"].contains($0) } ?? false
        // A link to the page may be anywhere.
        guard !isOtherSite || method == .get && uri.path == "/" else { return false }
        let host = head.authority ?? ""
        if let origin = headers[.origin], origin != "http://\(host)" { return false }
        let name = Self.name(host)
        return name == hostname.lowercased() || Self.isPrivate(name)
    }

    private static let site = HTTPField.Name("Sec-Fetch-Site")

    /// Whether no site of the Internet can have this name: an address, a name without a dot as those of containers
    /// are, and the names that are reserved for a machine (`localhost`, RFC 6761 section 6.3) and for private networks
    /// (`internal`, by ICANN's board).
    private static func isPrivate(_ name: String) -> Bool {
        guard !name.isEmpty, !name.hasPrefix("[") else { return name.hasSuffix("]") }
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        let isAddress = parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
        return isAddress || parts.count == 1 || parts.last == "localhost" || parts.last == "internal"
    }

    /// A host without its port.
    private static func name(_ host: String) -> String {
        guard let colon = host.lastIndex(of: ":"), !host.hasSuffix("]") else { return host.lowercased() }
        return host[..<colon].lowercased()
    }
}
