// SPDX-License-Identifier: Apache-2.0

import LedgerSimulation
import Testing

/// Customers live for months while everything fails that can fail, and an auditor who knows what was sold compares.
@Suite struct SimulationTests {
    @Test(arguments: 1...3 as ClosedRange<UInt64>)
    func `each customer is entitled to what was sold, whatever is lost or fails`(seed: UInt64) async throws {
        var simulation = try Simulation(SimulationPlan(seed: seed, days: 90, customers: 6))
        let report = try await simulation.run()
        #expect(report.comparisons > 200, "\(report)")
        #expect(report.stops > 10, "\(report)")
    }

    @Test func `with all notifications lost for a month every customer's answer is right`() async throws {
        var plan = SimulationPlan(seed: 11, days: 30, customers: 8)
        (plan.isUnkind, plan.losesAll) = (false, true)
        var simulation = try Simulation(plan)
        let report = try await simulation.run()
        #expect(report.deliveries == 0)
        #expect(report.comparisons > 150, "\(report)")
    }

    @Test func `the same seed gives the same course`() async throws {
        let plan = SimulationPlan(seed: 5, days: 20, customers: 4)
        var (one, two) = (try Simulation(plan), try Simulation(plan))
        let reports = (try await one.run(), try await two.run())
        #expect(reports.0 == reports.1)
    }
}
