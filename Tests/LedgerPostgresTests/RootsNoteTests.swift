// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests that servers on one database note one origin of documents, whichever is first.
@Suite(.needsPostgres) struct RootsNoteTests {
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)
    private static let now = Timestamp(milliseconds: 1)
    private static let simulator = TrustAnchor(name: "5a", isSimulated: true)

    private static func document(_ name: String, of anchor: TrustAnchor) -> Evidence {
        Evidence(.appTransaction, Array("e30.\(name).AA".utf8), scope, now, anchor: anchor) { _ in ([], []) }
    }

    /// The documents of an origin that were recorded.
    private static func record(
        _ count: Int, of anchor: TrustAnchor, in storage: any LedgerStorage
    ) async throws -> Int {
        // Each has a ledger of its own, as if it were the first document of its process.
        try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<count {
                group.addTask {
                    do {
                        let document = document("\(anchor.name)\(number)", of: anchor)
                        return try await Ledger(storage: storage).record([document], at: now).new
                    } catch let error as LedgerStorageError where error.code == .otherRoots {
                        return 0
                    }
                }
            }
            return try await group.reduce(0, +)
        }
    }

    @Test(.takesLong, arguments: 0..<5)
    func `of two servers with different roots on one database, one records its documents`(
        round: Int
    ) async throws {
        let (database, count) = (try TestPostgres.database(), 20)
        let (first, second) = (try await database.storage(), try await database.storage())
        async let ofApple = Self.record(count, of: .apple, in: first)
        async let ofSimulator = Self.record(count, of: Self.simulator, in: second)
        let recorded = try await [ofApple, ofSimulator]
        #expect(recorded.sorted() == [0, count])
        let stored = try await first.documents(.all, limit: 100)
            .map { String(decoding: $0.document, as: UTF8.self) }
        let winner = recorded[0] == count ? "apple" : "5a"
        #expect(stored.count == count && stored.allSatisfy { $0.hasPrefix("e30.\(winner)") })
        #expect(try database.psql("SELECT count(*) FROM quittance.records") == "1")
    }

    @Test func `works of one group with different roots are not committed together`() async throws {
        let (database, count) = (try TestPostgres.database(), 20)
        let storage = try await database.storage()
        async let ofApple = Self.record(count, of: .apple, in: storage)
        async let ofSimulator = Self.record(count, of: Self.simulator, in: storage)
        #expect(try await [ofApple, ofSimulator].sorted() == [0, count])
        #expect(try database.psql("SELECT count(*) FROM quittance.documents") == "\(count)")
        #expect(try database.psql("SELECT count(*) FROM quittance.records") == "1")
    }
}
