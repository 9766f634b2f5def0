// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

/// Tests that erased facts stay erased, and that a customer who presents old documents again gains nothing by an
/// erasure.
@Suite struct ErasureTests {
    private static let catalogue = Catalogue(
        products: ["month": .init(entitlements: ["pro"]), "coins": .init(entitlements: [])], staleLeeway: .zero)

    private static func ledger(keepsEvidence: Bool = false) -> Ledger {
        Ledger(
            storage: MemoryLedgerStorage(),
            rules: LedgerRules(catalogues: [Facts.scope.bundleId: catalogue], keepsEvidence: keepsEvidence))
    }

    @Test func `a token from before a refund entitles to nothing after an erasure`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let (bought, refunded) = (
            try signed.transaction(signed: 0), try signed.transaction(signed: 5) { $0.revocationDate = Facts.day(5) }
        )
        for token in [bought, refunded] {
            _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "a", at: Facts.day(6))
        }
        _ = try await ledger.delete("a", in: Facts.scope, at: Facts.day(7))
        _ = try await ledger.record([signed.evidence(transaction: bought)], claimedBy: "b", at: Facts.day(8))
        let answer = try #require(try await ledger.customer("b", in: Facts.scope, at: Facts.day(8)))
        #expect(answer.holdings.entitlements.isEmpty)
        #expect(answer.holdings.subscriptions["1"]?.status == .revoked)
        // A document that was signed after the refund counts: it reverses the refund.
        let reversed = try signed.transaction(signed: 9)
        _ = try await ledger.record([signed.evidence(transaction: reversed)], at: Facts.day(9))
        #expect(
            try await ledger.holdings(of: "b", in: Facts.scope, at: Facts.day(9))?.entitlements.map(\.name) == ["pro"])
    }

    @Test func `a consumable of an erased customer is marked as possibly used if it is presented again`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let coins = try signed.transaction(product: "coins", signed: 0) {
            $0.type = Open(.consumable)
            $0.expiresDate = nil
        }
        _ = try await ledger.record([signed.evidence(transaction: coins)], claimedBy: "a", at: Facts.day(1))
        #expect(try await ledger.customer("a", in: Facts.scope, at: Facts.day(1))?.transferred == [])
        // Twice, so that the residue of the first erasure must outlive the second.
        for id in ["a", "b"] {
            _ = try await ledger.delete(id, in: Facts.scope, at: Facts.day(2))
            _ = try await ledger.record([signed.evidence(transaction: coins)], claimedBy: "b", at: Facts.day(3))
            #expect(try await ledger.customer("b", in: Facts.scope, at: Facts.day(3))?.transferred == ["1"])
        }
    }

    @Test func `the erasure of a claimant keeps the account that its purchase names, with its other purchases`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let account = "0e4f5ff8-dacc-8f45-a6f8-33cc0d129900"
        let tokens = try ["1", "2"].map { id in
            try signed.transaction(id, original: id, signed: 0) { $0.appAccountToken = account }
        }
        for token in tokens { _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(1)) }
        _ = try await ledger.record([signed.evidence(transaction: tokens[0])], claimedBy: "b", at: Facts.day(1))
        _ = try await ledger.delete("b", in: Facts.scope, at: Facts.day(2))
        let answer = try #require(try await ledger.customer(account, in: Facts.scope, at: Facts.day(3)))
        #expect(answer.holdings.subscriptions.keys.sorted() == ["2"])
        #expect(answer.holdings.entitlements.map(\.name) == ["pro"])
    }

    @Test func `a rebuild changes nothing after an erasure and a new claim`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        // One receipt with the purchases of two customers, and a token for each purchase.
        let receipt = SignedHistory.Document.receipt(["1", "2"].map { TestStore.purchase($0) }, created: 1)
        let (token, other) = (
            try signed.transaction("1", signed: 2), try signed.transaction("2", original: "2", signed: 2)
        )
        _ = try await ledger.record([signed.evidence(transaction: other)], claimedBy: "b", at: Facts.day(3))
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "a", at: Facts.day(3))
        _ = try await ledger.record([signed.evidence(receipt)], at: Facts.day(3))
        _ = try await ledger.delete("a", in: Facts.scope, at: Facts.day(4))
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "c", at: Facts.day(5))
        let before = try await ledger.chain(ChainKey("1", in: Facts.scope))
        #expect(before?.transactions["1"]?.receipt == nil, "the receipt stays for the other purchase only")
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(6))
        #expect(rebuilt.faults.isEmpty && rebuilt.differing.isEmpty)
        #expect(try await ledger.chain(ChainKey("1", in: Facts.scope)) == before)
    }

    @Test(arguments: ["anna", "bob"])
    func `an erasure leaves what another customer's purchase learned of a transaction that both had`(
        erased: String
    ) async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        // One transaction under two original ids, beside a purchase of each. The newest document names that of anna.
        for (day, id, original, claimant) in [
            (1.0, "2", "1", "anna"), (1.1, "1", "1", "anna"), (1.2, "3", "9", "bob"), (2, "1", "9", "bob"),
            (3, "1", "1", nil),
        ] as [(Double, String, String, String?)] {
            let from = (Double(id) ?? 1) * 30
            let token = try signed.transaction(id, original: original, signed: day, from: from, until: from + 30) {
                $0.storefront = day == 3 ? nil : "DEU"
            }
            _ = try await ledger.record(
                [signed.evidence(transaction: token)], claimedBy: claimant, at: Facts.day(day))
        }
        let other = erased == "anna" ? "9" : "1"
        let before = try await ledger.chain(ChainKey(other, in: Facts.scope))
        #expect(before?.transactions["1"]?.signed?.storefront == "DEU")
        _ = try await ledger.delete(erased, in: Facts.scope, at: Facts.day(4))
        let after = try await ledger.chain(ChainKey(other, in: Facts.scope))
        #expect(after?.transactions == before?.transactions)
        #expect(try await ledger.check(by: signed.verifier).faults == [])
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(5))
        #expect(rebuilt.faults == [] && rebuilt.differing == [])
        #expect(try await ledger.chain(ChainKey(other, in: Facts.scope)) == after)
    }

    @Test func `a late refund under an erased original id is a refund under the other id too`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        for (day, original, claimant) in [(1.0, "9", "bob"), (2, "1", "anna")] {
            let token = try signed.transaction("1", original: original, signed: day)
            _ = try await ledger.record(
                [signed.evidence(transaction: token)], claimedBy: claimant, at: Facts.day(day))
        }
        _ = try await ledger.delete("bob", in: Facts.scope, at: Facts.day(4))
        func entitlements() async throws -> [String]? {
            try await ledger.holdings(of: "anna", in: Facts.scope, at: Facts.day(6))?.entitlements.map(\.name)
        }
        #expect(try await entitlements() == ["pro"])
        let refund = try signed.transaction("1", original: "9", signed: 3) { $0.revocationDate = Facts.day(3) }
        _ = try await ledger.record([signed.evidence(transaction: refund)], at: Facts.day(5))
        #expect(try await entitlements() == [])
        #expect(try await ledger.events().events.last { $0.kind == .refunded }?.originalTransactionId == "1")
        #expect(try await ledger.check(by: signed.verifier).faults == [])
    }
}
