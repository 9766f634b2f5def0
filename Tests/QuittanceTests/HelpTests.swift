// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import TestProcess
import Testing

@testable import quittance

/// Tests what `--help` shows on a terminal of 80 columns, and what is proposed for mistyped words.
@Suite struct HelpTests {
    /// A command as the program describes it.
    private struct Command {
        /// The words that call it, without the program's own name.
        let path: [String]
        let discussion: [String]
        let arguments: [JSONValue]
        let hasSubcommands: Bool

        var hidden: [JSONValue] { arguments.filter { $0["shouldDisplay"] == .bool(false) } }

        /// All commands, found by walking through the program's description of itself.
        static func all() throws -> [Command] {
            let dump = try CommandLineTests.run(["--experimental-dump-help"])
            return commands(try #require(try JSONValue(parsing: dump.output.utf8)["command"]), [])
        }

        private static func commands(_ json: JSONValue, _ path: [String]) -> [Command] {
            let children = (json["subcommands"]?.array ?? []).flatMap { child -> [Command] in
                // The parser's own command shows the help of others.
                guard let name = child["commandName"]?.string, name != "help" else { return [] }
                return commands(child, path + [name])
            }
            let lines = (json["discussion"]?.string ?? "").components(separatedBy: "\n")
            let command = Command(
                path: path, discussion: lines, arguments: json["arguments"]?.array ?? [],
                hasSubcommands: !children.isEmpty)
            return [command] + children
        }

        /// The lines of its help on a terminal of 80 columns.
        func help(_ option: String = "--help") throws -> [String] {
            let outcome = try CommandLineTests.run(path + [option], environment: ["COLUMNS": "80"])
            #expect(outcome.status == 0 && outcome.error.isEmpty, "\(path): \(outcome)")
            return outcome.output.components(separatedBy: "\n")
        }
    }

    private static func name(_ argument: JSONValue) -> String {
        let name = argument["preferredName"]?["name"]?.string
        return name.map { "--\($0)" } ?? "<\(argument["valueName"]?.string ?? "")>"
    }

    @Test(.takesLong) func `every help fits 80 columns, and every example stands there as it is written`() throws {
        var examples = 0
        for command in try Command.all() {
            let help = try command.help()
            for line in help + (try command.help("--help-hidden")) {
                #expect(line.count <= 80, "\(command.path): \(line)")
            }
            // What is indented is to be typed, or a table.
            for line in command.discussion where line.hasPrefix("  ") {
                examples += 1
                #expect(help.contains(line), "\(command.path): \(line)")
            }
        }
        #expect(examples > 60)
    }

    @Test(.takesLong)
    func `the usage is folded: it names all that a command requires, and nothing that it does not know`() throws {
        for command in try Command.all() {
            let help = try command.help()
            let start = try #require(help.firstIndex { $0.hasPrefix("USAGE: ") })
            let lines = help[start...].prefix { !$0.isEmpty }
            #expect(lines.count <= 2, "\(command.path)")
            let usage = lines.joined(separator: " ")
            let (names, path) = (Set(command.arguments.map(Self.name)), command.path.joined(separator: " "))
            #expect(usage.hasPrefix("USAGE: quittance \(path == "config" ? "COMMAND" : path)"), "\(usage)")
            for required in command.arguments where required["isOptional"] == .bool(false) {
                #expect(usage.contains(Self.name(required)), "\(usage): \(Self.name(required))")
            }
            for match in usage.matches(of: /--[a-z-]+/) {
                let isInverse = names.contains(String(match.0).replacing("--no-", with: "--"))
                #expect(names.contains(String(match.0)) || isInverse, "\(usage): \(match.0)")
            }
            let isWhole = command.arguments.allSatisfy {
                usage.contains(Self.name($0)) || $0["kind"] == .string("flag")
            }
            #expect(usage.contains("[options]") || command.hasSubcommands || isWhole, "\(usage)")
        }
    }

    @Test(.takesLong)
    func `options that many commands have are explained in one topic, which each of them names`() throws {
        let commands = try Command.all()
        let topic = try CommandLineTests.run(["help", "config"], environment: ["COLUMNS": "80"])
        #expect(try CommandLineTests.run(["config"], environment: ["COLUMNS": "80"]).output == topic.output)
        let having = commands.filter { !$0.hidden.isEmpty }
        #expect(having.count >= 20)
        for command in having {
            let help = try command.help()
            let text = help.joined(separator: " ")
            #expect(text.contains("quittance help config"), "\(command.path)")
            for option in command.hidden.map(Self.name) {
                #expect(!help.contains { $0.hasPrefix("  \(option)") }, "\(command.path): \(option)")
                #expect(text.contains(option), "\(command.path) does not say that it has \(option)")
                #expect(topic.output.contains("\n  \(option)"), "\(option)")
            }
        }
    }

    @Test(.takesLong, arguments: ["bash", "zsh", "fish"])
    func `shells complete the options that the help leaves to the topic`(shell: String) throws {
        let script = try CommandLineTests.run(["--generate-completion-script=\(shell)"])
        #expect(script.status == 0 && script.error.isEmpty)
        // Once for each of the commands that have it.
        #expect(script.output.components(separatedBy: "trust-other-roots").count > 8)
    }

