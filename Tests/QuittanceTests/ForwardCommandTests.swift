// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import NIOHTTP1
import TestData
import TestProcess
import Testing

/// Tests `quittance events --forward` with a running server and a receiver in Python.
@Suite(.timeLimit(.minutes(60))) struct ForwardCommandTests {
    /// A receiver that verifies requests by the example of `docs/webhooks.md`, prints each as a line of JSON, and
    /// answers with the statuses of its arguments, the last one for ever.
    private static let receiver = """
        import http.server, sys
        secret, *statuses = sys.argv[1:]

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                print(json.dumps({"path": self.path, "id": headers["webhook-id"], "event": event(secret, body, headers),
                                  "time": headers["webhook-timestamp"]}), flush=True)
                self.send_response(int(statuses.pop(0) if len(statuses) > 1 else statuses[0]))
                self.send_header("Content-Length", "0")
                self.end_headers()
            def log_message(self, *arguments): pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
        """

    private static func exampleOfPage() throws -> String {
        try #require(try Project.code("python", in: "docs/webhooks.md").first { $0.contains("hmac.digest") })
    }

    private static func lines(_ file: FileHandle?) -> AsyncStream<String> {
        AsyncStream { continuation in
            Thread.detachNewThread {
                var line = Data()
                while let byte = try? file?.read(upToCount: 1), !byte.isEmpty {
                    if byte == Data("\n".utf8) {
                        continuation.yield(String(decoding: line, as: UTF8.self))
                        line = Data()
                    } else {
                        line += byte
                    }
                }
                continuation.finish()
            }
        }
    }

    private static let secret = "whsec_" + Data("0123456789abcdef0123456789abcdef".utf8).base64EncodedString()

    @Test(
        .takesLong, .enabled(if: (try? TestProcess.run(["python3", "--version"]))?.status == 0, "there is no python3"))
    func `events are forwarded in order and signed, and an event that failed is sent again`() async throws {
        let folder = try TemporaryFolder()
        let app = #"{"bundleId": "com.example", "entitlements": ["pro"]}"#
        let text = #"{"database": "sqlite:\#(folder.path())", "apps": [\#(app)]}"#
        let options = ["--config", try folder.write(text, to: "quittance.json").path]
        let server = try await ServerProcess(options, in: folder.url)
        defer { server.kill() }
        let key = try CommandLineTests.key(options)
        func grant(_ customer: String) async throws {
            let body = #"{"entitlement": "pro", "why": "test", "forever": true}"#
            let answer = try await server.send(.POST, "/v1/customers/\(customer)/grants", body, key: key)
            #expect(answer.status < 300, "\(answer)")
        }
        for customer in ["anna", "bert"] { try await grant(customer) }

        let judge = try TestProcess(
            ["python3", "-c", try Self.exampleOfPage() + Self.receiver, Self.secret, "200", "503", "204", "410"],
            output: .pipe)
        defer {
            judge.send(SIGKILL)
            judge.wait()
        }
        var requests = Self.lines(judge.output).makeAsyncIterator()
        let port = try #require(await requests.next())
        let errors = folder.url.appendingPathComponent("errors.txt")
        let printed = folder.url.appendingPathComponent("printed.txt")
        // A proxy at which nobody listens would fail every request.
        var environment = ["PATH": "/usr/bin:/bin", "QUITTANCE_KEY": key]
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] { environment[name] = "http://127.0.0.1:9" }
        let command = try TestProcess(
            [
                CommandLineTests.program.path, "events", "--server", "http://127.0.0.1:\(server.port)", "--follow",
                "--kind", "grant.made", "--forward", "http://localhost:\(port)/hooks?a=b", "--secret", Self.secret,
            ], environment: environment, output: .file(printed), error: .file(errors))
        defer {
            command.send(SIGKILL)
            command.wait()
        }
        func next() async throws -> JSONValue { try JSONValue(parsing: try #require(await requests.next()).utf8) }
        let anna = try await next()
        #expect(anna["path"]?.string == "/hooks?a=b" && anna["event"]?["kind"]?.string == "grant.made")
        #expect(anna["event"]?["customer"]?.string == "anna" && anna["id"] == anna["event"]?["id"])
        let refused = try await next()
        let again = try await next()
        #expect(refused["event"]?["customer"]?.string == "bert" && again["event"] == refused["event"])
        #expect(again["id"] == refused["id"])
        let times = [refused, again].compactMap { $0["time"]?.string.flatMap { Int($0) } }
        #expect(times.count == 2 && times[1] - times[0] >= 4)
        // A new event is forwarded too, and after 410 the command ends.
        try await grant("cora")
        #expect(try await next()["event"]?["customer"]?.string == "cora")
        #expect(command.wait() == 1)
        let output = try String(contentsOf: printed, encoding: .utf8).split(separator: "\n")
        #expect(output.count == 4)
        for (line, words) in zip(
            output, [("anna", "  200  "), ("bert", "  503  "), ("bert", "  204  "), ("cora", "  410  ")])
        {
            #expect(line.contains("  \(words.0)  grant.made  ") && line.contains(words.1), "\(line)")
        }
        #expect(output.dropFirst().first?.hasSuffix("again in 5 s") == true, "\(output)")
        let error = try String(contentsOf: errors, encoding: .utf8)
        #expect(error.contains("410") && !error.contains("whsec_"), "\(error)")
    }

    @Test func `without a secret the command makes a new one and prints it`() throws {
        func secret() throws -> String {
            // At this port nobody listens, so the command ends at once.
            let outcome = try CommandLineTests.run(
                ["events", "--forward", "http://127.0.0.1:9/", "--server", "http://127.0.0.1:9"],
                environment: ["QUITTANCE_KEY": "qt_x"])
            #expect(outcome.status == 2 && outcome.output.isEmpty, "\(outcome)")
            let text = try #require(outcome.error.firstMatch(of: /signed with (whsec_\S+)/)).1
            #expect(Data(base64Encoded: String(text.dropFirst(6)))?.count == 32)
            return String(text)
        }
        #expect(try secret() != secret())
    }

    @Test(arguments: [
        (["--secret", "whsec_x"], "--secret needs --forward"),
        (["--forward", "http://localhost/", "--json"], "either --forward or --json"),
        (["--forward", "http://localhost/", "--secret", "secret"], "--secret takes whsec_"),
        (["--forward", "ftp://localhost/"], "--forward: The URL does not begin with https://"),
        (["--forward", "http://user@localhost/"], "--forward: The URL has a user"),
        (["--forward", "http://localhost:0/"], "--forward: The port"),
    ])
    func `wrong usage of --forward is refused with status 2`(arguments: [String], message: String) throws {
        let outcome = try CommandLineTests.run(
            ["events", "--server", "http://127.0.0.1:9"] + arguments, environment: ["QUITTANCE_KEY": "qt_x"])
        #expect(outcome.status == 2 && outcome.error.contains(message), "\(outcome)")
    }
}
