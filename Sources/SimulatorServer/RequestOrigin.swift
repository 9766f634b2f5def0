// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird

// Protects a simulator from commands by pages of other sites in the same browser.

extension Request {
    /// Whether the request comes from a program, or from a page of this host.
    ///
    /// By DNS rebinding, the name of a hostile site can lead to this machine, and the browser then takes the site's
    /// page for a page of this host. The host name in the request must therefore be a name that no site of the Internet
    /// can have.
    ///
    /// - Parameter hostname: The hostname to which the port is bound. This name is always accepted.
    func hasOwnOrigin(hostname: String) -> Bool {
        let isOtherSite = Self.site.flatMap { headers[$0] }.map { ["cross-site", "same-site"].contains($0) } ?? false
        // A link on any site may lead to the simulator's own page.
        guard !isOtherSite || method == .get && uri.path == "/" else { return false }
        let host = head.authority ?? ""
        if let origin = headers[.origin], origin != "http://\(host)" { return false }
        let name = Self.name(host)
        return name == hostname.lowercased() || Self.isPrivate(name)
    }

    private static let site = HTTPField.Name("Sec-Fetch-Site")

    /// Whether no site of the Internet can give this name to a foreign address. This holds for IP addresses, for names
    /// without a dot, such as those of containers, and for the names reserved for a machine (`localhost`, RFC 6761
    /// section 6.3) and for private networks (`internal`, by ICANN's board).
    private static func isPrivate(_ name: String) -> Bool {
        guard !name.isEmpty, !name.hasPrefix("[") else { return name.hasSuffix("]") }
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        let isAddress = parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
        return isAddress || parts.count == 1 || parts.last == "localhost" || parts.last == "internal"
    }

    /// The name of a host in lower case, without its port.
    private static func name(_ host: String) -> String {
        guard let colon = host.lastIndex(of: ":"), !host.hasSuffix("]") else { return host.lowercased() }
        return host[..<colon].lowercased()
    }
}