    @Test(arguments: [
        (["veriffy"], "verify"), (["veriffy", "x", "--bundle-id", "y"], "verify"), (["chekc"], "check"),
        (["help", "serv"], "serve"), (["keys", "creat", "--name", "x"], "create"), (["jobs", "rety"], "retry"),
        (["app-store", "refund", "1"], "refunds"), (["customer", "shwo", "1"], "show"), (["prodcuts"], "products"),
        (["check", "--databse", "sqlite:x"], "--database"), (["serve", "--confg", "x"], "--config"),
        (["inspect", "--jsno", "x"], "--json"), (["jobs", "--faild"], "--failed"),
        (["jobs", "--databas=x"], "--database"),
        (["serve", "--insecur"], "--insecure"), (["products", "--rooot", "x"], "--root"),
        (["customer", "move", "2", "--too", "anna", "--reason", "x"], "--to"),
        (["grants", "list", "anna", "--key", "qt_x"], "--key-file"),
        (["grants", "make", "anna", "--reason", "x"], "--why"), (["customer", "set", "a", "--why", "x"], "--reason"),
    ])
    func `a mistyped command or option is wrong usage, and the nearest one is proposed`(
        arguments: [String], meant: String
    ) throws {
        let outcome = try CommandLineTests.run(arguments)
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        let proposed = outcome.error.firstMatch(of: /Did you mean '?([a-z-]+)'?\?/)
        #expect(proposed.map { String($0.1) } == meant, "\(outcome.error)")
        #expect(outcome.error.contains("--help' for more information."), "\(outcome.error)")
        #expect(!outcome.error.contains("Usage:") && !outcome.error.contains("[options]"), "\(outcome.error)")
    }

    @Test(.enabled(if: TestMount.isPossible, "This user cannot hide /proc"))
    func `arguments that cannot be read are wrong usage`() throws {
        let script = "mount -t tmpfs none /proc && exec \"$0\" verify /nonexistent --bundle-id a"
        let outcome = try TestProcess.run(
            ["unshare", "--mount", "sh", "-c", script, CommandLineTests.program.path])
        #expect(outcome.status == 2 && outcome.output.isEmpty, "\(outcome.output)")
        #expect(outcome.error.contains("/proc is missing"), "\(outcome.error)")
    }

    @Test(arguments: [
        ("customer move 2 --reason x", "--to is missing."), ("grants list anna", "Some commands take --server."),
        ("grants list anna --server http://h --config x", "--server takes no --bundle-id"),
        ("grants list anna --server http://u:p@h", "--server takes an address"),
        ("grants list anna --server http://h?x=1", "--server takes an address"),
        ("grants list anna --server http://h#f", "--server takes an address"),
        ("purchases submit anna --new --document /nowhere", "--document: Cannot read /nowhere"),
        ("customer show anna LONG", "xxx…"),
    ]) func `wrong usage says what is wrong, in few words`(command: String, message: String) throws {
        let words = command.split(separator: " ").map(String.init)
        let app = command.contains("--document") ? ["--bundle-id", "com.example"] : []
        let long = String(repeating: "x", count: 100_000)
        let outcome = try CommandLineTests.run(words.map { $0 == "LONG" ? long : $0 } + app)
        #expect(outcome.status == 2 && outcome.output.isEmpty, "\(outcome.output)")
        #expect(outcome.error.contains(message) && outcome.error.count < 1000, "\(outcome.error.prefix(2000))")
    }

    @Test(
        .takesLong,
        arguments: [
            ("grants make", ["days from now such as 30d", "days ago such as 7d"]),
            ("webhooks replay", ["days ago such as 7d"]),
            ("webhooks attempts", ["rom 1 to"]), ("app-store extend", ["from 1 to 90."]),
            ("customer move", ["may be repeated."]), ("purchases submit", ["A file, or - for standard input."]),
        ]) func `the help says how the value of an option is written`(command: String, parts: [String]) throws
    {
        let outcome = try CommandLineTests.run(command.split(separator: " ").map(String.init) + ["--help"])
        let text = outcome.output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        for part in parts { #expect(text.contains(part), "\(text)") }
    }

    @Test func `a word after a command that shows things is taken for the id of a thing`() throws {
        let outcome = try CommandLineTests.run(["customer", "qt_abc\u{1b}[2J"])
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        #expect(outcome.error.contains("Did you mean quittance customer show qt_…\u{fffd}[2J?"), "\(outcome.error)")
    }

    @Test(arguments: [["check", "--no\u{1b}[2J"], ["jobs", "--x\u{9b}2J"], ["no\u{202e}sense"]])
    func `an argument that is repeated does not control the terminal`(arguments: [String]) throws {
        let outcome = try CommandLineTests.run(arguments)
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        #expect(outcome.error.contains("\u{fffd}"), "\(outcome.error)")
        for line in outcome.error.split(separator: "\n").map(String.init) { #expect(line.printable == line) }
    }

    @Test(arguments: [
        ["nonsense"], ["x"], [""], ["keys", "nonsense"], ["customer", ""], ["check", "--nonsense"],
        ["help", "nonsense"], ["jobs", "1"],
    ])
    func `nothing is proposed for a word that resembles none`(arguments: [String]) throws {
        let outcome = try CommandLineTests.run(arguments)
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        #expect(!outcome.error.isEmpty && !outcome.error.contains("Did you mean"), "\(outcome.error)")
    }
}
