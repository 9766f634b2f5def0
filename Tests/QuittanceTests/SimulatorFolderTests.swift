// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import NIOHTTP1
import TestData
import TestProcess
import Testing

@testable import quittance

/// The folder of `quittance simulate --out`: what goes on in the next run, and what is refused.
@Suite(.timeLimit(.minutes(60))) struct SimulatorFolderTests {
    private static func text(_ name: String, in folder: URL) throws -> String {
        try String(contentsOf: folder.appendingPathComponent("simulator/\(name)"), encoding: .utf8)
    }

    private static func write(_ text: String, _ name: String, in folder: URL) throws {
        let out = folder.appendingPathComponent("simulator")
        try FileManager.default.createDirectory(at: out, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: out.appendingPathComponent(name))
    }

    private static func date(_ simulator: SimulatorProcess) async throws -> Timestamp {
        let clock = try await simulator.get("/clock")
        return Timestamp(milliseconds: try #require(clock["now"]?.integer))
    }

    /// The outcome of a simulator that must not start.
    private static func refusal(_ arguments: [String], in folder: URL) throws -> String {
        let outcome = try CommandLineTests.run(
            [
                "simulate", "--out", folder.appendingPathComponent("simulator").path, "--port", "0", "--sandbox-port",
                "0", "--control-port", "0",
            ] + arguments)
        #expect(outcome.status == 2 && outcome.output.isEmpty)
        return outcome.error
    }

    // MARK: - A ledger that goes on

    /// A simulator, and a server with the configuration that it wrote.
    private struct Pair {
        let simulator: SimulatorProcess
        let server: ServerProcess
        let key: String

        init(in folder: URL, port: Int, _ arguments: [String] = []) async throws {
            let notify = "http://127.0.0.1:\(port)/notifications/v2"
            simulator = try await SimulatorProcess(
                ["--kind", "--notify", notify, "--sandbox-notify", notify] + arguments, in: folder)
            let configuration = folder.appendingPathComponent("simulator/quittance.json").path
            // The port of the test is that of the file, which ServerProcess overrides.
            server = try await ServerProcess(["--config", configuration, "--port", "\(port)"], in: folder)
            key = try CommandLineTests.key(["--config", configuration])
        }

        /// Buys a month for a new customer, and waits until the customer has it.
        ///
        /// - Returns: The customer's id in the server, and the transaction's.
        func sell(to name: String) async throws -> (account: String, transaction: String) {
            let added = try await simulator.command("/customers", "{\"name\":\"\(name)\"}")
            let account = try #require(added["customer"]?["appAccountToken"]?.string)
            let bought = try await simulator.command(
                "/customers/\(name)/buy", #"{"product":"com.example.notes.pro.monthly"}"#)
            while try await !isActive(account) { try await Task.sleep(for: .milliseconds(10)) }
            return (account, try #require(bought["transactionId"]?.string))
        }

        func isActive(_ account: String) async throws -> Bool {
            let answer = try await server.send(.GET, "/v1/customers/\(account)/entitlements/pro", key: key)
            try #require(answer.status == 200, "\(answer.json.compactText)")
            return answer.json["isActive"] == .bool(true)
        }

        func end() {
            #expect(server.terminate() == 0)
            #expect(simulator.terminate() == 0)
        }
    }

    @Test(.takesLong)
    func `a ledger and a configuration go on in the next run, with other identifiers and a later time`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            let port = TestPort.unused()
            var accounts: [String] = []
            var transactions: [String] = []
            var last = Timestamp(milliseconds: 0)
            var lasting: Set<[String]> = []
            // The second run ends by a power failure.
            for (run, speed) in ["0", "86400", "0"].enumerated() {
                let pair = try await Pair(in: folder, port: port, ["--speed", speed])
                let start = try await Self.date(pair.simulator)
                #expect(start > last, "run \(run)")
                lasting.insert([
                    try Self.text("roots.pem", in: folder), pair.simulator.fact("keyId"),
                    pair.simulator.fact("issuerId"),
                    try Self.text("SubscriptionKey_\(pair.simulator.fact("keyId")).p8", in: folder),
                ])
                for account in accounts {
                    let ids = try await pair.server.send(.GET, "/v1/customers/\(account)", key: pair.key).json["ids"]
                    #expect(ids?.array?.count == 1, "\(account)")
                }
                let (account, transaction) = try await pair.sell(to: "anna")
                accounts.append(account)
                transactions.append(transaction)
                try await pair.simulator.command("/clock/advance", #"{"days":400}"#)
                last = try await Self.date(pair.simulator)
                // The App Store of this run renews nothing of earlier runs.
                for account in accounts.dropLast() {
                    while try await pair.isActive(account) { try await Task.sleep(for: .milliseconds(10)) }
                }
                #expect(last.milliseconds >= start.milliseconds + 400 * 86_400_000)
                if run == 1 {
                    pair.simulator.kill()
                    #expect(pair.server.terminate() == 0)
                } else {
                    pair.end()
                }
            }
            #expect(lasting.count == 1)
            #expect(Set(accounts).count == 3 && Set(transactions).count == 3)
        }
    }

    @Test(.takesLong)
    func `a server with quittance.json answers in virtual time, and asks the App Store`() async throws {
        try await TemporaryFolder.with { folder in
            let port = TestPort.unused()
            let pair = try await Pair(in: folder, port: port, ["--speed", "0"])
            let (account, id) = try await pair.sell(to: "anna")
            // Notifications are lost from now on, so that the App Store must be asked.
            try await pair.simulator.command("/settings", #"{"notify":null}"#)
            try await pair.simulator.command("/clock/advance", #"{"days":8}"#)
            while try await !pair.isActive(account) { try await Task.sleep(for: .milliseconds(10)) }
            let path = "/v1/subscriptions/\(id)"
            while try await pair.server.send(.GET, path, key: pair.key).json["transactions"]?.array?.count != 2 {
                try await Task.sleep(for: .milliseconds(10))
            }
            pair.end()
        }
    }

    // MARK: - The configuration

    @Test(.takesLong) func `the next run leaves what people wrote in quittance.json`() async throws {
        try await TemporaryFolder.with { folder in
            let first = try await SimulatorProcess(["--speed", "0"], in: folder)
            let made = try JSONValue(parsing: Self.text("quittance.json", in: folder).utf8)
            #expect(first.terminate() == 0)
            let app = try #require(made["apps"]?.array?.first)
            #expect(made["simulatorClock"]?.string == first.fact("control"))
            #expect(made["appStoreServer"]?.string == first.fact("production"))
            #expect(made["sandboxAppStoreServer"]?.string == first.fact("sandbox"))
            #expect(app["inAppPurchaseKey"]?["keyId"]?.string == first.fact("keyId"))
            #expect(
                app["products"]?.compactText
                    == #"{"com.example.notes.pro.monthly":{"entitlements":["pro"],"level":2},"#
                    + #""com.example.notes.pro.yearly":{"entitlements":["pro"],"level":1},"#
                    + #""com.example.notes.coins":{"entitlements":[]},"#
                    + #""com.example.notes.lifetime":{"entitlements":["pro"]}}"#)
            let edited = try Self.text("quittance.json", in: folder)
                .replacing(
                    "\"database\": \"sqlite:", with: "\"logFormat\": \"json\", \"database\": \"sqlite:/tmp/other"
                )
                .replacing(#""com.example.notes.lifetime": {"entitlements": ["pro"]}"#, with: #""own": {}"#)
                .replacing(#"{"entitlements": ["pro"], "level": 2}"#, with: #"{"entitlements": ["gold"]}"#)
            try Self.write(edited, "quittance.json", in: folder)
            let second = try await SimulatorProcess(["--speed", "0"], in: folder)
            #expect(second.terminate() == 0)
            let kept = try JSONValue(parsing: Self.text("quittance.json", in: folder).utf8)
            #expect(kept["logFormat"]?.string == "json")
            #expect(kept["database"]?.string?.hasPrefix("sqlite:/tmp/other") == true)
            #expect(kept["simulatorClock"]?.string == second.fact("control"))
            let products = try #require(kept["apps"]?.array?.first?["products"])
            #expect(products["own"] == .object([]))
            #expect(products["com.example.notes.pro.monthly"]?["entitlements"] == .array([.string("gold")]))
            #expect(products["com.example.notes.lifetime"]?["entitlements"] == .array([.string("pro")]))
        }
    }

    @Test func `the port in quittance.json is that of a server on this machine`() throws {
        let authority = try StoreAuthority.fixture()
        var store = SimulatedStore(
            World(seed: 1, catalogue: .example(bundleId: "a", appAppleId: 1), now: Timestamp(milliseconds: 0)),
            WorldSigner(authority), try StoreKey(seed: 1))
        for (url, port) in [
            ("http://127.0.0.1:8090/notifications/v2", 8090), ("http://localhost/notifications/v1", 80),
            ("http://[::1]:7/notifications/v2", 7), ("http://example.com:8090/notifications/v2", nil),
            ("http://127.0.0.1:8090/hook", nil),
        ] as [(String, Int?)] {
            store.notificationURLs[.production] = url
            let simulator = Simulator(
                store, roots: try SimulatorRoots(authority), speed: 0, at: Timestamp(milliseconds: 0))
            #expect(SimulatorHandout(simulator, hostname: "127.0.0.1", ports: [:]).serverPort == port, "\(url)")
        }
    }

    @Test func `a document for people has short objects on a line, and is the same document`() throws {
        let long = String(repeating: "z", count: 120)
        let text = #"{"a":1,"b":{"c":[true,null],"d":"x\"y"},"e":[],"f":{},"g":["\#(long)"]}"#
        let document = try JSONValue(parsing: text.utf8)
        let indented = document.indentedText
        #expect(try JSONValue(parsing: indented.utf8) == document)
        #expect(indented.hasPrefix("{\n    \"a\": 1,\n    \"b\": {\"c\": [true, null], \"d\": \"x\\\"y\"},\n"))
        #expect(indented.hasSuffix("    \"g\": [\n        \"\(long)\"\n    ]\n}"))
    }

    // MARK: - What is refused

    @Test(.takesLong)
    func `only the owner can read the keys, and another simulator cannot use them meanwhile`() async throws {
        try await TemporaryFolder.with { folder in
            let simulator = try await SimulatorProcess(["--speed", "0"], in: folder)
            let names = [
                "simulator-keys.json", "SubscriptionKey_\(simulator.fact("keyId")).p8", "quittance.json",
                "simulator.json", "simulator.env", "webhook-secret",
            ]
            for name in names {
                let path = folder.appendingPathComponent("simulator/\(name)").path
                let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber
                #expect(mode == 0o600, "\(name)")
            }
            #expect(try Self.refusal([], in: folder).contains("A running simulator uses this folder"))
            #expect(simulator.terminate() == 0)
            let rest = try FileManager.default.contentsOfDirectory(
                atPath: folder.appendingPathComponent("simulator").path)
            #expect(!rest.contains { $0.hasSuffix("-partial") }, "\(rest)")
        }
    }

    /// Apple shows such a key once.
    @Test(.takesLong) func `a key that is not the simulator's stays, and an old one of its own goes`() async throws {
        try await TemporaryFolder.with { folder in
            let apple = "SubscriptionKey_2X9R4HXF34.p8"
            try Self.write("a key of Apple's", apple, in: folder)
            let first = try await SimulatorProcess(["--speed", "0"], in: folder)
            #expect(first.terminate() == 0)
            let second = try await SimulatorProcess(["--speed", "0", "--new-keys"], in: folder)
            #expect(second.terminate() == 0)
            let names = try FileManager.default.contentsOfDirectory(
                atPath: folder.appendingPathComponent("simulator").path)
            let own = "SubscriptionKey_\(second.fact("keyId")).p8"
            #expect(Set(names.filter { $0.hasSuffix(".p8") }) == [apple, own])
            #expect(try Self.text(apple, in: folder) == "a key of Apple's")
        }
    }

    @Test(.takesLong) func `half a folder is refused, and new keys are made only on demand`() async throws {
        try await TemporaryFolder.with { folder in
            let first = try await SimulatorProcess(["--speed", "0"], in: folder)
            #expect(first.terminate() == 0)
            let keys = try Self.text("simulator-keys.json", in: folder)
            let damaged = keys.replacing("\"key\":\"", with: "\"key\":\"AAAA")
            let newer = keys.replacing("\"version\":1", with: "\"version\":2")
            for text in [damaged, newer, "", "{}", String(keys.dropLast(20))] {
                try Self.write(text, "simulator-keys.json", in: folder)
                let message = try Self.refusal([], in: folder)
                #expect(message.contains("simulator-keys.json cannot be read."), "\(message)")
                #expect(message.contains("--new-keys") && !message.contains("AAAA"), "\(message)")
            }
            let path = folder.appendingPathComponent("simulator/simulator-keys.json")
            try FileManager.default.removeItem(at: path)
            let message = try Self.refusal([], in: folder)
            #expect(message.contains("roots.pem, but no keys of a simulator (simulator-keys.json)"), "\(message)")
            #expect(!FileManager.default.fileExists(atPath: path.path))

            let second = try await SimulatorProcess(["--speed", "0", "--new-keys"], in: folder)
            #expect(second.terminate() == 0)
            #expect(second.fact("keyId") != first.fact("keyId"))
            let third = try await SimulatorProcess(["--speed", "0"], in: folder)
            #expect(third.terminate() == 0)
            #expect(third.fact("keyId") == second.fact("keyId"))
        }
    }

    @Test(.takesLong, arguments: ["x/../../../REAL", "REALAPPLE", "abcdefghij", "AAAAAAAAA\\n", "$(id)AAAAA", ""])
    func `an id that is no key's, and would name a file elsewhere, is refused`(id: String) async throws {
        try await TemporaryFolder.with { folder in
            let first = try await SimulatorProcess(["--speed", "0"], in: folder)
            #expect(first.terminate() == 0)
            let own = first.fact("keyId")
            let keys = try Self.text("simulator-keys.json", in: folder)
            try #require(keys.contains("\"id\":\"\(own)\""))
            let hostile = keys.replacing("\"id\":\"\(own)\"", with: "\"id\":\"\(id)\"")
            try Self.write(hostile, "simulator-keys.json", in: folder)
            #expect(try Self.refusal([], in: folder).contains("an id or an issuer that no key has"))
        }
    }

    @Test(.takesLong, arguments: ["root.cer", "receipt-root.cer", "receipt-intermediate.cer"])
    func `a file of somebody else that a simulator would replace is refused`(name: String) async throws {
        try await TemporaryFolder.with { folder in
            try Self.write("own", name, in: folder)
            for arguments in [[], ["--seed", "1"], ["--new-keys"]] {
                #expect(try Self.refusal(arguments, in: folder).contains("\(name), not made by a simulator"))
            }
            #expect(try Self.text(name, in: folder) == "own")
        }
    }

    @Test(.takesLong) func `a simulator whose files cannot be written ends`() async throws {
        try await TemporaryFolder.with { folder in
            let values = folder.appendingPathComponent("simulator/simulator.json")
            try FileManager.default.createDirectory(at: values, withIntermediateDirectories: true)
            #expect(try Self.refusal([], in: folder).contains("Cannot write to "))
        }
    }

    @Test(.takesLong)
    func `new keys begin no earlier, and a warning names the ledger that refuses them`() async throws {
        try await TemporaryFolder.with { folder in
            let first = try await SimulatorProcess(["--speed", "0", "--start", "2030-01-01T00:00:00Z"], in: folder)
            #expect(first.terminate() == 0)
            try Self.write("", "quittance.sqlite", in: folder)
            let second = try await SimulatorProcess(["--speed", "0", "--new-keys"], in: folder)
            #expect(try await Self.date(second).iso8601 == "2030-01-01T00:00:00.001Z")
            let printed = try String(contentsOf: folder.appendingPathComponent("simulator.txt"), encoding: .utf8)
            #expect(printed.contains("quittance.sqlite has documents of other keys"), "\(printed)")
            #expect(second.terminate() == 0)
        }
    }

    @Test(.takesLong) func `what does not fit the folder is refused before anything is written`() async throws {
        try await TemporaryFolder.with { folder in
            // Somebody's own configuration, for Apple.
            let own = #"{"apps": []}"#
            try Self.write(own, "quittance.json", in: folder)
            for arguments in [["--seed", "1"], ["--new-keys"]] {
                let message = try Self.refusal(arguments, in: folder)
                #expect(message.contains("quittance.json is not a simulator's"), "\(message)")
            }
            #expect(try Self.refusal([], in: folder).contains("quittance.json, but no keys of a simulator"))
            let names = try FileManager.default.contentsOfDirectory(
                atPath: folder.appendingPathComponent("simulator").path)
            #expect(names == ["quittance.json"])
            #expect(try Self.text("quittance.json", in: folder) == own)
        }
        try await TemporaryFolder.with { folder in
            let first = try await SimulatorProcess(["--speed", "0", "--start", "2031-01-01T00:00:00Z"], in: folder)
            #expect(first.terminate() == 0)
            let keys = try Self.text("simulator-keys.json", in: folder)
            let early = try Self.refusal(["--start", "2030-01-01T00:00:00Z"], in: folder)
            #expect(early.contains("The last run came to 2031-01-01T00:00:00Z, and the clock"), "\(early)")
            #expect(try Self.refusal(["--seed", "1"], in: folder).contains("other keys than those of --seed"))
            let late = try Self.refusal(["--start", "2070-01-01T00:00:00Z"], in: folder)
            #expect(late.contains("certificates are valid from") && late.contains("--new-keys"), "\(late)")
            let kept = try KeptSimulator(JSONValue(parsing: keys.utf8))
            #expect(kept.run == 0 && kept.time.iso8601 == "2031-01-01T00:00:00Z")
        }
        for arguments in [["--new-keys"], ["--new-keys", "--out", "x", "--seed", "1"]] {
            let outcome = try CommandLineTests.run(["simulate"] + arguments)
            #expect(outcome.status == 2 && outcome.error.contains("--new-keys is for the folder of --out"))
        }
    }
}
