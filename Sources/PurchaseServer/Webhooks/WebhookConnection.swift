// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHTTP1
import NIOSSL

/// A connection to an endpoint, the last handler of its channel. It has a single exchange at a time.
final class WebhookConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    /// The reactions of the owner of a connection.
    struct Events {
        /// An exchange has ended, and the receiver keeps the connection.
        let isIdle: (WebhookConnection) -> Void
        /// The connection is closed, or about to be.
        let isClosed: (WebhookConnection) -> Void
    }

    private let writer: RequestWriter
    private let answerLimit: AnswerLimit
    private let events: Events
    private var context: ChannelHandlerContext?
    private var exchange: WebhookExchange?
    /// Whether the connection has had an exchange before this one.
    private var isReused = false
    /// Whether the whole request was written.
    private var isWritten = false
    /// Whether the receiver keeps the connection after the answer.
    private var isKept = false

    private init(_ writer: RequestWriter, _ answerLimit: AnswerLimit, _ events: Events) {
        self.writer = writer
        self.answerLimit = answerLimit
        self.events = events
    }

    /// Adds the handlers of a connection to a channel.
    ///
    /// - Parameter tls: The handler of the TLS connection; `nil` for a connection without TLS.
    static func add(
        to pipeline: ChannelPipeline.SynchronousOperations, tls: NIOSSLClientHandler?, _ events: Events
    ) throws {
        let answerLimit = AnswerLimit()
        let writer = RequestWriter()
        if let tls { try pipeline.addHandler(tls) }
        try pipeline.addHandlers(answerLimit, writer)
        try pipeline.addHandler(ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes)))
        try pipeline.addHandler(WebhookConnection(writer, answerLimit, events))
    }

    /// Whether requests can be sent.
    var isOpen: Bool { context != nil }

    /// Sends the request of an exchange.
    func begin(_ exchange: WebhookExchange) {
        guard let context else { return exchange.end(.closed) }
        self.exchange = exchange
        exchange.noteConnection { self.close() }
        answerLimit.count = 0
        isKept = false
        isWritten = false
        writer.request = exchange.request
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenSuccess { self.isWritten = true }
        context.writeAndFlush(wrapOutboundOut(.head(RequestWriter.head)), promise: written)
    }

    /// Closes the connection. An exchange that has not ended fails.
    func close(_ failure: WebhookExchange.Failure = .cancelled) {
        let last = exchange
        exchange = nil
        last?.end(failure)
        guard let context else { return }
        self.context = nil
        context.close(promise: nil)
        events.isClosed(self)
    }

    // MARK: - ChannelInboundHandler

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    /// Ends the exchange of a connection that was reset before it became active, and releases the channel, which has
    /// this handler.
    func handlerRemoved(context: ChannelHandlerContext) { close(.closed) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // A receiver that sends more than its answer is not asked again over this connection.
        guard let exchange else { return close() }
        switch unwrapInboundIn(data) {
        case .head(let head):
            // After 101 the connection does not speak HTTP any more.
            isKept = head.isKeepAlive && head.status != .switchingProtocols
            exchange.note(head)
        case .body(let part): exchange.note(part)
        case .end:
            self.exchange = nil
            isReused = true
            exchange.end(nil)
            if isKept, isWritten { events.isIdle(self) } else { close() }
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if Self.isLimit(error) { exchange?.endLong() }
        close(isStale ? .stale : .broken(error))
    }

    /// Whether the receiver has closed a kept connection instead of answering.
    private var isStale: Bool { isReused && answerLimit.count == 0 }

    /// Whether an answer has too many bytes or too many fields, of which the library reads some hundred.
    private static func isLimit(_ error: any Error) -> Bool {
        if case HTTPParserError.headerOverflow = error { return true }
        return error is AnswerLimit.Exceeded
    }

    func channelInactive(context: ChannelHandlerContext) { close(isStale ? .stale : .closed) }
}

/// Writes a request whose bytes are known. The library's encoder would build the same bytes from parts, which costs a
/// tenth of a delivery.
private final class RequestWriter: ChannelOutboundHandler {
    typealias OutboundIn = HTTPClientRequestPart
    typealias OutboundOut = ByteBuffer

    /// Stands for a request. The decoder of answers must see the method of each request.
    static let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: "/")

    /// The bytes of the next request.
    var request = ByteBuffer()

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        context.write(wrapOutboundOut(request), promise: promise)
        request = ByteBuffer()
    }
}

/// Counts the bytes of an answer before they are read as HTTP, so that nothing in an answer is without end: neither
/// fields, nor interim answers (RFC 9110 section 15.2), nor the extensions of a chunk (RFC 9112 section 7.1.1).
private final class AnswerLimit: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The error of an answer that is too long.
    struct Exceeded: Error {}

    /// The longest answer in bytes. A receiver has nothing to say: a short answer keeps the connection usable, and a
    /// longer one closes it.
    static let limit = 64 << 10

    /// The bytes of the answer so far.
    var count = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        let rest = Self.limit - count
        count += bytes.readableBytes
        guard count > Self.limit else { return context.fireChannelRead(data) }
        // The beginning may have the status.
        if rest > 0, let beginning = bytes.readSlice(length: rest) {
            context.fireChannelRead(wrapInboundOut(beginning))
        }
        context.fireErrorCaught(Exceeded())
    }
}
