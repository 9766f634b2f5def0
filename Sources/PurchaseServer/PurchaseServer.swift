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
public struct PurchaseServer: Sendable {
    /// What `/verifyReceipt` stands for: production or sandbox.
    public var environment: AppStoreModel.Environment

    /// The clock.
    public var now: @Sendable () -> Timestamp

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
        logger: Logger
    ) {
        self.environment = environment
        self.ledger = ledger
        self.bounds = bounds
        self.now = now
        self.logger = logger
        bodies = BodyIntake(bounds, logger: logger)
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
            let counter = ConnectionCounter(bounds.ofHealth, setting: "healthConnections", logger: logger)
            services.append(
                listener(healthRouter(), address, healthLoops, counter) { onListening(.health, $0) })
        }
        let address = ListeningAddress(setting: "port", hostname: hostname, port: port)
        let counter = ConnectionCounter(bounds, logger: logger)
        services.append(
            listener(router(), address, MultiThreadedEventLoopGroup.singleton, counter) {
                onListening(.requests, $0)
            })
        if let ledger { services.append(ChangeTeller(ledger: ledger.ledger, now: now, logger: logger)) }
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

    /// All routes, for whoever serves them elsewhere or tests them without a socket.
    public func router() -> Router<BasicRequestContext> {
        let router = logged()
        addHealth(to: router)
        add(VerifyReceiptEndpoint(environment: environment, service: ledger), at: "/verifyReceipt", to: router)
        add(VerifyReceiptEndpoint(environment: .sandbox, service: ledger), at: "/sandbox/verifyReceipt", to: router)
        if let ledger {
            addNotifications(ledger, to: router)
            addLedger(ledger, to: router)
        }
        return router
    }

    private func healthRouter() -> Router<BasicRequestContext> {
        let router = logged()
        addHealth(to: router)
        return router
    }

    /// A router whose requests are logged and whose errors are answered.
    private func logged() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: RequestLog(requestLog, requests, logger: logger, now: now))
        return router
    }

    private func addHealth(to router: Router<BasicRequestContext>) {
        router.get("/health/live") { _, _ in Response(json: Array(#"{"status":"live"}"#.utf8)) }
        addReadiness(to: router)
    }

    private func add(_ endpoint: VerifyReceiptEndpoint, at path: RouterPath, to router: Router<BasicRequestContext>) {
        router.post(path) { request, _ in
            do {
                let answer = try await bodies.withBody(of: request, upTo: Limits.verifyReceiptRequest) { body in
                    await endpoint.answer(body, at: now())
                }
                RequestNotes.add { $0.verifyReceiptStatus = answer.status }
                return Response(json: answer.json)
            } catch let refusal as Refusal where refusal.isOverload {
                // A client of the App Store's endpoint retries after either.
                var response = Response(refusal.status, json: VerifyReceiptResponse(status: .unavailable).json)
                response.headers[.retryAfter] = "\(ServerBounds.retryAfter)"
                return response
            }
        }
        // The App Store answers other methods with a status of its own instead of 405.
        for method in [HTTPRequest.Method.get, .head, .put, .delete, .patch, .options, .trace] {
            router.on(path, method: method) { _, _ in
                Response(json: VerifyReceiptResponse(status: .unreadableRequest).json)
            }
        }
    }
}

extension Response {
    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }
}
