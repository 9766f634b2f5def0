// SPDX-License-Identifier: Apache-2.0

// The addresses that no webhook may reach. Otherwise, whoever adds an endpoint could send requests to the machines in
// the server's own network, or to the metadata service of a cloud (server-side request forgery).

extension IPAddress {
    /// Whether a webhook may not be sent to the address unless the operator allows its network.
    ///
    /// The lists follow IANA's special-purpose registries (RFC 6890), without the IPv4 networks in public use for the
    /// DNS (AS112) and for multicast relays. An IPv6 address that a translator maps to an IPv4 address is judged by the
    /// latter.
    var isForbidden: Bool {
        if isV4 { return Self.forbiddenV4.contains { $0.contains(self) } }
        if let inner = translated { return inner.isForbidden }
        return !Self.globalUnicast.contains(self) || Self.forbiddenV6.contains { $0.contains(self) }
    }

    /// The IPv4 address inside a compatible address (RFC 4291 section 2.5.5.1), a NAT64 address with the well-known
    /// prefix (RFC 6052), or a 6to4 address (RFC 3056); `nil` for any other IPv6 address. Mapped addresses are IPv4
    /// addresses here already.
    private var translated: IPAddress? {
        if bits >> 32 == 0 || bits >> 32 == Self.nat64 { return IPAddress(v4: UInt32(truncatingIfNeeded: bits)) }
        return bits >> 112 == 0x2002 ? IPAddress(v4: UInt32(truncatingIfNeeded: bits >> 80)) : nil
    }

    /// The prefix 64:ff9b::/96.
    private static let nat64 = UInt128(0x0064_ff9b) << 64

    private static let forbiddenV4 = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    ].compactMap { IPNetwork($0) }

    /// The only IPv6 addresses in public use. Outside are loopback, unique local, link-local and multicast addresses,
    /// and the NAT64 prefix for local use, 64:ff9b:1::/48: the place of the IPv4 address in the latter is not known.
    private static let globalUnicast = IPNetwork(IPAddress(bits: UInt128(0x2000) << 112), freeBits: 125)

    /// The special networks within ``globalUnicast``: the assignments of the IETF (RFC 2928) with Teredo, benchmarks
    /// and both ORCHID networks, and documentation. The assignments also have networks in public use, such as for
    /// drones, but no receiver of webhooks is there.
    private static let forbiddenV6 = ["2001::/23", "2001:db8::/32", "3fff::/20"].compactMap { IPNetwork($0) }
}

extension [IPNetwork] {
    /// Whether a webhook may be sent to an address, if the operator allows these networks.
    ///
    /// - Parameter isSecure: Whether the request has TLS. Without TLS, only allowed networks are permitted.
    func permitWebhook(to address: IPAddress, isSecure: Bool) -> Bool {
        contains { $0.contains(address) } || isSecure && !address.isForbidden
    }
}
