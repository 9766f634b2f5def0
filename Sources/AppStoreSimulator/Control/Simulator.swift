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
        clock = TurnableClock(start: store.world.now, end: roots.validity.upperBound, speed: speed, at: wall)
    }

    /// How many of the world's newest occurrences are kept at least. No command reports more.
    package static let keptOccurrences = 1000

    /// Lets everything happen that is due by now, and puts the notifications into the outbox.
    ///
    /// - Parameter wall: The time of the wall clock.
    public mutating func turn(at wall: Timestamp) throws {
        try store.advance(to: clock.now(at: wall))
        // Half of them at once, so that not every occurrence moves all others.
        guard store.world.occurrences.count >= 2 * Self.keptOccurrences else { return }
        store.world.forgetOccurrences(keeping: Self.keptOccurrences)
    }

    /// Answers a request to the App Store.
    ///
    /// - Parameter wall: The time of the wall clock.
    public mutating func respond(
        to request: StoreRequest, in environment: Environment, at wall: Timestamp
    ) throws -> StoreResponse {
        try turn(at: wall)
        return store.respond(to: request, in: environment, at: wall)
    }

    /// Lets a millisecond pass, even if the clock stands still. What is signed after a purchase changed must be newer
    /// than what was signed before: of two documents, the one that was signed later counts.
    mutating func leaveInstant(at wall: Timestamp) throws {
        let last = max(store.world.now, store.world.occurrences.last?.date ?? store.world.now)
        try turn(to: Timestamp(milliseconds: last.milliseconds + 1), at: wall)
    }

    /// The notifications of an environment that are due to be sent by now, in order. Each is returned once.
    public mutating func takeDeliveries(in environment: Environment, at wall: Timestamp) throws -> [Outbox.Delivery] {
        try turn(at: wall)
        return try store.takeDeliveries(in: environment)
    }

    /// Records what became of a notification that was sent, at the virtual time.
    public mutating func record(_ result: SendAttemptResult, of delivery: Outbox.Delivery, at wall: Timestamp) throws {
        try turn(at: wall)
        store.record(result, of: delivery)
    }

    /// Turns the clock forward, and lets happen what is due on the way.
    mutating func turn(to date: Timestamp, at wall: Timestamp) throws {
        clock.turn(to: date, at: wall)
        try turn(at: wall)
    }
}

/// The certificates that a server needs to trust a simulator, as DER.
public struct SimulatorRoots: Hashable, Sendable {
    /// The root of all tokens: signed transactions, renewal info and notifications.
    public var tokens: [UInt8]
    /// The root of app receipts.
    public var receipts: [UInt8]
    /// The intermediate certificate of app receipts, which old transaction receipts omit.
    public var receiptIntermediate: [UInt8]
    /// When all certificates are valid with which the simulator signs. Its clock stops at the end.
    public var validity: Range<Timestamp>

    /// The roots of an authority.
    public init(_ authority: StoreAuthority) throws {
        let roots = authority.roots
        guard roots.count == 2 else { throw SimulatorError("The authority has \(roots.count) roots, not 2") }
        // All signers of receipts have the same one.
        guard let intermediate = authority.receipts.first?.certificates.dropFirst().first else {
            throw SimulatorError("The authority has no intermediate certificate of receipts")
        }
        tokens = roots[0]
        receipts = roots[1]
        receiptIntermediate = intermediate
        validity = try authority.validity
    }
}
