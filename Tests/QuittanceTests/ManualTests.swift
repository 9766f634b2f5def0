// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestProcess
import Testing

/// Tests the manual page that `scripts/manual` makes from the help.
@Suite(.enabled(if: PackagingScript.isRunnable, "needs python3"))
struct ManualTests {
    private let help: String
    private let roff: String

    init() throws {
        help = try CommandLineTests.run(["--experimental-dump-help"]).output
        let made = try PackagingScript.run("manual", "quittance 1.2.3", "2026-01-02", input: help)
        #expect(made.status == 0 && made.error.isEmpty, "\(made.error)")
        roff = made.output
    }

    @Test(.enabled(if: PackagingScript.has("man"), "there is no man"))
    func `man prints the page in 80 columns without a warning`() throws {
        try PackagingScript.inFolder { folder in
            let page = folder.appending(path: "quittance.1")
            try Data(roff.utf8).write(to: page)
            let environment = TestProcess.environment.merging(
                ["MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"]) { $1 }
            let shown = try TestProcess.run(["man", "--warnings=w", "-l", page.path], environment: environment)
            #expect(shown.status == 0)
            #expect(shown.error.isEmpty, "\(shown.error)")
            for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS"] {
                #expect(shown.output.contains("\n\(title)\n"))
            }
            // Examples stand at the margin: the page has room for what the help has room for.
            let widest = shown.output.split(separator: "\n").map(\.count).max() ?? 0
            #expect(try widest <= max(80, widestExample))
            guard PackagingScript.has("mandoc") else { return }
            let found = try TestProcess.run(["mandoc", "-T", "lint", "-W", "warning", page.path])
            #expect(found.status == 0, "\(found.output)")
        }
    }

    /// The length of the longest example of the help.
    private var widestExample: Int {
        get throws {
            let root = try #require(try JSONValue(parsing: help.utf8)["command"])
            let all = [root] + Self.commands(below: root, "quittance").map(\.command)
            let lines = all.flatMap { ($0["discussion"]?.string ?? "").split(separator: "\n") }
            return lines.filter { $0.hasPrefix("  ") }.map(\.count).max() ?? 0
        }
    }

    @Test func `the page has a section for each command of the help, and a paragraph for each of its options`() throws {
        let root = try #require(try JSONValue(parsing: help.utf8)["command"])
        let commands = Self.commands(below: root, "quittance")
        #expect(commands.count > 20)
        for (title, command) in commands {
            let section = try #require(
                roff.components(separatedBy: "\n.SS ").first { $0.hasPrefix("\(Self.escaped(title))\n") }, "\(title)")
            for argument in command["arguments"]?.array ?? [] where argument["shouldDisplay"] == .bool(true) {
                guard case .string(let name)? = argument["preferredName"]?["name"], !["help", "version"].contains(name)
                else { continue }
                #expect(section.contains("\\-\(Self.escaped(name))\\fR"), "\(title) --\(name)")
            }
        }
    }

    private static func commands(below command: JSONValue, _ path: String) -> [(title: String, command: JSONValue)] {
        (command["subcommands"]?.array ?? []).flatMap { sub -> [(title: String, command: JSONValue)] in
            guard let name = sub["commandName"]?.string, name != "help", sub["shouldDisplay"] == .bool(true) else {
                return []
            }
            return [("\(path) \(name)", sub)] + commands(below: sub, "\(path) \(name)")
        }
    }

    private static func escaped(_ text: String) -> String { text.replacing("-", with: "\\-") }
}
