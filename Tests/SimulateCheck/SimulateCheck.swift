// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LedgerSQLite
import LedgerSimulation

/// Checks Quittance beside a simulated App Store: `make simulation` and `make load`.
@main
struct SimulateCheck: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate-check",
        abstract: "Let customers of a simulated App Store live while everything fails, and compare with what was sold.")

    @Option(help: "Chooses the course of events.")
    var seed: UInt64 = 1

    @Option(help: "How many days it takes, in the customers' time.")
    var days = 365

    @Option(help: "How many customers there are.")
    var customers = 12

    @Flag(
        help: """
            Instead: two hours in which ten customers buy in each second, on a SQLite file. It says whether work piles \
            up.
            """)
    var load = false

    func validate() throws {
        guard days > 0, customers > 0 else {
            throw ValidationError("--days and --customers take numbers above 0.")
        }
    }

    func run() async throws {
        if load { try await runLoad() } else { try await runSimulation() }
    }

    /// Prints what the simulation saw.
    ///
    /// - Throws: Exit status 1 if something is wrong, after a message with the seed that shows it again.
    private func runSimulation() async throws {
        let plan = SimulationPlan(seed: seed, days: days, customers: customers)
        do {
            var simulation = try Simulation(plan)
            let report = try await simulation.run()
            print("Seed \(seed), \(days) days, \(customers) customers: nothing is wrong. \(report)")
        } catch let failure as SimulationFailure {
            FileHandle.standardError.write(Data("simulate-check: \(failure)\n".utf8))
            throw ExitCode(1)
        }
    }

    /// Prints what the load left behind.
    ///
    /// - Throws: Exit status 1 if work was left over.
    private func runLoad() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
            "quittance-load-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // The system clears temporary files that stay.
        defer { try? FileManager.default.removeItem(at: folder) }
        let plan = LoadProfile(seed: seed, customers: 72_000, seconds: 7200)
        let storage = try SQLiteLedgerStorage(path: folder.appendingPathComponent("ledger.sqlite").path)
        var simulated = try SimulatedLoad(plan, on: storage)
        let report = try await simulated.run()
        try storage.close()
        print("\(plan.customers) customers in \(plan.seconds) seconds: \(report)")
        guard report.due.allSatisfy({ $0 == 0 }) else { throw ExitCode(1) }
    }
}
