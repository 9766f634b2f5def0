// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// The option of commands whose effect on many customers cannot be undone.
struct Confirmation: ParsableArguments {
    @Flag(help: "Do it without asking, as in a script.")
    var yes = false

    func validate() throws {
        guard yes || Terminal.isInputInteractive else {
            throw ValidationError("This cannot be undone, and there is no terminal to ask on: pass --yes to do it.")
        }
    }

    /// Asks the question on the terminal, unless `--yes` is set.
    ///
    /// - Parameter question: The planned action, as a question. The closure is called only if the question is asked.
    /// - Throws: Exit status 1 for any other answer than y or yes; errors of `question`.
    func require(_ question: () async throws -> String) async throws {
        guard !yes else { return }
        Terminal.writeError(Array("\(try await question().printable) [y/N] ".utf8))
        guard ["y", "yes"].contains(readLine()?.lowercased()) else {
            throw Terminal.failure("Nothing was done.")
        }
    }
}
