// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import NIOHTTP1
import TestData
import TestWorld
import Testing

/// Tests that a server that is killed at any moment loses nothing that it answered with 200, and publishes each change
/// once.
@Suite struct KillTests {
    private static let bundleId = "com.example.notes"
    /// A few in the suite; 200 with `make kill`.
    private static let rounds = Seeds.isSoak ? 200 : 5
    private static let perRound = 40

    /// A purchase, and the body that reports it: a notification, or a submission of the token alone.
    private struct Purchase: Sendable {
        var id: String
        var isNotification: Bool
        var body: String
    }

    @Test(.takesLong)
    func `what was answered 200 survives SIGKILL, and no event is published twice or skipped`() async throws {
        let folder = try TemporaryFolder()
        let store = try TestStore()
        // Each purchase is a millisecond later than the one before, and none may be later than the server's clock.
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) - 3_600_000)
        var world = World(
            selling: [.subscription("com.example.notes.pro", Period(1, .month))],
            in: AppIdentity(bundleId: Self.bundleId, appAppleId: 1), at: now)
        var arguments = ["--database", "sqlite:\(folder.url.path)/ledger.sqlite"]
        arguments += try store.writeRoots(to: folder.url).flatMap { ["--root", $0] }
        let first = try await ServerProcess(arguments + ["--bundle-id", Self.bundleId], in: folder.url)
        #expect(first.terminate() == 0)
        let key = try CommandLineTests.key(["--bundle-id", Self.bundleId] + arguments)

        // The instants of the kills follow from the seed, but not what the server has done by then.
        let seed = Seeds.first(1)[0]
        var random = SeededRandom(seed: seed)
        var waiting: [Purchase] = []
        var answered: [String] = []
        var reader = EventReader()
        for round in 0..<Self.rounds {
            let server = try await ServerProcess(arguments + ["--bundle-id", Self.bundleId], in: folder.url)
            for id in answered.suffix(2 * Self.perRound) {
                let found = try await server.send(.GET, "/v1/transactions/\(id)", key: key)
                #expect(found.status == 200, "seed \(seed), round \(round): \(id) was answered 200 and is lost")
            }
            for number in 0..<Self.perRound {
                waiting.append(try Self.purchase(in: &world, signedBy: store.signer, isNotification: number % 3 > 0))
            }
            let delay = Duration.milliseconds(Int.random(in: 0..<400, using: &random))
            // Everything without an answer is sent again, as the App Store does with notifications.
            let load = waiting.shuffled(using: &random)
            let done = await Self.send(load, to: server, key: key, killAfter: delay, &reader)
            answered += done
            let isDone = Set(done)
            waiting.removeAll { isDone.contains($0.id) }
        }
        let server = try await ServerProcess(arguments + ["--bundle-id", Self.bundleId], in: folder.url)
        for purchase in waiting {
            #expect(try await Self.submit(purchase, to: server, key: key) == 200)
        }
        for id in answered {
            #expect(
                try await server.send(.GET, "/v1/transactions/\(id)", key: key).status == 200, "seed \(seed): \(id)")
        }
        while try await reader.page(from: server, key: key) > 0 {}
        let all = Set(world.subscriptions.keys)
        #expect(all.count == Self.rounds * Self.perRound)
        #expect(Set(reader.started) == all, "seed \(seed)")
        #expect(reader.started.count == all.count, "seed \(seed): a start was published twice")
        // The reader that read during the whole test must have received the same events as a new reader.
        var newReader = EventReader()
        while try await newReader.page(from: server, key: key) > 0 {}
        #expect(reader.ids == newReader.ids, "seed \(seed): an event was skipped")
        #expect(Set(reader.ids).count == reader.ids.count, "seed \(seed): an event was published twice")
        #expect(server.terminate() == 0)
        let checked = try CommandLineTests.run(["check"] + arguments)
        #expect(checked.status == 0, "seed \(seed): \(checked.error)")
        let rebuilt = try CommandLineTests.run(["rebuild"] + arguments)
        #expect(rebuilt.status == 0, "seed \(seed): \(rebuilt.error)")
        print("\(Self.rounds) times SIGKILL, \(answered.count) purchases answered 200 before; \(checked.output)")
    }

    /// Sends the purchases with eight clients until the server is killed. Returns the ids of those that were answered
    /// 200.
    private static func send(
        _ load: [Purchase], to server: ServerProcess, key: String, killAfter delay: Duration,
        _ reader: inout EventReader
    ) async -> [String] {
        let first = reader
        return await withTaskGroup(of: Outcome.self) { group in
            for lane in 0..<8 {
                group.addTask {
                    var done: [String] = []
                    for purchase in stride(from: lane, to: load.count, by: 8).map({ load[$0] }) {
                        guard let status = try? await submit(purchase, to: server, key: key) else { break }
                        if status == 200 { done.append(purchase.id) }
                    }
                    return .done(done)
                }
            }
            group.addTask {
                var next = first
                while let count = try? await next.page(from: server, key: key), count >= 0 {
                    try? await Task.sleep(for: .milliseconds(5))
                }
                return .read(next)
            }
            group.addTask {
                try? await Task.sleep(for: delay)
                server.kill()
                return .done([])
            }
            var done: [String] = []
            for await outcome in group {
                switch outcome {
                case .done(let ids): done += ids
                case .read(let next): reader = next
                }
            }
            return done
        }
    }

    private enum Outcome: Sendable {
        case done([String])
        case read(EventReader)
    }

    /// A client that reads events: what it has received, and its cursor.
    private struct EventReader: Sendable {
        var cursor: String?
        var ids: [String] = []
        var started: [String] = []

        /// Reads the next page, and returns how many events it has. If the request fails, the cursor stays.
        mutating func page(from server: ServerProcess, key: String) async throws -> Int {
            let after = cursor.map { "&after=\($0)" } ?? ""
            let answer = try await server.send(.GET, "/v1/events?limit=500\(after)", key: key)
            let items = answer.json["items"]?.array ?? []
            cursor = answer.json["nextCursor"]?.string ?? cursor
            ids += items.compactMap { $0["id"]?.string }
            started += items.filter { $0["kind"]?.string == "subscription.started" }
                .compactMap { $0["transactionId"]?.string }
            return items.count
        }
    }

    private static func submit(_ purchase: Purchase, to server: ServerProcess, key: String) async throws -> Int {
        guard !purchase.isNotification else {
            return try await server.send(.POST, "/notifications/v2", purchase.body).status
        }
        return try await server.send(.POST, "/v1/customers/\(purchase.id)/purchases", purchase.body, key: key).status
    }

    /// A new customer's purchase.
    private static func purchase(
        in world: inout World, signedBy signer: WorldSigner, isNotification: Bool
    ) throws -> Purchase {
        let occurrence = try world.sell("com.example.notes.pro")
        let transaction = try #require(occurrence.transaction)
        let body =
            if isNotification {
                #"{"signedPayload":"\#(try signer.notification(occurrence, from: world.catalogue))"}"#
            } else {
                #"{"document":"\#(try signer.sign(transaction, at: occurrence.date))"}"#
            }
        return Purchase(id: transaction.transactionId ?? "", isNotification: isNotification, body: body)
    }
}
