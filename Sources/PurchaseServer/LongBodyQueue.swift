// SPDX-License-Identifier: Apache-2.0

import NIOCore
import Synchronization

/// Handles long bodies aside from the threads of connections, on one thread less than there are, in an order that is fair.
///
/// Bodies are handled in the order in which they would be done if all that wait shared the threads equally. So a receipt passes
/// bodies that are much longer, and each has its turn, whatever arrives later. Those of one client share its part.
package final class LongBodyQueue: Sendable {
    fileprivate struct Waiting {
        var client: IPAddress?
        var size: Int
        /// What ``State/progress`` would be when it is done.
        var turn: Int
        var continuation: CheckedContinuation<Bool, Never>
    }

    fileprivate struct State {
        var running = 0
        /// How many bytes of each body would have been handled since the start.
        var progress = 0
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
    /// - Throws: ``Refusal/overloaded`` if more wait than may, and none of them longer.
    package func run<Result: Sendable>(
        _ size: Int, for client: IPAddress?, _ body: @Sendable () async throws -> Result
    ) async throws -> Result {
        guard await hasTurn(size, for: client) else { throw Refusal.overloaded }
        defer { startNext() }
        return try await withTaskExecutorPreference(globalConcurrentExecutor) { try await body() }
    }

    /// How many bodies wait.
    package var count: Int { state.withLock { $0.waiting.count } }

    /// Waits for the turn; false if there is none.
    private func hasTurn(_ size: Int, for client: IPAddress?) async -> Bool {
        await withCheckedContinuation { continuation in
            let (refused, isStarted) = state.withLock { $0.add(size, client, continuation, threads, limit) }
            refused?.continuation.resume(returning: false)
            if isStarted { continuation.resume(returning: true) }
        }
    }

    private func startNext() {
        state.withLock { $0.next() }?.continuation.resume(returning: true)
    }
}

extension LongBodyQueue.State {
    /// Starts a body at once, or lets it wait. If too many wait, the one whose turn is the last is refused.
    fileprivate mutating func add(
        _ size: Int, _ client: IPAddress?, _ continuation: CheckedContinuation<Bool, Never>, _ threads: Int,
        _ limit: Int
    ) -> (refused: LongBodyQueue.Waiting?, isStarted: Bool) {
        guard running >= threads else {
            running += 1
            return (nil, true)
        }
        let others = client == nil ? 0 : waiting.count { $0.client == client }
        waiting.append(
            .init(client: client, size: size, turn: progress + size * (others + 1), continuation: continuation))
        guard waiting.count > limit, let last = waiting.indices.max(by: { waiting[$0].turn <= waiting[$1].turn }) else {
            return (nil, false)
        }
        return (waiting.remove(at: last), false)
    }

    /// The body whose turn it is, after another is done.
    fileprivate mutating func next() -> LongBodyQueue.Waiting? {
        guard let first = waiting.indices.min(by: { waiting[$0].turn < waiting[$1].turn }) else {
            running -= 1
            return nil
        }
        progress += waiting[first].size / waiting.count
        return waiting.remove(at: first)
    }
}
