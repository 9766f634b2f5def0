// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import NIOHTTP1
import TestData
import TestProcess
import Testing

/// Customers of a simulated App Store, and a server with a ledger in a file that is killed while they live. Both are
/// processes of their own. Of the notifications a third is lost, and a third arrives twice.
@Suite(.timeLimit(.minutes(60))) struct KilledSimulationTests {
    private static let customers = ["anna", "bert", "cleo"]
    /// A few in the suite, ten times as many with `make kill`.
    private static let steps = Seeds.isSoak ? 80 : 8

    /// What a seed does: one customer's command, then time passes.
    private struct Step {
        var path: String
        var body: String
        var hours: Int
        var kill: Kill
    }

    /// When the server is killed. It is started again after the step.
    private enum Kill: CustomStringConvertible {
        case never
        /// It is down while the App Store sends.
        case before
        /// So many milliseconds after the time begins to pass.
        case during(Int)

        var description: String {
            switch self {
            case .never: "no kill"
            case .before: "killed before"
            case .during(let delay): "killed after \(delay) ms"
            }
        }
    }

    private static func plan(_ seed: UInt64) -> [Step] {
        var random = SeededRandom(seed: seed)
        let commands = [
            ("buy", #"{"product":"com.example.notes.pro.monthly"}"#),
            ("buy", #"{"product":"com.example.notes.pro.monthly"}"#),
            ("buy", #"{"product":"com.example.notes.pro.yearly"}"#), ("cancel", "{}"), ("resume", "{}"),
            ("billing/break", "{}"), ("billing/fix", "{}"), ("refund", "{}"),
        ]
        return (0..<steps).map { number in
            // Each customer buys first.
            let command = number < customers.count ? commands[0] : commands.randomElement(using: &random) ?? commands[0]
            let name = number < customers.count ? customers[number] : customers.randomElement(using: &random) ?? ""
            let delay = Int.random(in: 0..<150, using: &random)
            let kill = [Kill.never, .before, .during(delay), .during(delay)].randomElement(using: &random) ?? .never
            return Step(
                path: "/customers/\(name)/\(command.0)", body: command.1,
                hours: Int.random(in: 1...500, using: &random), kill: kill)
        }
    }

    @Test(.takesLong)
    func `a server that is killed at moments that a seed chooses is right after each step, and the life replays`()
        async throws
    {
        let seed = Seeds.first(1)[0]
        let (server, folder) = (TestPort.unused(), URL.temporaryDirectory.appending(path: UUID().uuidString))
        defer { try? FileManager.default.removeItem(at: folder) }
        let lives = ["one", "two"].map { folder.appending(path: $0) }
        for life in lives { try FileManager.default.createDirectory(at: life, withIntermediateDirectories: true) }
        let first = try await Self.live(seed, in: lives[0], port: server, hasServer: true)
        // What customers do, and when the server is killed, follows from the seed and not from the server.
        let second = try await Self.live(seed, in: lives[1], port: server, hasServer: false)
        #expect(first == second, "seed \(seed)")
    }

    /// Lives through all steps. Returns a line for each, and the customers at the end.
    private static func live(_ seed: UInt64, in folder: URL, port: Int, hasServer: Bool) async throws -> [String] {
        let simulator = try await SimulatorProcess(
            [
                "--kind", "--speed", "0", "--seed", "\(seed)", "--start", "2026-01-31T09:30:00Z",
                "--notify", "http://127.0.0.1:\(port)/notifications/v2",
            ], in: folder)
        try await simulator.command("/faults", #"{"losses":0.33,"duplicates":0.33,"reorderings":0.5}"#)
        for name in customers { try await simulator.command("/customers", #"{"name":"\#(name)"}"#) }
        var shop: KilledServer?
        if hasServer { shop = try await KilledServer(simulator, port: port, in: folder) }
        var lines: [String] = []
        for (number, step) in plan(seed).enumerated() {
            if case .before = step.kill { shop?.kill() }
            let (isDone, answer) = try await simulator.attempt(step.path, step.body)
            let id = answer["transactionId"]?.string ?? ""
            lines.append("\(number): \(step.path) \(isDone ? "done" : "refused") \(id); \(step.hours) h, \(step.kill)")
            async let passed = simulator.command("/clock/advance", #"{"hours":\#(step.hours)}"#)
            if case .during(let delay) = step.kill, let shop {
                try await Task.sleep(for: .milliseconds(delay))
                shop.kill()
            }
            _ = try await passed
            // A server that was killed while it read the history has a lease for two minutes.
            try await simulator.command("/clock/advance", #"{"seconds":121}"#)
            try await shop?.isRight(after: "seed \(seed), \(lines[number])", of: simulator)
        }
        try await shop?.close("seed \(seed)", simulator)
        let state = try await simulator.get("/state")
        #expect(simulator.terminate() == 0)
        return lines + (state["customers"]?.array ?? []).map(\.compactText)
    }
}

/// A server that is killed and started again with the same ledger, and the audit of it.
private final class KilledServer {
    private let options: [String]
    private let folder: URL
    private let port: Int
    private let key: String
    private var process: ServerProcess

    init(_ simulator: SimulatorProcess, port: Int, in folder: URL) async throws {
        let file = folder.appending(path: "quittance.json")
        try Data(
            """
            {"database": "sqlite:\(folder.path)/ledger.sqlite", "roots": ["\(simulator.fact("rootsFile"))"],
             "simulatorClock": "\(simulator.fact("control"))", "logLevel": "error",
             "appStoreServer": "\(simulator.fact("production"))", "sandboxAppStoreServer": "\(simulator.fact("sandbox"))",
             "apps": [{"bundleId": "com.example.notes",
              "inAppPurchaseKey": {"file": "\(simulator.fact("keyFile"))", "keyId": "\(simulator.fact("keyId"))",
                                   "issuerId": "\(simulator.fact("issuerId"))"},
              "products": {"com.example.notes.pro.monthly": {"entitlements": ["pro"]},
                           "com.example.notes.pro.yearly": {"entitlements": ["pro"]}}}]}
            """.utf8
        ).write(to: file)
        (options, self.folder, self.port) = (["--config", file.path], folder, port)
        process = try await Self.start(options, port, in: folder)
        key = try CommandLineTests.key(options)
    }

    func kill() { process.kill() }

    private static func start(_ options: [String], _ port: Int, in folder: URL) async throws -> ServerProcess {
        try await ServerProcess(options + ["--port", "\(port)"], in: folder)
    }

    /// Compares each customer's entitlements with the state of the App Store, once the server could have fetched all
    /// evidence.
    func isRight(after step: String, of simulator: SimulatorProcess) async throws {
        if !process.isRunning { process = try await Self.start(options, port, in: folder) }
        let now = try #require(try await simulator.get("/clock")["now"]?.integer)
        let customers = try await simulator.get("/state")["customers"]?.array ?? []
        var faults: [String] = []
        // The history lists a notification after its first attempt, and an attempt may be on its way.
        for _ in 0..<Self.maxReadings {
            try await readHistory(at: now)
            faults = []
            for customer in customers {
                if let fault = try await fault(of: customer) { faults.append(fault) }
            }
            if faults.isEmpty { return }
        }
        #expect(faults.isEmpty, "\(step)")
    }

    /// After so many readings what is still wrong stays wrong.
    private static let maxReadings = 20

    /// Has the server read the history of notifications at a time of the simulator.
    private func readHistory(at now: Int64) async throws {
        var isFirst = true
        // After a reading the next one is due in 15 minutes.
        while try isFirst || nextReading() < now + 600_000 {
            isFirst = false
            let retried = try CommandLineTests.run(["jobs", "retry", "--kind", "notificationHistory"] + options)
            // A server that has just started may not have noted the first reading.
            try #require(retried.status == 0 || retried.error.contains("no such job"), "\(retried)")
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// When the next reading of either environment is due.
    private func nextReading() throws -> Int64 {
        let jobs = try CommandLineTests.run(["jobs", "--kind", "notificationHistory", "--json"] + options)
        try #require(jobs.status == 0, "\(jobs)")
        return try jobs.json.compactMap { $0["dueAt"]?.integer }.min() ?? 0
    }

    /// What is wrong about a customer; `nil` if nothing is.
    private func fault(of customer: JSONValue) async throws -> String? {
        let states = (customer["subscriptions"]?.array ?? []).compactMap { $0["status"]?.string }
        let expected = states.contains { ["active", "grace"].contains($0) } ? ["pro"] : []
        let account = customer["appAccountToken"]?.string ?? ""
        let answer = try await process.send(.GET, "/v1/customers/\(account)", key: key)
        let found = (answer.json["entitlements"]?.array ?? []).compactMap { $0["name"]?.string }
        guard found != expected else { return nil }
        return "\(customer["name"]?.string ?? "") (\(states)) is entitled to \(expected), the server says \(found)"
    }

    /// Nothing was lost, and no event was published twice.
    func close(_ seed: String, _ simulator: SimulatorProcess) async throws {
        let customers = try await simulator.get("/state")["customers"]?.array ?? []
        let subscriptions = customers.flatMap { $0["subscriptions"]?.array ?? [] }
        for id in subscriptions.flatMap({ $0["transactions"]?.array ?? [] }).compactMap({ $0["transactionId"]?.string })
        {
            let found = try await process.send(.GET, "/v1/transactions/\(id)", key: key)
            #expect(found.status == 200, "\(seed): \(id) is lost")
        }
        let events = try await process.send(.GET, "/v1/events?limit=500", key: key).json["items"]?.array ?? []
        let started = events.filter { $0["kind"]?.string == "subscription.started" }
            .compactMap { $0["originalTransactionId"]?.string }
        #expect(Set(started) == Set(subscriptions.compactMap { $0["originalTransactionId"]?.string }), "\(seed)")
        #expect(Set(started).count == started.count, "\(seed): a start was published twice")
        #expect(process.terminate() == 0)
        for command in ["check", "rebuild"] {
            let outcome = try CommandLineTests.run([command] + options)
            #expect(outcome.status == 0, "\(seed): \(outcome)")
        }
    }
}
