// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Measures the PostgreSQL storage beside `pgbench` on the same instance, in turns, and prints a table.
///
/// `PostgresLoad [transactions] [seconds] [rounds]`: 5 million, 4 and 5 by default. It needs PostgreSQL's server and
/// `pgbench` (Debian's package `postgresql`).
@main
struct PostgresLoad {
    static func main() async throws {
        let numbers = CommandLine.arguments.dropFirst().map { Int($0) ?? 0 }
        guard numbers.count <= 3, numbers.allSatisfy({ $0 > 0 }) else {
            FileHandle.standardError.write(Data("usage: PostgresLoad [transactions] [seconds] [rounds]\n".utf8))
            exit(64)
        }
        let plan = LoadPlan(
            transactions: numbers.first ?? 5_000_000, seconds: numbers.dropFirst().first ?? 4,
            rounds: numbers.dropFirst(2).first ?? 5)
        print(try await plan.run().table)
    }

    /// Prints progress to standard error.
    static func say(_ text: String) {
        FileHandle.standardError.write(Data("\(text)\n".utf8))
    }
}

struct LoadFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
