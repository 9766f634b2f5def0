// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation

/// Finds the addresses of a host.
package protocol AddressResolver: Sendable {
    /// All addresses of a host, the preferred first. If the task is cancelled, the call ends soon.
    ///
    /// - Throws: ``ResolverError``.
    func addresses(of host: String) async throws -> [IPAddress]
}

/// The reason why a host has no addresses: a phrase.
package struct ResolverError: Error, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// The resolver of the operating system, which also reads `/etc/hosts`.
package struct SystemResolver: AddressResolver {
    package init() {}

    package func addresses(of host: String) async throws -> [IPAddress] {
        let (stream, answer) = AsyncThrowingStream.makeStream(of: [IPAddress].self)
        // `getaddrinfo` blocks for up to half a minute and cannot be interrupted. On a shared pool of threads, lookups
        // of unreachable names would delay those of other endpoints.
        DispatchQueue(label: "Webhooks.resolver").async { answer.yield(with: Self.lookUp(host)) }
        // The stream also ends if the task is cancelled.
        guard let addresses = try await stream.first(where: { _ in true }) else { throw CancellationError() }
        return addresses
    }

    private static func lookUp(_ host: String) -> Result<[IPAddress], any Error> {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        #if canImport(Darwin)
        hints.ai_socktype = SOCK_STREAM
        #else
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #endif
        // Leaves out IPv6 addresses on a machine that has no IPv6 address.
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, nil, &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        guard status == 0 else {
            let reason = String(cString: gai_strerror(status))
            return .failure(ResolverError("the name \(host) cannot be resolved: \(reason)"))
        }
        var addresses: [IPAddress] = []
        var next = list
        while let entry = next?.pointee {
            if let address = entry.ai_addr.flatMap({ IPAddress($0) }) { addresses.append(address) }
            next = entry.ai_next
        }
        return .success(addresses)
    }
}

extension IPAddress {
    /// The address of a socket address; `nil` if it is neither of IPv4 nor of IPv6.
    fileprivate init?(_ address: UnsafeMutablePointer<sockaddr>) {
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            let four = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee.sin_addr.s_addr }
            self.init(v4: UInt32(bigEndian: four))
        case AF_INET6:
            var six = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) { $0.pointee.sin6_addr }
            let bits = withUnsafeBytes(of: &six) { $0.loadUnaligned(as: UInt128.self) }
            self.init(bits: UInt128(bigEndian: bits))
        default: return nil
        }
    }
}
