// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestProcess
import Testing

/// `simulate-check` as a process.
@Suite struct SimulateCheckTests {
    private static let program = CommandLineTests.program.deletingLastPathComponent()
        .appendingPathComponent("simulate-check")

    /// Each process goes through sets and dictionaries in an order of its own.
    @Test(.takesLong) func `a seed gives the same course of events in each process`() async throws {
        let arguments = [Self.program.path, "--seed", "4", "--days", "6", "--customers", "4"]
        let runs = try await aside { try (0..<3).map { _ in try TestProcess.run(arguments) } }
        #expect(runs[0].status == 0, "\(runs[0].error)")
        #expect(Set(runs.map(\.output)).count == 1, "\(runs.map(\.output))")
    }

    @Test(arguments: [["--days", "0"], ["--customers", "-1"], ["--seed", "x"], ["--nonsense"]])
    func `wrong usage is told`(arguments: [String]) async throws {
        let outcome = try await aside { try TestProcess.run([Self.program.path] + arguments) }
        #expect(outcome.status != 0)
        #expect(outcome.error.contains("Usage: simulate-check"))
    }
}
