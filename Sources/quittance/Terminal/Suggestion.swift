// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseServer

/// Suggests the command or the option that a mistyped word may have meant.
///
/// The parser itself reports a mistyped command as an unexpected argument, or blames the options after it. The parser
/// also never suggests the options that only the help of ``ConfigTopic`` lists.
enum Suggestion {
    /// Refuses an unknown word in the place of a command.
    ///
    /// - Throws: `ValidationError`, with the nearest command.
    static func requireCommands(_ words: [String], of root: any ParsableCommand.Type) throws {
        let (commands, unknown) = path(words, from: root)
        guard let unknown, let command = commands.last else { return }
        let names = command.configuration.subcommands.map { $0._commandName }
        let called = name(of: words, in: root)
        let word = unknown.printable.shortened
        // The word may be the id of a thing to show.
        let whole = names.contains("show") && !word.isEmpty ? "\(called) show \(word)" : nil
        let proposal = (Spelling.nearest(to: unknown, in: names).first ?? whole).map { " Did you mean \($0)?" } ?? ""
        throw ValidationError("“\(word)” is no command of \(called).\(proposal)")
    }

    /// The parser's message. If it reports an unknown option, the result suggests the command's nearest option.
    static func namingOption(in message: String, for words: [String], of root: any ParsableCommand.Type) -> String {
        guard let found = message.firstMatch(of: /Unknown option '(--[^']+)'(?:\. Did you mean '[^']+'\?)?/),
            let command = path(words, from: root).commands.last
        else { return message }
        let options = options(of: command, root)
        let longer = options.first { $0.hasPrefix("\(found.1)-") }
        guard let option = Spelling.nearest(to: String(found.1), in: options).first ?? longer else { return message }
        return message.replacing(found.0, with: "Unknown option '\(found.1)'. Did you mean '\(option)'?")
    }

    /// The full name of the command at the beginning of the words.
    static func name(of words: [String], in root: any ParsableCommand.Type) -> String {
        path(words, from: root).commands.map { $0._commandName }.joined(separator: " ")
    }

    /// The commands at the beginning of the words, and the first word after them, which is no subcommand of the last
    /// command.
    private static func path(
        _ words: [String], from root: any ParsableCommand.Type
    ) -> (commands: [any ParsableCommand.Type], unknown: String?) {
        var command = root
        var commands = [root]
        // `help` is the parser's own command, and takes the names of other commands.
        for word in words.first == "help" ? words.dropFirst() : words[...] {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, !word.hasPrefix("-") else { break }
            guard let next = subcommands.first(where: { $0._commandName == word }) else { return (commands, word) }
            command = next
            commands.append(next)
        }
        return (commands, nil)
    }

    /// The long options of a command, including hidden options. If the command has a default subcommand, the options
    /// are the default subcommand's.
    private static func options(of command: any ParsableCommand.Type, _ root: any ParsableCommand.Type) -> [String] {
        let command = command.configuration.defaultSubcommand ?? command
        let lines = root.helpMessage(for: command, includeHidden: true).split(separator: "\n")
        // Each line has two spaces, names and a value, two spaces, and a sentence.
        let labels = lines.filter { $0.hasPrefix("  -") }.map { line in
            let label = line.dropFirst(2)
            return label[..<(label.firstRange(of: "  ")?.lowerBound ?? label.endIndex)]
        }
        return labels.flatMap { $0.split { ", /<[".contains($0) } }.filter { $0.hasPrefix("--") }.map(String.init)
    }
}
