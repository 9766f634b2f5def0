// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import LedgerPostgres
import PurchaseLedger
import Synchronization

/// What the storage is measured with: renewals and entitlement reads, without HTTP and verification.
enum Work {
    /// A renewal: a notification with its tokens, 3,300 octets together, one chain, a new transaction in it, one event.
    /// It is prepared before the measurement, since deciding is not the storage's work.
    struct Intake: Sendable {
        private let query: LedgerQuery
        private let changes: LedgerChanges

        init(_ renewal: FilledDatabase.Renewal) {
            let documents = renewal.documents
            let time = renewal.time
            query = LedgerQuery(
                documents.map { .document($0.provenance) } + [.chain(renewal.key)], arriving: documents)
            var changes = LedgerChanges()
            var record = renewal.record
            record.lastEventAt = time
            changes.chains = [record]
            changes.documents = documents.map { NewDocument($0, for: [renewal.key], receivedAt: time) }
            let content = EventContent(
                effectiveAt: time, transactionId: renewal.transaction, productId: FilledDatabase.product,
                after: record.report?.state)
            changes.events = [
                LedgerEvent(
                    .subscriptionRenewed, in: FilledDatabase.scope, at: time, chainName: renewal.key.name, content)
            ]
            self.changes = changes
        }

        func commit(to storage: PostgresLedgerStorage) async throws {
            try await storage.commit(query) { [changes] snapshot in
                guard snapshot.names.isEmpty, snapshot.chains.count == 1 else {
                    throw LoadFailure("An intake does not find what it was prepared for")
                }
                return .commit(changes, ())
            }
        }
    }

    /// Intakes a second: `count` of them, `width` at a time, spread over the storages, until their events
    /// have numbers.
    static func intakes(
        _ count: Int, into storages: [PostgresLedgerStorage], _ database: FilledDatabase, width: Int
    ) async throws -> Double {
        let intakes = database.renewals(count).map(Intake.init)
        let next = Atomic(0)
        let body: @Sendable (Int) async throws -> Int = { number in
            var done = 0
            while case let place = next.add(1, ordering: .relaxed).oldValue, place < count {
                try await intakes[place].commit(to: storages[number % storages.count])
                done += 1
            }
            return done
        }
        return try await rate(width, body) { for storage in storages.prefix(1) { _ = try await storage.marks() } }
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
                let found = try await storage.load(.holdings(of: [id], in: [.production]))
                guard found.chains.count == 1 else { throw LoadFailure("\(id) has \(found.chains.count) chains") }
                done += 1
            }
            return done
        }
    }

    private static func rate(
        _ width: Int, _ body: @escaping @Sendable (Int) async throws -> Int, finish: () async throws -> Void = {}
    ) async throws -> Double {
        let start = ContinuousClock.now
        let done = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<width { group.addTask { try await body(number) } }
            return try await group.reduce(0, +)
        }
        try await finish()
        return Double(done) / ((ContinuousClock.now - start) / .seconds(1))
    }
}
