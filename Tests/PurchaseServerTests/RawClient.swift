// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import NIOCore
import NIOPosix
import PurchaseLedger
import PurchaseServer
import Synchronization
import Testing

/// A connection on which a test sends any bytes at any time.
final class RawClient: Sendable {
    private let channel: any Channel
    private let received: AsyncStream<ByteBuffer>

    /// - Parameters:
    ///   - source: The address of the client.
    ///   - isReading: Whether it receives what the server sends.
    init(port: Int, from source: String = "127.0.0.1", isReading: Bool = true) async throws {
        let (stream, continuation) = AsyncStream.makeStream(of: ByteBuffer.self)
        received = stream
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .bind(to: SocketAddress(ipAddress: source, port: 0))
            .channelOption(.autoRead, value: isReading)
            .channelOption(.socketOption(.so_rcvbuf), value: isReading ? 1 << 20 : 4096)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Receiver(continuation))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }

    private final class Receiver: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        private let continuation: AsyncStream<ByteBuffer>.Continuation

        init(_ continuation: AsyncStream<ByteBuffer>.Continuation) { self.continuation = continuation }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { continuation.yield(unwrapInboundIn(data)) }
        func channelInactive(context: ChannelHandlerContext) { continuation.finish() }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }

    /// Sends a text, and returns whether the connection is still open.
    @discardableResult func send(_ text: String) async -> Bool {
        (try? await channel.writeAndFlush(ByteBuffer(string: text))) != nil
    }

    /// Sends a head that announces a body of `length` bytes, and the first `sent` of these bytes.
    @discardableResult func post(_ path: String, length: Int, sent: Int = 0) async -> Bool {
        let head = "POST \(path) HTTP/1.1\r\nHost: x\r\nContent-Length: \(length)\r\n\r\n"
        return await send(head + String(repeating: " ", count: sent))
    }

    /// Sends a text again and again, until the server ends the connection or the test is cancelled.
    ///
    /// - Returns: Whether the server ended the connection.
    func trickle(_ text: String) async -> Bool {
        while !Task.isCancelled {
            guard await send(text) else { return true }
            try? await Task.sleep(for: .milliseconds(5))
        }
        return false
    }

    /// All bytes until the server ends the connection.
    func rest() async -> String {
        var bytes = ByteBuffer()
        for await part in received { bytes.writeImmutableBuffer(part) }
        return String(buffer: bytes)
    }

    /// All bytes up to this text, or until the server ends the connection.
    func answer(endingWith end: String) async -> String {
        var bytes = ByteBuffer()
        for await part in received {
            bytes.writeImmutableBuffer(part)
            if String(buffer: bytes).hasSuffix(end) { break }
        }
        return String(buffer: bytes)
    }

    /// Closes the sending side only.
    func finish() async { try? await channel.close(mode: .output) }

    func close() async { try? await channel.close() }

    /// Closes the connection with a reset (RST), so that the server notices it immediately.
    func reset() async throws {
        let provider = try #require(channel as? any SocketOptionProvider)
        try await provider.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
        await close()
    }

    /// Whether the server answers a request on a new connection. Waits until it has a place for one.
    static func isLive(port: Int, from source: String = "127.0.0.1") async throws -> Bool {
        while true {
            try Task.checkCancellation()
            let client = try await RawClient(port: port, from: source)
            await client.send("GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            let answer = await client.rest()
            guard answer.hasPrefix("HTTP/1.1 503") else { return answer.hasPrefix("HTTP/1.1 200") }
        }
    }
}

/// Waits a moment. Throws if the test is cancelled, for example by its time limit.
func pause() async throws {
    // To yield instead would keep a thread busy, and there are as many as cores.
    try await Task.sleep(for: .milliseconds(1))
}

struct RunningServer: Sendable {
    var server: ServerApplication
    var port: Int
    var healthPort: Int
    /// `nil` without a ledger.
    var consolePort: Int?
}

/// Runs a server for as long as `body` takes.
func withServer(
    _ bounds: ServerBounds, ledger: LedgerService? = nil, log: LogLines = LogLines(),
    _ body: @escaping @Sendable (RunningServer) async throws -> Void
) async throws {
    var logger = Logger(label: "test") { _ in log }
    logger.logLevel = .warning
    let server = ServerApplication(
        ledger: ledger, bounds: bounds, requestSeed: 1, now: { LedgerRoutesTests.now }, logger: logger)
    let (ports, continuation) = AsyncStream.makeStream(of: (ServerApplication.Listener, Int).self)
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
            defer { continuation.finish() }
            try await server.run(hostname: "127.0.0.1", port: 0, healthPort: 0, consolePort: 0) {
                continuation.yield(($0, $1))
            }
        }
        var found: [ServerApplication.Listener: Int] = [:]
        for await (listener, number) in ports {
            found[listener] = number
            if found.count == (ledger == nil ? 2 : 3) { break }
        }
        try await body(
            RunningServer(
                server: server, port: #require(found[.requests]), healthPort: #require(found[.health]),
                consolePort: found[.console]))
        group.cancelAll()
    }
}

/// Collects log lines.
final class LogLines: LogHandler, Sendable {
    private let lines = Mutex<[String]>([])
    private let haveLevels: Bool

    init(haveLevels: Bool = false) { self.haveLevels = haveLevels }

    var text: [String] { lines.withLock { $0 } }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        let level = haveLevels ? "\(event.level) " : ""
        lines.withLock { $0.append("\(level)\(event.message) \(event.metadata ?? [:])") }
    }
}

extension Logger {
    /// Logs nothing that a test may cause.
    static let quiet: Logger = {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }()
}
