// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import PurchaseLedgerTesting
import ReceiptCoding
import TestWorld
import Testing

/// Tests the events about payments: one for each transaction, and what becomes known about it later.
@Suite struct PaymentEventTests {
    private static let signed = Result { try SignedHistory() }

    private static func ledger() -> Ledger {
        let catalogue = Catalogue(products: [
            "month": .init(entitlements: ["pro"]), "year": .init(entitlements: ["pro"]),
            "book": .init(entitlements: ["book"]),
        ])
        return Ledger(catalogue, in: TestStorage.unsteady.make())
    }

    /// The period with a number, from 1, which costs 9.99 €.
    private static func period(
        _ number: Int, signed day: Double? = nil, product: String = "month", original: String = "1",
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) async throws -> Evidence {
        let history = try signed.get()
        let start = Double(number - 1) * 30
        let token = try history.transaction(
            "\(number)", original: original, product: product, signed: day ?? start, from: start, until: start + 30
        ) { payload in
            (payload.price, payload.currency) = (9990, "EUR")
            change(&payload)
        }
        return try await history.evidence(transaction: token)
    }

    private static func book(
        signed day: Double = 0, _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) async throws -> Evidence {
        let history = try signed.get()
        let token = try history.transaction(
            "5", original: "5", product: "book", signed: day, until: nil, type: .nonConsumable, change)
        return try await history.evidence(transaction: token)
    }

    private static func purchase(_ id: String, cancelled: Double? = nil) -> InAppPurchase {
        TestStore.purchase(id, original: "1", cancelled: cancelled)
    }

    /// Records documents one by one, on their days.
    private static func record(_ documents: (day: Double, Evidence)..., in ledger: Ledger) async throws {
        for (day, document) in documents { _ = try await ledger.record([document], at: Facts.day(day)) }
    }

    /// The events about payments as text.
    private static func words(_ ledger: Ledger) async throws -> [String] {
        try await ledger.payments().map { event in
            let details = try #require(event.content?.details)
            let words = [
                event.kind.rawValue.replacing("transaction.", with: ""), event.content?.transactionId,
                details.price.map { "\($0) \(details.currency ?? "")" }, details.renewalNumber.map { "#\($0)" },
                details.isTrial == true ? "trial" : nil, details.isTrialConversion == true ? "converted" : nil,
                details.inAppOwnershipType == .familyShared ? "shared" : nil,
                details.revocationDate == nil ? nil : "revoked \(details.revocationPercentage ?? 0)",
                details.repeated == true ? "repeated" : nil, details.backfilled == true ? "backfilled" : nil,
            ]
            return words.compactMap(\.self).joined(separator: " ")
        }
    }

    // MARK: - Each transaction once

    @Test func `each of twelve periods in one submission is an event, before all others`() async throws {
        let ledger = Self.ledger()
        var periods: [Evidence] = []
        for number in 1...12 { periods.append(try await Self.period(number)) }
        for _ in 0..<2 { _ = try await ledger.record(periods, claimedBy: "anna", at: Facts.day(340)) }
        #expect(try await Self.words(ledger) == (1...12).map { "recorded \($0) 9990 EUR #\($0)" })
        let page = try await ledger.events(of: Facts.scope.bundleId, limit: 100)
        let payments = page.events.prefix(12)
        #expect(payments.allSatisfy { $0.kind == .transactionRecorded && page.customerId(of: $0) == "anna" })
        #expect(payments.map(\.content?.details?.purchaseDate) == (0..<12).map { Facts.day(Double($0) * 30) })
        #expect(payments.map(\.content?.details?.expiresDate) == (1...12).map { Facts.day(Double($0) * 30) })
        #expect(payments.map(\.content?.effectiveAt) == (0..<12).map { Facts.day(Double($0) * 30) })
        #expect(payments.allSatisfy { $0.content?.before == nil && $0.content?.entitlementsAfter == nil })
        #expect(!page.events.dropFirst(12).isEmpty)
    }

