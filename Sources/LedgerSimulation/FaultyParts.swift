// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import PurchaseLedgerTesting
import Synchronization

/// The faults of a simulation that happen at the moment. The seed determines everything random.
final class FaultInjection: Sendable {
    private struct State {
        var random: SeededRandom
        /// The share of storage operations that fail, from 0 to 1.
        var storage = 0.0
        var refusesWrites = false
        var isAPIDown = false
        /// The false answer of the moment; `nil` for none. About half of the requests for which ``Lie/fits(_:)`` is
        /// true get it.
        var lie: Lie?
        var lies = 0
        var requests = 0
        /// The times at which the App Store accepted consumption information, by transaction id.
        var answers: [String: [Timestamp]] = [:]
        /// The transactions about which the App Store itself refused consumption information.
        var refused: Set<String> = []
    }

    private let state: Mutex<State>

    init(seed: UInt64) { state = Mutex(State(random: SeededRandom(seed: seed))) }

    func set(storage: Double, refusesWrites: Bool = false, isAPIDown: Bool, lie: Lie? = nil) {
        state.withLock { state in
            state.storage = storage
            state.refusesWrites = refusesWrites
            state.isAPIDown = isAPIDown
            state.lie = lie
        }
    }

    /// The number of requests to the App Store, including failed requests, but without the requests that send
    /// consumption information.
    var requests: Int { state.withLock { $0.requests } }

    /// The times at which the App Store accepted consumption information, by transaction id.
    var answers: [String: [Timestamp]] { state.withLock { $0.answers } }

    /// The transactions about which the App Store itself refused consumption information.
    var refused: Set<String> { state.withLock { $0.refused } }

    /// Records whether the App Store accepted or refused consumption information.
    func note(_ answer: APIAnswer, about transaction: String, at time: Timestamp) {
        state.withLock { state in
            if answer.status == 202 { state.answers[transaction, default: []].append(time) }
            if answer.status == 400 { state.refused.insert(transaction) }
        }
    }

    /// The number of requests with a false answer.
    var lies: Int { state.withLock { $0.lies } }

    /// The false answer to a request; `nil` if the request reaches the App Store.
    func lie(to request: APIRequest) -> Lie? {
        state.withLock { state in
            guard let lie = state.lie, lie.fits(request), Bool.random(using: &state.random) else { return nil }
            state.lies += 1
            return lie
        }
    }

    func countRequest() { state.withLock { $0.requests += 1 } }

    var isAPIDown: Bool { state.withLock { $0.isAPIDown } }

    /// Whether the storage is read-only at the moment, as on a full disk.
    var refusesWrites: Bool { state.withLock { $0.refusesWrites } }

    /// Decides at random whether the storage fails now. The probability is the present share of failing operations.
    func stopsStorage() -> Bool {
        state.withLock { state in
            state.storage > 0 && Double.random(in: 0..<1, using: &state.random) < state.storage
        }
    }
}

/// A storage that fails as if its connection broke, before an operation or after a commit, or that refuses commits as
/// if the disk were full. If it fails after a commit, the commit stands, although the caller gets an error.
final class StoppingStorage: ForwardingStorage {
    let inner: any LedgerStorage
    private let injection: FaultInjection

    init(around inner: any LedgerStorage, _ injection: FaultInjection) {
        self.inner = inner
        self.injection = injection
    }

    func willForward() throws {
        if injection.stopsStorage() { throw LedgerStorageError(.unavailable, "Stopped before an operation") }
    }

    func commit<Output: Sendable>(
        _ query: LedgerQuery, _ decide: @escaping LedgerDecider<Output>
    ) async throws -> Output {
        try willForward()
        if injection.refusesWrites { throw LedgerStorageError(.full, "The simulated disk is full") }
        let output = try await inner.commit(query, decide)
        if injection.stopsStorage() { throw LedgerStorageError(.unavailable, "Stopped after a commit") }
        return output
    }
}

/// A connection to the App Store with outages and false answers.
struct InterruptedTransport: AppStoreTransport {
    let inner: SimulatedTransport
    let injection: FaultInjection
    let clock: SimulationClock

    func answer(
        to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        if !request.isConsumption { injection.countRequest() }
        if injection.isAPIDown { throw TransportError.unreachable("The simulated network is down") }
        if let lie = injection.lie(to: request) { return try lie.answer(to: request) }
        let answer = try await inner.answer(to: request, in: environment, within: timeout)
        if request.isConsumption {
            injection.note(answer, about: String(request.path.split(separator: "/").last ?? ""), at: clock.time)
        }
        return answer
    }
}

/// The server's clock. The clock follows the simulated App Store's time, and is wrong at times.
final class SimulationClock: Sendable {
    private struct State {
        var time: Timestamp
        var error: Int64 = 0
    }

    private let state: Mutex<State>

    init(_ start: Timestamp) { state = Mutex(State(time: start)) }

    /// The time on the clock, including the clock's error.
    var now: Timestamp { state.withLock { Timestamp(milliseconds: $0.time.milliseconds + $0.error) } }

    /// The correct time.
    var time: Timestamp { state.withLock { $0.time } }

    /// Sets the correct time.
    func set(_ time: Timestamp) { state.withLock { $0.time = time } }

    /// Lets the clock jump to `error` milliseconds from the correct time.
    func jump(by error: Int64) { state.withLock { $0.error = error } }
}
