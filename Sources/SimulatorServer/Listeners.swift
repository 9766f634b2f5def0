// SPDX-License-Identifier: Apache-2.0

// The shared parts of a simulator's listeners: the context of a request, the report about ready listeners, and errors
// with the listener's name.

import Foundation
import Hummingbird
import NIOCore
import ServiceLifecycle
import Synchronization

/// A port of a simulator.
public enum SimulatorListener: String, CaseIterable, Sendable {
    /// The App Store's production environment.
    case production
    /// The App Store's sandbox.
    case sandbox
    /// Commands and the page.
    case control
}

/// The context of a request. It contains the request's connection, because the simulator closes some connections
/// without a response.
struct ChannelContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
    }
}

/// Collects the listeners' ports, and reports all ports once every listener is ready.
final class ListeningPorts: Sendable {
    private let ports = Mutex<[SimulatorListener: Int]>([:])
    private let report: @Sendable ([SimulatorListener: Int]) -> Void

    init(report: @escaping @Sendable ([SimulatorListener: Int]) -> Void) {
        self.report = report
    }

    func add(_ listener: SimulatorListener, _ port: Int) {
        let all = ports.withLock { ports in
            ports[listener] = port
            return ports
        }
        if all.count == SimulatorListener.allCases.count { report(all) }
    }
}

/// The reason why a simulator cannot listen on a port.
public struct SimulatorListeningError: Error, CustomStringConvertible {
    /// The failed listener.
    public let listener: SimulatorListener
    /// Whether the hostname is the reason for the failure, rather than the port.
    public let isAboutHostname: Bool
    /// A sentence that begins with the address.
    public let message: String

    /// The listener and the message.
    public var description: String { "\(listener.rawValue): \(message)" }
}

/// Runs a listener. If the listener cannot listen, the error gets the listener's name and address.
struct NamedListener<Listening: Service>: Service, CustomStringConvertible {
    /// The log shows services, and must not show the store.
    var description: String { "the listener \(listener)" }
    let application: Listening
    let listener: SimulatorListener
    let hostname: String
    let port: Int

    func run() async throws {
        do {
            try await application.run()
        } catch let error as IOError {
            throw failure(error.errnoCode)
        } catch is SocketAddressError.UnknownHost {
            throw SimulatorListeningError(
                listener: listener, isAboutHostname: true,
                message: "\(address) cannot be listened on: the hostname has no address.")
        }
    }

    private func failure(_ code: CInt) -> SimulatorListeningError {
        let reason =
            code == EADDRINUSE ? "is in use" : "cannot be listened on: \(String(cString: strerror(code)))"
        return SimulatorListeningError(
            listener: listener, isAboutHostname: code == EADDRNOTAVAIL, message: "\(address) \(reason).")
    }

    /// The address as in a URL: an IPv6 address is in brackets (RFC 3986 section 3.2.2).
    private var address: String { hostname.contains(":") ? "[\(hostname)]:\(port)" : "\(hostname):\(port)" }
}
