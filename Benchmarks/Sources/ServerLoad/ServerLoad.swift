// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Measures the server under load, relative to verification without HTTP and storage on the same machine, and prints a
/// table.
///
/// `ServerLoad [transactions] [notifications] [rounds]`: 5 million, 20,000 and 5 by default.
///
/// `ServerLoad webhooks [notifications] [rounds]` measures the cost of three webhooks instead: 20,000 and 5 by default.
@main
struct ServerLoad {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count < 4 || arguments[1] != ServerProcess.argument else {
            let receiver = arguments.dropFirst(4).first.flatMap { Int($0) }
            return try await ServerProcess.serve(ledger: arguments[2], roots: arguments[3], receiver: receiver)
        }
        let isWebhooks = arguments.dropFirst().first == "webhooks"
        let numbers = arguments.dropFirst(isWebhooks ? 2 : 1).map { Int($0) ?? 0 }
        guard numbers.count <= (isWebhooks ? 2 : 3), numbers.allSatisfy({ $0 > 0 }) else {
            say("usage: ServerLoad [transactions] [notifications] [rounds]")
            say("       ServerLoad webhooks [notifications] [rounds]")
            exit(64)
        }
        if isWebhooks {
            let plan = WebhookPlan(
                notifications: numbers.first ?? 20_000, rounds: numbers.dropFirst().first ?? 5)
            return print(try await plan.run().table)
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
