// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
public import AppStoreModel
import AppStoreTrust
import HTTPTypes
public import Hummingbird
import HummingbirdCore
import Listening
public import Logging
import NIOCore
import NIOPosix
import PurchaseLedger
import ServiceLifecycle
import UnixSignals

/// The HTTP server: its routes, its bounds, and how it starts and stops.
public struct ServerApplication: Sendable {
    /// The version of this software, as in `quittance --version`, the log and the `Server` field of responses.
    public static let version = "0.1.0"

    /// The environment of `/verifyReceipt`: production or sandbox.
    public var environment: AppStoreModel.Environment

    /// Returns the current time.
    public var now: @Sendable () -> Timestamp

    /// Returns the time of the machine even if ``now`` returns a simulator's time. `nil` stands for ``now``.
    public var wall: (@Sendable () -> Timestamp)? { didSet { ledger?.ledger.wall = wall } }

    /// The maximum number of connections to the endpoints of webhooks.
    package var webhookConnections = WebhookSender.maxConnections

    /// Measures intervals and durations. Only the deadlines of connections use the clock of their event loop.
    public let clock: any Clock<Duration>

    /// The logger of the server and of all requests.
    public var logger: Logger

    /// The ledger. Without a ledger, the server only verifies receipts.
    public var ledger: LedgerService?

    /// The simulator whose time ``now`` returns, for demonstrations; `nil` for the machine's time.
    public var simulatorClock: SimulatorClock?

    /// The keyed digests of the configuration, which only the port for health answers; `nil` for none.
    package var configurationDigests: [String: String]?

    /// The requests that the log includes.
    public var requestLog = RequestLogPolicy.all

    /// Whether SIGTERM and SIGINT end the server. If false, the server ends with the graceful shutdown of its parent
    /// service.
    public var endsBySignal = true

    /// The bounds on the connections, the memory and the time that clients may use.
    public let bounds: ServerBounds

    package let bodies: BodyIntake
    private let requestLogState: RequestLogState
    private let webhookIDs: WebhookIDs
    private let auditIDs: WebhookIDs

    /// The bytes of long bodies and responses in memory.
    package var bodyBytesInFlight: Int { bodies.budget.count }

