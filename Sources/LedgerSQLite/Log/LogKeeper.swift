// SPDX-License-Identifier: Apache-2.0

import Dispatch
import PurchaseLedger
import Synchronization

/// Brings the log into the file when nobody writes, and soon after an erasure, so that what was erased does not stay in
/// the log.
final class LogKeeper: Sendable {
    private let schedule = Mutex(LogSchedule())

    /// How long a try waits for reads that need the log, in milliseconds. Writes wait meanwhile. A read takes a few
    /// milliseconds, and a copy of the ledger so long that no write should wait for it.
    static let timeout: Int32 = 100

    /// Notes that customers or events are being erased.
    func noteErasure() { schedule.withLock { $0.noteErasure() } }

    /// Notes a commit. If the log was empty, ticks begin.
    ///
    /// - Parameter bringIn: Brings the log into the file and calls its argument with the outcome; see ``LogSchedule``.
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
    /// Whether names or documents of customers are erased.
    var isErasure: Bool { !erasedCustomers.isEmpty || !erasedChains.isEmpty }
}

/// When to bring the log into the file: asked once a second as long as something is in it.
struct LogSchedule: Sendable {
    /// The time between two questions.
    static let tick = DispatchTimeInterval.seconds(1)

    /// How many ticks after an erasure the log is brought into the file, even if writes never pause: within a minute,
    /// with some seconds left for late ticks and for the work.
    static let maxTicksAfterErasure = 50

    /// How many ticks pass after a try that a reader prevented: a copy of the ledger takes longer.
    static let ticksAfterFailure = 10

    private var isAsked = false
    private var commits = 0
    private var ticksSinceErasure: Int?
    private var pause = 0

    mutating func noteErasure() { ticksSinceErasure = ticksSinceErasure ?? 0 }

    /// Notes a commit.
    ///
    /// - Returns: Whether questions must begin.
    mutating func noteCommit() -> Bool {
        commits += 1
        defer { isAsked = true }
        return !isAsked
    }

    /// Whether to bring the log into the file now: after a second without a commit, or if an erasure is old enough.
    mutating func isDue() -> Bool {
        defer { commits = 0 }
        ticksSinceErasure = ticksSinceErasure.map { $0 + 1 }
        pause = max(0, pause - 1)
        return pause == 0 && (commits == 0 || ticksSinceErasure ?? 0 >= Self.maxTicksAfterErasure)
    }

    /// Notes the outcome of a try.
    ///
    /// - Parameter isEmpty: Whether nothing is left in the log, or a further try is useless until the next commit.
    /// - Returns: Whether questions go on.
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
