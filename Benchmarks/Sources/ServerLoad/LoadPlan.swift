// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Foundation
import PurchaseLedger

/// What is measured, and how often. Each round has every measurement, since on a shared machine rates of different
/// minutes cannot be compared.
struct LoadPlan {
    var transactions: Int
    var notifications: Int
    var rounds: Int

    /// The number of transactions in the small ledger with which reads are compared.
    static let fewTransactions = 50_000
    static let connections = 32
    private static let turn = Duration.seconds(2)

    /// A folder on the project's disk, since `/tmp` may be in memory. Filled ledgers stay for later runs.
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent(".build/server-load")

    func run() async throws -> LoadResult {
        try FileManager.default.createDirectory(at: Self.folder, withIntermediateDirectories: true)
        let (few, many) = (try await filled(Self.fewTransactions), try await filled(transactions))
        ServerLoad.say("Signing \(notifications) notifications …")
        let store = try SimulatedStore()
        let intake = Self.folder.appendingPathComponent("intake.sqlite").path
        Self.remove(intake)
        let roots = Self.folder.appendingPathComponent("roots.json").path
        try JSONEncoder().encode(store.roots).write(to: URL(fileURLWithPath: roots))
        let ledgers = [intake, few, many]
        let servers = try ledgers.map { try ServerProcess(ledger: $0, roots: roots) }
        var result = LoadResult(plan: self)
        do {
            defer { for server in servers { server.end() } }
            let notifications = try await store.notifications(notifications)
            try await measure(notifications, store, servers, filled: [few, many], &result)
            result.notificationsKept = [notifications.before, notifications.stream, notifications.firstPurchases]
                .map(\.count).reduce(0, +)
        }
        result.bytesKept = try Self.size(intake)
        return result
    }

    private func measure(
        _ notifications: SimulatedStore.Notifications, _ store: SimulatedStore, _ servers: [ServerProcess],
        filled: [String], _ result: inout LoadResult
    ) async throws {
        let verifier = try SimulatedStore.verifier(store.roots)
        let load = servers.map { LoadGenerator($0, connections: Self.connections) }
        let health = [HTTPRequest.get("/health/live")]
        let reads = [Self.fewTransactions, transactions].map { HTTPRequest.entitlements($0 / FilledLedger.periods) }
        var random = SeededRandom(seed: 7)
        result.notificationSize = notifications.stream[0].utf8.count
        ServerLoad.say("Sending the first purchases of the subscribers …")
        _ = try load[0].run(notifications.before.map(HTTPRequest.notification))
        for round in 0..<rounds {
            ServerLoad.say("Round \(round + 1) of \(rounds) …")
            let share = share(of: notifications.stream, round)
            result.verified.append(try await Verifying.rate(of: share, verifier, for: Self.turn))
            result.intake.append(try load[0].run(share.map(HTTPRequest.notification)))
            result.firstPurchases.append(
                try load[0].run(self.share(of: notifications.firstPurchases, round).map(HTTPRequest.notification)))
            try filled.forEach(Self.warm)
            result.health.append(try load[2].run(health, for: Self.turn, &random))
            result.readsOfMany.append(try load[2].run(reads[1], for: Self.turn, &random))
            result.readsOfFew.append(try load[1].run(reads[0], for: Self.turn, &random))
        }
    }

    private func share(of notifications: [String], _ round: Int) -> [String] {
        let size = notifications.count / rounds
        return Array(notifications[round * size..<(round + 1) * size])
    }

    private func filled(_ transactions: Int) async throws -> String {
        ServerLoad.say("Filling a ledger of \(transactions) transactions, unless it is there …")
        let path = Self.folder.appendingPathComponent("\(transactions).sqlite").path
        do {
            try await FilledLedger.fill(path, customers: transactions / FilledLedger.periods)
        } catch let error as LedgerStorageError where error.code == .damaged {
            ServerLoad.say("Filling it again, since it cannot be read: \(error.message)")
            Self.remove(path)
            try await FilledLedger.fill(path, customers: transactions / FilledLedger.periods)
        }
        Self.dropFromCache(path)
        return path
    }

    /// Drops a file from the system's cache, so that every run starts as after a restart. The system caches a file that
    /// was just written in single pages, and one that was read in large blocks, from which a server reads a quarter
    /// faster.
    private static func dropFromCache(_ path: String) {
        #if canImport(Glibc)
        guard let file = FileHandle(forWritingAtPath: path) else { return }
        fsync(file.fileDescriptor)
        posix_fadvise(file.fileDescriptor, 0, 0, POSIX_FADV_DONTNEED)
        #endif
    }

    private static func remove(_ ledger: String) {
        for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: ledger + suffix) }
    }

    /// Reads a file into the system's cache, as if the server had run for a while. This is done in each round, since
    /// some systems soon drop the file. The benchmark measures the server and not the system's cache.
    private static func warm(_ path: String) throws {
        guard let file = FileHandle(forReadingAtPath: path) else { throw LoadFailure("No ledger at \(path)") }
        while try file.read(upToCount: 1 << 20)?.isEmpty == false {}
        try file.close()
    }

    /// The size of a ledger with its write-ahead log. The log is empty if the server has ended.
    private static func size(_ path: String) throws -> Int {
        try ["", "-wal"].map { path + $0 }.filter(FileManager.default.fileExists(atPath:)).reduce(0) {
            try $0 + (FileManager.default.attributesOfItem(atPath: $1)[.size] as? Int ?? 0)
        }
    }
}
