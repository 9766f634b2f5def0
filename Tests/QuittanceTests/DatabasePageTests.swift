// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import NIOHTTP1
import TestData
import TestPostgres
import TestProcess
import TestWorld
import Testing

/// Runs the commands of docs/postgresql.md and docs/postgresql-operations.md on fresh clusters, in their order, with a
/// server, customers and a follower of events.
@Suite(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"), .timeLimit(.minutes(60)))
struct DatabasePageTests {
    /// The blocks of commands of a page by their headings.
    private struct Page {
        private(set) var blocks: [(heading: String, language: String, text: String)] = []

        init(_ name: String) throws {
            let text = try Project.text("docs/\(name).md")
            var heading = ""
            for match in text.matches(of: /(?:^|\n)(?:#+ ([^\n]+)|```(\w+)\n((?s:.*?)\n)```)(?=\n)/) {
                if let found = match.1 { heading = String(found) }
                if let language = match.2, let block = match.3 {
                    blocks.append((heading, String(language), String(block)))
                }
            }
        }

        func texts(_ language: String, below heading: String) -> [String] {
            blocks.filter { $0.language == language && $0.heading == heading }.map(\.text)
        }
    }

    /// The machines, an App Store, and what is left of the pages.
    private final class Operator {
        static let bundleId = "com.example.notes"
        let machines: TestMachines
        private let folder: TemporaryFolder
        private let page: Page
        private let operations: Page
        private let store: TestStore
        private let world: World
        private var sent = 0
        private var run: Set<String> = []

        init() throws {
            (page, operations) = (try Page("postgresql"), try Page("postgresql-operations"))
            machines = try TestMachines(program: CommandLineTests.program.path)
            folder = try TemporaryFolder()
            store = try TestStore()
            let book = StoreProduct(id: "book", type: .nonConsumable, price: StorePrice(milliunits: 2990))
            let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) - 3_600_000)
            var world = World(selling: [book], in: AppIdentity(bundleId: Self.bundleId, appAppleId: 1), at: now)
            for _ in 0..<40 { _ = try world.sell("book") }
            self.world = world
        }

        /// Runs the commands below a heading.
        ///
        /// - Returns: What they print.
        @discardableResult func run(_ heading: String, at instant: String = "") async throws -> String {
            let blocks = page.texts("sh", below: heading) + operations.texts("sh", below: heading)
            #expect(!blocks.isEmpty, "\(heading)")
            run.formUnion(blocks)
            return try await aside { [machines] in
                try blocks.map { try machines.run($0, ["2026-11-25 10:15:00+00": instant]) }.joined()
            }
        }

        /// The commands that did not run.
        var left: [String] {
            (page.blocks + operations.blocks).filter { $0.language == "sh" }.map(\.text).filter { !run.contains($0) }
        }

        /// Runs the queries for people.
        ///
        /// - Returns: The lines of all rows.
        func lookIntoIt() throws -> [String] {
            try page.texts("sql", below: "Look into it").flatMap { queries in
                try machines.psql(queries, on: "a", database: "ledger").split(separator: "\n").map(String.init)
            }
        }

        /// Writes the configuration of the server.
        func configure() throws {
            let roots = try store.writeRoots(to: folder.url).map { "\"\($0)\"" }
            let text = """
                {"apps": [{"bundleId": "\(Self.bundleId)", "products": {"book": {"entitlements": ["reading"]}}}],
                 "roots": [\(roots.joined(separator: ", "))],
                 "erasureJournal": "\(folder.path("erasures"))"}
                """
            let path = machines.substituted("/etc/quittance/quittance.json", on: "app")
            try Data(text.utf8).write(to: URL(filePath: path))
        }

        /// Starts the server as the page's unit says.
        func serve() async throws -> ServerProcess {
            let unit = try #require(page.texts("ini", below: "The service").first)
            let lines = machines.substituted(unit, on: "app").split(separator: "\n")
            func value(_ name: String) throws -> Substring {
                try #require(lines.first { $0.hasPrefix("\(name)=") }).dropFirst(name.count + 1)
            }
            let arguments = try value("ExecStart").split(separator: " ").map(String.init)
            #expect(arguments.prefix(2) == ["/usr/local/bin/quittance", "serve"])
            let variables = try String(contentsOfFile: String(try value("EnvironmentFile")), encoding: .utf8)
            let environment = variables.split(separator: "\n").map { line in
                let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
                return (parts[0], parts[1].trimmingCharacters(in: ["\""]))
            }
            return try await ServerProcess(
                Array(arguments.dropFirst(2)), in: folder.url,
                environment: Dictionary(uniqueKeysWithValues: environment))
        }

        /// Sells books, some of them to customers, and reports them. While a database takes over, the App Store sends
        /// again.
        func sell(_ count: Int, to customers: [String] = [], on server: ServerProcess, _ key: String) async throws {
            for place in 0..<count {
                let occurrence = world.occurrences[sent]
                sent += 1
                let token = try store.signer.notification(occurrence, from: world.catalogue)
                let notification = #"{"signedPayload":"\#(token)"}"#
                while try await server.send(.POST, "/notifications/v2", notification).status != 200 {
                    try await Task.sleep(for: .milliseconds(50))
                }
                guard place < customers.count else { continue }
                let transaction = try #require(occurrence.transaction)
                let body = #"{"document":"\#(try store.signer.sign(transaction, at: world.now))"}"#
                let path = "/v1/customers/\(customers[place])/purchases"
                #expect(try await server.send(.POST, path, body, key: key).status == 200)
            }
        }
    }

    private static func purchases(_ id: String, _ server: ServerProcess, _ key: String) async throws -> Int {
        let answer = try await server.send(.GET, "/v1/customers/\(id)", key: key)
        return answer.json["purchases"]?.array?.count ?? 0
    }

    /// An id that is nowhere else on the machine.
    private static let unusual = "zoe-8c1f57"

    @Test(.takesLong)
    func `each command of the pages works, and followers and customers hear what the pages say`() async throws {
        let site = try Operator()
        for heading in ["Make it", "Certificates", "Network, role and database", "The service"] {
            try await site.run(heading)
        }
        try site.configure()
        let first = try await site.serve()
        // The key is in a line of its own.
        let printed = try await site.run("An API key")
        let key = try #require(printed.split(separator: "\n").map(String.init).first { $0.hasPrefix("qt_") })
        try await site.sell(6, to: ["anna", "bert"], on: first, key)

        // The page asks about anna, who has bought one book. Reading the events numbers them.
        let heard = try await first.follow(key).cursors.count
        let rows = try site.lookIntoIt()
        let answer = try await first.send(.GET, "/v1/customers/anna", key: key).json["purchases"]?.array?.first
        let id = try #require(answer?["originalTransactionId"]?.string)
        #expect(rows.prefix(3) == ["book|", "active|book||", id])
        #expect(rows.count == 3 + heard && rows.contains("purchase.linked|anna|book|active"), "\(rows)")

        // A restore to an instant between two events.
        try await site.run("Archive the WAL, and make a base backup")
        try await site.sell(4, on: first, key)
        let shared = try #require(try await first.follow(key).cursors.last)
        let instant = try site.machines.psql("SELECT clock_timestamp()", on: "a")
        #expect(try await first.send(.DELETE, "/v1/customers/anna", key: key).status == 200)
        try await site.sell(5, to: ["cora"], on: first, key)
        let lost = try #require(try await first.follow(key).cursors.last)
        #expect(first.terminate() == 0)
        let report = try await site.run("Restore to an instant", at: instant)
        #expect(report.contains("1 deleted customer erased again."), "\(report)")
        let second = try await site.serve()
        for (id, count) in [("anna", 0), ("bert", 1), ("cora", 0)] {
            #expect(try await Self.purchases(id, second, key) == count, "\(id)")
        }
        for _ in 0..<2 {
            let found = try await second.follow(key, after: lost)
            #expect(found.error == "cursorExpired" && found.oldest == shared)
            try await site.sell(6, on: second, key)
        }
        let all = try await second.follow(key).cursors
        let place = try #require(all.firstIndex(of: shared))
        #expect(try await second.follow(key, after: shared).cursors == Array(all[(place + 1)...]))

        // A failover to the standby loses nothing, and the server finds it.
        try await site.run("A standby")
        let synchronous = "SELECT application_name || ' ' || sync_state FROM pg_stat_replication"
        while try site.machines.psql(synchronous, on: "a") != "b sync" { try await Task.sleep(for: .milliseconds(100)) }
        try await site.sell(3, to: ["dora"], on: second, key)
        let before = try await second.follow(key).cursors
        try await site.run("Failover")
        try await site.sell(3, on: second, key)
        let after = try await second.follow(key).cursors
        #expect(Array(after.prefix(before.count)) == before && after.count > before.count)
        #expect(try await second.follow(key, after: before.last).cursors == Array(after[before.count...]))
        #expect(try site.machines.psql(synchronous, on: "b") == "a sync")

        // A dump, which makes another database.
        #expect(second.terminate() == 0)
        try await site.run("A dump")
        let third = try await site.serve()
        // The new database begins with ledger.restored.
        #expect(try await third.follow(key).cursors.prefix(after.count) == after[...])
        try await site.sell(2, to: [Self.unusual], on: third, key)
        let new = try await third.follow(key).cursors.dropFirst(after.count)
        #expect(try await third.follow(key, after: after.last).cursors == Array(new) && new.count > 1)
        #expect(try await Self.purchases("dora", third, key) == 1)

        // An erased customer is in no file of the database after the commands of the page.
        #expect(try await third.send(.DELETE, "/v1/customers/\(Self.unusual)", key: key).status == 200)
        #expect(third.terminate() == 0)
        let search = """
            # b.example, as postgres
            psql --quiet --command CHECKPOINT postgres
            grep -rlaF \(Self.unusual) "$PGDATA/base" | wc -l
            """
        #expect(try site.machines.run(search) != "0\n")
        // After 30 days a server erases the ids that the event of the deletion shows.
        let ids = "DELETE FROM quittance.records WHERE kind = 'deletedCustomer'"
        #expect(try site.machines.psql(ids, on: "b", database: "ledger").isEmpty)
        try await site.run("What an erasure leaves")
        #expect(try site.machines.run(search) == "0\n")
        #expect(site.left == [])
    }
}
