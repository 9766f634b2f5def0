// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import ServiceLifecycle

/// Why a server cannot listen at an address.
public struct ListeningError: Error, CustomStringConvertible {
    /// Begins with the setting, the port and the address.
    public let description: String

    init(_ address: ListeningAddress, _ error: IOError) {
        description =
            switch error.errnoCode {
            case EADDRINUSE: "\(address) is in use."
            case let code: "\(address) cannot be listened on: \(String(cString: strerror(code)))."
            }
    }

    init(unknown address: ListeningAddress) {
        description = "\(address) cannot be listened on: the hostname has no address."
    }
}

/// An address to listen on, and the setting that has its port.
struct ListeningAddress: Sendable, CustomStringConvertible {
    var setting: String
    var hostname: String
    var port: Int

    var description: String { "\(setting) \(port) on \(hostname)" }
}

/// Names the address if it cannot be listened on: the error of the system does not.
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
