// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A simulated App Store with the clock that moves it: all that a simulator is, but for its sockets.
public struct Simulator: Sendable {
    /// The App Store.
    public internal(set) var store: SimulatedStore
    /// The virtual clock.
    public internal(set) var clock: TurnableClock
    /// The certificates that the tested server must trust.
    public let roots: SimulatorRoots

    /// Creates a simulator.
    ///
    /// - Parameters:
    ///   - store: The App Store. Its world's time is the clock's first time.
    ///   - speed: Virtual seconds in a second of the wall clock; 0 stands still.
    ///   - wall: The time of the wall clock.
    public init(_ store: SimulatedStore, roots: SimulatorRoots, speed: Double, at wall: Timestamp) {
        self.store = store
        self.roots = roots
        clock = TurnableClock(start: store.world.now, speed: speed, at: wall)
    }

    /// Lets everything happen that is due by now.
    ///
    /// - Parameter wall: The time of the wall clock.
    public mutating func turn(at wall: Timestamp) {
        store.world.advance(to: clock.now(at: wall))
    }

    /// Answers a request to the App Store.
    ///
    /// - Parameter wall: The time of the wall clock.
    public mutating func respond(
        to request: StoreRequest, in environment: Environment, at wall: Timestamp
    ) -> StoreResponse {
        turn(at: wall)
        return store.respond(to: request, in: environment, at: wall)
    }

    /// The notifications that are due to be sent by now, in order. Each is returned once.
    public mutating func takeDeliveries(at wall: Timestamp) throws -> [Outbox.Delivery] {
        turn(at: wall)
        return try store.takeDeliveries()
    }

    /// Records what became of a notification that was sent, at the virtual time.
    public mutating func record(_ result: SendAttemptResult, of delivery: Outbox.Delivery, at wall: Timestamp) {
        turn(at: wall)
        store.record(result, of: delivery)
    }

    /// Turns the clock forward, and lets happen what is due on the way.
    mutating func turn(to date: Timestamp, at wall: Timestamp) {
        clock.turn(to: date, at: wall)
        turn(at: wall)
    }
}

/// The roots of a simulator, as DER.
public struct SimulatorRoots: Hashable, Sendable {
    /// The root of all tokens: signed transactions, renewal info and notifications.
    public var tokens: [UInt8]
    /// The root of app receipts.
    public var receipts: [UInt8]

    /// The roots of an authority.
    public init(_ authority: StoreAuthority) throws {
        let roots = authority.roots
        guard roots.count == 2 else { throw SimulatorError("The authority has \(roots.count) roots, not 2") }
        (tokens, receipts) = (roots[0], roots[1])
    }
}
