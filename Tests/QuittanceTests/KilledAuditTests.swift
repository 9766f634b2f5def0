// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import NIOHTTP1
import TestData
import TestWorld
import Testing

/// Tests that a server that is killed at any moment has each change on its audit list once.
@Suite struct KilledAuditTests {
    private static let rounds = Seeds.isSoak ? 100 : 3
    private static let perRound = 40

    @Test(.takesLong) func `each change has one entry, also after SIGKILL`() async throws {
        let folder = try TemporaryFolder()
        let arguments = ["--database", "sqlite:\(folder.url.path)/ledger.sqlite", "--bundle-id", "com.example.notes"]
        let first = try await ServerProcess(arguments, in: folder.url)
        #expect(first.terminate() == 0)
        let key = try CommandLineTests.key(arguments)
        // The instants of the kills follow from the seed, but not what the server has done by then.
        var random = SeededRandom(seed: Seeds.first(1)[0])
        for round in 0..<Self.rounds {
            let server = try await ServerProcess(arguments, in: folder.url)
            let delay = Duration.milliseconds(Int.random(in: 0..<200, using: &random))
            await withTaskGroup(of: Void.self) { group in
                for lane in 0..<8 {
                    group.addTask {
                        for number in stride(from: lane, to: Self.perRound, by: 8) {
                            guard (try? await Self.change(round, number, server, key)) != nil else { break }
                        }
                    }
                }
                group.addTask {
                    try? await Task.sleep(for: delay)
                    server.kill()
                }
            }
        }
        let server = try await ServerProcess(arguments, in: folder.url)
        for round in 0..<Self.rounds {
            for number in 0..<Self.perRound {
                #expect(try await Self.change(round, number, server, key) == 200)
                let list = try await server.send(.GET, "/v1/audit?customerId=c-\(round)-\(number)", key: key)
                // A killed request may have made the customer, and no more: a change of its own.
                let items = (list.json["items"]?.array ?? []).filter { $0["outcome"]?.string != "changed" }
                #expect(items.map { $0["outcome"]?.string } == ["customer.attributesChanged"], "\(round) \(number)")
            }
        }
        #expect(server.terminate() == 0)
        let checked = try CommandLineTests.run(["check"] + arguments.prefix(2))
        #expect(checked.status == 0, "\(checked.error)")
    }

    /// Sets an attribute of a customer of its own. Its time lets the same request change nothing a second time.
    private static func change(
        _ round: Int, _ number: Int, _ server: ServerProcess, _ key: String
    ) async throws -> Int {
        try await server.send(
            .PATCH, "/v1/customers/c-\(round)-\(number)/attributes",
            #"{"attributes":{"plan":{"value":"gold","updatedAt":1700000000000}}}"#, key: key
        ).status
    }
}
