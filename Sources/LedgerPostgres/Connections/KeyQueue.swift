// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Lets the commits of this process that are about the same keys wait for each other. Otherwise all but one of them
/// would find that their records have changed, and start again.
final class KeyQueue<Key: Hashable & Sendable>: Sendable {
    private struct Waiting: Sendable {
        var keys: Set<Key>
        var begin: CheckedContinuation<Void, Never>
    }

    private struct State {
        var held: Set<Key> = []
        var waiting: [Waiting] = []
    }

    private let state = Mutex(State())

    /// Runs `body` alone among those with one of its keys, in the order of the calls.
    func run<Output: Sendable>(_ keys: Set<Key>, _ body: () async throws -> Output) async rethrows -> Output {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                let isFree =
                    state.held.isDisjoint(with: keys) && state.waiting.allSatisfy { $0.keys.isDisjoint(with: keys) }
                if isFree {
                    state.held.formUnion(keys)
                } else {
                    state.waiting.append(Waiting(keys: keys, begin: continuation))
                }
                return isFree
            }
            if isFree { continuation.resume() }
        }
        defer { release(keys) }
        return try await body()
    }

    private func release(_ keys: Set<Key>) {
        let next = state.withLock { state -> [Waiting] in
            state.held.subtract(keys)
            var (begun, left, blocked) = ([Waiting](), [Waiting](), state.held)
            for waiting in state.waiting {
                if blocked.isDisjoint(with: waiting.keys) {
                    state.held.formUnion(waiting.keys)
                    begun.append(waiting)
                } else {
                    left.append(waiting)
                }
                blocked.formUnion(waiting.keys)
            }
            state.waiting = left
            return begun
        }
        for waiting in next { waiting.begin.resume() }
    }
}
