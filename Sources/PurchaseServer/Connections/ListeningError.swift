// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import ServiceLifecycle

/// The reason why a server cannot listen on an address.
public struct ListeningError: Error, CustomStringConvertible {
    /// The setting to change: `port`, `hostname`, `healthPort`, `healthHostname` or `consolePort`.
    public let setting: String
    /// A sentence, beginning with the address.
    public let message: String

    /// The setting and the message.
    public var description: String { "\(setting): \(message)" }

    init(_ settings: ListeningSettings, _ address: ListeningAddress, _ error: IOError) {
        let reason =
            switch error.errnoCode {
            case EADDRINUSE: "is in use"
            case let code: "cannot be listened on: \(String(cString: strerror(code)))"
            }
        setting = error.errnoCode == EADDRNOTAVAIL ? settings.hostname : settings.port
        message = "\(address) \(reason)."
    }

    init(_ settings: ListeningSettings, unknown address: ListeningAddress) {
        setting = settings.hostname
        message = "\(address) cannot be listened on: the hostname has no address."
    }
}

/// The settings of an address to listen on.
struct ListeningSettings: Sendable {
    var hostname: String
    var port: String
}

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

/// Runs a server. If the server cannot listen, the error gets the address, because the system's error does not name the
/// address.
struct NamingListener<Application: Service>: Service {
    let application: Application
    let settings: ListeningSettings
    let address: ListeningAddress

    func run() async throws {
        do {
            try await application.run()
        } catch let error as IOError {
            throw ListeningError(settings, address, error)
        } catch is SocketAddressError.UnknownHost {
            throw ListeningError(settings, unknown: address)
        }
    }
}
