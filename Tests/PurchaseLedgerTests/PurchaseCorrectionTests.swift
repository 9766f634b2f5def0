// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import TestData
import Testing

/// Tests the corrections of purchases by a backend: owners are set whatever the policy, and purchases are denied.
@Suite struct PurchaseCorrectionTests {
    private typealias Shop = ClaimPolicyTests.Shop

    private static let token = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"

    private static func correction(_ reason: String = "a mistake") throws -> Correction {
        try #require(Correction(by: "5tnvindf", reason: reason))
    }

    private static func transaction(_ id: String = "1") -> TransactionKey { TransactionKey(id, in: Facts.scope) }

    // MARK: Owners

    @Test(arguments: ClaimPolicy.allCases)
    func `a correction sets the owners of a purchase whatever the policy, and documents do not change them`(
        policy: ClaimPolicy
    ) async throws {
        let shop = try Shop(policy)
        let document = try await shop.month(Self.token)
        try await shop.claim("anna", document)
        let moved = try await shop.ledger.move(
            Self.transaction(), to: ["bert"], Self.correction(), at: Facts.day(2))
        #expect(moved?.owners.map(\.id) == ["bert"] && moved?.owners.map(\.reason.known) == [.correction])
        #expect(try await shop.owners() == ["bert"])
        #expect(try await shop.isEstablished("bert") == true)
        try await shop.notify(document, shop.month(Self.token, period: 1))
        #expect(try await shop.owners() == ["bert"])
        let rebuilt = try await shop.ledger.rebuild(by: shop.signed.verifier, at: Facts.day(3))
        #expect(rebuilt.differing == [] && rebuilt.faults == [])
        #expect(try await shop.owners() == ["bert"])
    }

    @Test(arguments: ClaimPolicy.allCases)
    func `an owner set by a correction yields to corrections alone`(policy: ClaimPolicy) async throws {
        let shop = try Shop(policy)
        let document = try await shop.month(Self.token)
        try await shop.claim("anna", document)
        _ = try await shop.ledger.move(Self.transaction(), to: ["bert"], Self.correction(), at: Facts.day(1))
        for limits in [true, false] {
            for claimant in ["anna", Self.token, "cora"] {
                #expect(try await !shop.claim(claimant, document, limits: limits))
            }
            #expect(try await shop.claim("bert", document, limits: limits))
        }
        #expect(try await shop.owners() == ["bert"])
        // A claim of a backend that says that it corrects.
        for claimant in ["cora", "cora", "anna"] {
            let result = try await shop.ledger.record(
                [document], claimedBy: claimant, corrects: true, at: Facts.day(2))
            #expect(result.kept == [])
            #expect(try await shop.owners() == [claimant])
        }
        #expect(try await !shop.claim("cora", document))
    }

