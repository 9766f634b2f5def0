// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

@main
struct Quittance: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quittance",
        abstract: "The App Store purchase server that you run yourself.",
        discussion: """
            Verifies what the App Store signed, keeps it, and tells who owns what.

              quittance inspect receipt.b64
              quittance verify receipt.b64 --bundle-id com.example.notes --environment sandbox
              quittance convert receipt.b64 --to modern
              quittance serve --database sqlite:quittance.sqlite --bundle-id com.example.notes

            Exit status: 0 done or verified; 1 refused, with code and reason on standard error; 2 unreadable input or \
            wrong usage.
            """,
        subcommands: [
            Inspect.self, Verify.self, Convert.self, Serve.self, Keys.self, Backup.self, Check.self,
            Rebuild.self,
        ]
    )

    /// As `ParsableCommand.main`, but wrong usage ends with status 2, which scripts can tell from a refusal.
    static func main() async {
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let exit as ExitCode {
            Self.exit(withError: exit)
        } catch {
            let code = exitCode(for: error)
            let message = fullMessage(for: error)
            if code == .success {
                try? Terminal.print(message)
            } else {
                Terminal.complain(message)
            }
            Self.exit(withError: code == .success ? ExitCode.success : ExitCode(2))
        }
    }
}
