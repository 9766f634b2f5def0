// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOHTTP1
import PurchaseLedger

/// A request to an endpoint and its answer, on the event loop of the connections.
final class WebhookExchange: Sendable {
    /// The part of an answer that was read.
    struct Answer: Sendable {
        /// The status; `nil` if no answer began.
        var status: Int?
        /// The field `Retry-After`.
        var retryAfter: String?
        /// The beginning of the body.
        var body: [UInt8] = []
        /// The reason why the answer is missing or incomplete; `nil` if the answer is complete, or longer than the
        /// limit after its status and fields.
        var failure: Failure?
    }

    /// The reason why there is no complete answer.
    enum Failure: Error {
        /// The request was cancelled, or the sender was shut down.
        case cancelled
        /// The time was over.
        case timeout
        /// There was no connection, so that the receiver has nothing of the request.
        case noConnection(any Error)
        /// The receiver closed the connection.
        case closed
        /// The receiver closed a kept connection before it sent a byte of the answer, probably without having read the
        /// request.
        case stale
        /// The answer has more bytes than the limit before its body.
        case tooLong
        /// The answer is not HTTP, or the connection failed.
        case broken(any Error)
    }

    private struct State {
        var answer = Answer()
        var continuation: CheckedContinuation<Answer, Never>?
        var timer: Scheduled<Void>?
        /// Closes the connection; `nil` before there is a connection.
        var close: (() -> Void)?
        var isOver = false
    }

    /// The bytes of the request.
    let request: ByteBuffer
    private let loop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    /// - Parameter loop: The event loop of the connections.
    init(_ request: ByteBuffer, on loop: any EventLoop) {
        self.request = request
        self.loop = loop
        state = .makeBoxSendingValue(State(), eventLoop: loop)
    }

    /// Waits for the end of the exchange.
    ///
    /// - Parameters:
    ///   - limit: The time for everything: a connection, the request and the whole answer.
    ///   - connect: Called on the event loop, unless the task is cancelled before. Lets the exchange begin on a
    ///     connection.
    func answer(within limit: TimeAmount, _ connect: @escaping @Sendable () -> Void) async -> Answer {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Deliveries run on the event loop already.
                if loop.inEventLoop { return begin(limit, connect, continuation) }
                loop.execute { self.begin(limit, connect, continuation) }
            }
        } onCancel: {
            loop.execute { self.end(.cancelled) }
        }
    }

    private func begin(
        _ limit: TimeAmount, _ connect: () -> Void, _ continuation: CheckedContinuation<Answer, Never>
    ) {
        guard !state.value.isOver else { return continuation.resume(returning: state.value.answer) }
        state.value.continuation = continuation
        state.value.timer = loop.scheduleTask(in: limit) {
            let isConnected = self.state.value.close != nil
            self.end(isConnected ? .timeout : .noConnection(ChannelError.connectTimeout(limit)))
        }
        connect()
    }
}

// MARK: - On the event loop

extension WebhookExchange {
    /// Whether the exchange has ended, perhaps without a connection.
    var isOver: Bool { state.value.isOver }

    /// Notes that the exchange has a connection.
    ///
    /// - Parameter close: Closes the connection, after a failure.
    func noteConnection(_ close: @escaping () -> Void) { state.value.close = close }

    func note(_ head: HTTPResponseHead) {
        state.value.answer.status = Int(head.status.code)
        state.value.answer.retryAfter = head.headers.first(name: "Retry-After")
    }

    func note(_ part: ByteBuffer) {
        let missing = WebhookAttempt.answerLimit - state.value.answer.body.count
        if missing > 0 { state.value.answer.body += part.readableBytesView.prefix(missing) }
    }

    /// Ends the exchange, unless it has ended already.
    ///
    /// - Parameter failure: The reason why the answer is incomplete; `nil` if it is complete. The connection is closed
    ///   after a failure.
    func end(_ failure: Failure?) {
        guard !state.value.isOver else { return }
        let last = state.value
        state.value.isOver = true
        state.value.answer.failure = failure
        state.value.continuation = nil
        state.value.close = nil
        last.timer?.cancel()
        if failure != nil { last.close?() }
        last.continuation?.resume(returning: state.value.answer)
    }

    /// Ends the exchange because the answer is longer than the limit. A status that was read counts.
    func endLong() { end(state.value.answer.status == nil ? .tooLong : nil) }
}
