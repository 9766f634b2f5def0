// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import AppStoreSimulator

/// Owns a simulator: one request, command or delivery at a time changes it. Each first lets happen what is due.
package actor SimulatorHost {
    private var simulator: Simulator
    private let wall: @Sendable () -> Timestamp

    /// - Parameter wall: Returns the time of the wall clock.
    package init(_ simulator: Simulator, wall: @escaping @Sendable () -> Timestamp) {
        (self.simulator, self.wall) = (simulator, wall)
    }

    /// Answers a request to the App Store.
    func respond(to request: StoreRequest, in environment: Environment) throws -> StoreResponse {
        try simulator.respond(to: request, in: environment, at: wall())
    }

    /// Does what a request to the control port asks for.
    package func control(_ method: String, _ path: String, _ body: [UInt8]) -> ControlResponse {
        simulator.control(method, path, body, at: wall())
    }

    /// The notifications of an environment that are due to be sent now, each once.
    func takeDeliveries(in environment: Environment) throws -> [Outbox.Delivery] {
        try simulator.takeDeliveries(in: environment, at: wall())
    }

    /// The URL of an environment's notifications, and whether they arrive in their order.
    func target(of environment: Environment) -> (url: String?, keepsOrder: Bool) {
        (simulator.store.notificationURLs[environment], simulator.store.faults.keepOrder)
    }

    /// Records what became of a delivery, at the virtual time.
    func record(_ result: SendAttemptResult, of delivery: Outbox.Delivery) throws {
        try simulator.record(result, of: delivery, at: wall())
    }
}
