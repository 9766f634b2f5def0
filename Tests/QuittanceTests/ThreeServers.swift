// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import NIOHTTP1
import Synchronization
import TestData
import TestPostgres
import TestWorld
import Testing

/// Three `quittance serve` processes on one database, an App Store that sends to all of them, and five readers.
///
/// What is not answered 200 is sent again, also to another server, as the App Store does.
final class ThreeServers: Sendable {
    private static let bundleId = "com.example.notes"

    private let folder: URL
    private let arguments: [String]
    private let key: String
    private let servers = Mutex<[ServerProcess?]>([nil, nil, nil])
    private let sales: Sales
    private let progress = Mutex(Progress())

    private struct Progress {
        var acknowledged = 0
        /// Whether the trouble is over, and whether everything was delivered.
        var (isTroubleOver, isOver) = (false, false)
        var waiting: [Delivery] = []
        /// What was answered 200, by transaction.
        var done: [String: Int] = [:]
    }

    // MARK: - The trial

    /// Runs the servers while something goes wrong again and again, then compares all that they say.
    ///
    /// - Parameters:
    ///   - address: Where the servers find the database.
    ///   - database: The database that has the ledger at the end.
    ///   - trouble: What goes wrong. Deliveries end after it.
    static func run(
        on address: String, _ database: @Sendable () -> TestDatabase, seed: UInt64,
        _ trouble: @escaping @Sendable (ThreeServers) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        let trial = try await ThreeServers(on: address, in: folder.url, seed: seed)
        let readers = try await withThrowingTaskGroup(of: FeedReader?.self) { group in
            for number in 0..<5 { group.addTask { try await trial.follow(number) } }
            try await trial.deliver(during: trouble)
            trial.progress.withLock { $0.isOver = true }
            return try await group.reduce(into: []) { $0 += [$1].compactMap { $0 } }
        }
        try await trial.judge(readers, in: database(), seed: seed)
        for number in 0..<3 { #expect(trial.server(number)?.terminate() == 0, "\(trial.server(number)?.text ?? "")") }
    }

    private init(on address: String, in folder: URL, seed: UInt64) async throws {
        let store = try TestStore()
        var arguments = ["--database", address]
        arguments += try store.writeRoots(to: folder).flatMap { ["--root", $0] }
        (self.folder, self.arguments) = (folder, arguments)
        sales = Sales(of: Self.bundleId, signedBy: store.signer)
        let app = ["--bundle-id", Self.bundleId]
        // All three find an empty database, and make the tables at once.
        let started = try await withThrowingTaskGroup(of: ServerProcess.self) { group in
            for number in 0..<3 {
                let own = try Self.folder(number, in: folder)
                group.addTask { [arguments] in try await ServerProcess(arguments + app, in: own) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        servers.withLock { $0 = started }
        key = try CommandLineTests.key(app + arguments)
    }

    private static func folder(_ number: Int, in folder: URL) throws -> URL {
        let own = folder.appendingPathComponent("server\(number)")
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        return own
    }

    // MARK: - Servers

    private func server(_ number: Int) -> ServerProcess? { servers.withLock { $0[number % 3] } }

    func kill(_ number: Int) { server(number)?.kill() }

    func start(_ number: Int) async throws {
        let new = try await ServerProcess(
            arguments + ["--bundle-id", Self.bundleId], in: try Self.folder(number, in: folder))
        servers.withLock { $0[number] = new }
    }

    /// Waits until some more deliveries were acknowledged, so that trouble comes at any moment of their work.
    func progress(by count: Int) async throws {
        let goal = progress.withLock { $0.acknowledged } + count
        while progress.withLock({ $0.acknowledged }) < goal { try await Task.sleep(for: .milliseconds(1)) }
    }

    // MARK: - Deliveries

    private func deliver(during trouble: @escaping @Sendable (ThreeServers) async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { self.progress.withLock { $0.isTroubleOver = true } }
                try await self.progress(by: 5)
                try await trouble(self)
                try await self.progress(by: 5)
            }
            for lane in 0..<6 {
                group.addTask {
                    var number = lane
                    while !self.progress.withLock({ $0.isTroubleOver }) {
                        number += 1
                        if let waiting = self.progress.withLock({ $0.waiting.popLast() }) {
                            await self.send(waiting, number)
                        }
                        for delivery in try self.sales.next() { await self.send(delivery, number) }
                    }
                }
            }
            try await group.waitForAll()
        }
        while let waiting = progress.withLock({ $0.waiting.popLast() }) {
            await send(waiting, Int(waiting.body.utf8.count))
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    /// Sends a delivery to one server, every third one to two servers at once.
    private func send(_ delivery: Delivery, _ number: Int) async {
        var isAcknowledged = await withTaskGroup(of: Bool.self) { group in
            for number in number % 3 == 0 ? [number, number + 1] : [number / 2] {
                group.addTask { await self.post(delivery, to: number) }
            }
            return await group.reduce(false) { $0 || $1 }
        }
        // A server that is away answers at once. Another one may be there.
        if !isAcknowledged { isAcknowledged = await post(delivery, to: number + 2) }
        progress.withLock { progress in
            guard isAcknowledged else { return progress.waiting.insert(delivery, at: 0) }
            progress.acknowledged += 1
            progress.done[delivery.id, default: 0] += 1
        }
    }

    private func post(_ delivery: Delivery, to number: Int) async -> Bool {
        guard let server = server(number) else { return false }
        let answer = try? await server.send(.POST, "/notifications/v2", delivery.body)
        #expect(answer.map { [200, 503].contains($0.status) } ?? true, "\(answer.debugDescription)")
        return answer?.status == 200
    }

    // MARK: - Readers

    /// Reads the feed until nothing more comes. If a page fails, asks another server for it.
    private func follow(_ number: Int) async throws -> FeedReader {
        var (reader, place) = (FeedReader(), number)
        while true {
            let isLast = progress.withLock { $0.isOver }
            let count = await page(&reader, from: place)
            if count == 0, isLast { return reader }
            if count == nil { place += 1 }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    /// - Returns: How many events came; `nil` if there was no answer.
    private func page(_ reader: inout FeedReader, from number: Int) async -> Int? {
        guard let server = server(number) else { return nil }
        let after = reader.cursor.map { "&after=\($0)" } ?? ""
        guard let answer = try? await server.send(.GET, "/v1/events?limit=40\(after)", key: key) else { return nil }
        #expect([200, 503].contains(answer.status), "\(answer.json.compactText)")
        guard answer.status == 200, let items = answer.json["items"]?.array else { return nil }
        reader.cursor = answer.json["nextCursor"]?.string ?? reader.cursor
        reader.events += items
        return items.count
    }

    // MARK: - The judgement

    /// What the first server answers about a transaction. It may still have to find the database again.
    private func status(of id: String) async throws -> Int? {
        while true {
            let answer = try await server(0)?.send(.GET, "/v1/transactions/\(id)", key: key)
            guard answer?.status == 503 else { return answer?.status }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private func judge(_ readers: [FeedReader], in database: TestDatabase, seed: UInt64) async throws {
        let (sold, done) = (sales.sold, progress.withLock { $0.done })
        #expect(Set(done.keys) == sold, "seed \(seed)")
        for id in sold {
            #expect(try await status(of: id) == 200, "seed \(seed): \(id) was answered 200 and is lost")
        }
        let documents = try database.psql(
            "SELECT count(notification_uuid), count(DISTINCT notification_uuid) FROM quittance.documents")
        #expect(documents == "\(done.values.reduce(0, +))|\(done.values.reduce(0, +))", "seed \(seed)")
        // The readers that read during the whole trial have received the same events as a new one.
        let new = try await follow(1)
        for reader in readers { #expect(reader.ids == new.ids, "seed \(seed): an event was skipped or came again") }
        #expect(Set(new.ids).count == new.ids.count, "seed \(seed): an event was numbered twice")
        new.expectStories(of: done, seed: seed)
        #expect(try database.psql("SELECT count(*) FROM quittance.outbox") == "0")
        print("Seed \(seed): \(done.values.reduce(0, +)) deliveries, \(new.ids.count) events, nothing lost or doubled")
    }
}

/// What a client has read of the feed.
private struct FeedReader: Sendable {
    var cursor: String?
    var events: [JSONValue] = []

    var ids: [String] { events.compactMap { $0["id"]?.string } }

    /// Expects of each chain one start, one end for each refund, and that each event begins with the state in which the
    /// one before it ended.
    func expectStories(of done: [String: Int], seed: UInt64) {
        let chains = Dictionary(grouping: events) { $0["originalTransactionId"]?.string ?? "" }
        for (id, count) in done {
            let events = chains[id] ?? []
            let kinds = events.compactMap { $0["kind"]?.string }
            #expect(kinds.count { $0 == "subscription.started" } == 1, "seed \(seed): \(id) has \(kinds)")
            #expect(kinds.count { $0 == "subscription.revoked" } == count - 1, "seed \(seed): \(id) has \(kinds)")
            var (last, time) = (JSONValue.object([]), Int64.min)
            for event in events where event["after"] ?? .null != .null {
                let follows = event["before"] == last["after"] ?? .null
                // What one document changes may be several events.
                let accompanies = event["before"] == last["before"] && event["after"] == last["after"]
                #expect(follows || accompanies, "seed \(seed): \(events.map(\.compactText))")
                last = event
                let recorded = event["recordedAt"]?.integer ?? .min
                #expect(recorded >= time, "seed \(seed): \(id) goes back in time")
                time = recorded
            }
        }
    }
}

/// A notification, and the subscription that it is about.
private struct Delivery: Sendable {
    var id: String
    var body: String
}

/// An App Store that sells subscriptions, and refunds every other one.
private final class Sales: Sendable {
    private let world: Mutex<World>
    private let signer: WorldSigner
    private static let product = "com.example.notes.pro"

    init(of bundleId: String, signedBy signer: WorldSigner) {
        // Each purchase is a millisecond later than the one before, and none may be later than the server's clock.
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000) - 3_600_000)
        world = Mutex(
            World(
                selling: [.subscription(Self.product, Period(1, .month))],
                in: AppIdentity(bundleId: bundleId, appAppleId: 1), at: now))
        self.signer = signer
    }

    /// The subscriptions.
    var sold: Set<String> { world.withLock { Set($0.subscriptions.keys) } }

    /// The notifications about a new subscription.
    func next() throws -> [Delivery] {
        let (occurrences, catalogue) = try world.withLock { world in
            let sale = try world.sell(Self.product, hasAccount: world.customers.count % 2 == 0)
            var occurrences = [sale]
            if world.customers.count % 2 == 0, let id = sale.transaction?.transactionId {
                try world.refund(id)
                occurrences.append(world.occurrences[world.occurrences.count - 1])
            }
            return (occurrences, world.catalogue)
        }
        return try occurrences.map { occurrence in
            Delivery(
                id: occurrence.transaction?.originalTransactionId ?? "",
                body: #"{"signedPayload":"\#(try signer.notification(occurrence, from: catalogue))"}"#)
        }
    }
}