    /// Creates a server. ``run(hostname:port:healthHostname:healthPort:consolePort:onListening:)`` starts the
    /// server.
    ///
    /// - Parameter requestSeed: A random number at the start of each id of a request and of a webhook, so that ids
    ///   differ from the ids before a restart.
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
        requestLogState = RequestLogState(seed: requestSeed)
        webhookIDs = WebhookIDs(seed: requestSeed)
        auditIDs = WebhookIDs(seed: requestSeed)
    }

    /// A listening socket of the server.
    public enum Listener: Sendable {
        /// Answers all requests.
        case requests
        /// Answers health checks only, with a separate limit on connections.
        case health
        /// Answers the requests of the console, and has its files.
        case console
    }

    /// Serves until the process receives SIGTERM or SIGINT, see ``endsBySignal``. Then lets running requests finish. If
    /// the task is cancelled, they have five seconds, and all else is cancelled at once.
    ///
    /// - Parameters:
    ///   - port: The port, from 0 to 65535. 0 takes any free port, for `healthPort` too.
    ///   - healthHostname: The address for `healthPort`; `hostname` if `nil`.
    ///   - healthPort: A second port for health checks only; `nil` for none.
    ///   - consolePort: A port for the console, on `hostname`; `nil` for none, and without a ledger.
    ///   - onListening: Called once for each listener, with its port.
    /// - Throws: ``ListeningError`` if the server cannot listen on an address.
    public func run(
        hostname: String, port: Int, healthHostname: String? = nil, healthPort: Int? = nil,
        consolePort: Int? = nil,
        onListening: @escaping @Sendable (_ listener: Listener, _ port: Int) -> Void = { _, _ in }
    ) async throws {
        if let ledger { await ledger.logLastNotification(to: logger) }
        var services: [any Service] = []
        if let healthPort {
            let address = ListeningAddress(hostname: healthHostname ?? hostname, port: healthPort)
            let settings = (hostname: healthHostname == nil ? "hostname" : "healthHostname", port: "healthPort")
            let counter = ConnectionCounter(bounds.ofHealth, setting: "healthConnections", clock: clock, logger: logger)
            services.append(
                application(settings, logged().add(routesOfHealthPort), address, Self.healthLoops, counter) {
                    onListening(.health, $0)
                })
        }
        let address = ListeningAddress(hostname: hostname, port: port)
        // The connections of the console count too, so that the bound on memory stays.
        let counter = ConnectionCounter(bounds, clock: clock, logger: logger)
        let loops = MultiThreadedEventLoopGroup.singleton
        if let ledger, let consolePort {
            services.append(
                application(
                    (hostname: "hostname", port: "consolePort"),
                    logged(with: ConsoleHeaders()).add(ConsoleRoutes.routes + operations(ledger)),
                    ListeningAddress(hostname: hostname, port: consolePort), loops, counter
                ) { onListening(.console, $0) })
        }
        services.append(
            application((hostname: "hostname", port: "port"), router(), address, loops, counter) {
                onListening(.requests, $0)
            })
        if let ledger {
            services.append(JobService(ledger, now: now, clock: clock, logger: logger))
            services.append(housekeeping(ledger))
            services.append(webhooks(ledger))
            // A simulator's time may run a day a second, while a reading takes as long as ever.
            if simulatorClock == nil, let scopes = ledger.reconcilers?.all.keys, !scopes.isEmpty {
                services.append(
                    HistoryWatcher(
                        ledger.histories, Set(scopes), in: ledger.ledger, now: now, clock: clock, logger: logger))
            }
        }
        if let simulatorClock { services.append(simulatorClock) }
        var configuration = ServiceGroupConfiguration(
            services: services.map {
                // If a service fails, the others still have their time: requests, and the answers to webhooks. The log
                // shows the name alone, because a service has the configuration and the ids of customers.
                .init(
                    service: $0, failureTerminationBehavior: .gracefullyShutdownGroup,
                    serviceName: String("\(type(of: $0))".prefix { $0 != "<" }))
            },
            gracefulShutdownSignals: endsBySignal ? [.sigterm, .sigint] : [], logger: logger)
        // The webhooks are shut down before the requests.
        configuration.maximumGracefulShutdownDuration = max(bounds.requestTimeout, WebhookService.grace + .seconds(1))
        try await ServiceGroup(configuration: configuration).run()
    }

    /// A separate thread, so that the server answers health checks while all other threads are busy. Like the threads
    /// of all other connections, this thread lives as long as the process, because an event loop that is shut down
    /// while a connection is still closing prints a line into the log.
    private static let healthLoops = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    private func application(
        _ settings: (hostname: String, port: String), _ router: Router<BasicRequestContext>,
        _ address: ListeningAddress, _ loops: any EventLoopGroup, _ counter: ConnectionCounter,
        onListening: @escaping @Sendable (_ port: Int) -> Void
    ) -> some Service {
        let bounds = bounds
        let budget = bodies.budget
        // Suppresses the library's own log lines about start and stop, which have IPv6 addresses without brackets.
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .notice)
        let application = Application(
            router: router,
            server: HTTPServerBuilder { EventLoopChannel($0, bounds, budget, counter: counter) },
            configuration: .init(
                address: .hostname(address.hostname, port: address.port), serverName: Self.serverName),
            onServerRunning: { channel in onListening(channel.localAddress?.port ?? address.port) },
            eventLoopGroupProvider: .shared(loops), logger: quiet)
        return ListeningService(application, on: address, grace: ServerBounds.grace, clock: clock, logger: quiet) {
            ListeningError(settings, $0)
        }
    }

    /// The `Server` field of responses (RFC 9110 section 10.2.4).
    static let serverName = "quittance/\(version)"

    private func webhooks(_ service: LedgerService) -> some Service {
        let sender = WebhookSender(
            networks: service.webhookNetworks, clock: clock, maxConnections: webhookConnections)
        let parts = WebhookParts(
            service, sender: sender, wall: wall ?? now, clock: clock, logger: logger)
        return WebhookService(parts, of: service)
    }

    private func housekeeping(_ service: LedgerService) -> some Service {
        var housekeeping = Housekeeping(
            ledger: service.ledger, eventRetention: service.eventRetention, now: now, clock: clock, logger: logger)
        housekeeping.board = service.board
        housekeeping.auditRetention = service.auditRetention
        housekeeping.apps = service.apps
        housekeeping.sandboxSettings = service.apps.sorted { $0.key < $1.key }.map { bundleId, app in
            SandboxSetting(of: app, bundleId, in: service.verifier.environments)
        }
        housekeeping.judge = service.clockJudge
        housekeeping.lateProof = service.lateProof
        housekeeping.erasures = service.erasures
        // A simulator's clock has no judge.
        housekeeping.wall = service.clockJudge == nil ? wall : nil
        return housekeeping
    }

    /// The router of all routes, for tests without a socket and for use in another application.
    public func router() -> Router<BasicRequestContext> { logged().add(routes) }

    /// All routes. A server without a ledger has only verifyReceipt, health checks and the document.
    package var routes: [APIRoute] {
        let endpoints = ["/verifyReceipt": environment, "/sandbox/verifyReceipt": .sandbox]
        let verifyReceipt = endpoints.sorted { $0.key > $1.key }.flatMap { path, environment in
            let responder = VerifyReceiptResponder(environment, ledger)
            return VerifyReceiptRoutes(path: path, responder: responder, bodies: bodies, now: now).routes
        }
        guard let ledger else { return verifyReceipt + healthRoutes + [DocumentRoute.route] }
        return [
            verifyReceipt,
            NotificationRoutes(service: ledger, bodies: bodies, now: now).routes,
            RetentionRoutes(service: ledger, bodies: bodies, now: now, clock: clock, logger: logger).routes,
            operations(ledger), healthRoutes, [DocumentRoute.route],
        ].flatMap(\.self)
    }

    private func operations(_ ledger: LedgerService) -> [APIRoute] {
        let authentication = authentication(ledger)
        return Operation.all.map { authentication.route($0.operation) }
    }

    private func authentication(_ ledger: LedgerService) -> Authentication {
        let leftOut = ledger.apps.filter { $0.value.sandboxAccess == .none }.mapValues { app in
            ThrottledWarning(
                every: .seconds(86_400), "With sandboxAccess none App Review reads isActive false for what it bought",
                ["bundleId": .string(app.identity.bundleId)], clock: clock, logger)
        }
        let versioned = ledger.apps.filter { $0.value.catalogue.appPurchase.contains { $0.beforeVersion != nil } }
        let sandboxVersions = versioned.mapValues { app in
            ThrottledWarning(
                every: .seconds(86_400), level: .notice,
                "In the sandbox the original version of each app is 1.0, which beforeVersion of appPurchase compares",
                ["bundleId": .string(app.identity.bundleId)], clock: clock, logger)
        }
        return Authentication(
            service: ledger, bodies: bodies, now: now, wall: wall ?? now, leftOut: leftOut,
            sandboxVersions: sandboxVersions, webhookIDs: webhookIDs, auditIDs: auditIDs, bounds: bounds, clock: clock,
            logger: logger)
    }

    /// Performs an operation for the operator, without HTTP.
    ///
    /// - Parameter prepare: Called before anything is done, with the question for a person if the operation has one.
    /// - Throws: Errors of the ledger and of `prepare`.
    /// - Returns: The answer as HTTP has it, also to a refusal.
    package func perform(
        _ operation: Operation, _ values: FieldValues, of apps: [String],
        prepare: (_ question: String?) async throws -> Void
    ) async throws -> Reply? {
        guard let ledger else { return nil }
        let request = authentication(ledger).request(of: apps, values)
        do {
            try await prepare(operation.question(request))
            return try await operation.reply(to: request)
        } catch {
            let refused = (error as? AppStoreAPIError).map(Refusal.init)
            guard let refusal = error as? Refusal ?? refused ?? ErrorResponder.fault(error) else { throw error }
            return Reply(json: ErrorBody(refusal).json, status: refusal.status)
        }
    }

    private var routesOfHealthPort: [APIRoute] {
        healthRoutes + (configurationDigests.map { [HealthRoutes.configuration($0)] } ?? [])
    }

    private var healthRoutes: [APIRoute] {
        HealthRoutes(service: ledger, simulator: simulatorClock?.address, now: now).routes
    }

    /// A router that logs requests and turns errors into responses.
    private func logged(with headers: ConsoleHeaders? = nil) -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self, options: .autoGenerateHeadEndpoints)
        if let headers { router.add(middleware: headers) }
        let words = routes.flatMap { $0.path.split(separator: "/") }.filter { !$0.hasPrefix("{") }
        // What people often put into the URL at Apple.
        let usual: Set<Substring> = ["api", "apple", "appstore", "notification", "v2", "webhook"]
        router.add(
            middleware: RequestLog(
                policy: requestLog, words: usual.union(words), logger: logger, now: now, clock: clock,
                state: requestLogState))
        return router
    }
}
