// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import LedgerPostgres
import LedgerSQLite
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

/// Tests copies of ledgers with many purchases.
@Suite(.needsPostgres) struct LargeCopyTests {
    /// Each has a notification and its two tokens: with `QUITTANCE_SOAK` a hundred thousand documents.
    private static let purchases = Seeds.isSoak ? 33_334 : 600

    private let store: TestStore

    init() throws {
        store = try TestStore()
    }

    /// Adds purchases of as many customers.
    private func fill(_ storage: any LedgerStorage) async throws {
        let (ledger, lanes) = (Ledger(storage: storage), 32)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    for number in stride(from: lane, to: Self.purchases, by: lanes) {
                        let day = Double(number % 300)
                        let document = try await store.verifier().evidence(
                            notification: notification(number, day), at: TestStore.day(day))
                        _ = try await ledger.record([document], at: TestStore.day(day))
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func notification(_ number: Int, _ day: Double) throws -> String {
        let id = "\(1_000_000 + number)"
        let transaction = TestStore.transaction(id, from: day, until: day + 30, signed: day) {
            $0.appAccountToken = "00000000-0000-4000-8000-\(String(id.reversed()))00000"
        }
        return try store.sign(
            TestStore.notification(
                "SUBSCRIBED", subtype: "INITIAL_BUY", signed: day, transaction: try store.sign(transaction),
                renewal: try store.sign(TestStore.renewal(original: id, signed: day))))
    }

    @Test(.takesLong) func `many purchases are copied into a database at the first attempt`() async throws {
        let folder = try TemporaryFolder()
        let source = try SQLiteLedgerStorage(path: folder.path("source"))
        try await fill(source)
        let targets: [(String, any LedgerStorage)] = [
            // With the limits of a server, which are shorter than those of the command.
            ("PostgreSQL", try await TestPostgres.database().storage()),
            ("a file", try SQLiteLedgerStorage(path: folder.path("target"))),
        ]
        for (place, target) in targets {
            let (clock, copy) = (
                ContinuousClock(), LedgerCopy(from: source, named: "a file", to: target, by: store.verifier())
            )
            let start = clock.now
            let report = try await copy.run(at: TestStore.start)
            #expect(report.copied == report.compared)
            #expect(report.copied.purchases == Self.purchases && report.copied.documents == 3 * Self.purchases)
            guard Seeds.isSoak else { continue }
            let seconds = (clock.now - start) / .seconds(1)
            print("From a file into \(place): \(Int(Double(Self.purchases) / seconds)) purchases a second")
        }
    }
}
