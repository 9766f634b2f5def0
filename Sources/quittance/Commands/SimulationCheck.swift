// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import LedgerSimulation

/// `quittance simulate --check`: a simulated year of customers, deliveries and failures, compared with what was sold.
extension Simulate {
    /// Prints what the simulation saw.
    ///
    /// - Throws: Exit status 1 if something is wrong, after a message with the seed that shows it again.
    func runCheck() async throws {
        let plan = SimulationPlan(seed: seed ?? 1, days: days, customers: customers)
        do {
            var simulation = try Simulation(plan)
            let report = try await simulation.run()
            try Terminal.print("Seed \(plan.seed), \(days) days, \(customers) customers: nothing is wrong. \(report)\n")
        } catch let failure as SimulationFailure {
            Terminal.printError("quittance: \(failure)")
            throw ExitCode(1)
        }
    }
}
