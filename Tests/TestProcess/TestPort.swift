// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

/// Ports for programs that start again on the port they had.
///
/// A port that the system chose may have another owner a moment after it was given back: it is of the range from which
/// every program gets one that asks for any. These are below that range.
package enum TestPort {
    private static let range = 10_000..<30_000
    private static let last = Mutex(Int.random(in: range))

    /// A port that nothing listens on, another one each time.
    package static func unused() -> Int {
        last.withLock { port in
            repeat { port = port + 1 < range.upperBound ? port + 1 : range.lowerBound } while !isFree(port)
            return port
        }
    }

    private static func isFree(_ port: Int) -> Bool {
        #if canImport(Darwin)
        let socket = socket(AF_INET, SOCK_STREAM, 0)
        #else
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        defer { close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
