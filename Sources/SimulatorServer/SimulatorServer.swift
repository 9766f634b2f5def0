// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import AppStoreSimulator
import Hummingbird
import HummingbirdCore
public import Logging
import NIOCore
import ServiceLifecycle
import UnixSignals

/// Hosts a simulator: Apple's production routes on one port, the sandbox's on another, and control with the page on a
/// third.
public struct SimulatorServer: Sendable {
    /// The address that all listeners are bound to.
    public var hostname = "127.0.0.1"
    /// The ports; 0 takes any free one.
    public var ports: [SimulatorListener: Int]
    /// Whether SIGTERM and SIGINT end it. Without, the graceful shutdown of a service that runs it does.
    public var endsBySignal = true

    package let host: SimulatorHost
    private let clock: any Clock<Duration>
    private let logger: Logger

    /// Creates a server, which ``run(onListening:)`` starts.
    ///
    /// - Parameters:
    ///   - ports: A port that is missing is any free one.
    ///   - wall: Returns the time of the wall clock.
    ///   - clock: Measures intervals.
    ///   - keepTime: Called with a virtual time before anything is sent that was signed after the last such time. A
    ///     simulator that continues this one's must not start earlier. It is up to a minute of the wall clock ahead.
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

    /// Serves until the process receives SIGTERM or SIGINT.
    ///
    /// - Parameter onListening: Called once, with the ports, when all three listen.
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
            services: services.map {
                // A listener that is cancelled because another one failed would log errors of its own.
                .init(service: $0, failureTerminationBehavior: .gracefullyShutdownGroup)
            },
            gracefulShutdownSignals: endsBySignal ? [.sigterm, .sigint] : [], logger: logger)
        configuration.maximumGracefulShutdownDuration = SimulatorBounds.shutdown
        try await ServiceGroup(configuration: configuration).run()
    }

    private func service(_ listener: SimulatorListener, onListening: @escaping @Sendable (Int) -> Void) -> any Service {
        let port = ports[listener] ?? 0
        // The library's own lines about start and stop say nothing that this server does not report.
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .notice)
        let application = Application(
            responder: responder(listener),
            server: .http1(configuration: .init(idleTimeout: SimulatorBounds.idleTimeout)),
            configuration: .init(
                address: .hostname(hostname, port: port), serverName: nil,
                availableConnectionsDelegate: .maximum(SimulatorBounds.connections, logger: logger)),
            onServerRunning: { channel in onListening(channel.localAddress?.port ?? port) }, logger: quiet)
        return NamedListener(application: application, listener: listener, hostname: hostname, port: port)
    }

    private func responder(_ listener: SimulatorListener) -> CallbackResponder<ChannelContext> {
        switch listener {
        case .production: StoreResponder(host: host, environment: .production, clock: clock, logger: logger).responder
        case .sandbox: StoreResponder(host: host, environment: .sandbox, clock: clock, logger: logger).responder
        case .control: ControlResponder(host: host, hostname: hostname).responder
        }
    }
}
