// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import GRDB
import LedgerSQLite
import NIOHTTP1
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests what a killed server leaves: a lease, and a log in which a flipped bit is noticed by all that could notice it.
@Suite struct DamagedLogCommandTests {
    @Test(.takesLong)
    func `the start of a server ends the lease of a killed one's webhook, and no command beside does`() async throws {
        let folder = try TemporaryFolder()
        let storage = { try SQLiteLedgerStorage(path: folder.path("ledger.sqlite")) }
        let arguments = ["--database", "sqlite:\(folder.path("ledger.sqlite"))"]
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        // A lease that this test cannot outlast.
        let end = now.advanced(by: .seconds(86_400))
        let id = Job.ID(.webhook, "hook", in: LedgerScope(bundleId: "com.example", environment: .production))
        func job() async throws -> Job {
            let storage = try storage()
            defer { try? storage.close() }
            return try #require(try await Ledger(storage: storage).job(id))
        }
        let first = try storage()
        let endpoint = WebhookEndpoint(
            id: "hook", of: "com.example", url: "https://example.com/", createdAt: now)
        _ = try await Ledger(storage: first).addWebhook(endpoint, fingerprint: "x", at: now)
        _ = try await Ledger(storage: first).leaseWebhook("hook", of: "com.example", until: end, at: now)
        try first.close()
        let app = ["--bundle-id", "com.example"]
        for command in [["webhooks", "list"] + app, ["keys", "create", "--name", "a", "--role", "server"] + app] {
            #expect(try CommandLineTests.run(command + arguments).status == 0, "\(command)")
        }
        #expect(try await job().dueAt == end)
        let server = try await ServerProcess(arguments + app, in: folder.url)
        server.kill()
        let left = try await job()
        #expect(left.dueAt < end && left.attempts == 1)
    }

    @Test(.takesLong)
    func `after a damaged log check and rebuild exit 1 and ready has a concern, until the operator has seen it`()
        async throws
    {
        let folder = try TemporaryFolder()
        let (store, bundleId) = (try TestStore(), "com.example.notes")
        var world = World(
            selling: [.subscription("com.example.notes.pro", Period(1, .month))],
            in: AppIdentity(bundleId: bundleId, appAppleId: 1),
            at: Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) - 3_600_000))
        let ledger = folder.path("ledger.sqlite")
        var arguments = ["--database", "sqlite:\(ledger)"]
        arguments += try store.writeRoots(to: folder.url).flatMap { ["--root", $0] }
        let server = try await ServerProcess(arguments + ["--bundle-id", bundleId], in: folder.url)
        // A reader that keeps the log from being brought into the file.
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: ledger, configuration: configuration)
        try reader.inDatabase { try $0.execute(sql: "BEGIN; SELECT count(*) FROM sqlite_schema") }
        for _ in 0..<30 {
            let purchase = try world.sell("com.example.notes.pro")
            let body = #"{"signedPayload":"\#(try store.signer.notification(purchase, from: world.catalogue))"}"#
            #expect(try await server.send(.POST, "/notifications/v2", body).status == 200)
        }
        server.kill()
        let log = try Data(contentsOf: URL(fileURLWithPath: ledger + "-wal"))
        try reader.inDatabase { try $0.execute(sql: "COMMIT") }
        try reader.close()
        #expect(try CommandLineTests.run(["check"] + arguments).status == 0)

        var damaged = log
        damaged[(log.count - 32) / 4120 / 2 * 4120 + 32 + 2000] ^= 4
        try damaged.write(to: URL(fileURLWithPath: ledger + "-wal"))
        let file = try Data(contentsOf: URL(fileURLWithPath: ledger))
        var head = log
        head[9] ^= 4
        let database = Array(arguments[..<2])
        let commands = [
            ["check"], ["rebuild"], ["keys", "list"], ["jobs"], ["products", "--bundle-id", bundleId],
            ["customer", "show", "anna", "--bundle-id", bundleId], ["webhooks", "list", "--bundle-id", bundleId],
            ["grants", "list", "anna", "--bundle-id", bundleId], ["backup", folder.path("copy")],
            ["restore", "--new-epoch"], ["keys", "create", "--name", "a", "--role", "server", "--bundle-id", bundleId],
        ]
        // The command that comes first after the damage says it, and the log stays as it is, or a copy of it does.
        for (log, name) in [(head, "head"), (damaged, "middle")] {
            for command in commands {
                for ending in ["-shm", "-wal-damaged-1"] { unlink(ledger + ending) }
                try file.write(to: URL(fileURLWithPath: ledger))
                try log.write(to: URL(fileURLWithPath: ledger + "-wal"))
                let found = try CommandLineTests.run(command + database)
                #expect(found.error.contains("damaged"), "\(name), \(command): \(found.error)")
                let copy = ledger + "-wal-damaged-1"
                let kept = FileManager.default.fileExists(atPath: copy) ? copy : ledger + "-wal"
                #expect(try Data(contentsOf: URL(fileURLWithPath: kept)) == log, "\(name), \(command)")
            }
        }
        for ending in ["-shm", "-wal-damaged-1"] { unlink(ledger + ending) }
        try file.write(to: URL(fileURLWithPath: ledger))
        try damaged.write(to: URL(fileURLWithPath: ledger + "-wal"))
        for command in ["check", "rebuild"] {
            let found = try CommandLineTests.run([command] + arguments)
            #expect(found.status == 1 && found.error.contains("damaged"), "\(command): \(found.error)")
        }
        for _ in 0..<2 {
            let server = try await ServerProcess(arguments + ["--bundle-id", bundleId], in: folder.url)
            let ready = try await server.send(.GET, "/health/ready")
            #expect(ready.status == 200)
            #expect(ready.json["concern"]?.string?.contains("-wal-damaged-1 away") == true)
            #expect(server.terminate() == 0)
            #expect(try CommandLineTests.run(["check"] + arguments).status == 1)
        }
        #expect(try Data(contentsOf: URL(fileURLWithPath: ledger + "-wal-damaged-1")) == damaged)
        try FileManager.default.removeItem(atPath: ledger + "-wal-damaged-1")
        for command in ["check", "rebuild"] {
            let found = try CommandLineTests.run([command] + arguments)
            #expect(found.status == 0, "\(command): \(found.error)")
        }
    }
}
