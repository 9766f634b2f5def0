// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TestData
import TestProcess
import Testing

/// `quittance simulate` as a process beside `quittance serve`, as in the demo.
@Suite(.timeLimit(.minutes(60))) struct SimulateCommandTests {
    /// `quittance watch --json` or `quittance events --follow --json` as a process.
    private struct WatchProcess {
        private let process: TestProcess
        private let output: URL

        init(_ arguments: [String], _ key: String, in folder: URL) throws {
            output = folder.appendingPathComponent("\(arguments[0]).txt")
            process = try TestProcess(
                [CommandLineTests.program.path] + arguments, environment: ["QUITTANCE_KEY": key],
                output: .file(output), error: .inherited)
        }

        /// The complete lines that were printed.
        func lines() throws -> [String] {
            // The last piece is an unfinished line, or empty.
            try String(contentsOf: output, encoding: .utf8)
                .split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
        }

        /// The reasons of the entitlements, in each line that was printed.
        func reasons() throws -> [[String]] {
            try lines().map { line in
                let entitlements = try JSONValue(parsing: line.utf8)["entitlements"]?.array ?? []
                return entitlements.compactMap { $0["reason"]?.string }
            }
        }

        func terminate() {
            process.send(SIGTERM)
            process.wait()
        }
    }

    /// The configuration of a server that trusts the simulator and has its time.
    ///
    /// - Parameter asks: Whether the server asks the simulator's App Store Server API.
    private static func configuration(
        _ simulator: SimulatorProcess, in folder: URL, asks: Bool = false
    ) throws -> [String] {
        let key = """
            "inAppPurchaseKey": {"file": "\(simulator.fact("keyFile"))", "keyId": "\(simulator.fact("keyId"))",
                                 "issuerId": "\(simulator.fact("issuerId"))"},
            """
        let text = """
            {"database": "sqlite:\(folder.path)/ledger.sqlite", "roots": ["\(simulator.fact("rootsFile"))"],
             "simulatorClock": "\(simulator.fact("control"))",
             "appStoreServer": "\(simulator.fact("production"))",
             "sandboxAppStoreServer": "\(simulator.fact("sandbox"))",
             "apps": [{"bundleId": "com.example.notes", \(asks ? key : "")
                       "products": {"com.example.notes.pro.monthly": {"entitlements": ["pro"],
                           "consumption": {"deliveryStatus": "DELIVERED", "sampleContentProvided": false,
                                           "refundPreference": "GRANT_PRORATED"}}}}]}
            """
        let file = folder.appendingPathComponent("quittance.json")
        try Data(text.utf8).write(to: file)
        return ["--config", file.path]
    }

    @Test(.takesLong)
    func `a customer's entitlements follow the simulator's clock, billing and refunds`() async throws {
        try await TemporaryFolder.with { folder in
            let port = TestPort.unused()
            let simulator = try await SimulatorProcess(
                ["--kind", "--speed", "0", "--notify", "http://127.0.0.1:\(port)/notifications/v2"], in: folder)
            let configuration = try Self.configuration(simulator, in: folder)
            let quittance = try await ServerProcess(configuration + ["--port", "\(port)"], in: folder)
            let key = try CommandLineTests.key(configuration)

            let anna = try await simulator.command("/customers", #"{"name":"anna"}"#)
            let account = try #require(anna["customer"]?["appAccountToken"]?.string)
            func reasons() async throws -> [String] {
                let (status, json) = try await quittance.send(.GET, "/v1/customers/\(account)", key: key)
                // 404 before the first notification.
                try #require([200, 404].contains(status), "\(json.compactText)")
                return json["entitlements"]?.array?.compactMap { $0["reason"]?.string } ?? []
            }
            let address = "http://127.0.0.1:\(port)"
            let follow = try WatchProcess(["events", "--follow", "--json", "--server", address], key, in: folder)
            defer { follow.terminate() }
            let watch = try WatchProcess(
                ["watch", account, "--server", "http://127.0.0.1:\(port)", "--json"], key, in: folder)
            defer { watch.terminate() }
            func become(_ expected: [String]) async throws {
                while try await reasons() != expected { try await Task.sleep(for: .milliseconds(10)) }
                // A change that lasts is shown.
                while try watch.reasons().last != expected { try await Task.sleep(for: .milliseconds(10)) }
            }
            try await become([])

            try await simulator.command("/customers/anna/buy", #"{"product":"com.example.notes.pro.monthly"}"#)
            try await become(["subscription"])
            try await simulator.command("/customers/anna/billing/break")
            try await simulator.command("/clock/advance", #"{"days":8}"#)
            try await become(["billingGrace"])
            try await simulator.command("/clock/advance", #"{"days":16}"#)
            try await become([])
            try await simulator.command("/customers/anna/billing/fix")
            try await become(["subscription"])
            try await simulator.command("/customers/anna/refund")
            try await become([])

            // Between the clock's turn and the notification, the command may show a moment that did not last.
            var rest = [[], ["subscription"], ["billingGrace"], [], ["subscription"], []][...]
            for reasons in try watch.reasons() where reasons == rest.first { rest.removeFirst() }
            #expect(rest.isEmpty)
            let last = try CommandLineTests.run(
                ["watch", account, "--server", "http://127.0.0.1:\(port)", "--once"],
                environment: ["QUITTANCE_KEY": key])
            #expect(last.status == 0 && last.output.hasSuffix("Z  nothing\n"), "\(last)")

            let events = try CommandLineTests.run(
                ["events", "--json", "--server", address], environment: ["QUITTANCE_KEY": key])
            let lines = events.output.split(separator: "\n").map(String.init)
            #expect(events.status == 0 && lines.count > 5, "\(events)")
            while try follow.lines().count < lines.count { try await Task.sleep(for: .milliseconds(10)) }
            #expect(try follow.lines().prefix(lines.count) == lines[...])
            let renewed = try CommandLineTests.run(
                ["events", "--kind", "subscription.started", "--customer", account, "--server", address],
                environment: ["QUITTANCE_KEY": key])
            #expect(renewed.output.split(separator: "\n").count == 1 && renewed.output.contains(account), "\(renewed)")

            let ready = try await quittance.send(.GET, "/health/ready").json
            #expect(ready["simulatorClock"]?.string == simulator.fact("control"))
            #expect(quittance.terminate() == 0)
            #expect(simulator.terminate() == 0)
        }
    }

    @Test(.takesLong)
    func `a refund request is answered over HTTP with recorded consent, and decided by the answer`() async throws {
        try await TemporaryFolder.with { folder in
            let port = TestPort.unused()
            let simulator = try await SimulatorProcess(
                ["--kind", "--speed", "0", "--sandbox-notify", "http://127.0.0.1:\(port)/notifications/v2"], in: folder)
            let configuration = try Self.configuration(simulator, in: folder, asks: true)
            let quittance = try await ServerProcess(configuration + ["--port", "\(port)"], in: folder)
            let key = try CommandLineTests.key(configuration)
            let anna = try await simulator.command("/customers", #"{"name":"anna","environment":"Sandbox"}"#)
            let account = try #require(anna["customer"]?["appAccountToken"]?.string)
            let bought = try await simulator.command(
                "/customers/anna/buy", #"{"product":"com.example.notes.pro.monthly"}"#)
            let id = try #require(bought["transactionId"]?.string)
            // A third of the sandbox's month.
            try await simulator.command("/clock/advance", #"{"seconds":60}"#)
            try await simulator.command("/customers/anna/refund/request")

            let path = "/v1/transactions/\(id)/consumption?environment=sandbox"
            func become(_ status: String) async throws {
                while try await quittance.send(.GET, path, key: key).json["status"]?.string != status {
                    try await Task.sleep(for: .milliseconds(10))
                }
            }
            try await become("waiting")
            let consent = try await quittance.send(
                .PUT, "/v1/customers/\(account)/consent", #"{"customerConsented":true}"#, key: key)
            #expect(consent.status == 200)
            // The simulator's time stands still, so the server looks again only because something is supplied. If it
            // has looked for the first time only now, it has answered already.
            #expect([200, 409].contains(try await quittance.send(.PUT, path, "{}", key: key).status))
            try await become("answered")
            #expect(try await quittance.send(.PUT, path, "{}", key: key).status == 409)

            // Five minutes later the sandbox refunds the time that is left, as the answer prefers.
            try await simulator.command("/clock/advance", #"{"seconds":300}"#)
            let purchase = "/v1/transactions/\(id)?environment=sandbox"
            while try await quittance.send(.GET, purchase, key: key).json["revocationType"]?.string != "REFUND_PRORATED"
            {
                try await Task.sleep(for: .milliseconds(10))
            }
            #expect(quittance.terminate() == 0)
            #expect(simulator.terminate() == 0)
        }
    }

    @Test(arguments: [
        (["--simulator-clock", "http://127.0.0.1:9000", "--database", "sqlite:x"], "trusts a simulator's roots"),
        (["--simulator-clock", "http://127.0.0.1:9000"], "--database"),
        (["--simulator-clock", "https://example.com/clock", "--database", "sqlite:x"], "http://, a host and a port"),
    ])
    func `a server that trusts Apple's roots does not take a simulator's time`(
        arguments: [String], message: String
    ) throws {
        let outcome = try CommandLineTests.run(["serve", "--port", "0", "--bundle-id", "com.example"] + arguments)
        #expect(outcome.status == 2)
        #expect(outcome.error.contains(message), "\(outcome.error)")
        #expect(!FileManager.default.fileExists(atPath: "x"))
    }

    @Test(arguments: [
        ["--port", "65536"], ["--port", "9001", "--sandbox-port", "9001"], ["--speed", "-1"], ["--speed", "1e300"],
        ["--notify", "localhost"], ["--notify", "http://"], ["--notify", "ftp://example.com"], ["--start", "today"],
        ["--start", "9999-01-01T00:00:00Z"], ["--seed", "1", "--start", "2045-01-01T00:00:00Z"],
        ["--bundle-id", "a b"], ["--products", "/nowhere"], ["--seed", "-1"], ["--notify-version", "3"],
        ["--shared-secret", ""],
    ])
    func `wrong usage is status 2`(arguments: [String]) throws {
        let outcome = try CommandLineTests.run(["simulate"] + arguments)
        #expect(outcome.status == 2)
        #expect(!outcome.error.isEmpty && outcome.output.isEmpty)
    }

    @Test(.takesLong)
    func `a server of version 1 notifications learns of a purchase, and an old transaction receipt verifies`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            let port = TestPort.unused()
            let simulator = try await SimulatorProcess(
                [
                    "--kind", "--speed", "0", "--notify", "http://127.0.0.1:\(port)/notifications/v1",
                    "--notify-version", "1", "--shared-secret", "secret",
                ], in: folder)
            #expect(simulator.fact("sharedSecret") == "secret")
            let configuration = try Self.configuration(simulator, in: folder)
            let quittance = try await ServerProcess(configuration + ["--port", "\(port)"], in: folder)
            let key = try CommandLineTests.key(configuration)
            try await simulator.command("/customers", #"{"name":"anna"}"#)
            let bought = try await simulator.command(
                "/customers/anna/buy", #"{"product":"com.example.notes.pro.monthly"}"#)
            let id = try #require(bought["transactionId"]?.string)
            #expect(try await quittance.send(.GET, "/v1/subscriptions/\(id)", key: key).status == 200)

            let request = HTTPClientRequest(url: "\(simulator.fact("control"))/customers/anna/receipts/\(id)")
            let response = try await HTTPClient.shared.execute(request, timeout: .hours(1))
            let receipt = folder.appendingPathComponent("receipt.txt")
            try Data(try await response.body.collect(upTo: 1 << 20).readableBytesView).write(to: receipt)
            let out = folder.appendingPathComponent("simulator").path
            let arguments = [
                "verify", receipt.path, "--bundle-id", "com.example.notes", "--root", "\(out)/roots.pem",
            ]
            let intermediate = ["--intermediates", "\(out)/receipt-intermediate.cer"]
            let verified = try CommandLineTests.run(arguments + intermediate)
            #expect(verified.status == 0, "\(verified)")
            #expect(try CommandLineTests.run(arguments).status == 1)
            #expect(quittance.terminate() == 0)
            #expect(simulator.terminate() == 0)
        }
    }

    @Test func `watch says what is wrong`() async throws {
        try await TemporaryFolder.with { folder in
            let server = try await ServerProcess(
                ["--bundle-id", "com.example.notes", "--database", "sqlite:\(folder.path)/x.sqlite"], in: folder)
            let address = "http://127.0.0.1:\(server.port)"
            for (server, key, status, message) in [
                (address, "", 2, "Set QUITTANCE_KEY"), (address, "qt_wrong", 1, "answers 401"),
                ("localhost", "qt_wrong", 2, "--server takes an address"),
                ("http://127.0.0.1:99999", "qt_wrong", 2, "--server takes an address"),
                ("http://127.0.0.1:1", "qt_wrong", 2, "does not answer"),
                (address + "/", "qt_wrong\r\n", 1, "answers 401"),
                (address, "qt_w\u{1}rong", 2, "a character that no key has"),
            ] {
                let outcome = try CommandLineTests.run(
                    ["watch", "anna", "--server", server], environment: ["QUITTANCE_KEY": key])
                #expect(outcome.status == status && outcome.output.isEmpty, "\(outcome)")
                #expect(outcome.error.contains(message) && !outcome.error.contains("qt_w"), "\(outcome.error)")
            }
            #expect(server.terminate() == 0)
        }
    }

    @Test func `the roots of a seed are refused beside Apple's, and stand with a loud warning`() async throws {
        try await TemporaryFolder.with { folder in
            let simulator = try await SimulatorProcess(["--seed", "1"], in: folder)
            let ledger = ["--bundle-id", "com.example", "--database", "sqlite:\(folder.path)/x.sqlite"]
            let roots = simulator.fact("rootsFile")
            let beside = folder.appendingPathComponent("beside.json")
            try Data(#"{"roots": ["\#(roots)"], "alsoAppleRoots": true}"#.utf8).write(to: beside)
            let refused = try CommandLineTests.run(["serve", "--port", "0", "--config", beside.path] + ledger)
            #expect(refused.status == 2)
            #expect(refused.error.contains("The roots of an App Store simulator stand alone"))
            let server = try await ServerProcess(ledger + ["--root", roots], in: folder)
            let output = try String(contentsOf: folder.appendingPathComponent("server.txt"), encoding: .utf8)
            #expect(output.contains("ANYBODY CAN SIGN PURCHASES FOR THIS SERVER"))
            #expect(server.terminate() == 0)
            #expect(simulator.terminate() == 0)
        }
    }

    @Test func `an IPv6 address is in brackets in the output and in the files`() async throws {
        try await TemporaryFolder.with { folder in
            let simulator: SimulatorProcess
            do {
                simulator = try await SimulatorProcess(["--kind", "--host", "::1"], in: folder)
            } catch let error as SimulatorProcess.NotListening {
                // A machine without IPv6.
                #expect(error.output.contains("--host: [::1]:0 cannot be listened on: "), "\(error.output)")
                return
            }
            for name in ["production", "sandbox", "control"] {
                let address = simulator.fact(name)
                #expect(address.wholeMatch(of: /http:\/\/\[::1\]:[0-9]+/) != nil, "\(address)")
            }
            let names = ["simulator.txt", "simulator/simulator.json", "simulator/simulator.env"]
            for name in names {
                let text = try String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)
                #expect(!text.replacing("[::1]", with: "").contains("::1"), "\(text)")
            }
            try await simulator.command("/customers", #"{"name":"anna"}"#)
            #expect(simulator.terminate() == 0)
        }
    }

    @Test func `an address in use is named with the option as the operator wrote it`() async throws {
        try await TemporaryFolder.with { folder in
            let simulator = try await SimulatorProcess(["--seed", "1"], in: folder)
            let port = try #require(simulator.fact("control").split(separator: ":").last.map(String.init))
            let options = ["--port", "--sandbox-port", "--control-port"]
            for option in options {
                let others = options.filter { $0 != option }.flatMap { [$0, "0"] }
                let outcome = try CommandLineTests.run(["simulate", "--seed", "1", option, port] + others)
                #expect(outcome.status == 2)
                #expect(outcome.error == "quittance: \(option): 127.0.0.1:\(port) is in use.\n", "\(outcome.error)")
            }
            #expect(simulator.terminate() == 0)
        }
    }

    @Test func `a seed gives the same key and the same roots`() async throws {
        var found: [[String]] = []
        for _ in 0..<2 {
            try await TemporaryFolder.with { folder in
                let simulator = try await SimulatorProcess(["--seed", "7"], in: folder)
                let files = try ["keyFile", "rootsFile"].map { name in
                    try String(contentsOfFile: simulator.fact(name), encoding: .utf8)
                }
                found.append([simulator.fact("keyId"), simulator.fact("issuerId")] + files)
                #expect(simulator.terminate() == 0)
            }
        }
        #expect(found[0] == found[1])
    }
}
