// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import PurchaseServer

// How the declaration of an operation appears on the command line: the parts that ArgumentParser reads, and the help.

extension Field {
    /// Whether the command line has one word for it.
    var isSingleArgument: Bool { isArgument && form != .object }

    /// The argument, option or flag of the field. An option takes several values, so that a second value is not lost
    /// in silence.
    var commandPart: Any {
        let help = ArgumentHelp(sentence, valueName: form == .flag ? nil : option)
        let name = NameSpecification.customLong(option)
        if isSingleArgument { return Argument<String>(help: help) }
        if isArgument { return Argument<[String]>(help: help) }
        if form == .flag {
            return Flag<Bool?>(name: name, inversion: .prefixedNo, exclusivity: .exclusive, help: help)
        }
        // Never required here: the parser would blame a missing option before one that is misspelt.
        return Option<[String]>(wrappedValue: [], name: name, help: help)
    }

    /// Whether a command reads the value, or each value of a list, from a file.
    var isFile: Bool { if case .list(nil, _) = form { true } else { form == .document } }

    /// The explanation as a sentence, without marks.
    var sentence: String {
        explanation(isOption: true).asSentence + (isFile ? " A file, or - for standard input." : "")
    }

    /// The field in the usage of a command, if it is required.
    fileprivate var usage: String? {
        if form == .object { return "<\(option)> ..." }
        if isArgument { return "<\(option)>" }
        guard isRequired, !isMadeUp else { return nil }
        return form == .flag ? "(--\(option) | --no-\(option))" : "--\(option) <\(option)>"
    }
}

extension Operation {
    /// The purpose as a sentence.
    var abstract: String { summary.asSentence }

    var configuration: CommandConfiguration {
        let topic = ConfigTopic.appStoreOptions
        return CommandConfiguration(
            commandName: command.split(separator: " ").last.map(String.init), abstract: abstract, usage: usage,
            discussion: notes.isEmpty ? topic : "\(notes)\n\n\(topic)")
    }

    /// The usage, folded so that its lines fit on a terminal of 80 columns.
    private var usage: String {
        var lines = ["quittance"]
        for part in [command] + fields.compactMap(\.usage) + ["[options]"] {
            // “USAGE: ” stands before the first line.
            let room = lines.count > 1 ? 80 : 73
            if lines[lines.count - 1].count + part.count < room {
                lines[lines.count - 1] += " \(part)"
            } else {
                lines.append("    \(part)")
            }
        }
        return lines.joined(separator: "\n")
    }
}

extension String {
    /// A phrase of the API's papers as a sentence of the help.
    fileprivate var asSentence: String { prefix(1).uppercased() + dropFirst().replacing("`", with: "") + "." }
}
