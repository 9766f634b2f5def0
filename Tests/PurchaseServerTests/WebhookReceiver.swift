// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix
import PurchaseServer
import Synchronization

/// A receiver of webhooks that answers as a test wants, counts connections and keeps requests.
final class WebhookReceiver: Sendable {
    /// What a receiver does with a request.
    enum Answer: Sendable {
        /// Sends a text and keeps the connection.
        case text(String)
        /// Sends a text and closes the connection.
        case last(String)
        /// Sends a text, and then a second text again and again.
        case endless(String, String)
        /// Sends nothing.
        case silence
        /// Sends a text as soon as there is a connection.
        case unasked(String)

        /// A complete answer.
        static func status(_ status: String, fields: String = "", body: String = "") -> Answer {
            .text("HTTP/1.1 \(status)\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }

        static let ok = Answer.status("200 OK")
    }

    private struct State {
        var connections = 0
        var requests: [String] = []
        var sent = 0
    }

    let port: Int
    private let channel: any Channel
    private let state: State_

    /// A box, because handlers need the state before the receiver exists.
    private final class State_: Sendable { let value = Mutex(State()) }

    var connections: Int { state.value.withLock(\.connections) }
    /// The requests as they came.
    var requests: [String] { state.value.withLock(\.requests) }
    /// The number of bytes that an endless answer had.
    var sent: Int { state.value.withLock(\.sent) }

    init(on host: String = "127.0.0.1", port: Int = 0, _ answer: Answer = .ok) async throws {
        let state = State_()
        channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(state, answer))
                }
            }
            .bind(host: host, port: port).get()
        self.state = state
        self.port = channel.localAddress?.port ?? 0
    }

    /// Waits until no endless answer is sent any more, which the receiver notices when the connection is closed.
    func stop() async { try? await channel.close() }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let state: State_
        private let answer: Answer
        private var text = ""

        init(_ state: State_, _ answer: Answer) {
            self.state = state
            self.answer = answer
        }

        func channelActive(context: ChannelHandlerContext) {
            state.value.withLock { $0.connections += 1 }
            guard case .unasked(let text) = answer else { return }
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            guard let end = text.firstRange(of: "\r\n\r\n") else { return }
            let length = text.firstMatch(of: /(?i)content-length: *([0-9]+)/).flatMap { Int($0.1) } ?? 0
            guard text[end.upperBound...].utf8.count >= length else { return }
            state.value.withLock { $0.requests.append(text) }
            text = ""
            switch answer {
            case .silence, .unasked: break
            case .text(let answer): context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
            case .last(let answer):
                let context = NIOLoopBound(context, eventLoop: context.eventLoop)
                context.value.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer))).whenComplete { _ in
                    context.value.close(promise: nil)
                }
            case .endless(let answer, let rest):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
                more(ByteBuffer(string: String(repeating: rest, count: 1 + 4096 / rest.utf8.count)), context)
            }
        }

        private func more(_ chunk: ByteBuffer, _ context: ChannelHandlerContext) {
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.writeAndFlush(wrapOutboundOut(chunk)).whenSuccess {
                let (handler, context) = bound.value
                handler.state.value.withLock { $0.sent += chunk.readableBytes }
                handler.more(chunk, context)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}

/// A resolver with the answers of a test.
final class TestResolver: AddressResolver {
    private let answers: Mutex<[String: [[String]]]>
    private let asked = Mutex<[String]>([])

    /// - Parameter answers: The answers by host, in order. The last one is repeated.
    init(_ answers: [String: [[String]]]) {
        self.answers = Mutex(answers)
    }

    /// The hosts that were asked for.
    var questions: [String] { asked.withLock { $0 } }

    func addresses(of host: String) async throws -> [IPAddress] {
        asked.withLock { $0.append(host) }
        let next: [String]? = answers.withLock { answers in
            guard let list = answers[host] else { return nil }
            if list.count > 1 { answers[host]?.removeFirst() }
            return list.first
        }
        guard let next else { throw ResolverError("the name \(host) cannot be resolved: no such name") }
        return next.compactMap { IPAddress($0) }
    }
}
