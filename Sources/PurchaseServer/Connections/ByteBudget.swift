// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Counts the bytes of long bodies and answers in memory, in total and for each client.
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

    /// Reserves `count` bytes for a body if so many bytes are free. A client gets at most a quarter of the budget, so
    /// that no single client takes the whole budget.
    func reserve(_ count: Int, for client: IPAddress?) -> Bool { reserve(count, for: client, evenAlone: false) }

    /// Reserves `count` bytes for an answer before it is made.
    ///
    /// A client cannot ask for a shorter answer. So an answer larger than a client's quarter is made if the client has
    /// no other bytes in memory. An answer larger than the whole budget is made if no client has bytes in memory.
    ///
    /// - Returns: `nil` if too many bytes are reserved.
    func reserveAnswer(_ count: Int, for client: IPAddress?) -> ReservedBytes? {
        reserve(count, for: client, evenAlone: true) ? ReservedBytes(count, of: client, in: self) : nil
    }

    /// - Parameter evenAlone: Whether a client without other bytes in memory may exceed its quarter and, if no bytes at
    ///   all are reserved, the whole budget.
    private func reserve(_ count: Int, for client: IPAddress?, evenAlone: Bool) -> Bool {
        state.withLock { state in
            guard count <= limit - state.taken || evenAlone && state.taken == 0 else { return false }
            if let client {
                let taken = state.clients[client, default: 0]
                guard count <= limit / 4 - taken || evenAlone && taken == 0 else { return false }
                state.clients[client] = taken + count
            }
            state.taken += count
            return true
        }
    }

    /// Counts the bytes of an answer that was made without a reservation. The answer counts even if it exceeds the
    /// limit, because it is already in memory.
    func charge(_ count: Int, to client: IPAddress? = nil) {
        state.withLock { state in
            state.taken += count
            if let client { state.clients[client, default: 0] += count }
        }
    }

    func release(_ count: Int, of client: IPAddress?) {
        state.withLock { state in
            state.taken -= count
            guard let client, let taken = state.clients[client] else { return }
            state.clients[client] = taken > count ? taken - count : nil
        }
    }
}

/// Bytes of the budget reserved for an answer. The reservation begins before the answer is made, and ends once the
/// answer is sent or the client disconnects. The bytes return to the budget with the last reference to this object.
final class ReservedBytes: Sendable {
    private let client: IPAddress?
    private let budget: ByteBudget
    private let bytes: Mutex<Int>

    fileprivate init(_ count: Int, of client: IPAddress?, in budget: ByteBudget) {
        self.client = client
        self.budget = budget
        bytes = Mutex(count)
    }

    deinit { settle(0) }

    /// Adjusts the reservation to the size of the finished answer.
    func settle(_ count: Int) {
        let more = bytes.withLock { bytes in
            defer { bytes = count }
            return count - bytes
        }
        if more > 0 { budget.charge(more, to: client) } else { budget.release(-more, of: client) }
    }
}
