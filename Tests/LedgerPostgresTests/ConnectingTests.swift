// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import LedgerPostgres

/// Tests how a server finds its database among several hosts, and whether its clock is right.
@Suite(.needsPostgres) struct ConnectingTests {
    private static func storage(_ address: String, connections: Int = 8) async throws -> PostgresLedgerStorage {
        var settings = PostgresSettings(address)
        settings.connections = connections
        return try await PostgresLedgerStorage(
            settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
    }

    @Test(.takesLong)
    func `a host that takes connections and never answers is passed over at the deadline`() async throws {
        let (silent, database) = (try SilentServer(), try TestPostgres.database())
        let parameters = "&connect_timeout=1&load_balance_hosts=disable"
        let hosts = [silent.folder, "/nowhere", database.server.folder]
        let storage = try await Self.storage(TestPostgres.uri(database.name, at: hosts, parameters))
        try await storage.proveWritable()
        // By default longer than a request may wait for a connection.
        let patient = TestPostgres.uri(database.name, at: hosts, "&load_balance_hosts=disable")
        try await Self.storage(patient).proveWritable()
        await #expect {
            _ = try await Self.storage(TestPostgres.uri(database.name, at: [silent.folder], parameters))
        } throws: { error in
            "\(error)".contains("did not accept a connection in time")
        }
    }

    @Test func `servers begin at different hosts, unless the address says otherwise`() throws {
        let address = "postgresql://a,b:5433,c/l?hostaddr=127.0.0.1,127.0.0.2,127.0.0.3&user=u"
        func orders(_ address: String) throws -> Set<[String]> {
            var random = SeededRandom(seed: 1)
            return Set(
                try (0..<60).map { _ in
                    try PostgresSettings(address).hosts(using: &random).map { host in
                        host.options.map { "\($0.name)=\($0.value)" }.joined(separator: " ")
                    }
                })
        }
        let inOrder = [
            "port=5432 host=a hostaddr=127.0.0.1", "port=5433 host=b hostaddr=127.0.0.2",
            "port=5432 host=c hostaddr=127.0.0.3",
        ]
        #expect(try orders(address).count == 6)
        #expect(try orders(address + "&load_balance_hosts=random").count == 6)
        #expect(try orders(address + "&load_balance_hosts=disable") == [inOrder])
        #expect(try orders("postgresql://a/l") == [[""]])
    }

    @Test(.takesLong) func `a database that is not on this machine must prove who it is`() async throws {
        let (server, other) = (try TestPostgres(as: "database.test"), try TestPostgres(as: "database.test"))
        let database = try server.database()
        func address(_ host: String, _ root: TestPostgres, _ parameters: String = "") -> String {
            "postgresql:///\(database.name)?user=postgres&host=\(host)&hostaddr=\(server.secureAddress)"
                + "&sslrootcert=\(root.folder)/root.crt" + parameters
        }
        let right = address("database.test", server)
        try await Self.storage(right).proveWritable()
        // Answers of many records.
        let connection = try PostgresConnection(
            PostgresSettings(right).options(), usesNames: true, clock: ContinuousClock())
        let large = [UInt8](repeating: 7, count: 1 << 20)
        let statements = [
            PostgresStatement("SELECT $1::bytea", [.bytes(large)]),
            PostgresStatement("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"),
        ]
        let requests = Array(repeating: PostgresRequest.transaction(statements), count: 20)
        for result in connection.run(requests, deadline: ContinuousClock.now.advanced(by: .seconds(300))) {
            #expect(try result.get().map(\.rows) == [[[.bytes(large)]], [[.text("true")]]])
        }
        let wrong = [
            (address("database.test", other), "certificate verify failed"),
            (address("elsewhere.test", server), "does not match host name \"elsewhere.test\""),
            (address("database.test", server, "&sslmode=require"), "sslmode must be verify-full"),
        ]
        for (address, reason) in wrong {
            await #expect {
                _ = try await Self.storage(address)
            } throws: { error in
                "\(error)".contains(reason)
            }
        }
    }

    /// libpq's own advice is to switch the verification off.
    @Test func `a certificate that is missing or wrong is explained by what is needed`() async throws {
        let server = try TestPostgres(as: "database.test")
        let database = try server.database()
        for (host, file) in [("database.test", "/nowhere/root.crt"), ("elsewhere.test", "\(server.folder)/root.crt")] {
            let address =
                "postgresql:///\(database.name)?user=postgres&host=\(host)"
                + "&hostaddr=\(server.secureAddress)&sslrootcert=\(file)"
            await #expect {
                _ = try await Self.storage(address)
            } throws: { error in
                let message = "\(error)"
                return message.contains("a certificate for the name \(host),")
                    && message.contains("must be in \(file) ") && !message.contains("sslmode")
                    && !message.contains("disable")
            }
            #expect(await !PostgresSettings(address).isAway(clock: ContinuousClock()))
        }
    }

    @Test func `a session that takes no writes is passed over for the host that does`() async throws {
        let (reading, database) = (try TestPostgres(), try TestPostgres.database())
        try reading.psql("postgres", "CREATE DATABASE \(database.name)")
        try reading.psql("postgres", "ALTER SYSTEM SET default_transaction_read_only = on")
        try reading.psql("postgres", "SELECT pg_reload_conf()")
        let hosts = [reading.folder, database.server.folder]
        for order in ["disable", "random"] {
            let parameters = "&target_session_attrs=read-write&load_balance_hosts=\(order)"
            try await Self.storage(TestPostgres.uri(database.name, at: hosts, parameters)).proveWritable()
        }
    }

    @Test(arguments: [-3_600_000, -2000, 0, 2000, 3_600_000] as [Int64])
    func `the difference between two clocks is measured`(milliseconds: Int64) async throws {
        let storage = try await TestPostgres.database().storage()
        let (clock, start) = (ContinuousClock(), ContinuousClock.now)
        let difference = try await storage.clockDifference(now: {
            Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) + milliseconds)
        })
        let found = try #require(difference)
        // As exact as the round trip is short.
        let error = found - .milliseconds(milliseconds)
        #expect(max(error, .zero - error) <= (clock.now - start) + .milliseconds(2))
    }

    @Test func `with clocks two seconds apart a chain's events do not go back in time`() async throws {
        let (database, store) = (try TestPostgres.database(), try TestStore())
        let verifier = store.verifier()
        let servers = [try await database.storage(), try await database.storage()].map { Ledger(storage: $0) }
        let app = AppIdentity(bundleId: "com.example", appAppleId: 1)
        var world = World(selling: [.subscription("month", Period(1, .month))], in: app, at: TestStore.start)
        let sale = try world.sell("month")
        let id = try #require(sale.transaction?.originalTransactionId)
        for round in 0..<8 {
            // The servers take turns, and the slow one is the second.
            let now = Timestamp(milliseconds: world.now.milliseconds - (round % 2 == 0 ? 0 : 2000))
            let notification = try store.signer.notification(
                try #require(world.occurrences.last), from: world.catalogue)
            let document = try await verifier.evidence(notification: notification, at: world.now)
            _ = try await servers[round % 2].record([document], at: now)
            _ = try await servers[round % 2].publishDueChanges(at: now)
            if round % 2 == 0 { try world.cancel(id) } else { try world.resume(id) }
        }
        let page = try await servers[0].events(of: app.bundleId, limit: 100)
        let times = page.events.filter { $0.originalTransactionId == id }.map(\.recordedAt)
        #expect(times.count >= 8)
        #expect(times == times.sorted())
    }
}
