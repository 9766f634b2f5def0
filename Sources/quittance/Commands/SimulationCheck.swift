// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LedgerSQLite
import LedgerSimulation

/// `quittance simulate --check`: a simulated year of customers, deliveries and failures, compared with what was sold;
/// or two hours of customers who buy without a pause.
extension Simulate {
    /// Prints what the simulation saw.
    ///
    /// - Throws: Exit status 1 if something is wrong, after a message with the seed that shows it again.
    func runCheck() async throws {
        let plan = SimulationPlan(seed: seed ?? 1, days: days ?? 365, customers: customers ?? 12)
        do {
            var simulation = try Simulation(plan)
            let report = try await simulation.run()
            try Terminal.print(
                "Seed \(plan.seed), \(plan.days) days, \(plan.customers) customers: nothing is wrong. \(report)\n")
        } catch let failure as SimulationFailure {
            Terminal.printError("quittance: \(failure)")
            throw ExitCode(1)
        }
    }

    /// Prints what the load left behind.
    ///
    /// - Throws: Exit status 1 if work was left over.
    func runLoad() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "quittance-load-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let plan = LoadPlan(seed: seed ?? 1, customers: 72_000, seconds: 7200)
        let storage = try SQLiteLedgerStorage(path: folder.appendingPathComponent("ledger.sqlite").path)
        var simulated = try SimulatedLoad(plan, on: storage)
        let report = try await simulated.run()
        try storage.close()
        try Terminal.print("\(plan.customers) customers in \(plan.seconds) seconds: \(report)\n")
        guard report.due.allSatisfy({ $0 == 0 }) else { throw ExitCode(1) }
    }
}
