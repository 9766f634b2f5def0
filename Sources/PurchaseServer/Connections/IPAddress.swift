// SPDX-License-Identifier: Apache-2.0

import Foundation
package import NIOCore

/// An IP address of a client or a proxy. IPv4 is stored in its mapped form (RFC 4291 section 2.5.5.2), so that a client
/// has the same address on IPv4 and IPv6 listeners.
public struct IPAddress: Hashable, Sendable {
    var bits: UInt128

    /// Parses an address such as `192.0.2.1` or `2001:db8::1`; `nil` if the text is not an address.
    public init?(_ text: some StringProtocol) {
        var four = UInt32(0)
        var six = UInt128(0)
        if inet_pton(AF_INET, String(text), &four) == 1 {
            bits = UInt128(0xffff) << 32 | UInt128(UInt32(bigEndian: four))
        } else if inet_pton(AF_INET6, String(text), &six) == 1 {
            bits = UInt128(bigEndian: six)
        } else {
            return nil
        }
    }

    /// Parses an element of `X-Forwarded-For`: an address, with or without a port, such as `192.0.2.1:567` or
    /// `[2001:db8::1]:567`; `nil` if the text is not an address.
    init?(forwarded text: String) {
        var address = text[...]
        var port = ":0"[...]
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            address = text[..<end].dropFirst()
            if text.index(after: end) < text.endIndex { port = text[end...].dropFirst() }
        } else if let colon = text.firstIndex(of: ":"), text[colon...].dropFirst().firstIndex(of: ":") == nil {
            address = text[..<colon]
            port = text[colon...]
        }
        guard port.hasPrefix(":"), UInt16(port.dropFirst()) != nil else { return nil }
        self.init(address)
    }

    /// The address of an IP socket; `nil` for other sockets.
    package init?(_ address: SocketAddress?) {
        guard let text = address?.ipAddress else { return nil }
        self.init(text)
    }

    /// The address with these bits.
    init(bits: UInt128) { self.bits = bits }

    /// The IPv4 address with these bits.
    init(v4: UInt32) { bits = UInt128(0xffff) << 32 | UInt128(v4) }

    var isV4: Bool { bits >> 32 == 0xffff }

    /// The address as text, such as `192.0.2.1` or `2001:db8::1`.
    package var text: String {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        if isV4 {
            var four = UInt32(truncatingIfNeeded: bits).bigEndian
            inet_ntop(AF_INET, &four, &buffer, socklen_t(buffer.count))
        } else {
            var six = bits.bigEndian
            inet_ntop(AF_INET6, &six, &buffer, socklen_t(buffer.count))
        }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The client for the bounds: an IPv4 address, or an IPv6 network of 64 bits. Providers give a customer no smaller
    /// network.
    var client: IPAddress {
        var client = self
        if !isV4 { client.bits &= UInt128.max << 64 }
        return client
    }

    fileprivate var width: Int { isV4 ? 32 : 128 }
}

/// A block of addresses, such as `10.0.0.0/8`.
public struct IPNetwork: Hashable, Sendable {
    private var address: IPAddress
    /// The number of lowest bits that are not compared.
    private var freeBits: Int

    /// Parses an address, or a block in CIDR notation (RFC 4632 section 3.1); `nil` if the text is neither.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let address = IPAddress(first) else { return nil }
        let prefix = parts.count == 1 ? address.width : Int(parts[1])
        guard let prefix, (0...address.width).contains(prefix) else { return nil }
        self.address = address
        freeBits = address.width - prefix
    }

    /// The block around an address.
    ///
    /// - Parameter freeBits: The number of lowest bits in which the addresses of the block differ.
    init(_ address: IPAddress, freeBits: Int) {
        self.address = address
        self.freeBits = freeBits
    }

    /// The addresses of this machine itself.
    static let loopback = ["127.0.0.0/8", "::1"].compactMap { IPNetwork($0) }

    func contains(_ other: IPAddress) -> Bool {
        other.width == address.width && (other.bits ^ address.bits) >> UInt128(freeBits) == 0
    }
}
