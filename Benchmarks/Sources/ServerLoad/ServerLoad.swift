// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Measures the server under load, relative to verification without HTTP and storage on the same machine, and prints a
/// table.
///
/// `ServerLoad [transactions] [notifications] [rounds]`: 5 million, 20,000 and 5 by default.
@main
struct ServerLoad {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count != 4 || arguments[1] != ServerProcess.argument else {
            return try await ServerProcess.serve(ledger: arguments[2], roots: arguments[3])
        }
        let numbers = arguments.dropFirst().map { Int($0) ?? 0 }
        guard numbers.count <= 3, numbers.allSatisfy({ $0 > 0 }) else {
            FileHandle.standardError.write(Data("usage: ServerLoad [transactions] [notifications] [rounds]\n".utf8))
            exit(64)
        }
        let plan = LoadPlan(
            transactions: numbers.first ?? 5_000_000, notifications: numbers.dropFirst().first ?? 20_000,
            rounds: numbers.dropFirst(2).first ?? 5)
        let result = try await plan.run()
        print(result.table)
    }

    /// Prints progress to standard error.
    static func say(_ text: String) {
        FileHandle.standardError.write(Data("\(text)\n".utf8))
    }
}
