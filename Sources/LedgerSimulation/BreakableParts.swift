// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import PurchaseLedgerTesting
import Synchronization

/// What is broken at the moment, decided by a seed.
final class Trouble: Sendable {
    private struct State {
        var random: SeededRandom
        /// The share of storage operations that fail.
        var storage = 0.0
        var isAPIDown = false
        var requests = 0
    }

    private let state: Mutex<State>

    init(seed: UInt64) {
        state = Mutex(State(random: SeededRandom(seed: seed)))
    }

    func set(storage: Double, isAPIDown: Bool) {
        state.withLock { ($0.storage, $0.isAPIDown) = (storage, isAPIDown) }
    }

    /// How many requests the App Store was sent.
    var requests: Int { state.withLock { $0.requests } }

    /// Counts a request.
    ///
    /// - Returns: Whether the App Store cannot be asked now.
    func refusesRequest() -> Bool {
        state.withLock { state in
            state.requests += 1
            return state.isAPIDown
        }
    }

    var isAPIDown: Bool { state.withLock { $0.isAPIDown } }

    /// Whether the storage stops now.
    func stopsStorage() -> Bool {
        state.withLock { state in
            state.storage > 0 && Double.random(in: 0..<1, using: &state.random) < state.storage
        }
    }
}

/// A storage that stops before or after an operation. After it, the work is done and the caller does not learn of it.
final class StoppingStorage: ForwardingStorage {
    let inner: any LedgerStorage
    private let trouble: Trouble

    init(around inner: any LedgerStorage, _ trouble: Trouble) {
        (self.inner, self.trouble) = (inner, trouble)
    }

    func willForward() throws {
        if trouble.stopsStorage() { throw LedgerStorageError(.unavailable, "Stopped before an operation") }
    }

    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try willForward()
        let output = try await inner.commit(query, decide)
        if trouble.stopsStorage() { throw LedgerStorageError(.unavailable, "Stopped after a commit") }
        return output
    }
}

/// A connection to the App Store that is down at times.
struct InterruptedTransport: AppStoreTransport {
    let inner: SimulatedTransport
    let trouble: Trouble

    func answer(
        to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        if trouble.refusesRequest() { throw TransportError.unreachable("The simulated network is down") }
        return try await inner.answer(to: request, in: environment, within: timeout)
    }
}

/// A time that the simulation turns.
final class SimulationClock: Sendable {
    private let time: Mutex<Timestamp>

    init(_ start: Timestamp) {
        time = Mutex(start)
    }

    var now: Timestamp {
        get { time.withLock { $0 } }
        set { time.withLock { $0 = newValue } }
    }
}
