// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// How many bytes of long bodies and answers are in memory, in all and of each client.
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

    /// How many bytes are taken.
    var count: Int { state.withLock { $0.taken } }

    /// Reserves `count` bytes if there is room. One client gets a quarter at most, so that no stranger has it all.
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

    /// Charges an answer, which is never refused; long bodies are, while the budget is exceeded.
    func charge(_ count: Int) { state.withLock { $0.taken += count } }

    func release(_ count: Int, of client: IPAddress?) {
        state.withLock { state in
            state.taken -= count
            guard let client, let taken = state.clients[client] else { return }
            state.clients[client] = taken > count ? taken - count : nil
        }
    }
}
