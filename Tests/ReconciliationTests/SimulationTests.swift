// SPDX-License-Identifier: Apache-2.0

import LedgerSimulation
import PurchaseLedger
import TestData
import Testing

/// Customers live while everything fails that can fail, and an auditor who knows what was sold compares.
///
/// `make simulation` lets them live for a year.
@Suite struct SimulationTests {
    @Test(.takesLong, arguments: 1...3 as ClosedRange<UInt64>)
    func `each customer is entitled to what was sold, whatever is lost or fails`(seed: UInt64) async throws {
        var simulation = try Simulation(SimulationPlan(seed: seed, days: 10, customers: 4))
        let report = try await simulation.run()
        #expect(report.comparisons > 25, "\(report)")
        #expect(report.stops > 5, "\(report)")
        #expect(report.lies > 5, "\(report)")
        print("Seed \(seed): \(report)")
    }

    @Test(.takesLong)
    func `with all notifications lost every customer's answer is right within one interval`() async throws {
        var plan = SimulationPlan(seed: 11, days: 30, customers: 4)
        (plan.isUnkind, plan.losesAll) = (false, true)
        var simulation = try Simulation(plan)
        let report = try await simulation.run()
        #expect(report.deliveries == 0)
        #expect(report.comparisons > 100, "\(report)")
        // The auditor requires that nothing is answered twice, and all in production that a customer consents to.
        #expect(report.consumptionAnswers > 0, "\(report)")
        // The history is read every three hours, and an interval after each day's end, whether something happened or
        // not: 9 times a day in two environments, and the last days once more. Answers to consumption requests do not
        // count.
        #expect(report.requests < 30 * 2 * 11, "\(report)")
        print("With all notifications lost for a month: \(report)")
    }

    @Test func `a server that does not ask is found out as soon as something is lost`() async throws {
        var plan = SimulationPlan(seed: 11, days: 30, customers: 4)
        (plan.isUnkind, plan.losesAll, plan.asks) = (false, true, false)
        var simulation = try Simulation(plan)
        await #expect(throws: SimulationFailure.self) { _ = try await simulation.run() }
    }

    /// `make load` is the same with two hours and ten customers a second.
    @Test(.takesLong)
    func `while customers buy without a pause nothing piles up, and no more than one request a worker is open`()
        async throws
    {
        var plan = LoadProfile(seed: 1, customers: 200, seconds: 2400)
        plan.step = 20
        var load = try SimulatedLoad(plan, on: MemoryLedgerStorage())
        let report = try await load.run()
        print("Load: \(report)")
        #expect(report.due == [0, 0, 0, 0])
        // The two readings of the history stay.
        #expect(report.jobs == 2)
        // Twenty ask. Those of the last quarter of an hour whose request was lost are not known yet.
        #expect(report.answered > 15)
        #expect(report.maxInFlight <= 16)
        #expect(report.notifications < 220)
    }

    @Test func `the same seed gives the same course`() async throws {
        let plan = SimulationPlan(seed: 5, days: 5, customers: 4)
        var (one, two) = (try Simulation(plan), try Simulation(plan))
        let reports = (try await one.run(), try await two.run())
        #expect(reports.0 == reports.1)
    }
}
