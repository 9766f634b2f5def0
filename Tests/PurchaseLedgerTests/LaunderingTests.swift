// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import ReceiptCoding
import TestWorld
import Testing

/// Tests that an erasure gives no advantage to a customer who then presents the same documents again.
@Suite struct LaunderingTests {
    private static let catalogue = Catalogue(
        products: [
            "month": .init(entitlements: ["pro"]), "year": .init(entitlements: ["pro"]),
            "book": .init(entitlements: ["book"]), "coins": .init(entitlements: []),
        ], staleLeeway: .zero)

    /// Documents of customer `a`, who is deleted on day 100; documents that arrive late from the App Store; and those
    /// that customer `b` then presents.
    struct Story: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var keepsEvidence = false
        /// The names of the entitlements of `b` on day 110, and its consumables: the id and the revoked quantity, such
        /// as `1 -0`, with `used` if possibly used.
        var has: [String]
        var documents:
            @Sendable (SignedHistory) throws -> (
                before: [SignedHistory.Document], late: [SignedHistory.Document], again: [SignedHistory.Document]
            )
    }

    private static func oneTime(
        _ signed: SignedHistory, _ id: String, of original: String = "1", product: String = "book",
        _ type: ProductType = .nonConsumable, signed day: Double,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        try signed.transaction(id, original: original, product: product, signed: day, until: nil, type: type, change)
    }

    private static func refunded(_ day: Double) -> (inout JWSTransactionDecodedPayload) -> Void {
        { $0.revocationDate = Facts.day(day) }
    }

    static let stories = [
        Story(testDescription: "a refund that arrives after the erasure", has: []) { signed in
            let bought = try oneTime(signed, "1", signed: 0)
            let refund = try signed.notification(
                "REFUND", signed: 90, transaction: oneTime(signed, "1", signed: 90, refunded(90)))
            return ([.transaction(bought)], [.notification(refund)], [.transaction(bought)])
        },
        Story(testDescription: "the other id of a refunded purchase", has: []) { signed in
            let (first, second) = (
                try oneTime(signed, "1", signed: 50, refunded(50)), try oneTime(signed, "2", signed: 0)
            )
            return ([.transaction(first), .transaction(second)], [], [.transaction(second)])
        },
        Story(testDescription: "a refund under one original id, presented under another", has: []) { signed in
            let bought = try oneTime(signed, "1", signed: 0)
            let refund = try oneTime(signed, "1", of: "9", signed: 50, refunded(50))
            let other = try oneTime(signed, "1", of: "7", signed: 10)
            return ([.transaction(bought), .transaction(refund)], [], [.transaction(bought), .transaction(other)])
        },
        Story(testDescription: "a refund under one original id, which arrives after the erasure", has: []) { signed in
            let bought = try ["1", "9"].map { try oneTime(signed, "1", of: $0, signed: $0 == "9" ? 1 : 0) }
            let refund = try oneTime(signed, "1", of: "9", signed: 90, refunded(90))
            return (bought.map { .transaction($0) }, [.transaction(refund)], [.transaction(bought[0])])
        },
        Story(testDescription: "the other id of a refunded period", has: []) { signed in
            let period = try ["1", "2"].map { id in
                try signed.transaction(id, signed: id == "1" ? 50 : 0, until: 365) {
                    $0.webOrderLineItemId = "line"
                    if id == "1" { refunded(50)(&$0) }
                }
            }
            return (period.map { .transaction($0) }, [], [.transaction(period[1])])
        },
        Story(testDescription: "a year that was superseded by a month that is over", has: []) { signed in
            let (year, month) = (
                try signed.transaction("1", product: "year", signed: 0, until: 365),
                try signed.transaction("2", signed: 10, from: 10, until: 40) {
                    $0.transactionReason = Open(.purchase)
                }
            )
            return ([.transaction(year), .transaction(month)], [], [.transaction(year)])
        },
        Story(testDescription: "a year that was upgraded", has: []) { signed in
            let year = try signed.transaction("1", product: "year", signed: 0, until: 365)
            let upgraded = try signed.transaction("1", product: "year", signed: 10, until: 365) { $0.isUpgraded = true }
            return ([.transaction(year), .transaction(upgraded)], [], [.transaction(year)])
        },
        Story(testDescription: "a refund that was reversed before the erasure", has: ["pro"]) { signed in
            let bought = try signed.transaction("1", product: "year", signed: 0, until: 365)
            let taken = try signed.transaction("1", product: "year", signed: 50, until: 365, refunded(50))
            let reversed = try signed.transaction("1", product: "year", signed: 60, until: 365)
            return ([.transaction(bought), .transaction(taken)], [], [.transaction(reversed)])
        },
        Story(testDescription: "a purchase that was never refunded", has: ["book"]) { signed in
            let bought = try oneTime(signed, "1", signed: 0)
            return ([.transaction(bought)], [], [.transaction(bought)])
        },
        Story(
            testDescription: "a refunded consumable, presented in a receipt that cannot state the refund",
            has: ["1 -1 used"]
        ) {
            signed in
            let coins = try oneTime(signed, "1", product: "coins", .consumable, signed: 50, refunded(50))
            let purchase = TestStore.purchase(product: "coins", type: .consumable, until: nil)
            return ([.transaction(coins)], [], [.receipt([purchase], created: 105)])
        },
        Story(testDescription: "a consumable, presented under another original id", has: ["1 -0 used"]) { signed in
            let coins = try ["1", "9"].map { id in
                try oneTime(signed, "1", of: id, product: "coins", .consumable, signed: 0)
            }
            return ([.transaction(coins[0])], [], [.transaction(coins[1])])
        },
        Story(testDescription: "a consumable whose evidence is kept", keepsEvidence: true, has: ["1 -0 used"]) {
            signed in
            let coins = try oneTime(signed, "1", product: "coins", .consumable, signed: 0)
            return ([.transaction(coins)], [], [.transaction(coins)])
        },
    ]

    @Test(arguments: stories, TestStorage.allCases)
    func `an erasure does not give back what had ended before`(_ story: Story, _ storage: TestStorage) async throws {
        let signed = try SignedHistory()
        let rules = LedgerRules(
            catalogues: [Facts.scope.bundleId: Self.catalogue], keepsEvidence: story.keepsEvidence)
        let ledger = Ledger(storage: storage.make(), rules: rules)
        let documents = try story.documents(signed)
        for document in documents.before {
            _ = try await ledger.record([signed.evidence(document)], claimedBy: "a", at: Facts.day(95))
        }
        _ = try await ledger.delete("a", in: Facts.scope, at: Facts.day(100))
        for document in documents.late { _ = try await ledger.record([signed.evidence(document)], at: Facts.day(101)) }
        for document in documents.again {
            _ = try await ledger.record([signed.evidence(document)], claimedBy: "b", at: Facts.day(110))
        }
        let answer = try #require(try await ledger.customer("b", in: Facts.scope, at: Facts.day(110)))
        let consumables = answer.holdings.consumables.map { purchase in
            "\(purchase.transactionId) -\(purchase.revokedQuantity)"
                + (answer.transferred.contains(purchase.transactionId) ? " used" : "")
        }
        #expect(answer.holdings.entitlements.map(\.name) + consumables == story.has)
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(111))
        #expect(rebuilt.faults.isEmpty && rebuilt.differing.isEmpty)
    }
}
