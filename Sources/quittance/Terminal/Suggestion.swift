// SPDX-License-Identifier: Apache-2.0

import ArgumentParser

/// Names the command or the option that a mistyped word may have meant.
///
/// The parser itself reports a mistyped command as an argument too many, or blames the options after it; and it
/// proposes none of the options that the help of a command leaves to ``ConfigTopic``.
enum Suggestion {
    /// Refuses a word that stands in the place of a command and is none.
    ///
    /// - Throws: Wrong usage, with the nearest command.
    static func requireCommands(_ words: [String], of root: any ParsableCommand.Type) throws {
        let (commands, unknown) = path(words, from: root)
        guard let unknown, let command = commands.last else { return }
        let names = command.configuration.subcommands.map { $0._commandName }
        let called = name(of: words, in: root)
        let word = unknown.printable.shortened
        let whole = names.count == 1 && !word.isEmpty ? "\(called) \(names[0]) \(word)" : nil
        let proposal = (nearest(to: unknown, in: names) ?? whole).map { " Did you mean \($0)?" } ?? ""
        throw ValidationError("“\(word)” is no command of \(called).\(proposal)")
    }

    /// The parser's message, in which an unknown option is followed by the nearest one of the command.
    static func namingOption(in message: String, for words: [String], of root: any ParsableCommand.Type) -> String {
        guard let found = message.firstMatch(of: /Unknown option '(--[^']+)'(?:\. Did you mean '[^']+'\?)?/),
            let command = path(words, from: root).commands.last,
            let option = nearest(to: String(found.1), in: options(of: command, root))
        else { return message }
        return message.replacing(found.0, with: "Unknown option '\(found.1)'. Did you mean '\(option)'?")
    }

    /// The command that the first words name, as it is called.
    static func name(of words: [String], in root: any ParsableCommand.Type) -> String {
        path(words, from: root).commands.map { $0._commandName }.joined(separator: " ")
    }

    /// The commands that the first words name, and the first word that names no subcommand of the last one.
    private static func path(
        _ words: [String], from root: any ParsableCommand.Type
    ) -> (commands: [any ParsableCommand.Type], unknown: String?) {
        var command = root
        var commands = [root]
        // The parser's own command, which takes the names of others.
        for word in words.first == "help" ? words.dropFirst() : words[...] {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, !word.hasPrefix("-") else { break }
            guard let next = subcommands.first(where: { $0._commandName == word }) else { return (commands, word) }
            command = next
            commands.append(next)
        }
        return (commands, nil)
    }

    /// The long options of a command, or of the one that it stands for, also those that its help does not list.
    private static func options(of command: any ParsableCommand.Type, _ root: any ParsableCommand.Type) -> [String] {
        let command = command.configuration.defaultSubcommand ?? command
        let lines = root.helpMessage(for: command, includeHidden: true).split(separator: "\n")
        // Two spaces, names and a value, two spaces, and a sentence.
        let labels = lines.filter { $0.hasPrefix("  -") }.map { line in
            let label = line.dropFirst(2)
            return label[..<(label.firstRange(of: "  ")?.lowerBound ?? label.endIndex)]
        }
        return labels.flatMap { $0.split { ", /<[".contains($0) } }.filter { $0.hasPrefix("--") }.map(String.init)
    }

    /// The longest word that is compared, in characters: longer than all names.
    private static let maxWordLength = 64

    /// The candidate that takes the fewest mistakes to become `word`; `nil` if all take too many.
    static func nearest(to word: String, in candidates: [String]) -> String? {
        guard word.count <= maxWordLength else { return nil }
        // Two mistakes, or one in three letters. A word of mistakes alone is another word.
        let limit = min(max(2, word.count / 3), word.count - 1)
        return candidates.map { (name: $0, mistakes: mistakes(from: $0, to: word)) }
            .filter { $0.mistakes <= limit }.min { $0.mistakes < $1.mistakes }?.name
    }

    /// How many letters to add, omit, replace or swap with their neighbours (optimal string alignment).
    private static func mistakes(from name: String, to word: String) -> Int {
        let name = Array(name)
        let word = Array(word)
        var rows = [Array(0...word.count)]
        for (i, letter) in name.enumerated() {
            var row = [i + 1]
            for (j, other) in word.enumerated() {
                var best = min(rows[i][j + 1] + 1, row[j] + 1, rows[i][j] + (letter == other ? 0 : 1))
                if i > 0, j > 0, letter == word[j - 1], other == name[i - 1] {
                    best = min(best, rows[i - 1][j - 1] + 1)
                }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[name.count][word.count]
    }
}
