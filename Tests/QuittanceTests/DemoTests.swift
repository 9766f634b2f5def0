// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import TestProcess
import Testing

/// `quittance demo` as a process, and its lines as people paste them.
@Suite(.timeLimit(.minutes(60))) struct DemoTests {
    /// A demo with files of its own, started in a folder that has the program and nothing else.
    private final class DemoProcess: Sendable {
        let process: TestProcess
        private let folder: URL

        static let anyPorts = [
            "--port", "0", "--console-port", "0", "--control-port", "0", "--production-port", "0", "--sandbox-port",
            "0",
        ]

        init(_ arguments: [String] = anyPorts, in folder: URL) throws {
            self.folder = folder
            let place = folder.appendingPathComponent("place")
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            try FileManager.default.createDirectory(
                at: folder.appendingPathComponent("temporary"), withIntermediateDirectories: true)
            let program = place.appendingPathComponent("quittance")
            if !FileManager.default.fileExists(atPath: program.path) {
                try FileManager.default.createSymbolicLink(at: program, withDestinationURL: CommandLineTests.program)
            }
            process = try TestProcess(
                ["./quittance", "demo"] + arguments, in: place, environment: Self.environment(folder),
                output: .file(folder.appendingPathComponent("output.txt")),
                error: .file(folder.appendingPathComponent("error.txt")))
        }

        static func environment(_ folder: URL) -> [String: String] {
            // Settings of another server mean nothing to a demo.
            var variables = ["PATH": "/usr/bin:/bin", "QUITTANCE_PORT": "1"]
            variables["TMPDIR"] = folder.appendingPathComponent("temporary").path
            variables["LD_LIBRARY_PATH"] = ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"]
            return variables
        }

        var output: String { text("output.txt") }

        var errors: String { text("error.txt") }

        private func text(_ name: String) -> String {
            (try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)) ?? ""
        }

        /// The files that it has now, where temporary files are.
        var files: [String] {
            let path = folder.appendingPathComponent("temporary").path
            return (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? ["unreadable"]
        }

        /// What it printed in all.
        func shown() async throws -> String {
            while !output.contains("Ctrl-C ends") {
                try #require(process.isRunning, "\(errors)")
                try await Task.sleep(for: .milliseconds(20))
            }
            return output
        }

        func end(_ signal: Int32 = SIGINT) -> Int32 {
            process.send(signal)
            return process.wait()
        }

        /// Runs lines of the output as they were printed.
        func paste(_ lines: String) throws -> String {
            let outcome = try TestProcess.run(
                ["sh", "-c", lines], in: folder.appendingPathComponent("place"), environment: Self.environment(folder))
            #expect(outcome.status == 0, "\(lines): \(outcome.error)")
            return outcome.output
        }
    }

    /// The lines for a shell, each with what is printed below it.
    private static func commands(_ output: String) -> [(line: String, answer: String)] {
        let paragraphs = output.split(separator: "\n\n").map(String.init)
        return paragraphs.indices.filter { paragraphs[$0].hasPrefix("curl ") }.map {
            (paragraphs[$0], $0 + 1 < paragraphs.count ? paragraphs[$0 + 1] : "")
        }
    }

    /// The kinds of the events about subscriptions and their access so far.
    private static func story(_ demo: DemoProcess, _ question: String) throws -> [String] {
        let line = question.replacing(/\/customers\/.*\/pro/, with: "/events?limit=500")
        let kinds = (try json(demo.paste(line))["items"]?.array ?? []).compactMap { $0["kind"]?.string }
        return kinds.filter { $0.hasPrefix("subscription.") || $0 == "purchase.accessEnded" }
            .map { $0.replacing("subscription.", with: "") }
    }

    private static func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: text.utf8) }

    @Test(.takesLong) func `a demo shows four requests with their answers, which anybody can repeat`() async throws {
        try await TemporaryFolder.with { folder in
            let demo = try DemoProcess(in: folder)
            let output = try await demo.shown()
            let all = Self.commands(output)
            try #require(all.count == 6)
            let requests = all.prefix(4)
            #expect(try Self.json(requests[0].answer)["isActive"] == .bool(false))
            #expect(requests[1].answer.contains(#""type":"SUBSCRIBED""#))
            #expect(requests[2].answer.contains(#""type":"DID_RENEW""#))
            let last = try Self.json(requests[3].answer)
            #expect(last["isActive"] == .bool(true) && last["entitlement"]?["reason"]?.string == "subscription")
            for (line, answer) in requests {
                #expect(answer.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(answer)")
                #expect(line.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(line)")
            }
            for request in [requests[0], requests[2], requests[3]] {
                let again = try Self.json(demo.paste(request.line))
                let names = try Self.json(request.answer).members?.map(\.name) ?? []
                #expect(again["error"] == nil, "\(again.compactText)")
                if request.line != requests[0].line { #expect(again.members?.map(\.name) == names) }
            }
            // She has the subscription already, as the App Store's answer says.
            #expect(try demo.paste(requests[1].line).utf8.count <= 400)
            #expect(demo.errors == "", "\(demo.errors)")
            #expect(demo.end() == 0)
        }
    }

    @Test(.takesLong) func `a demo has a console, and a key of the role support for it`() async throws {
        try await TemporaryFolder.with { folder in
            let demo = try DemoProcess(in: folder)
            let output = try await demo.shown()
            let console = try #require(output.firstMatch(of: /Its console +(http:\S+),/)?.output.1)
            let key = try #require(output.firstMatch(of: /A key for the console +(qt_\S+)/)?.output.1)
            #expect(try demo.paste("curl -s \(console)/").hasPrefix("<!DOCTYPE html>"))
            let answer = try Self.json(demo.paste("curl -s \(console)/v1/key --oauth2-bearer \(key)"))
            #expect(answer["role"]?.string == "support" && answer["bundleId"]?.string == "com.example.notes")
            #expect(demo.end() == 0)
        }
    }

    @Test(.takesLong) func `what a demo says to send renews, refunds, fails and succeeds`() async throws {
        try await TemporaryFolder.with { folder in
            let demo = try DemoProcess(DemoProcess.anyPorts + ["--speed", "0"], in: folder)
            let output = try await demo.shown()
            let all = Self.commands(output)
            let (buy, question) = (all[1].line, all[3].line)
            let lines = all[4].line.split(separator: "\n").map(String.init)
            try #require(lines.count == 5)
            func reason() throws -> String? {
                try Self.json(demo.paste(question))["entitlement"]?["reason"]?.string
            }
            #expect(try demo.paste(lines[0]).contains(#""type":"DID_RENEW""#))
            #expect(try reason() == "subscription")
            _ = try demo.paste(lines[1])
            #expect(try demo.paste(lines[2]).contains(#""subtype":"GRACE_PERIOD""#))
            #expect(try reason() == "billingGrace")
            #expect(try demo.paste(lines[3]).contains(#""type":"DID_RENEW""#))
            #expect(try reason() == "subscription")
            // A server may look at the subscription in the moment between its end and the notification.
            #expect(
                try Self.story(demo, question).filter { $0 != "stale" } == [
                    "started", "renewed", "updated", "renewed", "updated", "graceEntered", "recovered",
                ])

            let watch = try #require(output.firstRange(of: /QUITTANCE_KEY=.*\n.*/))
            let watched = try demo.paste(output[watch] + " --once")
            #expect(watched.contains("pro (subscription"), "\(watched)")

            #expect(try demo.paste(lines[4]).contains(#""type":"REFUND""#))
            #expect(try reason() == nil)
            _ = try demo.paste(buy)
            #expect(try reason() == "subscription")
            #expect(demo.end(SIGTERM) == 0)
        }
    }

    /// At a day in a second and far above, no renewal is late, so no customer who paid loses access.
    @Test(.takesLong) func `the events of a demo's customer are a start and renewals, each at its time`() async throws {
        try await TemporaryFolder.with { folder in
            let demo = try DemoProcess(DemoProcess.anyPorts + ["--speed", "864000"], in: folder)
            let question = Self.commands(try await demo.shown())[0].line
            var story: [String] = []
            while story.count < 9 {
                try await Task.sleep(for: .milliseconds(20))
                story = try Self.story(demo, question)
            }
            // With each period that was paid ahead, another transaction counts.
            let expected = ["started"] + (0..<story.count).flatMap { _ in ["renewed", "updated"] }
            #expect(story == Array(expected.prefix(story.count)))
            #expect(demo.end() == 0)
        }
    }

    /// The day that passes in a second is not waited for by deliveries, which have the time of the machine.
    @Test(.enabled(if: (try? TestProcess.run(["python3", "--version"]))?.status == 0, "there is no python3"))
    func `the webhook of a demo brings what happens next to a program on the machine`() async throws {
        try await TemporaryFolder.with { folder in
            let demo = try DemoProcess(in: folder)
            let all = Self.commands(try await demo.shown())
            let requests = folder.appendingPathComponent("requests.txt")
            let receiver = try TestProcess(["python3", "-u", "-c", Self.receiver], output: .file(requests))
            defer {
                receiver.send(SIGKILL)
                receiver.wait()
            }
            func received() throws -> [String] {
                try String(contentsOf: requests, encoding: .utf8).split(separator: "\n").map(String.init)
            }
            while try received().isEmpty { try await Task.sleep(for: .milliseconds(20)) }
            let line = all[5].line.replacing("localhost:3000", with: "localhost:\(try received()[0])")
            let endpoint = try Self.json(demo.paste(line))
            #expect(endpoint["secret"]?.string?.hasPrefix("whsec_") == true, "\(endpoint.compactText)")
            _ = try demo.paste(String(all[4].line.split(separator: "\n")[0]))
            while try !received().contains("subscription.renewed") { try await Task.sleep(for: .milliseconds(20)) }
            #expect(demo.end() == 0)
        }
    }

    /// Prints its port, and then the kind of each event.
    private static let receiver = """
        import http.server, json

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_POST(self):
                print(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["kind"])
                self.send_response(204)
                self.end_headers()
            def log_message(self, *arguments): pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port)
        server.serve_forever()
        """

    @Test(.takesLong, arguments: [SIGINT, SIGTERM, SIGHUP])
    func `nothing of a demo is left, whenever it is stopped`(signal: Int32) async throws {
        try await TemporaryFolder.with { folder in
            for step in ["", "quittance-demo-", "http://", "isActive"] {
                let demo = try DemoProcess(in: folder)
                while !demo.output.contains(step), !demo.files.contains(where: { $0.hasPrefix(step) }) {
                    try #require(demo.process.isRunning, "\(demo.errors)")
                    try await Task.sleep(for: .milliseconds(1))
                }
                let status = demo.end(signal)
                // The default action before there is a file, or an orderly end.
                #expect(status == 0 || step == "" && status == signal, "\(step): \(demo.errors)")
                #expect(demo.files == [], "\(step)")
            }
            let hasty = try DemoProcess(in: folder)
            _ = try await hasty.shown()
            hasty.process.send(signal)
            while hasty.process.isRunning { hasty.process.send(signal) }
            hasty.process.wait()
            #expect(hasty.files == [])
        }
    }

    @Test(.takesLong, arguments: ["--port", "--console-port", "--control-port", "--production-port", "--sandbox-port"])
    func `a port in use is named by its option, and leaves nothing`(option: String) async throws {
        try await TemporaryFolder.with { folder in
            let other = try await ServerProcess([], in: folder)
            var arguments = DemoProcess.anyPorts
            arguments[(arguments.firstIndex(of: option) ?? 0) + 1] = "\(other.port)"
            let demo = try DemoProcess(arguments, in: folder)
            #expect(demo.process.wait() == 2)
            let reason = "127.0.0.1:\(other.port) is in use."
            #expect(demo.errors == "quittance: \(option): \(reason) A second demo may run; 0 takes a free port.\n")
            #expect(demo.output == "" && demo.files == [])
            #expect(other.terminate() == 0)
        }
    }

    @Test func `two equal ports are refused, as are new keys without a folder`() throws {
        for (arguments, message) in [
            (["--port", "9000"], "--port and --control-port are both 9000"), (["--speed=-1"], "--speed takes"),
            (["--sandbox-port", "70000"], "--sandbox-port takes a number"), (["--new-keys"], "the folder of --out"),
        ] {
            let outcome = try CommandLineTests.run(["demo"] + arguments)
            #expect(outcome.status == 2 && outcome.error.contains(message), "\(outcome)")
        }
    }

    @Test(.takesLong) func `with a folder the ledger stays, and the next demo goes on with it`() async throws {
        try await TemporaryFolder.with { folder in
            var keys: [String] = []
            for run in 0..<2 {
                let demo = try DemoProcess(DemoProcess.anyPorts + ["--out", "kept"], in: folder)
                let output = try await demo.shown()
                keys.append(String(try #require(output.firstMatch(of: /qt_[a-z0-9_]+/)?.output)))
                let events = Self.commands(output)[0].line
                    .replacing(/\/customers\/.*\/pro/, with: "/events?limit=500")
                let started = try Self.json(demo.paste(events))["items"]?.array?.count {
                    $0["kind"]?.string == "subscription.started"
                }
                #expect(started == run + 1)
                // The key of the demo before it, which a terminal may still show, opens nothing.
                for old in keys.dropLast() {
                    let answer = try Self.json(demo.paste(events.replacing(keys[run], with: old)))
                    #expect(answer["error"]?["code"]?.string == "unauthorized")
                }
                #expect(demo.files == [])
                #expect(demo.end() == 0)
            }
            #expect(Set(keys).count == 2)
            let kept = folder.appendingPathComponent("place/kept")
            let checked = try CommandLineTests.run(
                ["check", "--config", kept.appendingPathComponent("quittance.json").path])
            #expect(checked.status == 0, "\(checked)")
        }
    }
}
