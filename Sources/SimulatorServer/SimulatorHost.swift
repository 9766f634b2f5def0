// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreSimulator

/// Owns a simulator: one request, command or delivery at a time changes it.
///
/// A ``Simulator`` is a value without a clock, and is turned by its owner; this actor has the wall clock and the
/// time that was kept.
package actor SimulatorHost {
    private var simulator: Simulator
    private let wall: @Sendable () -> Timestamp
    private let keepTime: @Sendable (Timestamp) -> Void
    /// The time that was kept last.
    private var kept: Timestamp
    nonisolated let clock: SharedClock

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

    /// Has the simulator do something at the time of the wall clock.
    package func update<Result: Sendable>(
        _ body: @Sendable (inout Simulator, _ wall: Timestamp) throws -> Result
    ) rethrows -> Result {
        defer { noteTime() }
        return try body(&simulator, wall())
    }

    /// The URL of an environment's notifications, and whether they arrive in their order.
    func target(of environment: Environment) -> (url: String?, keepsOrder: Bool) {
        (simulator.store.notificationURLs[environment], simulator.store.faults.keepOrder)
    }

    /// The time that the simulator has reached. Nothing that it signed is of a later time.
    package func reachedTime() -> Timestamp { max(simulator.store.world.now, clock.now()) }

    /// Lets others see a clock that was turned, and keeps the time before anything leaves that was signed at it.
    private func noteTime() {
        clock.set(simulator.clock)
        let now = simulator.store.world.now
        guard now > kept else { return }
        // Of a clock that is fast or stands still too, so that neither keeps a time with each request.
        let seconds = min(max(simulator.clock.speed, 1) * SimulatorBounds.keptAhead, SimulatorBounds.maxKeptAhead)
        let ahead = now.advanced(by: .seconds(seconds))
        kept = max(now, min(ahead, Timestamp(milliseconds: simulator.clock.end.milliseconds - 1)))
        keepTime(kept)
    }
}
