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
        var refusesWrites = false
        var isAPIDown = false
        var requests = 0
        /// How often the App Store accepted consumption information, by transaction id.
        var answers: [String: Int] = [:]
    }

    private let state: Mutex<State>

    init(seed: UInt64) {
        state = Mutex(State(random: SeededRandom(seed: seed)))
    }

    func set(storage: Double, refusesWrites: Bool = false, isAPIDown: Bool) {
        state.withLock { state in
            (state.storage, state.refusesWrites, state.isAPIDown) = (storage, refusesWrites, isAPIDown)
        }
    }

    /// How many requests the App Store was sent, without answers to its own questions.
    var requests: Int { state.withLock { $0.requests } }

    /// How often the App Store accepted consumption information, by transaction id.
    var answers: [String: Int] { state.withLock { $0.answers } }

    /// Notes that the App Store accepted consumption information.
    func accept(about transaction: String) { state.withLock { $0.answers[transaction, default: 0] += 1 } }

    /// Counts a request.
    func countRequest() { state.withLock { $0.requests += 1 } }

    var isAPIDown: Bool { state.withLock { $0.isAPIDown } }

    /// Whether the storage is read only at the moment, as on a full disk.
    var refusesWrites: Bool { state.withLock { $0.refusesWrites } }

    /// Whether the storage stops now.
    func stopsStorage() -> Bool {
        state.withLock { state in
            state.storage > 0 && Double.random(in: 0..<1, using: &state.random) < state.storage
        }
    }
}

/// A storage that stops before or after an operation, or refuses commits. If it stops after an operation, the work is
/// done and the caller does not learn of it.
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
        if trouble.refusesWrites { throw LedgerStorageError(.full, "The simulated disk is full") }
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
        let isAnswer = request.path.contains("/consumption/")
        if !isAnswer { trouble.countRequest() }
        if trouble.isAPIDown { throw TransportError.unreachable("The simulated network is down") }
        let answer = try await inner.answer(to: request, in: environment, within: timeout)
        if isAnswer, answer.status == 202 {
            trouble.accept(about: String(request.path.split(separator: "/").last ?? ""))
        }
        return answer
    }
}

/// The server's clock, which follows the App Store's and is wrong at times.
final class SimulationClock: Sendable {
    private struct State {
        var time: Timestamp
        var error: Int64 = 0
    }

    private let state: Mutex<State>

    init(_ start: Timestamp) {
        state = Mutex(State(time: start))
    }

    /// What the clock shows.
    var now: Timestamp { state.withLock { Timestamp(milliseconds: $0.time.milliseconds + $0.error) } }

    /// Sets the right time.
    func set(_ time: Timestamp) { state.withLock { $0.time = time } }

    /// Makes the clock wrong by so many milliseconds: it jumps.
    func jump(by error: Int64) { state.withLock { $0.error = error } }
}
