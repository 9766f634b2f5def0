// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// Tests what support staff read about a customer. Day 0 is 14 November 2023, 22:13 UTC.
@Suite struct CustomerSentenceTests {
    private static let bundleId = TimeLineTests.scope.bundleId

    private static let catalogue = Catalogue(
        products: [
            "month": .init(entitlements: ["pro"], level: 2), "year": .init(entitlements: ["pro", "plus"], level: 1),
            "book": .init(entitlements: ["book"]),
            "season": .init(entitlements: ["season"], duration: .seconds(60 * 86_400)),
        ], refusedPurchases: ["66"])

    /// What the App Store says about a customer, and the sentences on a day.
    struct Case: CustomTestStringConvertible, Sendable {
        let testDescription: String
        var day: Double = 10
        var transactions = [TestStore.transaction()]
        var renewal: JWSRenewalInfoDecodedPayload?
        /// The day on which renewal was turned off.
        var off: Double?
        let sentences: [String]

        static func lost(
            _ name: String, day: Double = 40, _ end: String, _ change: (inout JWSRenewalInfoDecodedPayload) -> Void
        ) -> Case {
            let renewal = TestStore.renewal(signed: 31, renews: false, change)
            return Case(
                testDescription: name, day: day, renewal: renewal,
                sentences: ["pro ended on 14 December 2023: \(monthly), \(end)"])
        }
    }

    private static let monthly = "monthly subscription month, since 14 November 2023"

    private static func one(
        _ product: String = "month", _ type: ProductType = .autoRenewableSubscription, until: Double? = 30,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) -> [JWSTransactionDecodedPayload] {
        [TestStore.transaction(product: product, type: type, until: until, change)]
    }

    private static let priced = TestStore.renewal {
        $0.renewalPrice = 9990
        $0.currency = "USD"
    }

    static let cases = [
        Case(
            testDescription: "paid", renewal: priced,
            sentences: ["pro until 14 December 2023: \(monthly), renews for 9.99 USD"]),
        Case(
            testDescription: "trial", day: 3,
            transactions: one(until: 7) {
                $0.offerType = Open(.introductory)
                $0.offerDiscountType = Open(.freeTrial)
            }, renewal: priced,
            sentences: [
                "pro until 21 November 2023: free trial of the subscription month, since 14 November 2023, "
                    + "renews for 9.99 USD"
            ]),
        Case(
            testDescription: "offer",
            transactions: one {
                $0.offerType = Open(.promotional)
                $0.offerIdentifier = "THREE"
                $0.offerDiscountType = Open(.payAsYouGo)
            },
            sentences: [
                "pro until 14 December 2023: promotional offer THREE of the subscription month, since 14 November 2023"
            ]),
        Case(
            testDescription: "renewal turned off", renewal: TestStore.renewal(signed: 5, renews: false), off: 5,
            sentences: ["pro until 14 December 2023: \(monthly), does not renew: turned off on 19 November 2023"]),
        Case(
            testDescription: "renewal turned off at an unknown time",
            renewal: TestStore.renewal(signed: 5, renews: false),
            sentences: ["pro until 14 December 2023: \(monthly), does not renew"]),
        Case(
            testDescription: "another product next",
            renewal: TestStore.renewal {
                $0.autoRenewProductId = "year"
                $0.priceIncreaseStatus = Open(.pending)
            },
            sentences: [
                "pro until 14 December 2023: \(monthly), renews as year, "
                    + "the customer has not yet agreed to a price increase"
            ]),
        Case(
            testDescription: "grace", day: 35, renewal: TestStore.renewal(signed: 31, retry: true, grace: 46),
            sentences: ["pro until 30 December 2023: \(monthly), the charge failed, and the grace period runs"]),
        Case(
            testDescription: "retry", day: 35, renewal: TestStore.renewal(signed: 31, retry: true),
            sentences: [
                "pro ended on 14 December 2023: \(monthly), the charge failed, and the App Store tries again"
            ]),
        Case(
            testDescription: "stale", day: 30.01,
            sentences: [
                "pro until 14 December 2023, 23:13 UTC: \(monthly), paid until 14 December 2023, 22:13 UTC, and no "
                    + "document says whether it renewed"
            ]),
        .lost("cancelled", "the customer cancelled") { $0.expirationIntent = Open(.customerCancelled) },
        .lost("card failed", "the charge failed") { $0.expirationIntent = Open(.billingError) },
        .lost("price not accepted", "the customer did not agree to a price increase") {
            $0.expirationIntent = Open(.noConsentToPriceIncrease)
        },
        .lost("off", "renewal was turned off") { _ in },
        Case(
            testDescription: "refunded", transactions: one { $0.revocationDate = TestStore.day(5) },
            sentences: ["pro ended on 19 November 2023: \(monthly), refunded on 19 November 2023"]),
        Case(
            testDescription: "upgraded", day: 20,
            transactions: one { $0.isUpgraded = true } + [
                TestStore.transaction("2", original: "1", product: "year", from: 10, until: 375, signed: 10)
            ],
            sentences: [
                "plus, pro until 23 November 2024: yearly subscription year, since 14 November 2023"
            ]),
        Case(
            testDescription: "family share", transactions: one { $0.inAppOwnershipType = Open(.familyShared) },
            sentences: ["pro until 14 December 2023: \(monthly), shared by the family"]),
        Case(
            testDescription: "one-time", transactions: one("book", .nonConsumable, until: nil),
            sentences: ["book without end: one-time purchase book, bought on 14 November 2023"]),
        Case(
            testDescription: "one-time, refunded",
            transactions: one("book", .nonConsumable, until: nil) {
                $0.revocationDate = TestStore.day(5)
                $0.revocationType = Open(.refundFull)
            },
            sentences: [
                "book lost: one-time purchase book, bought on 14 November 2023, refunded on 19 November 2023"
            ]),
        Case(
            testDescription: "non-renewing, over", day: 90,
            transactions: one("season", .nonRenewingSubscription, until: nil),
            sentences: [
                "season ended on 13 January 2024: non-renewing subscription season, bought on 14 November 2023"
            ]),
        Case(
            testDescription: "refused", transactions: [TestStore.transaction("66")],
            sentences: ["pro ended on 14 November 2023: \(monthly), refused by the operator"]),
        Case(
            testDescription: "consumable outside the configuration",
            transactions: one("gems", .consumable, until: nil),
            sentences: [
                "1 consumable bought, the last on 14 November 2023",
                "bought, and not in the configuration, so it gives nothing: gems",
            ]),
    ]

