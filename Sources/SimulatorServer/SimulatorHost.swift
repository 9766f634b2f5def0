// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreSimulator

/// Owns a simulator: one request, command or delivery at a time changes it. Each first lets happen what is due.
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

    /// Answers a request to the App Store.
    func respond(to request: StoreRequest, in environment: Environment) throws -> StoreResponse {
        defer { noteTime() }
        return try simulator.respond(to: request, in: environment, at: wall())
    }

    /// Does what a request to the control port asks for.
    package func control(_ method: String, _ path: String, _ body: [UInt8]) -> ControlResponse {
        defer { noteTime() }
        return simulator.control(method, path, body, at: wall())
    }

    /// The notifications of an environment that are due to be sent now, each once.
    func takeDeliveries(in environment: Environment) throws -> [Outbox.Delivery] {
        defer { noteTime() }
        return try simulator.takeDeliveries(in: environment, at: wall())
    }

    /// The URL of an environment's notifications, and whether they arrive in their order.
    func target(of environment: Environment) -> (url: String?, keepsOrder: Bool) {
        (simulator.store.notificationURLs[environment], simulator.store.faults.keepOrder)
    }

    /// Records what became of a delivery, at the virtual time.
    func record(_ result: SendAttemptResult, of delivery: Outbox.Delivery) throws {
        defer { noteTime() }
        try simulator.record(result, of: delivery, at: wall())
    }

    /// The time that the simulator has reached. Nothing that it signed is of a later time.
    package func reachedTime() -> Timestamp { max(simulator.store.world.now, clock.now()) }

    /// Lets others see a clock that was turned, and keeps the time before anything leaves that was signed at it.
    private func noteTime() {
        clock.set(simulator.clock)
        let now = simulator.store.world.now
        guard now > kept else { return }
        // Of a clock that is fast or stands still too, so that neither keeps a time with each request.
        let seconds = min(max(simulator.clock.speed, 1) * SimulatorBounds.keptAhead, SimulatorBounds.longestKeptAhead)
        let ahead = Timestamp(milliseconds: now.milliseconds + Int64(seconds * 1000))
        kept = max(now, min(ahead, Timestamp(milliseconds: simulator.clock.end.milliseconds - 1)))
        keepTime(kept)
    }
}
