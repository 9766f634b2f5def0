// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreSimulator
import Hummingbird
import HummingbirdCore
import Listening
public import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// Hosts a simulator on three ports: Apple's production API, the sandbox API, and a control API with a web page.
public struct SimulatorServer: Sendable {
    /// The address to which all listeners are bound.
    public var hostname = "127.0.0.1"
    /// The port of each listener. For 0 or a missing port, the server takes any free port.
    public var ports: [SimulatorListener: Int]
    /// Whether SIGTERM and SIGINT end the server. Otherwise the graceful shutdown of the surrounding service ends it.
    public var endsBySignal = true
    /// The longest time for which a command waits for answers to its notifications.
    package var patience = SimulatorBounds.command

    package let host: SimulatorHost
    private let clock: any Clock<Duration>
    private let logger: Logger

    /// Creates a server. ``run(onListening:)`` starts the server.
    ///
    /// - Parameters:
    ///   - ports: The port of each listener. A missing listener gets any free port.
    ///   - wall: Returns the time of the wall clock.
    ///   - clock: Measures intervals.
    ///   - keepTime: Saves a virtual time from which a later simulator can continue. Called before the server sends a
    ///     document signed later than the time saved last. The saved time is ahead of the virtual time, at most by what
    ///     passes in a real minute, or by one virtual minute if virtual time is slow or stopped.
    public init(
        _ simulator: Simulator, ports: [SimulatorListener: Int] = [:], wall: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>, keepTime: @escaping @Sendable (Timestamp) -> Void = { _ in }, logger: Logger
    ) {
        host = SimulatorHost(simulator, wall: wall, keepTime: keepTime)
        self.ports = ports
        self.clock = clock
        self.logger = logger
    }

    /// Returns the virtual time.
    public var now: @Sendable () -> Timestamp { host.clock.now }

    /// Serves until the process receives SIGTERM or SIGINT (see ``endsBySignal``), until a graceful shutdown, or until
    /// the task is cancelled.
    ///
    /// - Parameter onListening: Called once, with the ports, when all three listeners are ready.
    /// - Throws: ``SimulatorListeningError`` if the server cannot listen on a port.
    public func run(onListening: @escaping @Sendable (_ ports: [SimulatorListener: Int]) -> Void) async throws {
        let listening = ListeningPorts(report: onListening)
        var services: [any Service] = SimulatorListener.allCases.map { listener in
            service(listener, onListening: { listening.add(listener, $0) })
        }
        for environment in [AppStoreModel.Environment.production, .sandbox] {
            services.append(
                NotificationDeliverer(host: host, environment: environment, clock: clock, logger: logger))
        }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: endsBySignal ? [.sigterm, .sigint] : [], logger: logger)
        configuration.maximumGracefulShutdownDuration = SimulatorBounds.shutdown
        try await ServiceGroup(configuration: configuration).run()
    }

    private func service(_ listener: SimulatorListener, onListening: @escaping @Sendable (Int) -> Void) -> any Service {
        let port = ports[listener] ?? 0
        // The library's own log lines about start and stop are left out, because the server reports both itself.
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .notice)
        let application = Application(
            responder: responder(listener),
            server: .http1(
                configuration: .init(
                    additionalChannelHandlers: [UpgradeRefusal()], idleTimeout: SimulatorBounds.idleTimeout)),
            configuration: .init(
                address: .hostname(hostname, port: port), serverName: nil,
                availableConnectionsDelegate: .maximum(SimulatorBounds.connections, logger: logger)),
            onServerRunning: { channel in onListening(channel.localAddress?.port ?? port) }, logger: quiet)
        let address = ListeningAddress(hostname: hostname, port: port)
        return ListeningService(application, on: address, grace: SimulatorBounds.shutdown, clock: clock, logger: quiet)
        {
            SimulatorListeningError(listener, $0)
        }
    }

    private func responder(_ listener: SimulatorListener) -> CallbackResponder<ChannelContext> {
        switch listener {
        case .production: StoreResponder(host: host, environment: .production, clock: clock, logger: logger).responder
        case .sandbox: StoreResponder(host: host, environment: .sandbox, clock: clock, logger: logger).responder
        case .control:
            ControlResponder(
                host: host, hostname: hostname, patience: patience, clock: clock, logger: logger
            ).responder
        }
    }
}
