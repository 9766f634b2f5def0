// SPDX-License-Identifier: Apache-2.0

import LedgerSimulation
import Testing

/// Customers live for weeks while everything fails that can fail, and an auditor who knows what was sold compares.
///
/// `make simulation` lets them live for a year.
@Suite struct SimulationTests {
    @Test(arguments: 1...3 as ClosedRange<UInt64>)
    func `each customer is entitled to what was sold, whatever is lost or fails`(seed: UInt64) async throws {
        var simulation = try Simulation(SimulationPlan(seed: seed, days: 14, customers: 4))
        let report = try await simulation.run()
        #expect(report.comparisons > 40, "\(report)")
        #expect(report.stops > 5, "\(report)")
        print("Seed \(seed): \(report)")
    }

    @Test func `where nothing fails every consumption request in production with consent is answered, once`()
        async throws
    {
        var plan = SimulationPlan(seed: 21, days: 30, customers: 4)
        plan.isUnkind = false
        var simulation = try Simulation(plan)
        let report = try await simulation.run()
        #expect(report.consumptionAnswers > 0, "\(report)")
    }

    @Test func `with all notifications lost every customer's answer is right within one interval`() async throws {
        var plan = SimulationPlan(seed: 11, days: 30, customers: 4)
        (plan.isUnkind, plan.losesAll) = (false, true)
        var simulation = try Simulation(plan)
        let report = try await simulation.run()
        #expect(report.deliveries == 0)
        #expect(report.comparisons > 100, "\(report)")
        // The history is read every three hours, and an interval after each day's end, whether something happened or
        // not: 9 times a day in two environments. Answers to consumption requests do not count.
        #expect(report.requests < 30 * 2 * 10, "\(report)")
        print("With all notifications lost for a month: \(report)")
    }

    @Test func `a server that does not ask is found out as soon as something is lost`() async throws {
        var plan = SimulationPlan(seed: 11, days: 30, customers: 4)
        (plan.isUnkind, plan.losesAll, plan.asks) = (false, true, false)
        var simulation = try Simulation(plan)
        await #expect(throws: SimulationFailure.self) { _ = try await simulation.run() }
    }

    @Test func `the same seed gives the same course`() async throws {
        let plan = SimulationPlan(seed: 5, days: 5, customers: 4)
        var (one, two) = (try Simulation(plan), try Simulation(plan))
        let reports = (try await one.run(), try await two.run())
        #expect(reports.0 == reports.1)
    }
}
