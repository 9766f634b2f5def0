// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Foundation
import TestData
import TestPostgres
import TestProcess
import Testing

/// Tests that of three servers on one database nothing that was answered 200 is lost, no change is published twice, and
/// no reader misses one, whatever fails meanwhile. `make trust` runs ten longer ones of each.
@Suite(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"), .serialized, .timeLimit(.minutes(60)))
struct ThreeServersTests {
    private static let seeds = Seeds.first(1, soak: 10)

    /// How often something goes wrong.
    private static func times(_ count: Int) -> Int { Seeds.isSoak ? 5 * count : count }

    private static func uri(_ database: TestDatabase, _ parameters: String = "") -> String {
        TestPostgres.uri(database.name, at: [database.server.folder], parameters)
    }

    @Test(.takesLong, arguments: seeds)
    func `any server is killed at any moment, and started again`(seed: UInt64) async throws {
        let database = try TestPostgres.database()
        try await ThreeServers.run(on: Self.uri(database), { database }, seed: seed) { trial in
            var random = SeededRandom(seed: seed)
            for _ in 0..<Self.times(3) {
                let number = Int.random(in: 0..<3, using: &random)
                try await trial.progress(by: Int.random(in: 0..<30, using: &random))
                trial.kill(number)
                try await trial.progress(by: Int.random(in: 0..<10, using: &random))
                try await trial.start(number)
            }
        }
    }

    @Test(.takesLong, arguments: seeds) func `PostgreSQL itself crashes and starts again`(seed: UInt64) async throws {
        let server = try TestPostgres()
        let database = try server.database()
        try await ThreeServers.run(on: Self.uri(database), { database }, seed: seed) { trial in
            var random = SeededRandom(seed: seed)
            for _ in 0..<Self.times(2) {
                try await trial.progress(by: Int.random(in: 0..<60, using: &random))
                try await aside { try server.restart() }
            }
        }
    }

    @Test(.takesLong, arguments: seeds)
    func `connections are cut in the middle of a COMMIT`(seed: UInt64) async throws {
        let database = try TestPostgres.database()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("cut\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let proxy = try await CuttingProxy(before: database.server.folder, in: folder, seed: seed)
        let address = TestPostgres.uri(database.name, at: [folder.path])
        try await ThreeServers.run(on: address, { database }, seed: seed) { trial in
            // One commit in eight is cut, and some deliveries need several.
            for _ in 0..<Self.times(1000) where proxy.cuts < Self.times(20) { try await trial.progress(by: 1) }
            #expect(proxy.cuts >= Self.times(20), "seed \(seed): the proxy has not noticed the commits")
            proxy.stop()
        }
        try await proxy.close()
    }

    @Test(.takesLong, arguments: seeds)
    func `the database fails over to a synchronous standby`(seed: UInt64) async throws {
        let primary = try TestPostgres()
        let standby = try TestPostgres(following: primary)
        let database = try primary.database()
        try primary.requireStandby()
        let address = TestPostgres.uri(
            database.name, at: [primary.folder, standby.folder], "&target_session_attrs=read-write")
        let after = standby.existing(database)
        try await ThreeServers.run(on: address, { after }, seed: seed) { trial in
            var random = SeededRandom(seed: seed)
            try await trial.progress(by: Int.random(in: 0..<Self.times(60), using: &random))
            try await aside {
                try primary.destroy()
                try standby.promote()
            }
            try await trial.progress(by: Int.random(in: 0..<Self.times(60), using: &random))
        }
    }

    @Test(.takesLong, .enabled(if: TestBouncer.isThere, "\(TestBouncer.whyNot)"), arguments: seeds)
    func `PgBouncer stands in between, and is killed and started again`(seed: UInt64) async throws {
        let database = try TestPostgres.database()
        let bouncer = try TestBouncer(before: database)
        let address = TestPostgres.uri(database.name, at: [bouncer.folder], "&prepared_statements=false")
        try await ThreeServers.run(on: address, { database }, seed: seed) { trial in
            var random = SeededRandom(seed: seed)
            for _ in 0..<Self.times(2) {
                try await trial.progress(by: Int.random(in: 0..<60, using: &random))
                try await aside { try bouncer.restart() }
            }
        }
    }
}
