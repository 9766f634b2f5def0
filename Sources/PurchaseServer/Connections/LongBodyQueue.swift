// SPDX-License-Identifier: Apache-2.0

package import NIOCore
import Synchronization

/// Handles long bodies and long answers by fair queueing, on threads that are not the threads of connections. The
/// number handled at the same time is one less than the number of cores, but at least one.
///
/// The bodies run in the order in which they would finish if all shared the threads equally. A receipt therefore
/// overtakes much longer bodies, and no body starves. If a client has several bodies in the queue, they share the part
/// of one body.
package final class LongBodyQueue: Sendable {
    fileprivate struct Waiting {
        var id: Int
        var client: IPAddress?
        var size: Int
        /// The ``State/virtualTime`` at which the body would finish under equal sharing.
        var finishTime: Int
        var continuation: CheckedContinuation<Void, any Error>
    }

    fileprivate struct State {
        var running = 0
        /// The progress of an imagined body that has been in the queue since the start and shared the threads equally
        /// with all others: the number of its bytes handled so far.
        var virtualTime = 0
        var lastID = 0
        var waiting: [Waiting] = []
    }

    private let threads: Int
    private let limit: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - threads: The maximum number of bodies handled at the same time.
    ///   - limit: The maximum number of waiting bodies.
    package init(threads: Int = max(1, System.coreCount - 1), limit: Int = ServerBounds.waitingBodies) {
        self.threads = threads
        self.limit = limit
    }

    /// Waits in the queue with a request body, or for an answer, of about `size` bytes. Then calls `body`.
    ///
    /// - Parameter closed: Completes when the client disconnects. A body that still waits is then removed from the
    ///   queue.
    /// - Throws: ``Refusal/overloaded`` if the queue is full and this body is the last in the order of the queue,
    ///   either on arrival or because a body that arrived later has overtaken it; `CancellationError` if the task is
    ///   cancelled, or the client disconnects, while the body waits.
    package func run<Result: Sendable>(
        _ size: Int, for client: IPAddress?, until closed: EventLoopFuture<Void>? = nil,
        _ body: @Sendable () async throws -> Result
    ) async throws -> Result {
        try await turn(size, for: client, until: closed)
        defer { state.withLock { $0.next() }?.continuation.resume() }
        return try await withTaskExecutorPreference(globalConcurrentExecutor) { try await body() }
    }

    /// The number of waiting bodies.
    package var count: Int { state.withLock { $0.waiting.count } }

    private func turn(_ size: Int, for client: IPAddress?, until closed: EventLoopFuture<Void>?) async throws {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let body = Waiting(id: id, client: client, size: size, finishTime: 0, continuation: continuation)
                switch state.withLock({ $0.add(body, threads, limit, isCancelled: Task.isCancelled) }) {
                case .started: continuation.resume()
                case .cancelled: continuation.resume(throwing: CancellationError())
                case .waits(let refused):
                    refused?.continuation.resume(throwing: Refusal.overloaded)
                    closed?.whenComplete { _ in self.remove(id) }
                }
            }
        } onCancel: {
            remove(id)
        }
    }

    /// Removes a body if it still waits.
    private func remove(_ id: Int) {
        let removed = state.withLock { state in
            state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0) }
        }
        removed?.continuation.resume(throwing: CancellationError())
    }
}

extension LongBodyQueue.State {
    fileprivate enum Arrival {
        case started
        case cancelled
        /// The body waits. If too many bodies wait, the last body in the order is refused.
        case waits(refused: LongBodyQueue.Waiting?)
    }

    /// Starts a body at once, or adds it to the queue.
    fileprivate mutating func add(
        _ body: LongBodyQueue.Waiting, _ threads: Int, _ limit: Int, isCancelled: Bool
    ) -> Arrival {
        // Checked within the lock, so that a later cancellation finds the body in the queue.
        if isCancelled { return .cancelled }
        guard running >= threads else {
            running += 1
            return .started
        }
        let others = body.client == nil ? 0 : waiting.count { $0.client == body.client }
        waiting.append(body)
        waiting[waiting.count - 1].finishTime = virtualTime + body.size * (others + 1)
        guard waiting.count > limit,
            let last = waiting.indices.max(by: { waiting[$0].finishTime <= waiting[$1].finishTime })
        else { return .waits(refused: nil) }
        return .waits(refused: waiting.remove(at: last))
    }

    /// Takes the next body from the queue, after a body has finished.
    fileprivate mutating func next() -> LongBodyQueue.Waiting? {
        guard let first = waiting.indices.min(by: { waiting[$0].finishTime < waiting[$1].finishTime }) else {
            running -= 1
            return nil
        }
        virtualTime += waiting[first].size / waiting.count
        return waiting.remove(at: first)
    }
}
