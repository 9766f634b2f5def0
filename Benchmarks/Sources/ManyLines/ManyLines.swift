// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// Measures `quittance verify -` with one token per line, relative to the library's own verification of the same tokens
/// on all cores, and prints a table.
///
/// `ManyLines PROGRAM [lines] [rounds]`: 100,000 and 5 by default.
@main
struct ManyLines {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let numbers = arguments.dropFirst(2).map { Int($0) ?? 0 }
        guard arguments.count > 1, numbers.count <= 2, numbers.allSatisfy({ $0 > 0 }) else {
            FileHandle.standardError.write(Data("usage: ManyLines PROGRAM [lines] [rounds]\n".utf8))
            exit(64)
        }
        let tokens = try SignedTokens(numbers.first ?? 100_000)
        defer { tokens.remove() }
        var rounds: [Round] = []
        for _ in 0..<(numbers.dropFirst().first ?? 5) {
            // They take turns, since other load on the machine slows both.
            let library = try await tokens.verify()
            rounds.append(Round(library: library, program: try ProgramRun(arguments[1], tokens)))
        }
        print(Round.table(rounds, lines: tokens.lines.count, bytes: tokens.bytes))
    }
}

/// What one round measured.
struct Round {
    /// The seconds of the library on all cores.
    var library: Double
    var program: ProgramRun

    static func table(_ rounds: [Round], lines: Int, bytes: Int) -> String {
        func median(_ value: (Round) -> Double) -> Double { rounds.map(value).sorted()[rounds.count / 2] }
        let cells = [
            "\(lines) transactions in lines, \(bytes >> 20) MiB", text(median(\.library), "s"),
            text(median(\.program.seconds), "s"), text(median { $0.program.seconds / $0.library }, "×"),
            text(median { $0.program.processorSeconds * 1_000_000 / Double(lines) }, "µs"),
            text(median { Double($0.program.peakMemory) / 1_048_576 }, "MiB"),
            rounds.allSatisfy(\.program.isInOrder) ? "yes" : "NO",
        ]
        return """
            | what | library, all cores | program | ratio | CPU time a line | peak memory | all verified, in order |
            |---|---:|---:|---:|---:|---:|---|
            | \(cells.joined(separator: " | ")) |
            """
    }

    private static func text(_ value: Double, _ unit: String) -> String { String(format: "%.2f ", value) + unit }
}
