// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import HTTPTypes
public import Hummingbird
public import Logging
import NIOCore

/// The HTTP server: its routes, bounds and life.
public struct PurchaseServer: Sendable {
    /// What `/verifyReceipt` stands for: production or sandbox.
    public var environment: AppStoreModel.Environment

    /// The clock.
    public var now: @Sendable () -> Timestamp

    public var logger: Logger

    public init(
        environment: AppStoreModel.Environment = .production, now: @escaping @Sendable () -> Timestamp, logger: Logger
    ) {
        self.environment = environment
        self.now = now
        self.logger = logger
    }

    /// How long a connection may say nothing before it is closed: no caller that is still there pauses for longer.
    private static let idleTimeout = TimeAmount.seconds(60)

    /// Serves until the process is told to end (SIGTERM or SIGINT), then lets running requests finish.
    ///
    /// - Parameter onRunning: Called once the server listens, with its port.
    /// - Throws: When it cannot listen there.
    public func run(
        hostname: String, port: Int, onRunning: @escaping @Sendable (_ port: Int) -> Void = { _ in }
    ) async throws {
        let application = Application(
            router: router(),
            server: .http1(configuration: .init(idleTimeout: Self.idleTimeout)),
            configuration: .init(address: .hostname(hostname, port: port)),
            onServerRunning: { channel in onRunning(channel.localAddress?.port ?? port) },
            logger: logger)
        try await application.runService()
    }

    /// All routes, for whoever serves them elsewhere or tests them without a socket.
    public func router() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ErrorResponder())
        router.get("/health/live") { _, _ in Response(json: Array(#"{"status":"live"}"#.utf8)) }
        add(VerifyReceiptEndpoint(environment: environment), at: "/verifyReceipt", to: router)
        add(VerifyReceiptEndpoint(environment: .sandbox), at: "/sandbox/verifyReceipt", to: router)
        return router
    }

    private func add(_ endpoint: VerifyReceiptEndpoint, at path: RouterPath, to router: Router<BasicRequestContext>) {
        router.post(path) { request, context in
            let body = try await request.body.collect(upTo: VerifyReceiptRequest.sizeLimit)
            let answer = await endpoint.answer(Array(body.readableBytesView), at: now())
            context.logger.info("verifyReceipt", metadata: ["status": "\(answer.status?.rawValue ?? 0)"])
            return Response(json: answer.json)
        }
        // The App Store answers other methods with a status of its own instead of 405.
        for method in [HTTPRequest.Method.get, .put, .delete, .patch] {
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
