// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import TestData
import Testing

/// Whatever clients do, Apple's rate limit holds; and what it allows is used.
@Suite struct RequestBudgetTests {
    private static let hour: Int64 = 3_600_000
    private static let start: Int64 = 1_900_000_000_000

    /// The times in milliseconds at which requests are sent, of clients that come at random.
    private func sent(_ rate: Int, _ environment: Environment, seed: UInt64, pressure: Int64) -> [Int64] {
        var random = SeededRandom(seed: seed)
        var budget = RequestBudget()
        var now = Self.start
        var sent: [Int64] = []
        while now < Self.start + 3 * Self.hour {
            // Bursts, and pauses of up to some minutes.
            now +=
                Int.random(in: 0..<20_000, using: &random) == 0
                ? .random(in: 0...200_000, using: &random) : .random(in: 0...pressure, using: &random)
            let turn = budget.take(
                rate, in: environment, at: Timestamp(milliseconds: now),
                within: .random(in: 0...2000, using: &random))
            if case .after(let wait) = turn { sent.append(now + wait) }
        }
        return sent.sorted()
    }

    @Test(
        arguments: Seeds.first(1, soak: 20),
        [(50, Environment.production), (20, .sandbox), (1, .production), (1, .sandbox)])
    func `no hour has more requests than Apple counts`(seed: UInt64, kind: (rate: Int, environment: Environment)) {
        let limit = kind.rate * (kind.environment == .production ? 3600 : 360)
        // Twice as many clients as may be served.
        let pressure = Self.hour / Int64(limit)
        let sent = sent(kind.rate, kind.environment, seed: seed, pressure: pressure)
        var first = 0
        for (index, time) in sent.enumerated() {
            while sent[first] <= time - Self.hour { first += 1 }
            // An expectation for each of half a million requests would take minutes.
            guard index - first + 1 > limit else { continue }
            Issue.record("seed \(seed): \(index - first + 1) in the hour")
            return
        }
        #expect(sent.count > limit * 3 / 2, "seed \(seed): the limit is never near")
    }

    @Test(arguments: [(50, 25), (1, 1), (100, 50)])
    func `a share of the limit is so much of it, at once and in an hour`(share: Int, most: Int) {
        var budget = RequestBudget(share: share)
        var sent = 0
        for second in 0..<3600 {
            let now = Timestamp(milliseconds: Self.start + Int64(second) * 1000)
            var inSecond = 0
            while case .after = budget.take(50, in: .production, at: now, within: 0) { inSecond += 1 }
            if second == 0 { #expect(inSecond == most) }
            sent += inSecond
        }
        #expect(50 * 36 * share / 2...50 * 36 * share ~= sent, "\(sent)")
    }

    @Test(arguments: [(50, Environment.production, 50), (5, .sandbox, 1), (1, .sandbox, 1), (1, .production, 1)])
    func `a second's requests may be sent at once, and no more`(rate: Int, environment: Environment, most: Int) {
        var budget = RequestBudget()
        let now = Timestamp(milliseconds: Self.start)
        let turns = (0...most).map { _ in budget.take(rate, in: environment, at: now, within: 0) }
        #expect(turns.dropLast().allSatisfy { $0 == .after(0) })
        guard case .tooLate(let time) = turns.last else { return #expect(Bool(false), "\(turns)") }
        #expect(budget.take(rate, in: environment, at: time, within: 0) == .after(0))
        var early = RequestBudget()
        for _ in 0..<most { _ = early.take(rate, in: environment, at: now, within: 0) }
        let before = Timestamp(milliseconds: time.milliseconds - 1)
        #expect(early.take(rate, in: environment, at: before, within: 0) == .tooLate(time))
    }

    @Test func `requests that can wait get turns one after the other`() {
        var budget = RequestBudget()
        let now = Timestamp(milliseconds: Self.start)
        var waits: [Int64] = []
        while case .after(let wait) = budget.take(10, in: .production, at: now, within: 1000) { waits.append(wait) }
        #expect(waits.prefix(10).allSatisfy { $0 == 0 })
        #expect(waits.dropFirst(10).map { ($0 + 50) / 100 } == Array(1...Int64(waits.count - 10)))
        #expect(waits.last ?? 0 <= 1000)
    }

    @Test func `rates and environments do not share`() {
        var budget = RequestBudget()
        let now = Timestamp(milliseconds: Self.start)
        for rate in [1, 5, 50] {
            for environment in [Environment.production, .sandbox] {
                #expect(budget.take(rate, in: environment, at: now, within: 0) == .after(0))
            }
        }
    }

    @Test func `a closed budget opens at its time, and if the clock is set back`() {
        var budget = RequestBudget()
        let (now, open) = (Timestamp(milliseconds: Self.start), Timestamp(milliseconds: Self.start + 60_000))
        budget.close(50, in: .production, until: open, at: now)
        #expect(budget.take(50, in: .production, at: now, within: 59_999) == .tooLate(open))
        #expect(budget.take(50, in: .production, at: now, within: 60_000) == .after(60_000))
        #expect(budget.take(50, in: .production, at: open, within: 0) == .after(0))
        let yesterday = Timestamp(milliseconds: Self.start - 86_400_000)
        #expect(budget.take(50, in: .production, at: yesterday, within: 0) == .after(0))
    }

    /// The header, and the milliseconds from now that it means.
    @Test(
        arguments: [
            ("1900000060000", 60_000), ("1800000000000", 0), ("9223372036854775807", hour), ("60", 60_000), ("0", 0),
            ("99999999999", hour), ("Sun, 17 Mar 2030 17:47:40 GMT", 60_000), ("Sun, 17 Mar 1999 17:47:40 GMT", 0),
            ("", nil), ("-1", nil), ("soon", nil), ("Sun, 99 Mar 2030 17:47:40 GMT", nil), ("a b c d e f g GMT", nil),
        ] as [(String, Int64?)]) func `when calls may resume is read in any form`(header: String, expected: Int64?)
    {
        let time = RetryAfter.time(header, at: Timestamp(milliseconds: Self.start))
        #expect(time?.milliseconds == expected.map { Self.start + $0 })
    }
}
