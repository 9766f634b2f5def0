// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestProcess
import Testing

/// Follows “Five minutes” of docs/simulator.md: runs each command of its blocks, and compares what is printed with
/// the page but for ids and times.
@Suite(.timeLimit(.minutes(60))) struct SimulatorPageTests {
    /// A command of the page, and what it prints.
    private struct Step {
        var command: String
        var expected = ""

        /// Whether the command changes nothing, so that it can be repeated until the server has the simulator's time.
        var isQuestion: Bool { command.hasPrefix("curl ") && !command.contains(" -d ") }
    }

    private static func steps() throws -> [Step] {
        let page = try Project.text("docs/simulator.md")
        let section = try #require(page.firstMatch(of: #/\n## Five minutes\n((?s:.*?))\n## /#)).1
        var steps: [Step] = []
        for block in section.matches(of: /\n( *)```console\n((?s:.*?))\n *```/) {
            for line in block.2.split(separator: "\n", omittingEmptySubsequences: false) {
                let line = line.hasPrefix(block.1) ? String(line.dropFirst(block.1.count)) : String(line)
                if line.hasPrefix("$ ") {
                    steps.append(Step(command: String(line.dropFirst(2))))
                } else {
                    try #require(!steps.isEmpty)
                    steps[steps.count - 1].expected += line + "\n"
                }
            }
        }
        return steps
    }

    /// Who follows the page: a folder, the program in PATH, free ports in place of the page's, and a shell's variables.
    private final class Reader {
        let folder = FileManager.default.temporaryDirectory.appending(path: "page-\(UUID().uuidString)")
        private let ports: [(page: Int, own: Int)]
        private var variables: [String: String]
        private var running: [TestProcess] = []

        init(_ ports: [Int: Int]) throws {
            self.ports = ports.map { ($0.key, $0.value) }
            let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
            variables = [
                "PATH": "\(CommandLineTests.program.deletingLastPathComponent().path):\(path)",
                "LD_LIBRARY_PATH": ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"] ?? "",
            ]
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        deinit {
            stop()
            try? FileManager.default.removeItem(at: folder)
        }

        private func substituted(_ command: String) -> String {
            var command = ports.reduce(command) { text, port in
                text.replacing(":\(port.page)", with: ":\(port.own)")
            }
            let options = [(9000, "control-port"), (9001, "port"), (9002, "sandbox-port")]
            for (page, option) in options where command.hasPrefix("quittance simulate") {
                command += " --\(option) \(ports.first { $0.page == page }?.own ?? 0)"
            }
            return command
        }

        /// What was printed, with the page's ports.
        private func onPage(_ text: String) -> String {
            ports.reduce(text) { text, port in text.replacing(":\(port.own)", with: ":\(port.page)") }
        }

        /// Does a step.
        ///
        /// - Returns: What was printed.
        func `do`(_ step: Step) async throws -> String {
            let command = substituted(step.command)
            if command.hasPrefix("quittance simulate") {
                // The page's Ctrl-C.
                stop()
                // Only a terminal shows the welcome.
                let path = variables["PATH"] ?? ""
                let script = "cd '\(folder.path)' && PATH='\(path)' exec \(command)"
                let welcome = try await aside { try PseudoTerminal.watch(["sh", "-c", script], until: "Try:") }
                let last = folder.appending(path: "simulator/simulator.env").path
                // That of the run on the terminal must not be taken for that of the next.
                try FileManager.default.removeItem(atPath: last)
                _ = try await start(command, until: { _ in FileManager.default.fileExists(atPath: last) })
                return onPage(welcome.replacing("\r\n", with: "\n"))
            }
            if command.hasPrefix("quittance serve") {
                let port = ports.first { $0.page == 8080 }?.own ?? 0
                let ready = "curl -sf localhost:\(port)/health/ready"
                _ = try await start(command, until: { [self] _ in try shell(ready).status == 0 })
                return ""
            }
            if let match = command.wholeMatch(of: /([A-Z]+)=(.*)/) {
                let outcome = try shell("\(command); printf %s \"$\(match.1)\"")
                try #require(outcome.status == 0 && !outcome.output.isEmpty, "\(command): \(outcome)")
                variables[String(match.1)] = outcome.output
                return ""
            }
            let outcome = try shell(command)
            #expect(outcome.status == 0, "\(command): \(outcome.error)")
            return onPage(outcome.output)
        }

        private func shell(_ command: String) throws -> TestProcess.Outcome {
            try TestProcess.run(["sh", "-c", command], in: folder, environment: variables)
        }

        private func start(_ command: String, until isReady: (String) throws -> Bool) async throws -> String {
            let output = folder.appending(path: "output-\(running.count).txt")
            running.append(
                try TestProcess(
                    ["sh", "-c", "exec " + command], in: folder, environment: variables, output: .file(output),
                    error: .file(folder.appending(path: "error-\(running.count).txt"))))
            while true {
                let text = try String(contentsOf: output, encoding: .utf8)
                if try isReady(text) { return onPage(text) }
                try #require(running.last?.isRunning == true, "\(command) has ended")
                try await Task.sleep(for: .milliseconds(100))
            }
        }

        /// Ends what was started last first.
        func stop() {
            for process in running.reversed() {
                process.send(SIGINT)
                #expect(process.wait() == 0)
            }
            running = []
        }
    }

    /// The text on one line, without what differs between two runs.
    private static func masked(_ text: String) -> String {
        var text = text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.joined()
        let masks: [(Regex<Substring>, String)] = [
            (/eyJ[\w.\-]*…?/, "JWS"), (/qt_\w+/, "KEY"), (/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/, "UUID"),
            (/\d{4}-\d\d-\d\dT[\d:.]+Z/, "TIME"), (/\b\d{13}-[0-9a-f]+…?/, "EVIDENCE"), (/\b\d{13}\b/, "TIME"),
            (/\b\d{15,18}\b/, "ID"), (/"M[0-9A-Z]{9}"/, "ORDER"), (/keyId +[0-9A-Z]{10}/, "KEYID"),
        ]
        for (pattern, name) in masks { text = text.replacing(pattern, with: name) }
        return text
    }

    /// Whether a text is what the page has, where … stands for anything.
    private static func matches(_ text: String, _ page: String) -> Bool {
        var rest = masked(text)[...]
        let parts = masked(page).replacing(#/ *… */#, with: "…").split(
            separator: "…", omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            if index == 0 {
                guard rest.hasPrefix(part) else { return false }
                rest = rest.dropFirst(part.count)
            } else if index == parts.count - 1, !part.isEmpty {
                return rest.hasSuffix(part)
            } else if let found = rest.firstRange(of: part), !part.isEmpty {
                rest = rest[found.upperBound...]
            } else if !part.isEmpty {
                return false
            }
        }
        return parts.count > 1 || rest.isEmpty
    }

    /// How often a question is repeated, which takes minutes. A server reads the time ten times a second.
    private static let attempts = 400

    @Test(.takesLong) func `each command of “Five minutes” prints what the page says`() async throws {
        let steps = try Self.steps()
        #expect(steps.count > 15)
        let ports = [8080, 9000, 9001, 9002].map { ($0, TestPort.unused()) }
        let reader = try Reader(Dictionary(uniqueKeysWithValues: ports))
        for step in steps {
            var printed = try await reader.do(step)
            for _ in 0..<Self.attempts where step.isQuestion && !Self.matches(printed, step.expected) {
                try await Task.sleep(for: .milliseconds(100))
                printed = try await reader.do(step)
            }
            #expect(Self.matches(printed, step.expected), "\(step.command)\n\(printed)\n\(step.expected)")
        }
        reader.stop()
    }

    @Test func `what is compared is all but ids and times`() {
        let page = """
            {"date":"2026-11-22T18:54:14.416Z","transactionId":"410000000000052",
             "type":"SUBSCRIBED", … ,"jwsRepresentation":"eyJ…"}
            """
        let printed = """
            {"date":"2027-01-01T00:00:00Z","transactionId":"410000000000007","type":"SUBSCRIBED","x":1 ,\
            "jwsRepresentation":"eyJhbGciOi.eyJ0.abc-_"}
            """
        #expect(Self.matches(printed, page))
        #expect(!Self.matches(printed.replacing("SUBSCRIBED", with: "REFUND"), page))
        #expect(!Self.matches(printed + "}", page))
        #expect(!Self.matches("x" + printed, page))
        #expect(!Self.matches("", page))
        #expect(Self.matches("", ""))
        #expect(!Self.matches(#"{"isActive":true}"#, #"{"isActive":false}"#))
    }
}