    private static func sentences(
        _ documents: [Evidence], day: Double, _ grant: GrantRequest? = nil, given: Double? = nil,
        in environment: Environment = .production
    ) async throws -> [String] {
        let ledger = Ledger(
            storage: MemoryLedgerStorage(), rules: LedgerRules(catalogues: [bundleId: catalogue]))
        let now = TestStore.day(day)
        _ = try await ledger.record(documents, claimedBy: "anna", at: now)
        if let grant {
            _ = try await ledger.make(grant, forCustomer: "anna", of: bundleId, at: TestStore.day(given ?? day))
        }
        let stories = try await ledger.stories(of: "anna", of: bundleId, in: [environment], at: now)
        return try #require(stories?[environment]).sentences(at: now)
    }

    @Test(arguments: cases) func `each state has its sentence`(one: Case) async throws {
        var documents = Documents(one.transactions, [], at: TestStore.day(one.day))
        if let renewal = one.renewal, let signed = renewal.signedDate {
            let off = ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED")
            documents.add(renewal, signed: one.off.map(TestStore.day) ?? signed, notification: one.off.map { _ in off })
        }
        #expect(try await Self.sentences(documents.all, day: one.day) == one.sentences)
    }

    @Test func `a grant has its reason and its author, and a customer without anything a sentence too`() async throws {
        let grant = GrantRequest(
            entitlement: "gold", until: TestStore.day(30), why: "outage", author: CustomerGrant.Author(name: "Eva"))
        let given = try await Self.sentences(
            Documents([], [], at: TestStore.day(10)).all, day: 10, grant)
        #expect(given == ["gold until 14 December 2023: given since 24 November 2023, 22:13 UTC, by Eva: outage"])
        let ended = try await Self.sentences([], day: 40, grant, given: 10)
        #expect(ended == ["gold was given by Eva: outage, ended on 14 December 2023"])
        let documents = Documents([TestStore.transaction()], [], at: TestStore.day(10)).all
        #expect(try await Self.sentences(documents, day: 10, in: .sandbox) == ["no purchases and no grants"])
    }

    @Test func `past purchases are bounded, and the others counted`() async throws {
        let many = (1...20).map { number in
            TestStore.transaction(
                "\(number)", product: "season", type: .nonRenewingSubscription, from: Double(number), until: nil)
        }
        let sentences = try await Self.sentences(Documents(many, [], at: TestStore.day(200)).all, day: 200)
        #expect(sentences.count == 9 && sentences.first?.contains("bought on 4 December 2023") == true, "\(sentences)")
        #expect(sentences.last == "12 more purchases or grants, which give nothing now or no entitlement")
    }

    @Test func `a price has the decimals that it needs`() {
        let prices: [(Int64, String?, String)] = [
            (9990, "USD", "9.99 USD"), (500, "EUR", "0.50 EUR"), (1_500_000, "JPY", "1500 JPY"), (0, "EUR", "0 EUR"),
            (1, "KWD", "0.001 KWD"), (1250, nil, "1.25"), (-990, "USD", "-0.99 USD"),
            (.min, "X", "-9223372036854775.808 X"), (.max, "X", "9223372036854775.807 X"),
        ]
        for (milliunits, currency, words) in prices { #expect(priceWords(milliunits, currency) == words) }
    }
}
