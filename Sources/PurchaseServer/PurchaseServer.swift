// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import HTTPTypes
public import Hummingbird
import HummingbirdCore
public import Logging
import NIOCore
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

    /// A random number, with which the ids of requests begin: they are to differ from those before a restart.
    public var requestSeed: UInt64 = 0

    public init(
        environment: AppStoreModel.Environment = .production, ledger: LedgerService? = nil,
        now: @escaping @Sendable () -> Timestamp, logger: Logger
    ) {
        self.environment = environment
        self.ledger = ledger
        self.now = now
        self.logger = logger
    }

    /// How long a connection may say nothing before it is closed, also in the midst of a body.
    private static let idleTimeout = TimeAmount.seconds(30)

    /// How long the body of a request may take to arrive: 3 MiB need 10 seconds over 2.5 Mbit/s.
    static let bodyTimeout = Duration.seconds(30)

    /// How many connections are open at once; more wait. Each may hold a body of 3 MiB in memory, so all together stay
    /// below 3 GiB at the very worst.
    private static let connectionLimit = 1000

    /// How long running requests may take to finish once the server is told to end: as long as a body, and a little.
    private static let shutdownTimeout = Duration.seconds(35)

    /// Serves until the process is told to end (SIGTERM or SIGINT), then lets running requests finish.
    ///
    /// - Parameter onRunning: Called once the server listens, with its port.
    /// - Throws: When it cannot listen there.
    public func run(
        hostname: String, port: Int, onRunning: @escaping @Sendable (_ port: Int) -> Void = { _ in }
    ) async throws {
        let application = Application(
            router: router(),
            server: HTTPServerBuilder { responder in
                EventLoopChannel(
                    http: HTTP1Channel(responder: responder, configuration: .init(idleTimeout: Self.idleTimeout)))
            },
            configuration: .init(
                address: .hostname(hostname, port: port),
                availableConnectionsDelegate: MaximumAvailableConnections(Self.connectionLimit, logger: logger)),
            onServerRunning: { channel in onRunning(channel.localAddress?.port ?? port) },
            logger: logger)
        if let ledger { await ledger.logLastNotification(to: logger) }
        var services: [any Service] = [application]
        if let ledger { services.append(ChangeTeller(ledger: ledger.ledger, now: now, logger: logger)) }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = Self.shutdownTimeout
        try await ServiceGroup(configuration: configuration).run()
    }

    /// All routes, for whoever serves them elsewhere or tests them without a socket.
    public func router() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: RequestLog(requestLog, logger: logger, now: now, seed: requestSeed))
        router.add(middleware: ErrorResponder(logger: logger))
        router.get("/health/live") { _, _ in Response(json: Array(#"{"status":"live"}"#.utf8)) }
        add(VerifyReceiptEndpoint(environment: environment, service: ledger), at: "/verifyReceipt", to: router)
        add(VerifyReceiptEndpoint(environment: .sandbox, service: ledger), at: "/sandbox/verifyReceipt", to: router)
        addReadiness(to: router)
        if let ledger {
            addNotifications(ledger, to: router)
            addLedger(ledger, to: router)
        }
        return router
    }

    private func add(_ endpoint: VerifyReceiptEndpoint, at path: RouterPath, to router: Router<BasicRequestContext>) {
        router.post(path) { request, _ in
            let body = try await request.body(upTo: Limits.verifyReceiptRequest, within: Self.bodyTimeout)
            let now = now()
            let answer = await aside(body) { await endpoint.answer($0, at: now) }
            RequestNotes.add { $0.verifyReceiptStatus = answer.status }
            return Response(json: answer.json)
        }
        // The App Store answers other methods with a status of its own instead of 405.
        for method in [HTTPRequest.Method.get, .head, .put, .delete, .patch, .options, .trace] {
            router.on(path, method: method) { _, _ in
                Response(json: VerifyReceiptResponse(status: .unreadableRequest).json)
            }
        }
    }
}

extension Request {
    /// The whole body.
    ///
    /// Who sends nothing more is waited for until the connection counts as idle, and gets no answer.
    ///
    /// - Throws: `HTTPError`: 413 where it is longer than `limit`, 408 where it goes on after `timeout`, 400 where the client
    ///   goes away.
    package func body(upTo limit: Int, within timeout: Duration) async throws -> [UInt8] {
        if let length = headers[.contentLength].flatMap({ Int($0) }), length > limit {
            throw HTTPError(.contentTooLarge)
        }
        let end = ContinuousClock.now + timeout
        var bytes: [UInt8] = []
        do {
            for try await chunk in body {
                guard chunk.readableBytes <= limit - bytes.count else { throw HTTPError(.contentTooLarge) }
                guard ContinuousClock.now < end else { throw HTTPError(.requestTimeout) }
                bytes += chunk.readableBytesView
            }
        } catch let error as HTTPError {
            throw error
        } catch {
            throw HTTPError(.badRequest)
        }
        return bytes
    }
}

extension Response {
    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }
}
