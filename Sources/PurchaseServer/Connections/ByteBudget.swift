// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Counts the bytes of long bodies and responses in memory, in total and for each client.
final class ByteBudget: Sendable {
    private struct State {
        var taken = 0
        var clients: [IPAddress: Int] = [:]
    }

    private let limit: Int
    private let state = Mutex(State())

    init(_ limit: Int) {
        self.limit = limit
    }

    /// The bytes in memory now.
    var count: Int { state.withLock { $0.taken } }

    /// Reserves `count` bytes if they are free. One client gets at most a quarter, so that no single client takes all.
    func take(_ count: Int, for client: IPAddress?) -> Bool {
        state.withLock { state in
            guard count <= limit - state.taken else { return false }
            if let client {
                let taken = state.clients[client, default: 0]
                guard count <= limit / 4 - taken else { return false }
                state.clients[client] = taken + count
            }
            state.taken += count
            return true
        }
    }

    /// Counts a response, even beyond the limit, since responses are never refused. Above the limit, long bodies are.
    func charge(_ count: Int) { state.withLock { $0.taken += count } }

    func release(_ count: Int, of client: IPAddress?) {
        state.withLock { state in
            state.taken -= count
            guard let client, let taken = state.clients[client] else { return }
            state.clients[client] = taken > count ? taken - count : nil
        }
    }
}
