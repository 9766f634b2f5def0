// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

// Row 36 of the worked decisions: the App Store gave a subscription another original transaction id.

@Suite struct MigrationTests {
    private static let catalogue = Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero)

    private static func ledger() -> Ledger {
        Ledger(
            storage: MemoryLedgerStorage(), rules: LedgerRules(catalogues: [Facts.scope.bundleId: catalogue]))
    }

    /// A life before the migration, the migration, and a renewal after it.
    private static func life(_ signed: SignedHistory, refunded: Bool = false) throws -> [SignedHistory.Document] {
        let migrated = try signed.transaction("1", original: "100", signed: 10) {
            $0.previousOriginalTransactionId = "1"
            if refunded { $0.revocationDate = Facts.day(10) }
        }
        return [
            .transaction(try signed.transaction("1", signed: 0)),
            .notification(
                try signed.notification(
                    "MIGRATION", signed: 10, transaction: migrated, renewal: signed.renewal(original: "100", signed: 10)
                )),
        ]
    }

    private static let orders = [[0, 1], [1, 0], [0, 1, 0], [1, 0, 1]]

    @Test(arguments: orders)
    func `a migrated subscription is one purchase, whichever document arrives first`(_ order: [Int]) async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let life = try Self.life(signed)
        for place in order {
            _ = try await ledger.record(
                [signed.evidence(life[place])], claimedBy: place == 0 ? "customer" : nil, at: Facts.day(11))
        }
        let answer = try #require(try await ledger.customer("customer", in: Facts.scope, at: Facts.day(11)))
        #expect(answer.holdings.subscriptions.keys.sorted() == ["100"])
        #expect(answer.purchases.map(\.transactionId) == ["1"])
        #expect(answer.purchases.map(\.originalTransactionId) == ["100"])
        #expect(answer.holdings.entitlements.map(\.name) == ["pro"])
        let old = try await ledger.chain(ChainKey("1", in: Facts.scope))
        #expect(old?.key.originalTransactionId == "100", "the old id leads to the new chain")
    }

    @Test(arguments: orders)
    func `a refund under the new id ends the old purchase`(_ order: [Int]) async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let life = try Self.life(signed, refunded: true)
        for place in order {
            _ = try await ledger.record(
                [signed.evidence(life[place])], claimedBy: place == 0 ? "customer" : nil, at: Facts.day(11))
        }
        let answer = try #require(try await ledger.customer("customer", in: Facts.scope, at: Facts.day(11)))
        #expect(answer.holdings.entitlements.isEmpty)
        #expect(answer.holdings.subscriptions.values.map(\.status) == [.revoked])
    }

    @Test func `the customer of the old chain has the new one, and events say so`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let life = try Self.life(signed)
        _ = try await ledger.record([signed.evidence(life[0])], claimedBy: "customer", at: Facts.day(1))
        _ = try await ledger.record([signed.evidence(life[1])], at: Facts.day(10))
        let events = try await ledger.events(of: Facts.scope.bundleId, limit: 100).events
        let story = events.map { "\($0.kind.rawValue) \($0.originalTransactionId ?? "-")" }
        #expect(
            story == [
                "purchase.linked 1", "subscription.started 1", "purchase.linked 100", "subscription.migrated 1",
                "subscription.started 100",
            ])
        #expect(events[3].detail == "100" && events[3].after == nil && events[3].before?.status == .active)
    }

    @Test func `erasing the customer of a migrated chain leaves no document of either id`() async throws {
        let storage = MemoryLedgerStorage()
        let (ledger, signed) = (Ledger(storage: storage), try SignedHistory())
        for document in try Self.life(signed) {
            _ = try await ledger.record([signed.evidence(document)], claimedBy: "customer", at: Facts.day(11))
        }
        _ = try await ledger.delete("customer", in: Facts.scope, at: Facts.day(12))
        #expect(try await storage.scanDocuments(after: nil, limit: 10).items.isEmpty)
        // What was signed before says nothing any more.
        for document in try Self.life(signed) {
            _ = try await ledger.record([signed.evidence(document)], at: Facts.day(13))
        }
        #expect(try await ledger.chain(ChainKey("1", in: Facts.scope)) == nil)
    }
}
