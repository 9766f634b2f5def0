// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import PurchaseLedger
import Synchronization
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests what the database logs if two servers decide about the same records.
@Suite(.needsPostgres) struct ConflictTests {
    /// A decision, and the change that another server makes after the records of the decision were loaded.
    private struct Race: Sendable {
        var change: String
        var query: LedgerQuery
        var decide: @Sendable (LedgerSnapshot, inout LedgerChanges) -> Void

        init(
            _ change: String, _ query: LedgerQuery,
            _ decide: @escaping @Sendable (LedgerSnapshot, inout LedgerChanges) -> Void
        ) {
            (self.change, self.query, self.decide) = (change, query, decide)
        }
    }

    private static let ids = ["anna", "berta"].map { CustomerID($0, of: TroubleTests.scope.bundleId) }

    /// All that a decision changes must be in its query. Otherwise it is loaded again before the commit.
    private static func query(_ chains: [Int], _ ids: [CustomerID] = []) -> LedgerQuery {
        LedgerQuery(chains.map { .chain(TroubleTests.key($0)) } + ids.map(LedgerKey.customerID))
    }

    private static func putChains(_ snapshot: LedgerSnapshot, _ changes: inout LedgerChanges) {
        changes.chains = snapshot.query.keys.chains.map { snapshot.chains[$0] ?? ChainRecord($0) }
    }

    /// Changes a chain that others do not change.
    private static func putOther(_: LedgerSnapshot, _ changes: inout LedgerChanges) {
        changes.chains = [ChainRecord(TroubleTests.key(other))]
    }

    private static let other = 99

    /// Each check that a commit on one PostgreSQL has, with one row and with many.
    private static var races: [Race] {
        let evidence = Evidence(.receipt, Array("kept".utf8), TroubleTests.scope, nil) { _ in ([], []) }
        let addChain = "UPDATE quittance.chains SET version = version + 1 WHERE home LIKE '%000'"
        let addCustomer = "UPDATE quittance.customers SET version = version + 1 WHERE home = 'anna'"
        var kept = query([0])
        kept.keys.insert(.document(evidence.provenance))
        return [
            Race(addChain, query([0]), putChains),
            Race(addChain, query(Array(0..<9)), putChains),
            Race(addChain, query([0, other]), putOther),
            Race(addCustomer, query([], ids)) { snapshot, changes in
                changes.customers = Array(snapshot.customers.values)
                changes.customers[0].isEstablished.toggle()
            },
            Race(addCustomer, query([other], [ids[0]]), putOther),
            Race(addCustomer, query([other], ids), putOther),
            Race(addCustomer, query([], ids)) { $1.erasedCustomers = Set($0.customers.keys) },
            Race("DELETE FROM quittance.documents", kept) {
                $1.documents = [
                    NewDocument(evidence, for: [TroubleTests.key(0)], receivedAt: Timestamp(milliseconds: 1))
                ]
            },
        ]
    }

    /// - Parameter change: What happens after the records were loaded for the first time.
    private static func run(
        _ race: Race, through storage: PostgresLedgerStorage, _ change: @escaping @Sendable () throws -> Void = {}
    ) async throws {
        let isFirst = Atomic(true)
        try await storage.commit(race.query) { snapshot in
            if isFirst.exchange(false, ordering: .relaxed) { try change() }
            var changes = LedgerChanges()
            race.decide(snapshot, &changes)
            return .commit(changes, ())
        }
    }

    /// A server with a ledger that has the records of the races.
    ///
    /// - Parameter setting: A setting of the database.
    private static func ledger(_ setting: String) async throws -> (TestDatabase, PostgresLedgerStorage) {
        let database = try TestPostgres().database()
        try database.psql("ALTER DATABASE \(database.name) SET \(setting)")
        let storage = try await database.storage { $0.connections = 1 }
        for number in 0..<9 { try await TroubleTests.add(number, to: number, through: storage) }
        try await storage.commit(query([], [ids[0]])) { snapshot in
            var changes = LedgerChanges()
            let customer = Customer(number: snapshot.newNumbers[ids[0]] ?? 0, bundleId: ids[0].bundleId)
            changes.customers = [CustomerRecord(customer, ids: ids.map(\.id))]
            return .commit(changes, ())
        }
        return (database, storage)
    }

