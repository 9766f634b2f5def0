// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird

// Pages of other sites, open in the same browser, must not command a simulator.

extension Request {
    /// Whether the request comes from a program, or from a page of this very host.
    ///
    /// - Parameter isLoopback: Whether the port is open to this machine only. Its host can then have no other name, so
    ///   a site whose name resolves to this machine is refused too (DNS rebinding).
    func hasOwnOrigin(isLoopback: Bool) -> Bool {
        let host = head.authority ?? ""
        if let origin = headers[Self.origin], origin != "http://\(host)" { return false }
        return !isLoopback || Self.isLoopback(Self.name(host))
    }

    private static let origin = HTTPField.Name.origin

    /// Whether a host is this machine by its own names or by an address, which no site can have as its name.
    private static func isLoopback(_ host: String) -> Bool {
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        let isAddress = parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
        return host == "localhost" || host == "[::1]" || isAddress
    }

    /// A host without its port.
    private static func name(_ host: String) -> String {
        guard let colon = host.lastIndex(of: ":"), !host.hasSuffix("]") else { return host.lowercased() }
        return host[..<colon].lowercased()
    }
}
