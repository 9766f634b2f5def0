// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import NIOHTTP1
import TestData
import TestPostgres
import TestProcess
import Testing

/// Opens the ledger of an older version, in both storages, and compares all answers with those of that version.
@Suite(.timeLimit(.minutes(60))) struct OldLedgerTests {
    /// The content of `Tests/OldLedger/answers.json`.
    private struct Recorded: Decodable {
        struct Answer: Decodable {
            var path: String
            /// The name of the key; `nil` for that of a server.
            var key: String?
            var status: Int
            var body: String
        }

        struct Command: Decodable {
            var arguments: [String]
            var status: Int32
            var output: String
        }

        /// The instant of all answers.
        var now: String
        /// The seed of the simulator whose keys have signed.
        var seed: Int
        var keys: [String: String]
        var answers: [Answer]
        var commands: [Command]
    }

    private static let products = """
        {"com.example.notes.pro.monthly": {"entitlements": ["pro"], "level": 2},
         "com.example.notes.pro.yearly": {"entitlements": ["pro"], "level": 1},
         "com.example.notes.coins": {"entitlements": []},
         "com.example.notes.lifetime": {"entitlements": ["pro", "badge"]}}
        """

    @Test(.takesLong) func `a file that an older version wrote is answered as that version did`() async throws {
        try await compare { folder in
            let path = folder.appendingPathComponent("ledger.sqlite").path
            try OldLedger.write(to: path)
            return "sqlite:\(path)"
        }
    }

    @Test(.takesLong, .enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `a database that an older version wrote is answered as that version did`() async throws {
        try await compare { _ in
            let database = try TestPostgres.database()
            try database.loadOldLedger()
            return TestPostgres.uri(database.name, at: [database.server.folder])
        }
    }

    private func compare(_ make: (_ folder: URL) throws -> String) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let recorded = try JSONDecoder().decode(Recorded.self, from: OldLedger.answers())
        // It has the clock of the server and of the commands, which stands still.
        let simulator = try await SimulatorProcess(
            ["--kind", "--speed", "0", "--seed", "\(recorded.seed)", "--start", recorded.now], in: folder)
        defer { _ = simulator.terminate() }
        let configuration = folder.appendingPathComponent("quittance.json").path
        let text = """
            {"database": "\(try make(folder))", "roots": ["\(folder.path)/simulator/roots.pem"],
             "simulatorClock": "\(simulator.fact("control"))", "logLevel": "error",
             "apps": [{"bundleId": "com.example.notes", "appAppleId": 1234567890, "products": \(Self.products)}]}
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: configuration))
        try await compare(recorded.answers, recorded.keys, ["--config", configuration], in: folder)
        for command in recorded.commands {
            let outcome = try CommandLineTests.run(command.arguments + ["--config", configuration])
            #expect(outcome.status == command.status, "\(command.arguments): \(outcome.error)")
            #expect(Self.lines(outcome.output) == Self.lines(command.output), "\(command.arguments)")
        }
    }

    /// Answers with the same text, but for members that the older version did not have, milliseconds, and the order of
    /// an event's members, which is not promised.
    private func compare(
        _ answers: [Recorded.Answer], _ keys: [String: String], _ options: [String], in folder: URL
    ) async throws {
        let server = try await ServerProcess(options, in: folder)
        for answer in answers {
            let key = try #require(keys[answer.key ?? "backend"])
            let (status, json) = try await server.send(.GET, answer.path, key: key)
            #expect(status == answer.status, "\(answer.path)")
            let (found, expected) = (json, try JSONValue(parsing: answer.body.utf8))
            if answer.path.hasPrefix("/v1/events") {
                #expect(Self.sorted(found) == Self.sorted(expected), "\(answer.path)")
            } else {
                #expect(Self.comparable(found) == Self.comparable(expected), "\(answer.path)")
            }
        }
        #expect(server.terminate() == 0)
    }

    /// The text without the owners of a purchase, which the older version did not name, and with times in seconds. The
    /// older version preferred a receipt's time, in whole seconds, to a signed transaction's time with milliseconds.
    private static func comparable(_ answer: JSONValue) -> String {
        let kept = (answer.members ?? []).filter { $0.name != "customers" }
        let text = answer.members == nil ? answer.compactText : JSONValue.object(kept).compactText
        return text.replacing(/\b([0-9]{10})[0-9]{3}\b/) { $0.1 }
    }

    /// The order of jobs that are due at the same time depends on the storage.
    private static func lines(_ text: String) -> [Substring] { text.split(separator: "\n").sorted() }

    /// The same value with the members of each object in the order of their names.
    private static func sorted(_ value: JSONValue) -> String {
        switch value {
        case .object(let members):
            members.map { "\($0.name): \(sorted($0.value))" }.sorted().description
        case .array(let elements): elements.map(sorted).description
        default: value.compactText
        }
    }
}
