// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import PurchaseLedger
import Synchronization

/// A request to an endpoint and the reading of its answer.
///
/// Everything happens on the event loop of the connection. This saves most of the time that a request would otherwise
/// cost: no thread wakes another one between the request and its answer.
final class WebhookExchange: HTTPClientResponseDelegate {
    typealias Response = Void

    /// What was read of the answer.
    struct Answer: Sendable {
        /// The status; `nil` if no answer began.
        var status: Int?
        /// The field `Retry-After`.
        var retryAfter: String?
        /// The beginning of the body.
        var body: [UInt8] = []
        /// The reason why the answer is missing or incomplete; `nil` if it is complete, or longer than the limit.
        var error: (any Error)?
    }

    private struct State: Sendable {
        var answer = Answer()
        /// The number of bytes of the body so far.
        var count = 0
        var task: HTTPClient.Task<Void>?
        var isCancelled = false
    }

    /// The maximum length of a body that is read. A receiver has nothing to say; a short body keeps the connection
    /// usable, and a longer one closes it.
    static let bodyLimit = 64 << 10

    private let state = Mutex(State())
    private let loop: any EventLoop

    init(on loop: any EventLoop) {
        self.loop = loop
    }

    /// Sends a request, and reads the answer.
    ///
    /// - Parameter limit: The time for everything: a connection, the request and the whole answer.
    func answer(to request: HTTPClient.Request, from client: HTTPClient, within limit: TimeAmount) async -> Answer {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                loop.execute { self.start(request, client, limit, continuation) }
            }
        } onCancel: {
            loop.execute { self.cancel() }
        }
    }

    private func start(
        _ request: HTTPClient.Request, _ client: HTTPClient, _ limit: TimeAmount,
        _ continuation: CheckedContinuation<Answer, Never>
    ) {
        guard !state.withLock(\.isCancelled) else {
            continuation.resume(returning: Answer(error: CancellationError()))
            return
        }
        // The client makes all its connections on this loop. It would not keep connections that a request demands for a
        // loop (`delegateAndChannel`).
        let task = client.execute(request: request, delegate: self, eventLoop: .delegate(on: loop))
        state.withLock { $0.task = task }
        let timer = loop.scheduleTask(in: limit) { task.fail(reason: HTTPClientError.deadlineExceeded) }
        task.futureResult.whenComplete { result in
            timer.cancel()
            continuation.resume(returning: self.end(result))
        }
    }

    private func cancel() {
        let task = state.withLock { state in
            state.isCancelled = true
            return state.task
        }
        task?.fail(reason: CancellationError())
    }

    private func end(_ result: Result<Void, any Error>) -> Answer {
        state.withLock { state in
            state.task = nil
            if case .failure(let error) = result, !(error is LongAnswer) { state.answer.error = error }
            return state.answer
        }
    }

    /// The error that stops the reading of a long body.
    private struct LongAnswer: Error {}

    // MARK: - HTTPClientResponseDelegate

    func didReceiveHead(task: HTTPClient.Task<Void>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        state.withLock { state in
            state.answer.status = Int(head.status.code)
            state.answer.retryAfter = head.headers.first(name: "Retry-After")
        }
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<Void>, _ part: ByteBuffer) -> EventLoopFuture<Void> {
        let isLong = state.withLock { state in
            let missing = WebhookAttempt.answerLimit - state.answer.body.count
            if missing > 0 { state.answer.body += part.readableBytesView.prefix(missing) }
            state.count += part.readableBytes
            return state.count > Self.bodyLimit
        }
        return isLong
            ? task.eventLoop.makeFailedFuture(LongAnswer()) : task.eventLoop.makeSucceededVoidFuture()
    }

    func didFinishRequest(task: HTTPClient.Task<Void>) {}
}
