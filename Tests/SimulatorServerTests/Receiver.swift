// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// A server under test: it answers notifications with the statuses that a test wants, and hands over their bodies.
struct Receiver: Sendable {
    /// The URL for notifications.
    let url: String
    private let bodies: AsyncStream<[UInt8]>

    /// Runs a receiver while `body` runs.
    ///
    /// - Parameter statuses: Those of the first answers; all others are 200. A request whose status is 0 gets no answer
    ///   while `body` runs.
    static func run(
        answering statuses: [Int] = [], _ body: @Sendable (Receiver) async throws -> Void
    ) async throws {
        let (bodies, received) = AsyncStream<[UInt8]>.makeStream()
        let (ports, listening) = AsyncStream<Int>.makeStream()
        let rest = Mutex(statuses)
        let responder = CallbackResponder<BasicRequestContext> { request, _ in
            let body = try await request.body.collect(upTo: 1 << 20)
            received.yield(Array(body.readableBytesView))
            let status = rest.withLock { $0.isEmpty ? 200 : $0.removeFirst() }
            if status == 0 { try await Task.sleep(for: .seconds(86_400)) }
            return Response(status: .init(code: status))
        }
        var logger = Logger(label: "receiver")
        logger.logLevel = .critical
        let application = Application(
            responder: responder, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { listening.yield($0.localAddress?.port ?? 0) }, logger: logger)
        // The receiver listens as long as the process: the library traps if a server is cancelled while it answers.
        Task { try await application.run() }
        for await port in ports {
            return try await body(Receiver(url: "http://127.0.0.1:\(port)/notifications", bodies: bodies))
        }
    }

    /// The signed payload of the next notification that arrives.
    func next() async throws -> String {
        try JSONValue(parsing: try await nextBody())["signedPayload"]?.string ?? ""
    }

    /// The body of the next notification that arrives.
    func nextBody() async throws -> [UInt8] {
        for await body in bodies { return body }
        throw CancellationError()
    }
}

/// A server that answers each connection with certain bytes, or not at all.
struct RawServer {
    enum Behaviour: Sendable {
        /// Sends the bytes after the request's first bytes, then sends no more.
        case closesAfter(String)
        /// The same with the bytes of the moment.
        case closesAfterCurrent(@Sendable () -> String)
        /// Sends the bytes and leaves the connection open.
        case pausesAfter(String)
        case staysSilent
    }

    private final class Handler: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let behaviour: Behaviour
        let onRequest: @Sendable (String) -> Void

        init(_ behaviour: Behaviour, _ onRequest: @escaping @Sendable (String) -> Void) {
            self.behaviour = behaviour
            self.onRequest = onRequest
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            onRequest(String(buffer: unwrapInboundIn(data)))
            let channel = context.channel
            let text: String
            switch behaviour {
            case .closesAfter(let fixed): text = fixed
            case .closesAfterCurrent(let current): text = current()
            case .pausesAfter(let text): return channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
            case .staysSilent: return
            }
            // Only this direction is closed: if a part of the request were unread, the system would reset the
            // connection, and the client might see neither answer nor end.
            channel.writeAndFlush(ByteBuffer(string: text)).whenComplete { _ in
                channel.close(mode: .output, promise: nil)
            }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if event as? ChannelEvent == .inputClosed { context.close(promise: nil) }
        }
    }

    /// Runs a server while `body` runs with its port.
    ///
    /// - Parameter onRequest: Called with the first bytes of each request.
    static func run(
        _ behaviour: Behaviour, onRequest: @escaping @Sendable (String) -> Void = { _ in },
        _ body: (_ port: Int) async throws -> Void
    ) async throws {
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(behaviour, onRequest))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        try await body(channel.localAddress?.port ?? 0)
        try await channel.close()
    }
}
