// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests which customer owns a purchase after notifications and claims, in the order of their arrival.
@Suite struct ClaimPolicyTests {
    /// A ledger in memory, and the documents signed for it.
    struct Shop {
        var ledger: Ledger
        let signed: SignedHistory

        init(_ policy: ClaimPolicy = .accountTokenWins) throws {
            signed = try SignedHistory()
            let catalogue = Catalogue(products: [
                "month": .init(entitlements: ["pro"]), "book": .init(entitlements: ["book"]),
            ])
            ledger = Ledger(catalogue, policy, in: TestStorage.unsteady.make())
        }

        /// A month from day 0, or a later one.
        func month(_ token: String? = nil, period: Int = 0) async throws -> Evidence {
            let start = Double(period) * 30
            return try await signed.evidence(
                transaction: signed.transaction("\(period + 1)", signed: start, from: start, until: start + 30) {
                    $0.appAccountToken = token
                })
        }

        /// An app receipt with the first month. Receipts name no account.
        func receipt() async throws -> Evidence {
            try await signed.evidence(receipt: [TestStore.purchase()], created: 1)
        }

        func notify(_ evidence: Evidence...) async throws {
            for document in evidence { _ = try await ledger.record([document], at: Facts.day(1)) }
        }

        /// Whether the claim was accepted.
        @discardableResult
        func claim(_ id: String, _ evidence: Evidence..., day: Double = 1, limits: Bool = false) async throws -> Bool {
            let recorded = try await ledger.record(evidence, claimedBy: id, limitsClaims: limits, at: Facts.day(day))
            return recorded.kept.isEmpty
        }

        /// The first id of each owner of the month.
        func owners() async throws -> [String] {
            try await ledger.owners().map { $0.first ?? "" }
        }

        func isEstablished(_ id: String) async throws -> Bool? {
            try await ledger.isEstablished(id)
        }
    }

    private static let (token, other) = ("0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11", "7e3fb204-2a7d-41e6-b58f-0c6b8e6f4a31")

