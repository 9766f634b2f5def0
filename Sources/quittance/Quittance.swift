// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
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
              quittance demo
              quittance verify receipt.b64 --bundle-id com.example.notes
              quittance convert receipt.b64 --to modern
              quittance serve --config quittance.json
              quittance doctor --config quittance.json
              quittance simulate --notify http://127.0.0.1:8080/notifications/v2

            Exit status: 0 done or verified; 1 refused, with code and reason on standard error; 2 unreadable input or \
            wrong usage; 3 genuine, but no app could be compared (quittance verify -h).
            """,
        version: "quittance \(ProgramVersion.text)",
        subcommands: [
            Inspect.self, Verify.self, Convert.self, Serve.self, Doctor.self, Keys.self, Backup.self, Restore.self,
            Copy.self, Migrate.self, Check.self, Rebuild.self, BackfillCommand.self, Jobs.self, AppStoreCommand.self,
            Sign.self, Simulate.self, Demo.self, Watch.self, Events.self, Products.self, CustomerCommand.self,
            PurchasesCommand.self, Grants.self, Webhooks.self, OperationCommand<ListAudit>.self, ConfigTopic.self,
        ])

    /// Replaces `ParsableCommand.main`. Wrong usage, and any error without an exit status of its own, ends with status
    /// 2, so that scripts can distinguish it from a refusal. No error is printed with the usage.
    static func main() async {
        Terminal.reserveStandardFiles()
        var isRunning = false
        do {
            // Without /proc the arguments are unknown. Every command, even `verify`, would then print the help and end
            // with status 0.
            guard !CommandLine.arguments.isEmpty else {
                throw ValidationError("The arguments are unknown: /proc is missing.")
            }
            try requireUTF8()
            try requireNoKeyAsOption()
            try Suggestion.requireCommands(Array(CommandLine.arguments.dropFirst()), of: Self.self)
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
                // A failed write of the help needs no report.
                try? Terminal.print(fullMessage(for: error))
                Self.exit(withError: ExitCode.success)
            }
            let text = isRunning ? message(for: error) : explained(fullMessage(for: error))
            // Replaces ArgumentParser's prefix, because all other messages begin with the program's name.
            let whole = text.hasPrefix("Error: ") ? String(text.dropFirst(7)) : text
            // The parser repeats arguments of any length. No path is so long.
            let message = CommandLine.arguments.filter { $0.utf8.count > PATH_MAX }
                .reduce(whole) { $0.replacing($1, with: $1.shortened) }
            Terminal.printError("quittance: " + message.printableLines.withoutAPIKeys)
            Self.exit(withError: ExitCode(2))
        }
    }

    /// Refuses other bytes than UTF-8. Swift replaces them by U+FFFD, which would then name a customer.
    private static func requireUTF8() throws {
        let arguments = UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc))
        for (number, bytes) in arguments.compactMap(\.self).enumerated().dropFirst()
        where String(validatingCString: bytes) == nil {
            throw ValidationError("Argument \(number), “\(String(cString: bytes))”, is not in UTF-8.")
        }
    }

    /// Refuses a key with a hyphen before it. The parser would read its letters as options, including `-h`.
    private static func requireNoKeyAsOption() throws {
        guard CommandLine.arguments.contains(where: { $0.hasPrefix("-qt_") }) else { return }
        throw ValidationError("An API key has no hyphen before it.")
    }

    /// The parser's message with a suggestion for a mistyped option, and without the usage. The message's last line
    /// says how to get the usage.
    private static func explained(_ message: String) -> String {
        let lines = message.split(separator: "\n", omittingEmptySubsequences: false)
        let usage = lines.firstIndex { $0.hasPrefix("Usage: ") } ?? lines.endIndex
        let rest = lines[usage...].drop { !$0.hasPrefix("  See '") }
        let words = Array(CommandLine.arguments.dropFirst())
        let text = (lines[..<usage] + rest).joined(separator: "\n")
            .replacing("'quittance --help'", with: "'\(Suggestion.name(of: words, in: Self.self)) --help'")
        return Suggestion.namingOption(in: text, for: words, of: Self.self)
    }
}

extension String {
    /// The text with everything that begins like an API key masked. A mistaken argument may be a key, and errors end up
    /// in logs.
    var withoutAPIKeys: String { replacing(/qt_[A-Za-z0-9_]+/, with: "qt_…") }

    /// The text with each line made ``printable``, because the parser repeats arguments unchanged.
    var printableLines: String {
        split(separator: "\n", omittingEmptySubsequences: false).map { String($0).printable }.joined(separator: "\n")
    }
}
