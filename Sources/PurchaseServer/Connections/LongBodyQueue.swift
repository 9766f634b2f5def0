// SPDX-License-Identifier: Apache-2.0

package import NIOCore
import Synchronization

/// Handles long bodies aside from the threads of connections, on one thread less than there are, by fair queueing.
///
/// Bodies are handled in the order in which they would be done if all that wait shared the threads equally. So a receipt passes
/// bodies that are much longer, and each has its turn, whatever arrives later. Those of one client share its part.
package final class LongBodyQueue: Sendable {
    fileprivate struct Waiting {
        var id: Int
        var client: IPAddress?
        var size: Int
        /// What ``State/virtualTime`` would be when it is done.
        var finishTime: Int
        var continuation: CheckedContinuation<Void, any Error>
    }

    fileprivate struct State {
        var running = 0
        /// How many bytes of each body would have been handled since the start.
        var virtualTime = 0
        var lastID = 0
        var waiting: [Waiting] = []
    }

    private let threads: Int
    private let limit: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - threads: How many bodies are handled at once.
    ///   - limit: How many wait.
    package init(threads: Int = max(1, System.coreCount - 1), limit: Int = ServerBounds.waitingBodies) {
        self.threads = threads
        self.limit = limit
    }

    /// Does what a body asks for when its turn comes.
    ///
    /// - Parameter closed: Completes when the client is gone: its body then waits no longer.
    /// - Throws: ``Refusal/overloaded`` if the queue is full and this body has the last turn; `CancellationError` if the task is
    ///   cancelled, or the client is gone, while it waits.
    package func run<Result: Sendable>(
        _ size: Int, for client: IPAddress?, until closed: EventLoopFuture<Void>? = nil,
        _ body: @Sendable () async throws -> Result
    ) async throws -> Result {
        try await turn(size, for: client, until: closed)
        defer { startNext() }
        return try await withTaskExecutorPreference(globalConcurrentExecutor) { try await body() }
    }

    /// How many bodies wait.
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

    /// Gives up a body if it still waits.
    private func remove(_ id: Int) {
        let removed = state.withLock { state in
            state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0) }
        }
        removed?.continuation.resume(throwing: CancellationError())
    }

    private func startNext() {
        state.withLock { $0.next() }?.continuation.resume()
    }
}

extension LongBodyQueue.State {
    fileprivate enum Arrival {
        case started
        case cancelled
        /// If too many wait, the one that has the last turn is refused.
        case waits(refused: LongBodyQueue.Waiting?)
    }

    /// Starts a body at once, or lets it wait.
    fileprivate mutating func add(
        _ body: LongBodyQueue.Waiting, _ threads: Int, _ limit: Int, isCancelled: Bool
    ) -> Arrival {
        // Asked within the lock: a task that is cancelled later finds the body among those that wait.
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

    /// The body whose turn it is, after another is done.
    fileprivate mutating func next() -> LongBodyQueue.Waiting? {
        guard let first = waiting.indices.min(by: { waiting[$0].finishTime < waiting[$1].finishTime }) else {
            running -= 1
            return nil
        }
        virtualTime += waiting[first].size / waiting.count
        return waiting.remove(at: first)
    }
}
