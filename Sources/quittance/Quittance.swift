// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseServer

/// The command line.
@main
struct Quittance: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quittance",
        abstract: "The App Store purchase server that you run yourself.",
        discussion: """
            Verifies what the App Store signed, records it, and answers what each customer owns.

              quittance inspect receipt.b64
              quittance verify receipt.b64 --bundle-id com.example.notes --environment sandbox
              quittance convert receipt.b64 --to modern
              quittance serve --database sqlite:quittance.sqlite --bundle-id com.example.notes
              quittance simulate --notify http://127.0.0.1:8080/notifications/v2

            Exit status: 0 done or verified; 1 refused, with code and reason on standard error; 2 unreadable input or \
            wrong usage; 3 genuine, but no app could be compared (quittance verify -h).
            """,
        version: "quittance \(ServerApplication.version)",
        subcommands: [
            Inspect.self, Verify.self, Convert.self, Serve.self, Keys.self, Backup.self, Check.self, Rebuild.self,
            Simulate.self, Watch.self,
        ]
    )

    /// Replaces `ParsableCommand.main`: wrong usage ends with status 2, so that scripts can distinguish it from a
    /// refusal, and an error of a running command is printed without the usage.
    static func main() async {
        Terminal.reserveStandardFiles()
        var isRunning = false
        do {
            var command = try parseAsRoot()
            isRunning = true
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let exit as ExitCode {
            Self.exit(withError: exit)
        } catch {
            guard exitCode(for: error) != .success else {
                try? Terminal.print(fullMessage(for: error))
                Self.exit(withError: ExitCode.success)
            }
            let text = isRunning ? message(for: error) : withoutUsage(fullMessage(for: error))
            // ArgumentParser's own prefix is another than that of all other messages.
            Terminal.printError("quittance: " + (text.hasPrefix("Error: ") ? String(text.dropFirst(7)) : text))
            Self.exit(withError: ExitCode(2))
        }
    }

    /// The message without all options of the command, which the last line says how to get.
    private static func withoutUsage(_ message: String) -> String {
        message.split(separator: "\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("Usage: ") }
            .joined(separator: "\n")
    }
}
