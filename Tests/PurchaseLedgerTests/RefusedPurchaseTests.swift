// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests that a purchase that the operator refuses grants nothing in any answer, whatever the App Store signs.
@Suite struct RefusedPurchaseTests {
    private static let products: [String: Catalogue.Product] = [
        "month": .init(entitlements: ["pro"]), "book": .init(entitlements: ["pro"]),
        "season": .init(entitlements: ["pro"], duration: .seconds(90 * 86_400)), "coins": .init(entitlements: []),
    ]

    private static func catalogue(refusing ids: Set<String> = []) -> Catalogue {
        Catalogue(products: products, refusedPurchases: ids)
    }

    /// A purchase whose original transaction id is 1: a subscription with a renewal, 2, or another one with 2 alone.
    struct Purchase: Sendable, CustomTestStringConvertible {
        var product: String
        var type: ProductType
        var testDescription: String { product }

        func statements(migratedFrom earlier: String? = nil) -> [TransactionStatement] {
            let isSubscription = type == .autoRenewableSubscription
            return (isSubscription ? [1, 2] : [2]).map { number in
                let start = Double(number - 1) * 30
                return Facts.transaction(
                    "\(number)", product: product, from: isSubscription ? start : 0,
                    until: isSubscription ? start + 30 : nil, type: type
                ) { $0.quantity = 3 }
            }
        }
    }

    private static let purchases = [
        Purchase(product: "month", type: .autoRenewableSubscription),
        Purchase(product: "book", type: .nonConsumable), Purchase(product: "season", type: .nonRenewingSubscription),
        Purchase(product: "coins", type: .consumable),
    ]

    /// The names of a purchase, and whether the list with this id refuses it.
    private static let names = [("1", true), ("2", true), ("0", true), ("3", false)]

    @Test(arguments: purchases, names)
    func `a purchase is refused by its original id, an earlier one, and the id of any transaction, and grants nothing`(
        purchase: Purchase, name: (id: String, isRefused: Bool)
    ) {
        var chain = Facts.chain(purchase.statements(), [Facts.renewal(signed: 31)])
        chain.predecessors = ["0"]
        let catalogue = Self.catalogue(refusing: [name.id])
        #expect(catalogue.refuses(chain) == name.isRefused)
        let holdings = Holdings([chain], catalogue: catalogue, at: Facts.day(40))
        #expect(holdings.refused == (name.isRefused ? ["1"] : []))
        let grants = purchase.type != .consumable && !name.isRefused
        #expect(holdings.entitlements.map(\.name) == (grants ? ["pro"] : []))
        for state in holdings.subscriptions.values {
            #expect(state.status == (name.isRefused ? .revoked : .active))
            #expect(state.hasAccess == !name.isRefused)
        }
        for consumable in holdings.consumables {
            #expect(consumable.revokedQuantity == (name.isRefused ? 3 : 0) && consumable.chainName == "1")
        }
    }

    @Test(arguments: [0.0, 10, 30, 45, 60, 62, 400])
    func `a refused subscription is revoked at each instant, also if it was upgraded`(day: Double) {
        let renewed = Facts.chain(Self.purchases[0].statements(), [Facts.renewal(signed: 61, retry: true, grace: 70)])
        let upgraded = Facts.chain([Facts.transaction { $0.isUpgraded = true }])
        for chain in [renewed, upgraded] {
            let state = chain.subscription(Self.catalogue(refusing: ["1"]), at: Facts.day(day))
            #expect(state?.status == .revoked && state?.hasAccess == false)
            #expect(state?.accessUntil == state?.governing.purchaseDate)
            #expect(state?.governing == chain.subscription(Self.catalogue(), at: Facts.day(day))?.governing)
        }
    }

    @Test(arguments: purchases)
    func `a purchase that is refused, and no longer is, loses and gains its state by one event each`(
        purchase: Purchase
    ) async throws {
        let signed = try SignedHistory()
        var ledger = Ledger(Self.catalogue(), in: TestStorage.unsteady.make())
        _ = try await ledger.publishCatalogueChanges(at: Facts.day(0))
        let token = try signed.transaction(
            "2", product: purchase.product, until: purchase.type == .autoRenewableSubscription ? 30 : nil,
            type: purchase.type)
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "anna", at: Facts.day(1))
        let before = try await ledger.events().events
        for (day, refused) in [(2.0, ["1"]), (3, []), (4, ["7"])] as [(Double, Set<String>)] {
            ledger.rules.catalogues = [Facts.scope.bundleId: Self.catalogue(refusing: refused)]
            #expect(try await ledger.publishCatalogueChanges(at: Facts.day(day)) == 1)
            _ = try await ledger.publishCatalogueChanges(at: Facts.day(day))
        }
        let events = try await ledger.events().events.dropFirst(before.count)
        let kinds: [LedgerEvent.Kind] =
            switch purchase.type {
            case .autoRenewableSubscription: [.subscriptionRevoked, .subscriptionRecovered]
            case .consumable: [.purchaseUpdated, .purchaseUpdated]
            default: [.accessEnded, .purchaseUpdated]
            }
        #expect(events.map(\.kind.known) == kinds)
        #expect(events.map(\.content?.after?.status.known) == [.revoked, .active])
        #expect(
            events.first?.content?.after?.hasAccess == false && events.last?.content?.after?.hasAccess == true
                && events.last?.content?.after?.until == before.last?.content?.after?.until)
        #expect(events.map(\.content?.effectiveAt) == [Facts.day(2), Facts.day(3)])
    }

    @Test func `a purchase that is refused before it arrives is published as revoked`() async throws {
        let (signed, ledger) = (try SignedHistory(), Ledger(Self.catalogue(refusing: ["1"])))
        _ = try await ledger.record([signed.evidence(transaction: signed.transaction())], at: Facts.day(1))
        let events = try await ledger.events().events
        #expect(events.map(\.kind.known) == [.subscriptionStarted, .subscriptionRevoked])
        #expect(events.allSatisfy { $0.content?.after?.status == .revoked && $0.content?.after?.hasAccess == false })
    }

    @Test func `the digest of a catalogue depends on the refused purchases`() async throws {
        func digest(_ catalogue: Catalogue) async throws -> [UInt8]? {
            let ledger = Ledger(catalogue)
            _ = try await ledger.publishCatalogueChanges(at: Facts.day(0))
            let key = CatalogueDigest.key(Facts.scope.bundleId)
            return try await ledger.snapshot([.record(key)]).records[key]?.payload
        }
        let digests = [
            try await digest(Self.catalogue()), try await digest(Self.catalogue(refusing: ["1"])),
            try await digest(Self.catalogue(refusing: ["2"])),
        ]
        #expect(Set(digests).count == 3)
    }

    @Test func `a refused purchase gives its owner nothing to keep, so a claim moves it with transferIfInactive`()
        async throws
    {
        for (refused, isMoved) in [([], false), (["1"], true)] as [(Set<String>, Bool)] {
            let signed = try SignedHistory()
            let ledger = Ledger(Self.catalogue(refusing: refused), .transferIfInactive)
            let evidence = try await signed.evidence(transaction: signed.transaction())
            _ = try await ledger.record([evidence], claimedBy: "anna", at: Facts.day(1))
            let claim = try await ledger.record([evidence], claimedBy: "bert", at: Facts.day(1))
            #expect(claim.kept.isEmpty == isMoved)
        }
    }
}
