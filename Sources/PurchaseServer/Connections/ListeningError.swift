// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import ServiceLifecycle

/// Why a server cannot listen on an address.
public struct ListeningError: Error, CustomStringConvertible {
    /// A sentence that begins with the setting, the port and the address.
    public let description: String

    init(_ address: ListeningAddress, _ error: IOError) {
        description =
            switch error.errnoCode {
            case EADDRINUSE: "\(address) is in use."
            case let code: "\(address): cannot listen: \(String(cString: strerror(code)))."
            }
    }

    init(unknown address: ListeningAddress) {
        description = "\(address): cannot listen: the hostname has no address."
    }
}

/// An address to listen on, and the setting of its port.
struct ListeningAddress: Sendable, CustomStringConvertible {
    var setting: String
    var hostname: String
    var port: Int

    var description: String { "\(setting) \(port) on \(hostname)" }
}

/// Runs a server, and adds the address to the error if it cannot listen: the system's error does not name it.
struct NamingListener<Application: Service>: Service {
    let application: Application
    let address: ListeningAddress

    func run() async throws {
        do {
            try await application.run()
        } catch let error as IOError {
            throw ListeningError(address, error)
        } catch is SocketAddressError.UnknownHost {
            throw ListeningError(unknown: address)
        }
    }
}
