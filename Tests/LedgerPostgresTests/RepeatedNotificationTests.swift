// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization
import TestData
import TestPostgres
import Testing

@testable import LedgerPostgres

/// Tests notifications that are sent again. They are taken to be new at first, see ``RepeatedNotifications``.
@Suite(.needsPostgres) struct RepeatedNotificationTests {
    /// A notification with a token in it, or the token alone, about one of four chains or about none.
    private struct Sent: Sendable {
        let number: Int
        let documents: [Evidence]

        init(_ number: Int, isToken: Bool = false) {
            let (time, scope) = (Timestamp(milliseconds: Int64(number)), TroubleTests.scope)
            let token = Evidence(.transaction, Array("token \(number)".utf8), scope, time) { _ in ([], []) }
            let sent = Evidence.Notification(uuid: "\(number)", type: "TEST", subtype: nil)
            let notification = Evidence(
                .notification, Array("notification \(number)".utf8), scope, time, parts: [token], notification: sent
            ) { _ in ([], []) }
            (self.number, documents) = (number, isToken ? [token] : [token, notification])
        }

        private var chains: Set<ChainKey> { number % 5 == 0 ? [] : [TroubleTests.key(number % 5)] }

        var query: LedgerQuery {
            LedgerQuery(
                documents.map { .document($0.provenance) } + chains.map(LedgerKey.chain), arriving: documents)
        }

        /// Stores what is not stored. The output is how many documents were.
        @Sendable func decide(_ snapshot: LedgerSnapshot) -> LedgerDecision<Int> {
            let new = documents.filter { !snapshot.names.contains($0.provenance) }
            var changes = LedgerChanges()
            changes.documents = new.map { NewDocument($0, for: chains, receivedAt: Timestamp(milliseconds: 1)) }
            return .commit(changes, documents.count - new.count)
        }
    }

    /// With another home a document that is stored would be stored again. The last one is the SHA-256 of `receipt`.
    @Test(arguments: [
        (["2000000009", "2000000010"], "2000000009"), (["99", "100"], "100"),
        ([], "6f32860910ca0fb2a20c7fda143666b09dbf8db5238195c90a586fb542ff0cad"),
    ])
    func `a document has the home that the first version gave it`(chains: [String], home: String) {
        let document = Evidence(.receipt, Array("receipt".utf8), TroubleTests.scope, nil) { name in
            ([], chains.map { RenewalFact(provenance: name, chain: $0) })
        }
        #expect(document.home == home)
    }

    @Test(.takesLong, arguments: 0..<4 as Range<UInt64>)
    func `each is stored once, and known from then on, by whatever server and in whatever group`(
        seed: UInt64
    ) async throws {
        var random = Seeded(state: seed)
        let database = try TestPostgres.database()
        let storages = [try await database.storage(), try await database.storage()]
        var stored = Set<Provenance>()
        for _ in 0..<60 {
            // Few numbers, so that most come several times, also within a group.
            let works = (0..<Int.random(in: 1...8, using: &random)).map { _ in
                Sent(Int.random(in: 0..<100, using: &random), isToken: Bool.random(using: &random))
            }
            let outcomes = Mutex([Int: Int]())
            await storages.randomElement(using: &random)?.run(
                works.enumerated().map { place, sent in
                    PendingCommit(sent.query, sent.decide) { outcome in
                        outcomes.withLock { $0[place] = try? outcome.get() }
                    }
                })
            let expected = works.map { $0.documents.count { !stored.insert($0.provenance).inserted } }
            #expect(outcomes.withLock { found in works.indices.map { found[$0] } } == expected, "seed \(seed)")
        }
        #expect(try database.psql("SELECT count(*) FROM quittance.documents") == "\(stored.count)")
    }

    @Test func `one in a group that is sent again makes it be decided about once more, not in halves`() async throws {
        let storage = try await TestPostgres.database().storage()
        _ = try await storage.commit(Sent(1).query, Sent(1).decide)
        let known = Mutex([Int: Int]())
        let runs = Mutex([Int: Int]())
        await storage.run(
            (1...8).map { Sent($0) }.map { sent in
                PendingCommit(
                    sent.query,
                    { snapshot in
                        runs.withLock { $0[sent.number, default: 0] += 1 }
                        return sent.decide(snapshot)
                    }, answer: { outcome in known.withLock { $0[sent.number] = try? outcome.get() } })
            })
        #expect(known.withLock { found in (1...8).map { found[$0] } } == [2, 0, 0, 0, 0, 0, 0, 0])
        #expect(runs.withLock { Set($0.values) } == [2])
    }

    @Test func `a decision that stores nothing, or throws, has seen what is stored`() async throws {
        let database = try TestPostgres.database()
        let sent = Sent(1)
        let storage = try await database.storage()
        #expect(try await storage.commit(sent.query, sent.decide) == 0)
        #expect(try await storage.commit(sent.query) { .commit(LedgerChanges(), $0.names.count) } == 2)
        try await database.storage().commit(sent.query) { snapshot in
            guard snapshot.names.count == 2 else { throw CancellationError() }
            return .commit(LedgerChanges(), ())
        }
    }

    @Test func `after one that was sent again all are looked up, until none was stored`() async throws {
        let storage = try await TestPostgres.database().storage()
        func decisions(about number: Int) async throws -> Int {
            let sent = Sent(number)
            let runs = Atomic(0)
            _ = try await storage.commit(sent.query) { snapshot in
                runs.add(1, ordering: .relaxed)
                return sent.decide(snapshot)
            }
            return runs.load(ordering: .relaxed)
        }
        #expect(try await decisions(about: 1) == 1)
        // It is taken to be new, then it is looked up.
        #expect(try await decisions(about: 1) == 2)
        for _ in 0..<3 { #expect(try await decisions(about: 1) == 1) }
        #expect(try await decisions(about: 2) == 1)
        #expect(try await decisions(about: 3) == 1)
        #expect(try await decisions(about: 1) == 2)
    }
}
