// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreSimulator

/// The owner of a simulator. Requests, commands and deliveries change the simulator one at a time.
///
/// A ``Simulator`` is a value that does not know the wall clock, so its owner passes the time. This actor holds the
/// wall clock. It also keeps (saves) a virtual time at which a simulator that continues this one can start. No document
/// that was sent so far is signed later than the kept time.
package actor SimulatorHost {
    private var simulator: Simulator
    private let wall: @Sendable () -> Timestamp
    private let keepTime: @Sendable (Timestamp) -> Void
    /// The virtual time that was saved last.
    private var kept: Timestamp
    nonisolated let clock: SharedClock

    /// Creates the owner of a simulator.
    ///
    /// - Parameters:
    ///   - wall: Returns the time of the wall clock.
    ///   - keepTime: See ``SimulatorServer/init(_:ports:wall:clock:keepTime:logger:)``.
    package init(
        _ simulator: Simulator, wall: @escaping @Sendable () -> Timestamp,
        keepTime: @escaping @Sendable (Timestamp) -> Void = { _ in }
    ) {
        self.simulator = simulator
        self.wall = wall
        self.keepTime = keepTime
        kept = simulator.store.world.now
        clock = SharedClock(simulator.clock, wall: wall)
    }

    /// Performs `body` on the simulator, with the time of the wall clock.
    package func update<Result: Sendable>(
        _ body: @Sendable (inout Simulator, _ wall: Timestamp) throws -> Result
    ) rethrows -> Result {
        defer { noteTime() }
        return try body(&simulator, wall())
    }

    /// The URL for an environment's notifications, and whether they arrive in order.
    func target(of environment: Environment) -> (url: String?, keepsOrder: Bool) {
        (simulator.store.notificationURLs[environment], simulator.store.faults.keepOrder)
    }

    /// The time that the simulator has reached. The simulator has signed no document with a later time.
    package func reachedTime() -> Timestamp { max(simulator.store.world.now, clock.now()) }

    /// Gives the simulator's clock to ``clock``. If the virtual time has passed the kept time, keeps a later time,
    /// before the simulator sends any document signed at the new time.
    private func noteTime() {
        simulator.holdClock(at: wall())
        clock.set(simulator.clock)
        let now = simulator.store.world.now
        guard now > kept else { return }
        // The kept time is ahead of the present, so that the host need not save a time with each request: by the
        // virtual time of a minute, and at least by a virtual minute if the clock is slow or stopped.
        let seconds = min(max(simulator.clock.speed, 1) * SimulatorBounds.keptAhead, SimulatorBounds.maxKeptAhead)
        let ahead = now.advanced(by: .seconds(seconds))
        kept = max(now, min(ahead, Timestamp(milliseconds: simulator.clock.end.milliseconds - 1)))
        keepTime(kept)
    }
}
