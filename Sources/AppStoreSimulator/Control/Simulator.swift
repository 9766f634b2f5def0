// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A simulated App Store with its virtual clock: a complete simulator, but without sockets.
public struct Simulator: Sendable {
    /// The App Store.
    public internal(set) var store: SimulatedStore
    /// The virtual clock.
    public internal(set) var clock: TurnableClock
    /// The certificates that the server under test must trust.
    public let roots: SimulatorRoots
    /// The number of those who want the answers to notifications: the commands that wait for them, and a demo. While
    /// there are any, the clock stops at each due event and attempt until the due notifications have an answer.
    package var watchers = 0
    /// The time to which a command turns the clock step by step.
    var target: Timestamp?

    /// Creates a simulator.
    ///
    /// - Parameters:
    ///   - store: The App Store. The time of its world is the clock's first time.
    ///   - speed: Virtual seconds per second of the wall clock; 0 stops the clock.
    ///   - wall: The time of the wall clock.
    public init(_ store: SimulatedStore, roots: SimulatorRoots, speed: Double, at wall: Timestamp) {
        self.store = store
        self.roots = roots
        clock = TurnableClock(start: store.world.now, end: roots.validity.upperBound, speed: speed, at: wall)
    }

    /// The number of occurrences (events) that the simulator keeps at least, the newest. No command reports more.
    package static let keptOccurrences = 1000

    /// Performs all due events, and adds their notifications to the outbox.
    ///
    /// - Parameter wall: The time of the wall clock.
    public mutating func turn(at wall: Timestamp) throws {
        try store.advance(to: clock.now(at: wall))
        while watchers > 0, let target, store.world.now < target, !isBusy {
            clock.turn(to: min(target, store.nextDue ?? target), at: wall)
            try store.advance(to: clock.now(at: wall))
        }
        // Forgetting half of the occurrences at once is cheaper than moving all of them at every event.
        guard store.world.occurrences.count >= 2 * Self.keptOccurrences else { return }
        store.world.forgetOccurrences(keeping: Self.keptOccurrences)
    }

    /// Whether the server under test has not answered all notifications that are due by now.
    var isBusy: Bool { store.outbox.isBusy(at: store.world.now) }

    /// Tells the clock where to wait; see ``watchers``. The owner calls this function after each change.
    package mutating func holdClock(at wall: Timestamp) {
        clock.wait(at: watchers == 0 ? nil : isBusy ? store.world.now : store.nextDue, wall: wall)
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

    /// Advances the clock by a millisecond, even if the clock stands still. A document signed after a change must have
    /// a later signing date than a document signed before it, because a receiver prefers the later document.
    mutating func leaveInstant(at wall: Timestamp) throws {
        let last = max(store.world.now, store.world.occurrences.last?.date ?? store.world.now)
        try turn(to: Timestamp(milliseconds: last.milliseconds + 1), at: wall)
    }

    /// The due notifications of an environment, in the order of sending. Each attempt is returned once, or twice if the
    /// fault ``Faults/duplicates`` repeats it.
    public mutating func takeDeliveries(in environment: Environment, at wall: Timestamp) throws -> [Outbox.Delivery] {
        try turn(at: wall)
        return try store.takeDeliveries(in: environment)
    }

    /// Records the result of a sent notification. The clock may go on then.
    ///
    /// - Parameter result: `nil` if the notification was not sent, because there is no URL any more.
    public mutating func record(
        _ result: SendAttemptResult?, of delivery: Outbox.Delivery, at wall: Timestamp
    ) throws {
        store.record(result, of: delivery)
        try turn(at: wall)
    }

    /// Turns the clock forward, and performs the events that are due on the way.
    mutating func turn(to date: Timestamp, at wall: Timestamp) throws {
        clock.turn(to: date, at: wall)
        try turn(at: wall)
    }
}

/// The certificates that a server must have in order to trust a simulator, as DER.
public struct SimulatorRoots: Hashable, Sendable {
    /// The root of all tokens: signed transactions, renewal info and notifications.
    public var tokens: [UInt8]
    /// The root of app receipts.
    public var receipts: [UInt8]
    /// The intermediate certificate of app receipts. Old transaction receipts omit it.
    public var receiptIntermediate: [UInt8]
    /// The time range in which all certificates of the simulator are valid. The virtual clock stops at its end.
    public var validity: Range<Timestamp>

    /// Collects the roots of an authority.
    public init(_ authority: StoreAuthority) throws {
        let roots = authority.roots
        guard roots.count == 2 else { throw SimulatorError("The authority has \(roots.count) roots, not 2") }
        // All signers of receipts share the intermediate.
        guard let intermediate = authority.receipts.first?.certificates.dropFirst().first else {
            throw SimulatorError("The authority has no intermediate certificate of receipts")
        }
        tokens = roots[0]
        receipts = roots[1]
        receiptIntermediate = intermediate
        validity = try authority.validity
    }
}
