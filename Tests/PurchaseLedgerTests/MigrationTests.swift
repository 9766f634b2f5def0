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

    /// A transaction under the old id, and the notification about the migration.
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

    @Test func `the customer of the old chain owns the new one, and the events say so`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let life = try Self.life(signed)
        _ = try await ledger.record([signed.evidence(life[0])], claimedBy: "customer", at: Facts.day(1))
        _ = try await ledger.record([signed.evidence(life[1])], at: Facts.day(10))
        let events = try await ledger.events().events
        let story = events.map { "\($0.kind.rawValue) \($0.originalTransactionId ?? "-")" }
        #expect(
            story == [
                "purchase.linked 1", "subscription.started 1", "purchase.linked 100", "subscription.migrated 1",
                "subscription.started 100",
            ])
        #expect(
            events[3].content?.detail == "100" && events[3].content?.after == nil
                && events[3].content?.before?.status == .active)
    }

    @Test func `erasing the customer of a migrated chain leaves no document of either id`() async throws {
        let storage = MemoryLedgerStorage()
        let (ledger, signed) = (Ledger(storage: storage), try SignedHistory())
        for document in try Self.life(signed) {
            _ = try await ledger.record([signed.evidence(document)], claimedBy: "customer", at: Facts.day(11))
        }
        _ = try await ledger.delete("customer", in: Facts.scope, at: Facts.day(12))
        #expect(try await storage.documents(.all, limit: 10).isEmpty)
        // Documents that were signed before the erasure have no effect any more.
        for document in try Self.life(signed) {
            _ = try await ledger.record([signed.evidence(document)], at: Facts.day(13))
        }
        #expect(try await ledger.chain(ChainKey("1", in: Facts.scope)) == nil)
    }

    private static func link(
        _ signed: SignedHistory, _ old: String, _ new: String, signed day: Double = 10
    ) throws -> String {
        try signed.transaction("t\(new)", original: new, signed: day, until: 30) {
            $0.previousOriginalTransactionId = old
        }
    }

    @Test func `a chain that shares a transaction with a migrated one is the same, whatever arrives first`()
        async throws
    {
        let signed = try SignedHistory()
        let documents = try [
            signed.transaction("1", original: "9", signed: 1), signed.transaction("1", signed: 2),
            Self.link(signed, "1", "100"),
        ]
        var found: Set<[Chain?]> = []
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [1, 2, 0, 1, 0]] {
            let ledger = Self.ledger()
            for place in order {
                _ = try await ledger.record([signed.evidence(transaction: documents[place])], at: Facts.day(11))
            }
            let other = try await ledger.chain(ChainKey("9", in: Facts.scope))
            found.insert([other, try await ledger.chain(ChainKey("1", in: Facts.scope))])
            #expect(try await ledger.check(by: signed.verifier).faults == [], "\(order)")
            let counting = try await ledger.chain(of: TransactionKey("1", in: Facts.scope))
            #expect(counting?.key.name == "100", "\(order)")
        }
        #expect(found.count == 1)
    }

    @Test func `a grace period continues after a migration`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let failed = try signed.notification(
            "DID_FAIL_TO_RENEW", subtype: "GRACE_PERIOD", signed: 30, transaction: signed.transaction(signed: 30),
            renewal: signed.renewal(signed: 30, retry: true, grace: 46))
        let migrated = try signed.transaction("1", original: "100", signed: 20) {
            $0.previousOriginalTransactionId = "1"
        }
        for (document, day) in [(SignedHistory.Document.notification(failed), 31.0), (.transaction(migrated), 32)] {
            _ = try await ledger.record([signed.evidence(document)], claimedBy: "customer", at: Facts.day(day))
        }
        let holdings = try await ledger.holdings(of: "customer", in: Facts.scope, at: Facts.day(33))
        #expect(holdings?.subscriptions["100"]?.status == .billingGrace)
        // Renewal info under the old id counts for the new chain.
        let disabled = try signed.notification(
            "DID_CHANGE_RENEWAL_STATUS", signed: 34, transaction: signed.transaction(signed: 34),
            renewal: signed.renewal(signed: 34, renews: false))
        _ = try await ledger.record([signed.evidence(notification: disabled)], at: Facts.day(34))
        #expect(try await ledger.chain(ChainKey("100", in: Facts.scope))?.renewal?.willRenew == false)
    }

    @Test func `the refunds of two erased chains still count after one is migrated into the other`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let tokens = try ["1", "100"].map { id in
            try (
                signed.transaction(id, original: id),
                signed.transaction(id, original: id, signed: 5) {
                    $0.revocationDate = Facts.day(5)
                }
            )
        }
        for (_, refunded) in tokens {
            _ = try await ledger.record([signed.evidence(transaction: refunded)], claimedBy: "a", at: Facts.day(6))
        }
        _ = try await ledger.delete("a", in: Facts.scope, at: Facts.day(7))
        let link = try signed.transaction("1", original: "100", signed: 4) { $0.previousOriginalTransactionId = "1" }
        for token in [link] + tokens.map(\.0) {
            _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "b", at: Facts.day(40))
        }
        #expect(try await ledger.holdings(of: "b", in: Facts.scope, at: Facts.day(20))?.entitlements == [])
    }

    @Test func `nine migrations in a row lead to the newest chain, whatever the order of their arrival`() async throws {
        let signed = try SignedHistory()
        let links = try (1...9).map { try Self.link(signed, "\($0)", "\($0 + 1)", signed: Double($0)) }
        for order in [Array(0..<9), Array((0..<9).reversed()), [4, 0, 8, 2, 6, 1, 3, 7, 5]] {
            let ledger = Self.ledger()
            for place in order {
                _ = try await ledger.record([signed.evidence(transaction: links[place])], at: Facts.day(11))
            }
            for id in 1...10 {
                let chain = try await ledger.chain(ChainKey("\(id)", in: Facts.scope))
                #expect(chain?.key.originalTransactionId == "10" && chain?.transactions.count == 9, "\(order) \(id)")
            }
        }
    }

    @Test func `a migration is published even if its document is older than the erasure of the new chain`() async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let link = try Self.link(signed, "1", "100")
        _ = try await ledger.record([signed.evidence(transaction: link)], claimedBy: "a", at: Facts.day(11))
        _ = try await ledger.delete("a", in: Facts.scope, at: Facts.day(12))
        let other = Self.ledger()
        _ = try await other.record(
            [signed.evidence(transaction: signed.transaction("100", original: "100"))], claimedBy: "a", at: Facts.day(1)
        )
        _ = try await other.delete("a", in: Facts.scope, at: Facts.day(15))
        _ = try await other.record(
            [signed.evidence(transaction: signed.transaction(signed: 14))], claimedBy: "b", at: Facts.day(15))
        _ = try await other.record([signed.evidence(transaction: link)], at: Facts.day(16))
        let events = try await other.events().events
        #expect(events.last { $0.originalTransactionId == "100" }?.content?.after?.status == .active)
        #expect(
            try await other.holdings(of: "b", in: Facts.scope, at: Facts.day(16))?.entitlements.map(\.name) == ["pro"])
        #expect(try await other.publishDueChanges(at: Facts.day(31)) == 1, "its end is due")
    }

    @Test func `an erased document under the old id has no effect even if another customer owns the new chain`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let old = try signed.notification("SUBSCRIBED", signed: 0, transaction: signed.transaction(signed: 0))
        _ = try await ledger.record([signed.evidence(notification: old)], claimedBy: "a", at: Facts.day(1))
        _ = try await ledger.delete("a", in: Facts.scope, at: Facts.day(5))
        _ = try await ledger.record(
            [signed.evidence(transaction: Self.link(signed, "1", "100"))], claimedBy: "b", at: Facts.day(11))
        _ = try await ledger.record([signed.evidence(notification: old)], at: Facts.day(12))
        let chain = try #require(try await ledger.chain(ChainKey("100", in: Facts.scope)))
        #expect(chain.transactions.keys.sorted() == ["t100"])
    }

    @Test(arguments: TestStorage.allCases)
    func `a notification about the old id is erased with the new chain`(_ kind: TestStorage) async throws {
        let (storage, signed) = (kind.make(), try SignedHistory())
        let ledger = Ledger(storage: storage)
        let late = try signed.notification(
            "REFUND_DECLINED", signed: 12, transaction: signed.transaction(signed: 12),
            renewal: signed.renewal(signed: 12))
        for document in try Self.life(signed) + [.notification(late)] {
            _ = try await ledger.record([signed.evidence(document)], claimedBy: "customer", at: Facts.day(13))
        }
        _ = try await ledger.delete("customer", in: Facts.scope, at: Facts.day(14))
        #expect(try await storage.documents(.all, limit: 10).isEmpty)
    }

    @Test func `an empty previous original transaction id causes no migration`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        for id in ["1", "100"] {
            let token = try signed.transaction(id, original: id) { $0.previousOriginalTransactionId = "" }
            _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: id, at: Facts.day(1))
        }
        for id in ["1", "100"] {
            let holdings = try await ledger.holdings(of: id, in: Facts.scope, at: Facts.day(1))
            #expect(holdings?.subscriptions.keys.sorted() == [id])
        }
    }
}
