// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import PurchaseLedger
import Synchronization

// Prevents two concurrent runs of a `Backfill` for an app, because each would use its full share of Apple's rate
// limits.

/// The error if a different backfill of the app already runs on the ledger: a sentence.
public struct OtherBackfill: Error, CustomStringConvertible {
    /// A sentence about the running backfill and the remedy.
    public let description: String
}

/// A backfill's right to run. The lease is a job in the ledger, and the backfill prolongs it continually.
///
/// A backfill counts as running as long as it prolongs its lease. A second backfill watches whether the lease changes.
/// It therefore detects within seconds that a backfill was killed, even if the clocks of the two machines differ.
public final class BackfillLease: Sendable {
    /// The interval at which the lease is prolonged.
    static let interval = Duration.seconds(5)
    /// If a lease has not changed for this time, its holder counts as dead. The time is four intervals, because a write
    /// may take a while if a server uses the ledger too.
    static let timeout = Duration.seconds(20)
    /// The length of the lease, which is the same for every job. After this time an abandoned lease ends even if no
    /// second backfill has watched it.
    static let length = Job.lease

    private struct State {
        var job: Job
        var isLost = false
    }

    private let ledger: Ledger
    private let wall: @Sendable () -> Timestamp
    private let state: Mutex<State>

    private struct Holder: Codable {
        var startedAt: Timestamp
        /// Distinguishes two backfills that begin in the same millisecond.
        var run: String
    }

    /// Takes the lease of an app.
    ///
    /// - Parameters:
    ///   - run: A text unique to this backfill.
    ///   - wall: Returns the time of the machine.
    ///   - pause: Waits, and throws if the task is cancelled.
    ///   - onWait: Called before a wait, with its maximum duration. The wait shows whether the holder of a lease still
    ///     runs.
    /// - Throws: ``OtherBackfill``; `LedgerStorageError`; errors of `pause`.
    public init(
        of bundleId: String, in ledger: Ledger, run: String, wall: @escaping @Sendable () -> Timestamp,
        sleep pause: (Duration) async throws -> Void, onWait: (Duration) -> Void = { _ in }
    ) async throws {
        let id = Job.ID(.backfill, "", in: LedgerScope(bundleId: bundleId, environment: .production))
        let holder = Holder(startedAt: wall(), run: run)
        let payload = try JSONWriter.bytes(encoding: holder)
        func mine() -> Job { Job(id, dueAt: wall().advanced(by: Self.length), attempts: 1, payload: payload) }
        var job = mine()
        try await ledger.add(job, at: wall())
        if let other = try await ledger.job(id), other != job {
            try await Self.watch(other, in: ledger, wall, pause, onWait)
            job = mine()
            // If a third backfill takes the lease first, the stored job differs.
            try await ledger.add(job, at: wall())
            try await ledger.replace(other, with: job, at: wall())
            guard let stored = try await ledger.job(id), stored == job else { throw OtherBackfill(other) }
        }
        self.ledger = ledger
        self.wall = wall
        state = Mutex(State(job: job))
    }

    /// Waits until a lease has ended, or its holder counts as dead because the lease did not change. Throws
    /// ``OtherBackfill`` if the lease changes.
    private static func watch(
        _ other: Job, in ledger: Ledger, _ wall: @Sendable () -> Timestamp,
        _ pause: (Duration) async throws -> Void, _ onWait: (Duration) -> Void
    ) async throws {
        guard other.dueAt > wall() else { return }
        onWait(timeout)
        var waited = Duration.zero
        while waited < timeout, other.dueAt > wall() {
            try await pause(.seconds(1))
            waited += .seconds(1)
            guard let now = try await ledger.job(other.id) else { return }
            guard now == other else { throw OtherBackfill(now) }
        }
    }

    /// Prolongs the lease until the task is cancelled, or a second backfill has taken the lease.
    ///
    /// - Parameter pause: Waits, and throws if the task is cancelled.
    public func keep(_ pause: (Duration) async throws -> Void) async {
        // A wait ends with an error if the task is cancelled.
        while (try? await pause(Self.interval)) != nil, !isLost {
            // A failure is harmless: while the ledger cannot be written, no other backfill can take the lease.
            try? await prolong()
        }
    }

    /// Whether a second backfill has taken the lease, for example while the machine was suspended. This backfill must
    /// then stop.
    public var isLost: Bool { state.withLock { $0.isLost } }

    /// Restarts the lease with its full length.
    package func prolong() async throws {
        let job = state.withLock { $0.job }
        var next = job
        next.dueAt = wall().advanced(by: Self.length)
        let isMine = try await ledger.replace(job, with: next, at: wall())
        state.withLock { state in
            if isMine { state.job = next } else { state.isLost = true }
        }
    }

    /// Releases the lease. Call this method after ``keep(_:)`` has returned.
    public func end() async throws {
        try await ledger.finish(state.withLock { $0.job }, at: wall())
    }
}

extension OtherBackfill {
    fileprivate init(_ job: Job) {
        let start = JSONValue(readable: job.payload)?["startedAt"]?.integer.map { Timestamp(milliseconds: $0) }
        description = """
            A backfill of \(job.id.scope.bundleId) runs on this ledger\(start.map { " since \($0.iso8601)" } ?? ""), and \
            two would use more than their share of Apple's rate limits. Wait until it ends. If it is killed, the \
            ledger is free \(BackfillLease.timeout.components.seconds) seconds later.
            """
    }
}
