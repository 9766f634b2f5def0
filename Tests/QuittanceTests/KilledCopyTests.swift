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
    /// Copies for them, also those that end before the kill: a copy is half for at least a tenth of its time, so that
    /// one in 10^9 runs finds too few.
    private static let maximumAttempts = rounds * 120

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

        /// Where half a copy comes from; `nil` if there is none. Ends what a killed client has left running.
        func halfOf() async throws -> String? {
            switch self {
            case .file(let path):
                let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
                guard size ?? 0 > 0 else { return nil }
                let storage = try SQLiteLedgerStorage(path: path, continuesCopy: true)
                defer { try? storage.close() }
                return try await storage.unfinishedCopy()?.source
            case .database(let database):
                // PostgreSQL still does what a killed client has sent, which may be the end of the copy.
                let ended = try database.psql(
                    """
                    SELECT coalesce(bool_and(pg_terminate_backend(pid, 60000)), true) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()
                    """)
                #expect(ended == "t")
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
            // It would end at once if it did not refuse the ledger: the address is nobody's (RFC 5737).
            ["serve", "--hostname", "192.0.2.1", "--port", "0"] + app, ["check"], ["rebuild"], ["keys", "list"],
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

    /// Kills copies at random moments, each into a new ledger; goes on with each half that is left. How long a copy
    /// takes depends on what else the machine does: a copy that ended before makes the moments earlier, and a kill
    /// that leaves no half makes them later.
    private static func killAndContinue(_ make: (Source, Int) throws -> Place) async throws {
        let source = try await Source()
        let content = try await CopyCommandTests.content(source.path("ledger.sqlite"))
        let whole = try make(source, 0)
        let clock = ContinuousClock()
        let begin = clock.now
        #expect(try await run(source.copy(to: whole.address)).status == 0)
        var duration = clock.now - begin
        var halves = 0
        var kills = 0
        var random = SeededRandom(seed: Seeds.first(1)[0])
        for attempt in 1...maximumAttempts where halves < rounds {
            let target = try make(source, attempt)
            let start = clock.now
            let copy = try TestProcess([CommandLineTests.program.path] + source.copy(to: target.address))
            let moment = start + duration * Int(random.next() % 100) / 100
            while copy.isRunning, clock.now < moment { try await Task.sleep(for: .milliseconds(1)) }
            let end = clock.now
            copy.send(SIGKILL)
            let status = copy.wait()
            #expect([0, SIGKILL].contains(status))
            if status == SIGKILL { kills += 1 }
            let half = try await target.halfOf()
            #expect(half == nil || status == SIGKILL)
            if let half {
                halves += 1
                try await expectRefusals(source, target, halfOf: half)
            } else {
                duration = status == SIGKILL ? duration * 5 / 4 : end - start
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