    @Test func `one request tells only who owns a purchase in the end`() async throws {
        for policy in [ClaimPolicy.accountTokenWins, .transfer] {
            let shop = try Shop(policy)
            try await shop.claim("anna", shop.month(Self.token))
            #expect(try await shop.ledger.words() == ["purchase.linked anna", "subscription.started 1 anna"])
        }
        // A later token names another, and the owner presents it.
        let (shop, id) = (try Shop(.transfer), Self.token)
        try await shop.notify(shop.month(id))
        try await shop.claim(id, shop.month(Self.other, period: 1), day: 31)
        #expect(try await shop.owners() == [id])
        #expect(
            try await shop.ledger.words() == [
                "purchase.linked \(id)", "subscription.started 1 \(id)", "subscription.renewed 2 \(id)",
            ])
    }

    // MARK: accountTokenWins

    @Test func `the default policy is accountTokenWins`() throws {
        #expect(Ledger(storage: MemoryLedgerStorage()).rules.claimPolicy == .accountTokenWins)
    }

    @Test func `a stolen document does not take a purchase from the account that it names`() async throws {
        let shop = try Shop()
        let document = try await shop.month(Self.token)
        #expect(try await shop.claim(Self.token, document))
        #expect(try await !shop.claim("thief", document))
        #expect(try await shop.owners() == [Self.token])
        // A new document that is presented with a refused claim is recorded nevertheless.
        let renewal = try await shop.month(Self.token, period: 1)
        #expect(try await shop.ledger.record([renewal], claimedBy: "thief", at: Facts.day(31)).new == 1)
        #expect(try await shop.isEstablished("thief") == true)
        #expect(try await shop.owners() == [Self.token])
    }

    @Test(arguments: [true, false])
    func `a claim takes a purchase from an account that is known only from a token`(
        isNotified: Bool
    ) async throws {
        let shop = try Shop()
        let document = try await shop.month(Self.token)
        if isNotified { try await shop.notify(document) }
        #expect(try await shop.claim("anna", document))
        #expect(try await shop.owners() == ["anna"])
        #expect(try await shop.isEstablished(Self.token) == false)
        try await shop.notify(document, shop.month(Self.token, period: 1), shop.month(Self.other, period: 2))
        #expect(try await shop.owners() == ["anna"])
    }

    @Test
    func `an accepted claim outlasts the establishment of the named account, until that account presents the purchase`()
        async throws
    {
        let shop = try Shop()
        let document = try await shop.month(Self.token)
        #expect(try await shop.claim("anna", document))
        let book = try await shop.signed.evidence(
            transaction: shop.signed.transaction("5", original: "5", product: "book", until: nil, type: .nonConsumable))
        #expect(try await shop.claim(Self.token, book))
        #expect(try await shop.isEstablished(Self.token) == true)
        try await shop.notify(document, shop.month(Self.token, period: 1))
        #expect(try await shop.owners() == ["anna"])
        #expect(try await shop.claim("anna", document))
        #expect(try await !shop.claim("bert", document))
        #expect(try await shop.owners() == ["anna"])
        #expect(try await shop.claim(Self.token.uppercased(), document))
        #expect(try await !shop.claim("anna", document))
        #expect(try await shop.owners() == [Self.token])
    }

    @Test func `the newest token counts, even if an older one arrives later`() async throws {
        for isLate in [false, true] {
            let shop = try Shop()
            let documents = [try await shop.month(Self.other), try await shop.month(Self.token, period: 1)]
            try await shop.claim(Self.token, shop.month(nil, period: 2))
            try await shop.notify(documents[isLate ? 1 : 0], documents[isLate ? 0 : 1])
            #expect(try await !shop.claim("anna", documents[0]))
            #expect(try await shop.owners() == [Self.token])
        }
    }

    @Test func `an alias establishes its customer, so that no claim takes its purchase`() async throws {
        let shop = try Shop()
        try await shop.notify(shop.month(Self.token))
        #expect(try await shop.isEstablished(Self.token) == false)
        #expect(try await shop.ledger.addAlias("anna", to: Self.token, in: Facts.scope, at: Facts.day(1)))
        #expect(try await shop.isEstablished("anna") == true)
        #expect(try await shop.claim("anna", shop.receipt()))
        #expect(try await !shop.claim("thief", shop.receipt()))
    }

    @Test func `a customer stays established after a merge, a rebuild, and the deletion of its purchase's owner`()
        async throws
    {
        let shop = try Shop()
        let document = try await shop.month(Self.token)
        // Merges two customers. Only the one whose record goes was established.
        try await shop.claim("anna", document)
        let book = try await shop.signed.evidence(
            transaction: shop.signed.transaction("5", original: "5", product: "book", until: nil, type: .nonConsumable)
            {
                $0.appAccountToken = Self.other
            })
        try await shop.notify(book)
        #expect(try await shop.ledger.addAlias("anna", to: Self.other, in: Facts.scope, at: Facts.day(2)))
        #expect(try await shop.isEstablished(Self.other) == true)
        // An empty receipt establishes the account that the purchase names. Deleting the owner must not change that.
        try await shop.claim(Self.token, shop.signed.evidence(receipt: [], created: 3))
        let rebuilt = try await shop.ledger.rebuild(by: shop.signed.verifier, at: Facts.day(3))
        #expect(rebuilt.faults.isEmpty && rebuilt.differing.isEmpty)
        #expect(try await shop.isEstablished(Self.token) == true)
        _ = try await shop.ledger.delete("anna", in: Facts.scope, at: Facts.day(4))
        #expect(try await shop.isEstablished(Self.token) == true)
        #expect(try await shop.isEstablished("anna") == nil)
    }

    @Test(arguments: [ClaimPolicy.accountTokenWins, .keep])
    func `the order of documents that are presented together does not matter`(policy: ClaimPolicy) async throws {
        for isReversed in [false, true] {
            let shop = try Shop(policy)
            try await shop.claim(Self.token, shop.signed.evidence(receipt: [], created: 3))
            let documents = [try await shop.receipt(), try await shop.month(Self.token)]
            let recorded = try await shop.ledger.record(
                isReversed ? documents.reversed() : documents, claimedBy: "thief", at: Facts.day(1))
            #expect(recorded.kept == [Facts.key])
            #expect(recorded.new == 2)
            #expect(try await shop.owners() == [Self.token])
        }
    }

    // MARK: transferIfInactive

    @Test func `with transferIfInactive a purchase in force stays, also if the catalogue gives nothing for it`()
        async throws
    {
        let shop = try Shop(.transferIfInactive)
        let unlisted = try await shop.signed.evidence(
            transaction: shop.signed.transaction("5", original: "5", product: "unlisted"))
        let app = try await shop.signed.verifier.evidence(
            appTransaction: shop.signed.sign(TestStore.appTransaction()), at: Facts.day(0))
        for (evidence, ends) in [(unlisted, true), (app, false)] {
            #expect(try await shop.claim("anna", evidence, day: 1))
            #expect(try await !shop.claim("bert", evidence, day: 1))
            #expect(try await shop.claim("bert", evidence, day: 40) == ends)
        }
    }

    @Test func `with transferIfInactive a purchase moves only if it is not in force`() async throws {
        let shop = try Shop(.transferIfInactive)
        let document = try await shop.month()
        #expect(try await shop.claim("anna", document, day: 1))
        #expect(try await !shop.claim("bert", document, day: 29))
        // The period is over, but still within the leeway of an hour.
        #expect(try await !shop.claim("bert", document, day: 30.03))
        #expect(try await shop.owners() == ["anna"])
        #expect(try await shop.claim("bert", document, day: 30.05))
        #expect(try await shop.owners() == ["bert"])
        // The presented documents count too: with the new renewal the subscription is active, so bert keeps it.
        #expect(try await !shop.claim("anna", shop.month(period: 1), day: 31))
        #expect(try await shop.owners() == ["bert"])
    }

    // MARK: The bound

    @Test(arguments: [ClaimPolicy.transfer, .share])
    func `claims change the owner of a purchase ten times in 24 hours, and the next leaves it with its owners`(
        policy: ClaimPolicy
    ) async throws {
        let shop = try Shop(policy)
        let document = try await shop.month()
        // The first claim takes the purchase from no customer. A claim that changes nothing does not count.
        for _ in 0..<3 { #expect(try await shop.claim("c0", document, limits: true)) }
        for number in 1...10 { #expect(try await shop.claim("c\(number)", document, limits: true)) }
        let owners = try await shop.owners()
        let documents = try await [shop.month(period: 1), document]
        let recorded = try await shop.ledger.record(documents, claimedBy: "c11", limitsClaims: true, at: Facts.day(1.5))
        #expect(recorded.tooManyClaims == [Facts.key: Facts.day(2)] && recorded.kept == [Facts.key])
        #expect(try await shop.owners() == owners)
        // The document is recorded nevertheless: a receipt may have more than the disputed purchase.
        #expect(recorded.new == 1)
        // The owner may present it again, a notification is recorded, and a trusted caller has no limit.
        #expect(try await shop.claim("c10", document, day: 1.5, limits: true))
        try await shop.notify(shop.month(period: 2))
        #expect(try await shop.claim("support", document, day: 1.5))
        #expect(try await shop.claim("c11", document, day: 2.5, limits: true))
    }

    @Test func `a claim whose request began before others does not reset the count`() async throws {
        let shop = try Shop(.transfer)
        let document = try await shop.month()
        for number in 0...10 { #expect(try await shop.claim("c\(number)", document, day: 1, limits: true)) }
        // The request of this claim began 43 seconds before the others.
        #expect(try await !shop.claim("c11", document, day: 0.9995, limits: true))
        #expect(try await !shop.claim("c12", document, day: 1, limits: true))
    }

    @Test func `the account that a purchase names always gets the purchase back`() async throws {
        let shop = try Shop()
        let document = try await shop.month(Self.token)
        for number in 0...10 { try await shop.claim("c\(number)", document, limits: true) }
        #expect(try await !shop.claim("c11", document, limits: true))
        #expect(try await shop.claim(Self.token, document, limits: true))
        #expect(try await !shop.claim("c12", document, limits: true))
        #expect(try await shop.owners() == [Self.token])
    }
}