    @Test func `a payment has no state, not even null, and its body is read as it was written`() async throws {
        let ledger = Self.ledger()
        let document = try await Self.period(1) {
            ($0.storefront, $0.inAppOwnershipType) = ("DEU", Open(.purchased))
            $0.transactionReason = Open(.purchase)
        }
        try await Self.record((0, document), in: ledger)
        let event = try #require(try await ledger.payments().first)
        #expect(
            String(decoding: event.body, as: UTF8.self) == """
                {"effectiveAt":\(Facts.day(0).milliseconds),"transactionId":"1","productId":"month",\
                "type":"Auto-Renewable Subscription","inAppOwnershipType":"PURCHASED","quantity":1,"price":9990,\
                "currency":"EUR","storefront":"DEU","purchaseDate":\(Facts.day(0).milliseconds),\
                "expiresDate":\(Facts.day(30).milliseconds),"transactionReason":"PURCHASE","renewalNumber":1}
                """)
        #expect(event.content?.body == event.body && event.customer == nil)
    }

    @Test func `what only a receipt said is completed by the token, in any order and once`() async throws {
        let history = try Self.signed.get()
        let receipt = try await history.evidence(receipt: [Self.purchase("1")], created: 5)
        let token = try await Self.period(1, signed: 1)
        let later = try await Self.period(1, signed: 9)
        let stories = [
            ([[receipt], [token], [later], [receipt]], ["recorded 1 #1", "completed 1 9990 EUR #1"]),
            ([[token], [receipt], [later]], ["recorded 1 9990 EUR #1"]),
            ([[receipt, token]], ["recorded 1 9990 EUR #1"]), ([[token, receipt]], ["recorded 1 9990 EUR #1"]),
        ]
        for (recordings, words) in stories {
            let ledger = Self.ledger()
            for documents in recordings { _ = try await ledger.record(documents, at: Facts.day(10)) }
            #expect(try await Self.words(ledger) == words)
        }
    }

    @Test func `a renewal has its number only if no earlier period can be missing`() async throws {
        let stories: [([Int], [String])] = [
            ([1, 2, 3], ["1 9990 EUR #1", "2 9990 EUR #2", "3 9990 EUR #3"]), ([2], ["2 9990 EUR"]),
            ([1, 3, 2], ["1 9990 EUR #1", "3 9990 EUR", "2 9990 EUR #2"]),
        ]
        for (numbers, words) in stories {
            let ledger = Self.ledger()
            for number in numbers { try await Self.record((100, Self.period(number)), in: ledger) }
            #expect(try await Self.words(ledger) == words.map { "recorded \($0)" })
        }
        // The charge failed for ten days, in which no month fits.
        let ledger = Self.ledger()
        let recovered = try await Self.period(2) { ($0.purchaseDate, $0.expiresDate) = (Facts.day(40), Facts.day(70)) }
        try await Self.record((0, Self.period(1)), (40, recovered), in: ledger)
        #expect(try await Self.words(ledger).last == "recorded 2 9990 EUR #2")
    }

    @Test func `the first paid period after a free trial is its conversion`() async throws {
        let ledger = Self.ledger()
        let trial = try await Self.period(1) {
            ($0.price, $0.offerType, $0.offerDiscountType) = (0, Open(.introductory), Open(.freeTrial))
        }
        try await Self.record((0, trial), (30, Self.period(2)), (60, Self.period(3)), in: ledger)
        #expect(
            try await Self.words(ledger) == [
                "recorded 1 0 EUR #1 trial", "recorded 2 9990 EUR #2 converted", "recorded 3 9990 EUR #3",
            ])
    }

    @Test func `what the family shares is no conversion, and a conversion that was erased is known with its trial`()
        async throws
    {
        func periods(isShared: Bool = false) async throws -> [Evidence] {
            let trial = try await Self.period(1) {
                ($0.price, $0.offerType, $0.offerDiscountType) = (0, Open(.introductory), Open(.freeTrial))
                if isShared { ($0.price, $0.currency, $0.inAppOwnershipType) = (nil, nil, Open(.familyShared)) }
            }
            let paid = try await Self.period(2) {
                if isShared { ($0.price, $0.currency, $0.inAppOwnershipType) = (nil, nil, Open(.familyShared)) }
            }
            return [trial, paid]
        }
        let family = Self.ledger()
        _ = try await family.record(periods(isShared: true), at: Facts.day(31))
        #expect(try await Self.words(family) == ["recorded 1 #1 trial shared", "recorded 2 #2 shared"])
        for isTrialKnown in [true, false] {
            let ledger = Self.ledger()
            _ = try await ledger.record(periods(), claimedBy: "anna", at: Facts.day(31))
            _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(32))
            let again = try await Array(periods().suffix(isTrialKnown ? 2 : 1))
            _ = try await ledger.record(again, claimedBy: "bert", at: Facts.day(33))
            let trial = isTrialKnown ? ["recorded 1 0 EUR #1 trial repeated"] : []
            let paid = "recorded 2 9990 EUR #2 \(isTrialKnown ? "converted " : "")repeated"
            #expect(
                try await Self.words(ledger) == [
                    "recorded 1 0 EUR #1 trial", "recorded 2 9990 EUR #2 converted",
                ] + trial + [paid])
        }
    }

    // MARK: - Revocations

    private static func refunded(
        _ number: Int, signed day: Double, _ percentage: Int = 100_000
    ) async throws -> Evidence {
        try await period(number, signed: day) { payload in
            (payload.revocationDate, payload.revocationPercentage) = (Facts.day(day), percentage)
            payload.revocationType = Open(percentage == 100_000 ? .refundFull : .refundProrated)
        }
    }

    @Test func `a refund, a larger refund and its reversal are events, and a refund known from the start is none`()
        async throws
    {
        let ledger = Self.ledger()
        try await Self.record(
            (0, Self.period(1)), (5, Self.refunded(1, signed: 5, 40_000)), (6, Self.refunded(1, signed: 6, 40_000)),
            (7, Self.refunded(1, signed: 7)), (9, Self.period(1, signed: 9)), (40, Self.refunded(2, signed: 40)),
            in: ledger)
        #expect(
            try await Self.words(ledger) == [
                "recorded 1 9990 EUR #1", "revoked 1 9990 EUR #1 revoked 40000",
                "revoked 1 9990 EUR #1 revoked 100000", "revocationReversed 1 9990 EUR #1",
                "recorded 2 9990 EUR #2 revoked 100000",
            ])
    }

    @Test func `the end of a share is no refund`() async throws {
        let ledger = Self.ledger()
        let shared = try await Self.book { $0.inAppOwnershipType = Open(.familyShared) }
        let ended = try await Self.book(signed: 5) {
            ($0.inAppOwnershipType, $0.revocationDate) = (Open(.familyShared), Facts.day(5))
            $0.revocationType = Open(.familyRevoke)
        }
        let again = try await Self.book(signed: 6) { $0.inAppOwnershipType = Open(.familyShared) }
        try await Self.record((0, shared), (5, ended), (6, again), in: ledger)
        #expect(
            try await Self.words(ledger) == [
                "recorded 5 shared", "revoked 5 shared revoked 0", "revocationReversed 5 shared",
            ])
        #expect(try await ledger.words() == ["purchase.made 5", "purchase.shareEnded 5", "purchase.updated 5"])
        let payer = Self.ledger()
        let refund = try await Self.book(signed: 5) {
            ($0.inAppOwnershipType, $0.revocationDate) = (Open(.purchased), Facts.day(5))
        }
        try await Self.record((0, Self.book()), (5, refund), (6, Self.book(signed: 6)), in: payer)
        #expect(
            try await payer.words() == ["purchase.made 5", "purchase.refunded 5", "purchase.refundReversed 5"])
    }

    @Test func `the kind of a revocation tells the end of a share too`() async throws {
        for type in [RevocationType.familyRevoke, .assignmentRevoke] {
            let ledger = Self.ledger()
            let ended = try await Self.book(signed: 5) {
                ($0.revocationDate, $0.revocationType) = (Facts.day(5), Open(type))
            }
            try await Self.record((0, Self.book()), (5, ended), in: ledger)
            #expect(try await ledger.words() == ["purchase.made 5", "purchase.shareEnded 5"])
        }
    }

    /// The erased documents say who shared, and the receipt does not.
    @Test(arguments: [true, false])
    func `after an erasure the end of a share is no refund, whatever is presented`(isSigned: Bool) async throws {
        let (ledger, history) = (Self.ledger(), try Self.signed.get())
        func shared(_ day: Double, isOver: Bool = false) async throws -> Evidence {
            try await Self.period(1, signed: day) {
                ($0.price, $0.currency, $0.inAppOwnershipType) = (nil, nil, Open(.familyShared))
                if isOver { ($0.revocationDate, $0.revocationType) = (Facts.day(day), Open(.familyRevoke)) }
            }
        }
        _ = try await ledger.record([shared(0)], claimedBy: "anna", at: Facts.day(0))
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(10))
        if isSigned { try await Self.record((11, shared(9, isOver: true)), in: ledger) }
        let receipt = try await history.evidence(receipt: [Self.purchase("1")], created: isSigned ? 5 : 12)
        _ = try await ledger.record([receipt], claimedBy: "bert", at: Facts.day(12))
        if !isSigned {
            let cancelled = try await history.evidence(receipt: [Self.purchase("1", cancelled: 20)], created: 21)
            try await Self.record((21, cancelled), in: ledger)
        }
        let kinds = try await ledger.events().events.compactMap(\.kind.known)
        #expect(kinds.contains(.shareEnded) && !kinds.contains(.refunded), "\(kinds)")
        let last = try #require(try await ledger.payments().last)
        #expect(last.content?.details?.revocationDate == Facts.day(isSigned ? 9 : 20))
        #expect(last.content?.details?.inAppOwnershipType == .familyShared)
    }

    @Test func `if a cancellation in a receipt turns out to be an upgrade, its revocation is reversed`() async throws {
        let (ledger, history) = (Self.ledger(), try Self.signed.get())
        let receipt = try await history.evidence(receipt: [Self.purchase("1", cancelled: 10)], created: 12)
        let upgrade = try await history.evidence(
            transaction: history.transaction("2", product: "year", signed: 10, from: 10, until: 375))
        try await Self.record((12, receipt), (13, upgrade), in: ledger)
        #expect(
            try await Self.words(ledger) == [
                "recorded 1 #1 revoked 0", "recorded 2 #2", "revocationReversed 1 #1",
            ])
    }

    // MARK: - What is no payment

    @Test func `a move between chains or customers, a rebuild and a copy bring no payment`() async throws {
        let (ledger, history) = (Self.ledger(), try Self.signed.get())
        _ = try await ledger.record([Self.period(1)], claimedBy: "anna", at: Facts.day(0))
        try await Self.record((30, Self.period(2)), in: ledger)
        let before = try await Self.words(ledger)
        #expect(before.count == 2)
        // The same transaction under another original id, and a migration.
        let migrated = try await Self.period(2, signed: 33, original: "100") { $0.previousOriginalTransactionId = "1" }
        try await Self.record((32, Self.period(1, signed: 32, original: "9")), (33, migrated), in: ledger)
        _ = try await ledger.record([Self.period(2)], claimedBy: "bert", at: Facts.day(34))
        _ = try await ledger.addAlias("bert", to: "anna", in: Facts.scope, at: Facts.day(35))
        let rebuilt = try await ledger.rebuild(by: history.verifier, at: Facts.day(36))
        #expect(rebuilt.faults == [])
        let copy = MemoryLedgerStorage()
        _ = try await LedgerCopy(from: ledger.storage, named: "it", to: copy, by: history.verifier)
            .run(at: Facts.day(37))
        let copied = Ledger(storage: copy, rules: ledger.rules)
        _ = try await copied.record([Self.period(2, signed: 38)], at: Facts.day(38))
        #expect(try await Self.words(ledger) == before)
        #expect(try await Self.words(copied) == before)
    }

    @Test func `what was erased and is presented again is repeated, and the rest is told as ever`() async throws {
        let ledger = Self.ledger()
        for number in 1...2 {
            _ = try await ledger.record([Self.period(number)], claimedBy: "anna", at: Facts.day(30))
        }
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(40))
        // A document from before the erasure about a payment that the ledger did not know.
        for _ in 0..<2 { try await Self.record((41, Self.period(3, signed: 39)), in: ledger) }
        _ = try await ledger.record([Self.period(1)], claimedBy: "bert", at: Facts.day(42))
        try await Self.record(
            (50, Self.refunded(2, signed: 50)), (90, Self.period(4, signed: 90)), (91, Self.period(3, signed: 91)),
            in: ledger)
        #expect(
            try await Self.words(ledger) == [
                "recorded 1 9990 EUR #1", "recorded 2 9990 EUR #2", "recorded 3 9990 EUR",
                "recorded 1 9990 EUR #1 repeated", "recorded 2 9990 EUR #2 revoked 100000 repeated",
                "revoked 2 9990 EUR #2 revoked 100000", "recorded 4 9990 EUR #4", "recorded 3 9990 EUR #3 repeated",
            ])
    }

    @Test func `a refund from before an erasure is told, and counts if the purchase is presented again`() async throws {
        let ledger = Self.ledger()
        _ = try await ledger.record([Self.period(1)], claimedBy: "anna", at: Facts.day(0))
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(10))
        for _ in 0..<2 { try await Self.record((11, Self.refunded(1, signed: 9)), in: ledger) }
        _ = try await ledger.record([Self.period(1)], claimedBy: "bert", at: Facts.day(12))
        #expect(
            try await Self.words(ledger) == [
                "recorded 1 9990 EUR #1", "revoked 1 9990 EUR revoked 100000",
                "recorded 1 9990 EUR #1 revoked 100000 repeated",
            ])
    }

    @Test func `payments of a backfill say so, and an endpoint may leave them out`() async throws {
        let ledger = Self.ledger()
        _ = try await ledger.record([Self.period(1)], isBackfill: true, at: Facts.day(1))
        try await Self.record((30, Self.period(2)), in: ledger)
        #expect(try await Self.words(ledger) == ["recorded 1 9990 EUR #1 backfilled", "recorded 2 9990 EUR #2"])
        let events = try await ledger.events(of: Facts.scope.bundleId, limit: 10).events
        for wantsBackfilled in [true, false] {
            let endpoint = WebhookEndpoint(
                id: "a1", of: Facts.scope.bundleId, url: "https://example.com/", wantsBackfilled: wantsBackfilled,
                createdAt: Facts.day(0))
            #expect(try WebhookEndpoint(endpoint.record) == endpoint)
            #expect(events.filter(endpoint.wants) == (wantsBackfilled ? events : Array(events.dropFirst())))
        }
    }

    // MARK: - Access

    @Test func `links and states name their transaction, and so do entitlements`() async throws {
        let ledger = Self.ledger()
        _ = try await ledger.record([Self.period(1)], claimedBy: "anna", at: Facts.day(1))
        let correction = try #require(Correction(by: "x", reason: "y"))
        _ = try await ledger.move(TransactionKey("1", in: Facts.scope), to: ["cora"], correction, at: Facts.day(2))
        let events = try await ledger.events().events
        #expect(events.map(\.kind.known) == [.linked, .subscriptionStarted, .unlinked, .linked])
        for event in events where event.kind != .subscriptionStarted {
            let content = try #require(event.content)
            #expect(content.transactionId == "1" && content.productId == "month", "\(event)")
            #expect(content.details?.type == .autoRenewableSubscription && content.details?.price == 9990)
            #expect(content.details?.currency == "EUR" && content.details?.quantity == nil)
        }
        let content = try #require(events[1].content)
        #expect(content.after?.transactionId == "1" && events[2].content?.before?.transactionId == "1")
        #expect(content.entitlementsAfter?.list?.map(\.transactionId) == ["1"])
    }
}
