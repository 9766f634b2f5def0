// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestProcess
import TestWorld
import Testing

/// Tests that what a killed `quittance copy` leaves is refused as a ledger, and that the next run completes it.
@Suite struct KilledCopyTests {
    /// Halves to find.
    private static let rounds = Seeds.isSoak ? 40 : 3
    /// Kills for them: a copy is half for at least a tenth of its time, so that one in 10^9 runs finds too few.
    private static let maximumAttempts = rounds * 80

    /// A place for a ledger, and how to look into it.
    private enum Place {
        case file(String)
        case database(TestDatabase)

        var address: String {
            switch self {
            case .file(let path): "sqlite:\(path)"
            case .database(let database): TestPostgres.uri(database.name, at: [database.server.folder])
            }
        }

        /// Where half a copy comes from; `nil` if there is none.
        func halfOf() async throws -> String? {
            switch self {
            case .file(let path):
                let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
                guard size ?? 0 > 0 else { return nil }
                let storage = try SQLiteLedgerStorage(path: path, continuesCopy: true)
                defer { try? storage.close() }
                return try await storage.unfinishedCopy()?.source
            case .database(let database):
                guard try database.psql("SELECT to_regclass('quittance.records')") != "" else { return nil }
                let source = try database.psql(
                    """
                    SELECT convert_from(payload, 'UTF8')::json ->> 'source' FROM quittance.records
                    WHERE kind = 'unfinishedCopy'
                    """)
                return source.isEmpty ? nil : source
            }
        }
    }

    /// A folder with a ledger, and the roots of its App Store.
    private struct Source {
        let folder: TemporaryFolder
        let roots: [String]

        init() async throws {
            folder = try TemporaryFolder()
            let store = try TestStore()
            roots = try store.writeRoots(to: folder.url).flatMap { ["--root", $0] }
            let storage = try SQLiteLedgerStorage(path: path("ledger.sqlite"))
            try await FilledLedger.fill(storage, of: store, days: 20)
            try storage.close()
        }

        func path(_ name: String) -> String { folder.path(name) }

        func copy(to target: String) -> [String] {
            ["copy", "--database", "sqlite:\(path("ledger.sqlite"))", "--to", target] + roots
        }
    }

    /// Each command that opens a ledger, with half a copy.
    private static func refusals(_ source: Source, _ target: Place) -> [[String]] {
        let app = ["--bundle-id", "com.example"]
        let ledger = ["--database", target.address]
        let all = [
            ["serve", "--port", "0"] + app, ["check"], ["rebuild"], ["keys", "list"],
            ["keys", "create", "--name", "a", "--role", "server"] + app, ["jobs", "list"], ["restore", "--new-epoch"],
            ["copy", "--to", "sqlite:\(source.path("copy of half"))"],
        ]
        let ofFiles = [
            ["backup", source.path("backup"), "--database", target.address],
            [
                "restore", target.address.replacing("sqlite:", with: ""), "--database",
                "sqlite:\(source.path("restored"))",
            ],
        ]
        if case .file = target { return all.map { $0 + ledger } + ofFiles }
        return all.map { $0 + ledger }
    }

    private static func run(_ arguments: [String]) async throws -> CommandLineTests.Outcome {
        try await aside { try CommandLineTests.run(arguments) }
    }

    /// Kills copies at random moments of the time that a whole one takes, each into a new ledger; goes on with each
    /// half that is left.
    private static func killAndContinue(_ make: (Source, Int) throws -> Place) async throws {
        let source = try await Source()
        let content = try await CopyCommandTests.content(source.path("ledger.sqlite"))
        let whole = try make(source, 0)
        let start = ContinuousClock.now
        #expect(try await run(source.copy(to: whole.address)).status == 0)
        let duration = start.duration(to: .now)
        var halves = 0
        var kills = 0
        var random = SeededRandom(seed: Seeds.first(1)[0])
        for attempt in 1...maximumAttempts where halves < rounds {
            let target = try make(source, attempt)
            let copy = try TestProcess([CommandLineTests.program.path] + source.copy(to: target.address))
            try await Task.sleep(for: duration * Int(random.next() % 100) / 100)
            copy.send(SIGKILL)
            copy.wait()
            kills += 1
            let half = try await target.halfOf()
            if let half {
                halves += 1
                try await expectRefusals(source, target, halfOf: half)
            }
            guard half != nil || attempt <= rounds else { continue }
            try await expectCompletion(of: target, from: source, content)
        }
        print("\(kills) kills have left \(halves) half copies")
        #expect(halves == rounds)
    }

    /// Runs the copy once more, and compares what it makes, copied back into a file, with the source's content.
    private static func expectCompletion(of target: Place, from source: Source, _ content: LedgerContent) async throws {
        let outcome = try await run(source.copy(to: target.address))
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try await target.halfOf() == nil)
        var path = source.path("back \(UUID().uuidString)")
        if case .file(let own) = target {
            path = own
        } else {
            let back = ["copy", "--database", target.address, "--to", "sqlite:\(path)"] + source.roots
            #expect(try await run(back).status == 0)
        }
        #expect(try await CopyCommandTests.content(path) == content)
    }

    private static func expectRefusals(_ source: Source, _ target: Place, halfOf place: String) async throws {
        #expect(place == "sqlite:\(URL(fileURLWithPath: source.path("ledger.sqlite")).standardizedFileURL.path)")
        for command in refusals(source, target) {
            let outcome = try await run(command)
            #expect(outcome.status == 1 && outcome.output.isEmpty, "\(command[0]): \(outcome.output)")
            #expect(outcome.error.contains("This is half a copy of \(place)"), "\(command[0]): \(outcome.error)")
        }
    }

    @Test(.takesLong) func `half a file is refused by every command, and completed by the next copy`() async throws {
        try await Self.killAndContinue { source, round in .file(source.path("target\(round).sqlite")) }
    }

    @Test(.takesLong, .enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `half a database is refused by every command, and completed by the next copy`() async throws {
        try await Self.killAndContinue { _, _ in .database(try TestPostgres.database()) }
    }
}
