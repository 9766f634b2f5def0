// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Synchronization

/// The virtual time of a simulator, for callers that cannot wait for ``SimulatorHost``, the actor that owns the
/// simulator. The time never goes back.
final class SharedClock: Sendable {
    private struct State {
        var clock: TurnableClock
        /// The latest time that a caller has read.
        var latest: Timestamp
    }

    private let state: Mutex<State>
    private let wall: @Sendable () -> Timestamp

    init(_ clock: TurnableClock, wall: @escaping @Sendable () -> Timestamp) {
        state = Mutex(State(clock: clock, latest: clock.now(at: wall())))
        self.wall = wall
    }

    func set(_ clock: TurnableClock) { state.withLock { $0.clock = clock } }

    func now() -> Timestamp {
        state.withLock { state in
            state.latest = max(state.latest, state.clock.now(at: wall()))
            return state.latest
        }
    }
}
