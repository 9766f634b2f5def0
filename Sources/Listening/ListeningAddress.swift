// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An address to listen on.
package struct ListeningAddress: Sendable, CustomStringConvertible {
    package var hostname: String
    package var port: Int

    package init(hostname: String, port: Int) {
        self.hostname = hostname
        self.port = port
    }

    /// The address as in a URL: an IPv6 address is in brackets (RFC 3986 section 3.2.2).
    package var description: String { hostname.contains(":") ? "[\(hostname)]:\(port)" : "\(hostname):\(port)" }
}

/// The reason why a listener cannot listen on its address.
package struct ListeningFailure: Sendable {
    /// Whether the hostname is the reason, rather than the port.
    package let isAboutHostname: Bool
    /// A sentence that begins with the address.
    package let message: String

    init(_ address: ListeningAddress, errno code: CInt) {
        isAboutHostname = code == EADDRNOTAVAIL
        let reason = code == EADDRINUSE ? "is in use" : "cannot be listened on: \(String(cString: strerror(code)))"
        message = "\(address) \(reason)."
    }

    init(unknownHostOf address: ListeningAddress) {
        isAboutHostname = true
        message = "\(address) cannot be listened on: the hostname has no address."
    }
}
