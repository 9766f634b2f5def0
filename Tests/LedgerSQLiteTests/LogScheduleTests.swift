// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import LedgerSQLite

/// Tests when the log is brought into the file.
@Suite struct LogScheduleTests {
    /// A schedule that an expectation may ask.
    private final class Asked {
        private var schedule = LogSchedule()

        func commit() -> Bool { schedule.noteCommit() }
        func erase() { schedule.noteErasure() }
        func isDue() -> Bool { schedule.isDue() }
        func end(isEmpty: Bool) -> Bool { schedule.noteOutcome(isEmpty: isEmpty) }
    }

    @Test func `questions begin with a commit, and end when nothing is in the log`() {
        let schedule = Asked()
        #expect(schedule.commit() && !schedule.commit())
        #expect(!schedule.isDue() && schedule.isDue())
        #expect(!schedule.end(isEmpty: true))
        #expect(schedule.commit())
    }

    @Test func `the log is not touched while commits come`() {
        let schedule = Asked()
        for _ in 0..<1000 {
            _ = schedule.commit()
            #expect(!schedule.isDue())
        }
    }

    @Test func `after an erasure the log is brought into the file within a minute, although commits come`() {
        let schedule = Asked()
        for _ in 0..<3 {
            schedule.erase()
            var ticks = 0
            repeat {
                _ = schedule.commit()
                ticks += 1
                // A later erasure does not put an earlier one off.
                schedule.erase()
            } while !schedule.isDue() && ticks < 100
            #expect(ticks == LogSchedule.maxTicksAfterErasure && ticks < 60)
            // Commits that came during the work are the next ones.
            _ = schedule.commit()
            #expect(schedule.end(isEmpty: true))
        }
    }

    @Test func `a reader is left alone for some seconds`() {
        let schedule = Asked()
        _ = schedule.commit()
        #expect(!schedule.isDue() && schedule.isDue())
        #expect(schedule.end(isEmpty: false))
        for _ in 1..<LogSchedule.ticksAfterFailure { #expect(!schedule.isDue()) }
        #expect(schedule.isDue())
    }
}