    /// Claims, documents with other tokens, corrections, erasures, and migrations to a new original transaction id.
    /// Half of the ledgers keep all documents.
    @Test(arguments: ClaimPolicy.allCases, Seeds.first(Seeds.isOptimised ? 40 : 8))
    func `no purchase returns to whom a correction took it from`(policy: ClaimPolicy, seed: UInt64) async throws {
        var random = SeededRandom(seed: seed)
        var shop = try Shop(policy)
        shop.ledger.rules.keepsEvidence = seed.isMultiple(of: 2)
        let customers = ["anna", "bert", "cora", Self.token]
        // The owners, since a correction has set them.
        var corrected: Set<String>?
        for step in 0..<30 {
            let day = 1 + Double(step) / 100
            let customer = try #require(customers.randomElement(using: &random))
            let token = [nil, Self.token].randomElement(using: &random) ?? nil
            let document = try await shop.signed.evidence(
                transaction: shop.signed.transaction(
                    ["1", "2"].randomElement(using: &random) ?? "1",
                    original: ["1", "1", "1", "9"].randomElement(using: &random) ?? "1", signed: day
                ) {
                    $0.appAccountToken = token
                    $0.previousOriginalTransactionId = $0.originalTransactionId == "9" ? "1" : nil
                })
            switch Int.random(in: 0..<9, using: &random) {
            case 0:
                let owners = Set([customer, try #require(customers.randomElement(using: &random))])
                let moved = try await shop.ledger.move(
                    Self.transaction(), to: owners.sorted(), Self.correction(), at: Facts.day(day))
                if moved != nil { corrected = owners }
            case 1:
                _ = try await shop.ledger.record([document], claimedBy: customer, corrects: true, at: Facts.day(day))
                corrected = [customer]
            case 2, 3: try await shop.notify(document)
            case 4:
                _ = try await shop.ledger.delete(customer, in: Facts.scope, at: Facts.day(day))
                corrected?.remove(customer)
            default: _ = try await shop.claim(customer, document, limits: .random(using: &random))
            }
            guard let corrected else { continue }
            var found: Set<String> = []
            for customer in customers {
                let holdings = try await shop.ledger.holdings(of: customer, in: Facts.scope, at: Facts.day(day))
                if holdings?.subscriptions.isEmpty == false { found.insert(customer) }
            }
            #expect(found == corrected, "seed \(seed), step \(step)")
        }
    }

    @Test(arguments: ClaimPolicy.allCases, Seeds.first(12))
    func `a correction and a denial last under whatever original id a transaction comes`(
        policy: ClaimPolicy, seed: UInt64
    ) async throws {
        var random = SeededRandom(seed: seed)
        let shop = try Shop(policy)
        let customers = ["anna", "bert", "cora"]
        var corrected: Set<String> = []
        var isDenied = false
        for step in 0..<40 {
            let now = Facts.day(1 + Double(step) / 100)
            let customer = try #require(customers.randomElement(using: &random))
            let document = try await shop.signed.evidence(
                transaction: shop.signed.transaction(
                    "1", original: ["1", "7", "9"].randomElement(using: &random) ?? "1", signed: 1 + Double(step) / 100)
            )
            switch step == 0 ? 9 : step == 1 ? 0 : Int.random(in: 0..<9, using: &random) {
            case 0:
                corrected = [customer]
                _ = try await shop.ledger.move(Self.transaction(), to: [customer], Self.correction(), at: now)
            case 1:
                isDenied = try await shop.ledger.deny(Self.transaction(), Self.correction(), at: now) != nil
            case 2:
                isDenied = try await shop.ledger.allow(Self.transaction(), Self.correction(), at: now) == nil
            case 3...6: _ = try await shop.ledger.record([document], at: now)
            default: _ = try await shop.ledger.record([document], claimedBy: customer, at: now)
            }
            guard step > 0 else { continue }
            for customer in customers {
                let holdings = try await shop.ledger.holdings(of: customer, in: Facts.scope, at: now)
                let isOwner = corrected.contains(customer)
                #expect(
                    holdings?.entitlements.isEmpty ?? true == !(isOwner && !isDenied),
                    "seed \(seed), step \(step), \(customer)")
            }
        }
    }

    @Test(arguments: [(false, "1"), (true, "1"), (true, "9")])
    func `after the erasure of a corrected owner, only a correction gives the purchase to somebody`(
        keepsEvidence: Bool, original: String
    ) async throws {
        var shop = try Shop(.transfer)
        shop.ledger.rules.keepsEvidence = keepsEvidence
        try await shop.claim("anna", shop.month())
        _ = try await shop.ledger.move(Self.transaction(), to: ["bert"], Self.correction(), at: Facts.day(2))
        _ = try await shop.ledger.delete("bert", in: Facts.scope, at: Facts.day(3))
        // Under its own original id, or under a new one.
        let document = try await shop.signed.evidence(
            transaction: shop.signed.transaction("1", original: original, signed: 4) { $0.appAccountToken = Self.token }
        )
        let key = ChainKey(original, in: Facts.scope)
        for customer in ["anna", Self.token] {
            #expect(try await !shop.claim(customer, document, day: 5))
            #expect(try await shop.ledger.owners(key) == [])
        }
        _ = try await shop.ledger.record([document], claimedBy: "cora", corrects: true, at: Facts.day(6))
        #expect(try await shop.ledger.owners(key) == [["cora"]])
    }

    @Test func `the events of a correction have who corrected and why, and tell who owns the purchase`() async throws {
        let shop = try Shop(.keep)
        try await shop.claim("anna", shop.month())
        let before = try await shop.ledger.events().events.count
        let correction = try Self.correction("a gift")
        _ = try await shop.ledger.move(Self.transaction(), to: ["bert", "cora"], correction, at: Facts.day(2))
        let page = try await shop.ledger.events()
        let events = page.events.dropFirst(before)
        #expect(events.map(\.kind.known) == [.unlinked, .linked, .linked])
        #expect(events.map { page.customerId(of: $0) } == ["anna", "bert", "cora"])
        #expect(events.allSatisfy { $0.content?.detail == "correction" && $0.content?.correction == correction })
        #expect(events.last?.content?.after?.status == .active)
        // A repetition publishes nothing.
        _ = try await shop.ledger.move(Self.transaction(), to: ["bert", "cora"], correction, at: Facts.day(3))
        #expect(try await shop.ledger.events().events.count == page.events.count)
    }

    @Test func `a purchase is found by each of its transactions, and an unknown one is left alone`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month(period: 1))
        for (id, customer) in [("2", "bert"), ("1", "cora")] {
            let moved = try await shop.ledger.move(
                Self.transaction(id), to: [customer, customer], Self.correction(), at: Facts.day(31))
            #expect(moved?.key == Facts.key && moved?.owners.map(\.id) == [customer])
        }
        #expect(
            try await shop.ledger.move(Self.transaction("9"), to: ["x"], Self.correction(), at: Facts.day(1)) == nil)
        #expect(try await shop.ledger.deny(Self.transaction("9"), Self.correction(), at: Facts.day(1)) == nil)
        #expect(try await shop.isEstablished("x") == nil)
    }

    @Test func `ids that are equivalent in Unicode are different owners`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        _ = try await shop.ledger.move(
            Self.transaction(), to: ["\u{212A}", "K"], Self.correction(), at: Facts.day(1))
        let owners = try await shop.owners()
        #expect(owners.map { Array($0.utf8) } == [Array("\u{212A}".utf8), Array("K".utf8)])
    }

    @Test(arguments: [("", false), ("  \n", false), ("x", true), (String(repeating: "é", count: 501), false)])
    func `a correction needs a reason of at most 500 characters`(reason: String, isValid: Bool) {
        #expect((Correction(by: "quittance", reason: reason) != nil) == isValid)
        #expect(Correction(by: "quittance", reason: String(reason.prefix(500)) + "x") != nil || reason.count > 500)
    }

    // MARK: Denials

    private static func status(_ shop: Shop, _ id: String, day: Double) async throws -> (Set<String>, [String]) {
        let holdings = try await shop.ledger.holdings(of: id, in: Facts.scope, at: Facts.day(day))
        return (holdings?.refused ?? [], holdings?.entitlements.map(\.name) ?? [])
    }

    @Test func `a denied purchase grants nothing until it is allowed, and each is one event with its reason`()
        async throws
    {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        let before = try await shop.ledger.events().events.count
        let reasons = ["chargeback", "again", "the bank paid", "again"]
        for (index, reason) in reasons.enumerated() {
            let correction = try Self.correction(reason)
            let isDenied = index < 2
            let corrected =
                isDenied
                ? try await shop.ledger.deny(Self.transaction(), correction, at: Facts.day(2))
                : try await shop.ledger.allow(Self.transaction(), correction, at: Facts.day(3))
            let denial = Chain.Denial(at: Facts.day(2), reason: "chargeback")
            #expect(corrected?.denial == (isDenied ? denial : nil))
            let (refused, entitlements) = try await Self.status(shop, "anna", day: 4)
            #expect(refused == (isDenied ? ["1"] : []) && entitlements == (isDenied ? [] : ["pro"]))
        }
        let events = try await shop.ledger.events().events.dropFirst(before)
        #expect(
            events.map(\.kind.known) == [
                .subscriptionRevoked, .purchaseDenied, .subscriptionRecovered, .purchaseAllowed,
            ])
        #expect(
            events.map(\.content?.correction?.reason) == ["chargeback", "chargeback", "the bank paid", "the bank paid"])
        #expect(events.map(\.content?.after?.status.known) == [.revoked, .revoked, .active, .active])
    }

    @Test func `a denial outlasts documents, a rebuild, an erasure, a copy and a new claim`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        _ = try await shop.ledger.deny(Self.transaction(), Self.correction(), at: Facts.day(2))
        try await shop.claim("anna", shop.month(period: 1), day: 31)
        #expect(try await Self.status(shop, "anna", day: 32) == (["1"], []))
        let rebuilt = try await shop.ledger.rebuild(by: shop.signed.verifier, at: Facts.day(32))
        #expect(rebuilt.differing == [] && rebuilt.faults == [])
        _ = try await shop.ledger.delete("anna", in: Facts.scope, at: Facts.day(33))
        #expect(try await shop.claim("bert", shop.month(period: 1), day: 34))
        #expect(try await Self.status(shop, "bert", day: 34) == (["1"], []))
        let copy = MemoryLedgerStorage()
        _ = try await LedgerCopy(
            from: shop.ledger.storage, named: "shop", to: copy, by: shop.signed.verifier
        ).run(at: Facts.day(35))
        let copied = try await Ledger(storage: copy, rules: shop.ledger.rules).holdings(
            of: "bert", in: Facts.scope, at: Facts.day(35))
        #expect(copied?.refused == ["1"])
    }

    @Test func `a denied subscription stays denied under a new original transaction id`() async throws {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        _ = try await shop.ledger.deny(Self.transaction(), Self.correction(), at: Facts.day(2))
        let token = try shop.signed.transaction("1", original: "100", signed: 10) {
            $0.previousOriginalTransactionId = "1"
        }
        try await shop.notify(shop.signed.evidence(transaction: token))
        #expect(try await Self.status(shop, "anna", day: 12) == (["100"], []))
        let allowed = try await shop.ledger.allow(Self.transaction("1"), Self.correction(), at: Facts.day(12))
        #expect(allowed?.key.name == "100")
        #expect(try await Self.status(shop, "anna", day: 12) == ([], ["pro"]))
    }

    @Test func `without a catalogue a denial is stored, and a ledger with the catalogue publishes its effect`()
        async throws
    {
        let shop = try Shop()
        try await shop.claim("anna", shop.month())
        _ = try await shop.ledger.publishCatalogueChanges(at: Facts.day(1))
        var other = shop.ledger
        other.rules.catalogues = [:]
        _ = try await other.deny(Self.transaction(), Self.correction(), at: Facts.day(2))
        let before = try await shop.ledger.events().events
        #expect(before.last?.kind == .purchaseDenied && before.last?.content?.after?.status == .active)
        #expect(try await shop.ledger.publishCatalogueChanges(at: Facts.day(3)) == 1)
        #expect(try await shop.ledger.events().events.last?.kind == .subscriptionRevoked)
    }
}
