// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerPostgres
import PurchaseLedger
import Synchronization

/// What the storage is measured with: renewals and entitlement reads, without HTTP and verification.
enum Work {
    /// A renewal: three documents of 3,300 octets together, one chain, a new transaction in it, one event.
    struct Intake: Sendable {
        let chain: ChainKey
        let documents: [Evidence]
        let transaction: String

        init(_ database: FilledDatabase, using random: inout some RandomNumberGenerator) {
            let chain = FilledDatabase.chain(Int.random(in: 0..<database.customers, using: &random))
            let transaction = "\(UInt64.random(in: 5_000_000_000_000...9_000_000_000_000, using: &random))"
            // Each intake is a little later than the one before, as in reality.
            let time = Timestamp(
                milliseconds: FilledDatabase.now.milliseconds + Self.last.add(1, ordering: .relaxed).newValue)
            documents = (0..<3).map { _ in
                // Nothing compresses a document of this length.
                let word = withUnsafeBytes(of: UInt64.random(in: .min ... .max, using: &random), Array.init)
                let bytes = Array(repeatElement(word, count: 1100 / 8).joined())
                return Evidence(.transaction, bytes, FilledDatabase.scope, time) { name in
                    ([FilledDatabase.statement(transaction, of: chain, FilledDatabase.periods, by: name)], [])
                }
            }
            (self.chain, self.transaction) = (chain, transaction)
        }

        private static let last = Atomic(Int64(0))

        func commit(to storage: PostgresLedgerStorage) async throws {
            let query = LedgerQuery {
                ($0.chains, $0.names, $0.arriving) = ([chain], Set(documents.map(\.provenance)), documents)
            }
            try await storage.commit(query) { snapshot in .commit(changes(snapshot), ()) }
        }

        private func changes(_ snapshot: LedgerSnapshot) -> LedgerChanges {
            var changes = LedgerChanges()
            guard snapshot.names.isEmpty, var record = snapshot.chains[chain] else { return changes }
            let period = FilledDatabase.periods
            record.chain.merge(
                FilledDatabase.statement(transaction, of: chain, period, by: documents[0].provenance))
            let time = documents[0].provenance.date ?? FilledDatabase.now
            let end = FilledDatabase.start(of: period + 1)
            record.report = FilledDatabase.report(transaction, until: end)
            record.lastEventAt = time
            changes.chains = [record]
            changes.documents = documents.map { NewDocument($0, for: [chain], receivedAt: time) }
            var event = LedgerEvent(
                .subscriptionRenewed, in: FilledDatabase.scope, at: time,
                originalTransactionId: chain.originalTransactionId)
            (event.transactionId, event.productId) = (transaction, FilledDatabase.product)
            (event.recordedAt, event.after) = (time, record.report?.state)
            changes.events = [event]
            return changes
        }
    }

    /// Intakes a second: `count` of them, `width` at a time, spread over the storages.
    static func intakes(
        _ count: Int, into storages: [PostgresLedgerStorage], _ database: FilledDatabase, width: Int
    ) async throws -> Double {
        var random = SystemRandomNumberGenerator()
        let intakes = (0..<count).map { _ in Intake(database, using: &random) }
        let next = Atomic(0)
        return try await rate(width) { number in
            var done = 0
            while case let place = next.add(1, ordering: .relaxed).oldValue, place < count {
                try await intakes[place].commit(to: storages[number % storages.count])
                done += 1
            }
            return done
        }
    }

    /// Entitlement reads a second for some seconds, `width` at a time.
    static func reads(
        _ seconds: Int, from storage: PostgresLedgerStorage, _ database: FilledDatabase, width: Int
    ) async throws -> Double {
        let end = ContinuousClock.now.advanced(by: .seconds(seconds))
        return try await rate(width) { _ in
            var done = 0
            while ContinuousClock.now < end {
                let id = FilledDatabase.customer(Int.random(in: 0..<database.customers))
                let found = try await storage.load(LedgerQuery { ($0.customers, $0.holdings) = ([id], [.production]) })
                guard found.chains.count == 1 else { throw LoadFailure("\(id) has \(found.chains.count) chains") }
                done += 1
            }
            return done
        }
    }

    private static func rate(
        _ width: Int, _ body: @escaping @Sendable (Int) async throws -> Int
    ) async throws -> Double {
        let start = ContinuousClock.now
        let done = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<width { group.addTask { try await body(number) } }
            return try await group.reduce(0, +)
        }
        return Double(done) / ((ContinuousClock.now - start) / .seconds(1))
    }
}