    private static func errors(_ database: TestDatabase) throws -> [Substring] {
        try String(contentsOfFile: database.server.folder + "/data/log", encoding: .utf8).split(separator: "\n")
            .compactMap { line in line.firstRange(of: "ERROR:").map { line[$0.lowerBound...] } }
    }

    @Test(.takesLong, arguments: ["force_custom_plan", "force_generic_plan"])
    func `each lost race is logged once as a conflict, and nothing else is`(plans: String) async throws {
        let (database, storage) = try await Self.ledger("plan_cache_mode = \(plans)")
        // The last two leave no customer and another document.
        for race in Self.races.dropLast(2) { for _ in 0..<7 { try await Self.run(race, through: storage) } }
        #expect(try Self.errors(database) == [])
        for (number, race) in Self.races.enumerated() {
            if number == Self.races.count - 1 { try await Self.run(race, through: storage) }
            try await Self.run(race, through: storage) { try database.psql(race.change) }
            let errors = try Self.errors(database)
            #expect(errors.count == number + 1, "Race \(number): \(race.change)")
            #expect(errors.allSatisfy { $0.hasPrefix("ERROR:  another server of the ledger was faster;") })
        }
    }

    // MARK: - The page

    /// The blocks of the section about several servers: what is logged, what shortens it, and what hides it.
    private static func blocks() throws -> [String] {
        let text = try Project.text("docs/postgresql.md")
        let section = try #require(text.split(separator: "\n## ").first { $0.hasPrefix("Several servers") })
        return section.matches(of: /```\w+\n((?s:.*?))\n```/).map { String($0.1) }
    }

    @Test func `the log has the lines of the page, and the settings of the page shorten and hide them`() async throws {
        let (database, storage) = try await Self.ledger("synchronous_commit = on")
        storage.close()
        try database.psql("CREATE ROLE ledger SUPERUSER LOGIN")
        let blocks = try Self.blocks()
        try #require(blocks.count == 3)
        let lines = blocks[0].split(separator: "\n")

        let usual = try await Self.logOfConflicts(in: database, about: 1001)
        for line in lines { #expect(usual.contains { $0.contains(line) }, "\(usual)") }
        for part in ["STATEMENT:", "DETAIL:"] { #expect(usual.contains { $0.contains(part) }) }
        try database.psql(blocks[1])
        let short = try await Self.logOfConflicts(in: database, about: 1002)
        #expect(short.count == 2 && zip(short, lines).allSatisfy { $0.contains($1) }, "\(short)")
        try database.psql(blocks[2])
        #expect(try await Self.logOfConflicts(in: database, about: 1003) == [])
    }

    /// What is logged of a server that loses a race, and then finds a chain that was not there.
    private static func logOfConflicts(in database: TestDatabase, about number: Int) async throws -> [String] {
        let (path, server) = (database.server.folder + "/data/log", database.server)
        let before = try String(contentsOfFile: path, encoding: .utf8)
        var settings = PostgresSettings("host=\(server.folder) user=ledger dbname=\(database.name)")
        settings.connections = 1
        let storage = try await PostgresLedgerStorage(
            settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
        defer { storage.close() }
        let addChain = """
            INSERT INTO quittance.chains (home, scope, version, state)
            SELECT '\(TroubleTests.key(number).name)', scope, version, state FROM quittance.chains LIMIT 1
            """
        for race in [races[0], Race(addChain, query([number, other]), putOther)] {
            try await run(race, through: storage) { try database.psql(race.change) }
        }
        let log = try String(contentsOfFile: path, encoding: .utf8).dropFirst(before.count)
        // The server itself goes on to log its checkpoints.
        return log.split(separator: "\n").map(String.init).filter { !$0.contains("LOG:") }
    }
}
