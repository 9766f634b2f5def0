// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import HTTPTypes
public import Hummingbird
import HummingbirdCore
public import Logging
import NIOCore
import NIOPosix
import PurchaseLedger
import ServiceLifecycle
import UnixSignals

/// The HTTP server: its routes, bounds and life.
public struct ServerApplication: Sendable {
    /// What `/verifyReceipt` stands for: production or sandbox.
    public var environment: AppStoreModel.Environment

    /// What time it is.
    public var now: @Sendable () -> Timestamp

    /// By which intervals pass and durations are measured. The deadlines of connections alone are their event loop's, which keeps
    /// time itself.
    public let clock: any Clock<Duration>

    public var logger: Logger

    /// The ledger that it keeps; without one it only verifies.
    public var ledger: LedgerService?

    /// Which requests the log has a line for.
    public var requestLog = RequestLogPolicy.all

    /// What clients may take of it.
    public let bounds: ServerBounds

    package let bodies: BodyIntake
    private let requests: RequestCounts

    /// Bytes of long bodies and answers that are in memory.
    package var bodyBytesInFlight: Int { bodies.budget.count }

    /// - Parameter requestSeed: A random number, with which the ids of requests begin, so that they differ from those before a
    ///   restart.
    public init(
        environment: AppStoreModel.Environment = .production, ledger: LedgerService? = nil,
        bounds: ServerBounds = ServerBounds(), requestSeed: UInt64, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.environment = environment
        self.ledger = ledger
        self.bounds = bounds
        self.now = now
        self.clock = clock
        self.logger = logger
        bodies = BodyIntake(bounds, clock: clock, logger: logger)
        requests = RequestCounts(seed: requestSeed)
    }

    /// Where a server listens.
    public enum Listener: Sendable {
        /// For all requests.
        case requests
        /// For questions about its health alone, with connections of its own.
        case health
    }

    /// Serves until the process is told to end (SIGTERM or SIGINT), then lets running requests finish.
    ///
    /// - Parameters:
    ///   - port: 0 takes any free one, as in `healthPort`.
    ///   - healthHostname: The address for `healthPort`; `nil` for `hostname`.
    ///   - healthPort: Where health is asked for as well; `nil` for nowhere else.
    ///   - onListening: Called once for each listener, with its port.
    /// - Throws: ``ListeningError`` if it cannot listen there.
    public func run(
        hostname: String, port: Int, healthHostname: String? = nil, healthPort: Int? = nil,
        onListening: @escaping @Sendable (_ listener: Listener, _ port: Int) -> Void = { _, _ in }
    ) async throws {
        if let ledger { await ledger.logLastNotification(to: logger) }
        var services: [any Service] = []
        // A thread of its own, so that health is answered while all others are busy.
        let healthLoops = healthPort.map { _ in MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        if let healthPort, let healthLoops {
            let address = ListeningAddress(
                setting: "healthPort", hostname: healthHostname ?? hostname, port: healthPort)
            let counter = ConnectionCounter(bounds.ofHealth, setting: "healthConnections", clock: clock, logger: logger)
            services.append(
                listener(healthRouter(), address, healthLoops, counter) { onListening(.health, $0) })
        }
        let address = ListeningAddress(setting: "port", hostname: hostname, port: port)
        let counter = ConnectionCounter(bounds, clock: clock, logger: logger)
        services.append(
            listener(router(), address, MultiThreadedEventLoopGroup.singleton, counter) {
                onListening(.requests, $0)
            })
        if let ledger { services.append(publisher(ledger)) }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = bounds.shutdown
        do {
            try await ServiceGroup(configuration: configuration).run()
        } catch {
            try? await healthLoops?.shutdownGracefully()
            throw error
        }
        try await healthLoops?.shutdownGracefully()
    }

    private func listener(
        _ router: Router<BasicRequestContext>, _ address: ListeningAddress, _ loops: any EventLoopGroup,
        _ counter: ConnectionCounter, onListening: @escaping @Sendable (_ port: Int) -> Void
    ) -> some Service {
        let (bounds, budget) = (bounds, bodies.budget)
        let application = Application(
            router: router,
            server: HTTPServerBuilder { EventLoopChannel($0, bounds, budget, counter: counter) },
            configuration: .init(
                address: .hostname(address.hostname, port: address.port), availableConnectionsDelegate: counter),
            onServerRunning: { channel in onListening(channel.localAddress?.port ?? address.port) },
            eventLoopGroupProvider: .shared(loops), logger: logger)
        return NamingListener(application: application, address: address)
    }

    private func publisher(_ service: LedgerService) -> some Service {
        DueChangePublisher(
            ledger: service.ledger, eventRetention: service.eventRetention, now: now, clock: clock, logger: logger)
    }

    /// All routes, to be served elsewhere or tested without a socket.
    public func router() -> Router<BasicRequestContext> {
        let router = healthRouter()
        VerifyReceiptRoutes(environment, ledger, bodies: bodies, now: now).add(at: "/verifyReceipt", to: router)
        VerifyReceiptRoutes(.sandbox, ledger, bodies: bodies, now: now).add(at: "/sandbox/verifyReceipt", to: router)
        guard let ledger else { return router }
        NotificationRoutes(service: ledger, bodies: bodies, now: now).add(to: router)
        let keyed = KeyedRoutes(service: ledger, bodies: bodies, now: now)
        CustomerRoutes(keyed: keyed).add(to: router)
        PurchaseRoutes(keyed: keyed).add(to: router)
        EventRoutes(keyed: keyed).add(to: router)
        return router
    }

    private func healthRouter() -> Router<BasicRequestContext> {
        let router = logged()
        HealthRoutes(service: ledger, now: now).add(to: router)
        return router
    }

    /// A router whose requests are logged and whose errors are answered.
    private func logged() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: RequestLog(requestLog, requests, logger: logger, now: now, clock: clock))
        return router
    }
}
