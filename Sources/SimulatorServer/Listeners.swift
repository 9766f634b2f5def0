// SPDX-License-Identifier: Apache-2.0

// The shared parts of a simulator's listeners: the context of a request, the report about ready listeners, and errors
// with the listener's name.

import Hummingbird
import Listening
import NIOCore
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

    init(_ listener: SimulatorListener, _ failure: ListeningFailure) {
        self.listener = listener
        isAboutHostname = failure.isAboutHostname
        message = failure.message
    }
}
