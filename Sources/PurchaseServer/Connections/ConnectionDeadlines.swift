// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes

/// Closes a connection if its client takes longer than ``ServerBounds`` allows, does not receive its response, or sends
/// a body that no route reads.
///
/// The server handles one request of a connection at a time. If a client sends a second request before it has the
/// response to the first, the server does not read the second request. The server then closes the connection after the
/// response, as RFC 9112 section 9.3.2 allows.
final class ConnectionDeadlines: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private enum Phase {
        /// Between requests, or within a head.
        case waiting
        /// From the head of a request until its response is sent.
        case answering
        /// After the last response: the client has a second to read it.
        case closing
    }

    private let bounds: ServerBounds
    private let budget: ByteBudget
    private var phase = Phase.waiting
    /// The deadline of the phase.
    private var deadline: NIODeadline
    /// The deadline of the body; `nil` once the body has arrived, or after the deadline.
    private var bodyDeadline: NIODeadline?
    private var isBodyComplete = true
    /// Whether the end of a short response was written, but has perhaps not been sent. After such a response the
    /// connection stays open.
    private var isEndWritten = false
    /// Whether the server closes the connection after this response.
    private var isLast = false
    private var discardedBytes = 0
    /// The bytes of the response that were charged to the ``ByteBudget``, if nothing was reserved for the response.
    private var chargedBytes = 0
    /// The reservation for the response, if bytes were reserved before it was made.
    private var reserved: ReservedBytes?
    /// The number of bytes not yet sent, and the time since which the number is unchanged.
    private var pending = (bytes: 0, since: NIODeadline.now())
    private var check: Scheduled<Void>?
    /// The slot of the connection, of which there are as many as ``ServerBounds/connections``. While the connection
    /// waits for a head, a newer connection may get the slot.
    var slot: (counter: ConnectionCounter, number: Int)?

    init(_ bounds: ServerBounds, _ budget: ByteBudget) {
        self.bounds = bounds
        self.budget = budget
        deadline = .now() + TimeAmount(bounds.idleTimeout)
    }

    func handlerAdded(context: ChannelHandlerContext) { scheduleCheck(context) }

    func handlerRemoved(context: ChannelHandlerContext) {
        check?.cancel()
        releaseAnswer()
    }

    // MARK: Requests

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        finishShortAnswer(context)
        switch (phase, part) {
        case (.waiting, .head(let head)) where !isLast:
            guard slot.map({ $0.counter.endWait($0.number) }) ?? true else { return context.close(promise: nil) }
            begin(head)
        case (.answering, .body) where !isBodyComplete:
            break
        case (.answering, .end) where !isBodyComplete:
            isBodyComplete = true
            bodyDeadline = nil
        case (_, .body(let bytes)):
            discardedBytes += bytes.readableBytes
            return
        default:
            // The client sent a further request before the response: stop reading.
            isLast = true
            discardedBytes = ServerBounds.discardedBody
            return
        }
        context.fireChannelRead(data)
    }

    private func begin(_ head: HTTPRequest) {
        let now = NIODeadline.now()
        phase = .answering
        deadline = now + TimeAmount(bounds.requestTimeout)
        bodyDeadline = now + TimeAmount(bounds.bodyTimeout)
        isBodyComplete = false
        isLast = head.headerFields[.connection]?.lowercased() == "close"
    }

    /// Reads from the socket only if the bytes are needed.
    func read(context: ChannelHandlerContext) {
        let isReading =
            switch phase {
            case .waiting: true
            case .answering: !isBodyComplete || !isLast
            case .closing: discardedBytes < ServerBounds.discardedBody
            }
        if isReading { context.read() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The parser does not continue after an error.
        isLast = true
        context.fireErrorCaught(error)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent, phase == .closing { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    // MARK: Responses

    /// Keeps the reservation for a response until the whole response is sent or the client has disconnected.
    func triggerUserOutboundEvent(
        context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
    ) {
        guard let event = event as? ReservedBytes else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        reserved = event
        promise?.succeed()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(let head) where head.status.kind == .informational:
            context.write(data, promise: promise)
        case .head(var head):
            if !isBodyComplete { isLast = true }
            guard isLast else { return context.write(data, promise: promise) }
            head.headerFields[.connection] = "close"
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body(let bytes):
            charge(bytes.readableBytes)
            context.write(data, promise: promise)
        case .end where isLast || chargedBytes > 0 || reserved != nil:
            let promise = promise ?? context.eventLoop.makePromise()
            promise.futureResult.assumeIsolated().whenComplete { _ in self.answered(context) }
            context.write(data, promise: promise)
        case .end:
            isEndWritten = true
            context.write(data, promise: promise)
        }
    }

    func flush(context: ChannelHandlerContext) {
        context.flush()
        finishShortAnswer(context)
    }

    /// Ends a request if its short response was sent, as it usually is after a flush. If the kernel did not take the
    /// whole response, this function runs again at the next request or the next check of the deadlines. A promise for
    /// each short response would cost far more.
    private func finishShortAnswer(_ context: ChannelHandlerContext) {
        guard isEndWritten, bufferedBytes(context) == 0 else { return }
        isEndWritten = false
        answered(context)
    }

    private func charge(_ count: Int) {
        if let reserved { return reserved.settle(count) }
        guard count > ServerBounds.shortBody else { return }
        budget.charge(count)
        chargedBytes += count
    }

    private func releaseAnswer() {
        if chargedBytes > 0 { budget.release(chargedBytes, of: nil) }
        chargedBytes = 0
        reserved = nil
    }

    /// Called once the kernel has the end of the response.
    private func answered(_ context: ChannelHandlerContext) {
        releaseAnswer()
        guard context.channel.isActive else { return }
        if isLast || !isBodyComplete {
            phase = .closing
            deadline = .now() + TimeAmount(ServerBounds.closingTime)
            bodyDeadline = nil
            context.close(mode: .output, promise: nil)
            context.read()
        } else {
            phase = .waiting
            deadline = .now() + TimeAmount(bounds.idleTimeout)
            slot.map { $0.counter.beginWait($0.number) }
        }
    }

    // MARK: Time

    /// Checks the deadlines periodically. A timer for each request would cost more, and no deadline needs to be exact.
    private func scheduleCheck(_ context: ChannelHandlerContext) {
        let shortest = min(bounds.idleTimeout, bounds.bodyTimeout, bounds.requestTimeout, bounds.writeTimeout)
        let delay = TimeAmount(min(shortest / 4, .seconds(1)))
        check = context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            self.checkDeadlines(context, at: .now())
        }
    }

    private func checkDeadlines(_ context: ChannelHandlerContext, at now: NIODeadline) {
        finishShortAnswer(context)
        guard now < deadline, !isStuck(context, at: now) else { return context.close(promise: nil) }
        if let end = bodyDeadline, now >= end {
            bodyDeadline = nil
            // The route that reads the body throws this error.
            context.fireErrorCaught(HTTPError(.requestTimeout))
        }
        scheduleCheck(context)
    }

    /// Whether the number of unsent bytes has not changed for the write timeout.
    private func isStuck(_ context: ChannelHandlerContext, at now: NIODeadline) -> Bool {
        let bytes = bufferedBytes(context)
        guard bytes > 0, bytes == pending.bytes else {
            pending = (bytes, now)
            return false
        }
        return now - pending.since >= TimeAmount(bounds.writeTimeout)
    }

    /// The number of written bytes that the kernel has not taken yet.
    private func bufferedBytes(_ context: ChannelHandlerContext) -> Int {
        // A closed connection has no options, and no unsent bytes.
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }
}
