// SPDX-License-Identifier: Apache-2.0

import Dispatch
import PurchaseLedger
import Synchronization

/// Moves the pages of SQLite's write-ahead log into the ledger's file (a checkpoint) when writes pause, and soon after
/// an erasure. Otherwise, erased data would stay readable in the log.
final class LogKeeper: Sendable {
    private let schedule = Mutex(LogSchedule())

    /// How long a checkpoint waits for reads that need the log, in milliseconds. Writes wait meanwhile, so the time is
    /// long enough for reads, which take a few milliseconds, but not for a copy of the whole ledger.
    static let timeout: Int32 = 100

    /// Notes that customers, chains or events are being erased.
    func noteErasure() { schedule.withLock { $0.noteErasure() } }

    /// Notes a commit. Starts the ticks of the schedule, one each second, if none are running.
    ///
    /// - Parameter bringIn: Moves the log into the file, and calls `done` with the argument of
    ///   ``LogSchedule/noteOutcome(isEmpty:)``.
    func noteCommit(_ bringIn: @escaping @Sendable (_ done: @escaping @Sendable (Bool) -> Void) -> Void) {
        if schedule.withLock({ $0.noteCommit() }) { wait(bringIn) }
    }

    private func wait(_ bringIn: @escaping @Sendable (_ done: @escaping @Sendable (Bool) -> Void) -> Void) {
        DispatchQueue.global().asyncAfter(deadline: .now() + LogSchedule.tick) { [weak self] in
            guard let self else { return }
            guard schedule.withLock({ $0.isDue() }) else { return wait(bringIn) }
            bringIn { [weak self] isEmpty in
                guard let self, schedule.withLock({ $0.noteOutcome(isEmpty: isEmpty) }) else { return }
                wait(bringIn)
            }
        }
    }
}

extension LedgerChanges {
    /// Whether the changes erase customers, or chains with their documents.
    var isErasure: Bool { !erasedCustomers.isEmpty || !erasedChains.isEmpty }
}

/// Decides when to move the log into the file. It is asked once a second (a tick), from a commit until the log is
/// empty.
struct LogSchedule: Sendable {
    /// The time between two ticks.
    static let tick = DispatchTimeInterval.seconds(1)

    /// The number of ticks after an erasure until the log is moved into the file, even if writes never pause. Unless a
    /// reader prevents it, the move ends within a minute of the erasure: ten seconds are left for late ticks and for
    /// the move itself.
    static let maxTicksAfterErasure = 50

    /// The number of ticks to wait after a reader prevented a checkpoint. The usual reader of this kind is a copy of
    /// the ledger, which takes longer than a tick.
    static let ticksAfterFailure = 10

    private var isAsked = false
    private var commits = 0
    private var ticksSinceErasure: Int?
    private var pause = 0

    mutating func noteErasure() { ticksSinceErasure = ticksSinceErasure ?? 0 }

    /// Notes a commit.
    ///
    /// - Returns: Whether ticks must begin.
    mutating func noteCommit() -> Bool {
        commits += 1
        defer { isAsked = true }
        return !isAsked
    }

    /// Whether to move the log into the file now: after a tick without a commit, or ``maxTicksAfterErasure`` ticks
    /// after an erasure. A checkpoint that a reader prevented delays both.
    mutating func isDue() -> Bool {
        defer { commits = 0 }
        ticksSinceErasure = ticksSinceErasure.map { $0 + 1 }
        pause = max(0, pause - 1)
        return pause == 0 && (commits == 0 || ticksSinceErasure ?? 0 >= Self.maxTicksAfterErasure)
    }

    /// Notes the outcome of a checkpoint.
    ///
    /// - Parameter isEmpty: Whether the log is empty, or a further try is useless until the next commit.
    /// - Returns: Whether ticks continue.
    mutating func noteOutcome(isEmpty: Bool) -> Bool {
        if isEmpty {
            ticksSinceErasure = nil
            isAsked = commits > 0
        } else {
            pause = Self.ticksAfterFailure
        }
        return isAsked
    }
}
