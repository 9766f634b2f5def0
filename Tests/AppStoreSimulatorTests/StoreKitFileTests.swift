// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestData
import Testing

@Suite struct StoreKitFileTests {
    private func catalogue(_ text: String) throws -> StoreCatalogue {
        try StoreCatalogue(storeKitFile: Array(text.utf8), bundleId: "com.example", appAppleId: 7)
    }

    private func genuine(_ name: String) throws -> StoreCatalogue {
        try StoreCatalogue(
            storeKitFile: TestData.bytes("storekit/\(name).storekit"), bundleId: "com.example", appAppleId: 7)
    }

    @Test(
        .enabled(if: TestData.isThere, Comment(rawValue: TestData.whyNot)),
        arguments: [
            ("v3-code-offers-levels", 3), ("v3-promotional-and-introductory", 3), ("v4-levels", 4),
            ("v5-billing-plans", 5),
        ])
    func `files that Xcode wrote are read, and every product of theirs is there`(name: String, version: Int) throws {
        let file = try JSONValue(parsing: TestData.bytes("storekit/\(name).storekit"))
        let ids =
            ["products", "nonRenewingSubscriptions"].flatMap { file[$0]?.array ?? [] }
            + (file["subscriptionGroups"]?.array ?? []).flatMap { $0["subscriptions"]?.array ?? [] }
        let catalogue = try genuine(name)
        #expect(catalogue.products.map(\.id).sorted() == ids.compactMap { $0["productID"]?.string }.sorted())
        #expect(file["version"]?["major"]?.integer == Int64(version))
        for product in catalogue.products {
            #expect((product.plan != nil) == (product.type == .autoRenewableSubscription))
        }
    }

    @Test(.enabled(if: TestData.isThere, Comment(rawValue: TestData.whyNot)))
    func `offers, levels and prices are those of the file`() throws {
        let product = try #require(try genuine("v5-billing-plans")["com.revenuecat.monthly_4.99.1_week_intro"])
        let plan = try #require(product.plan)
        #expect(product.price == StorePrice(milliunits: 4990))
        #expect(product.isFamilyShareable)
        #expect(plan.period == Period(1, .month) && plan.level == 1 && plan.group == "7096FF06")
        #expect(plan.introductoryOffer?.payment == .freeTrial)
        #expect(plan.introductoryOffer?.period == Period(3, .month))
        let yearly = try #require(product.offers.first { $0.payment == .payUpFront })
        #expect(yearly.type == .promotional && yearly.price.milliunits == 40_990)
        let monthly = try #require(product.offers.first { $0.payment == .payAsYouGo })
        #expect(monthly.count == 2 && monthly.period == Period(1, .month))
    }

    @Test(arguments: [
        (#"no JSON"#, "not JSON"),
        (#"{"products":[]}"#, "'version' is missing"),
        (#"{"version":{"major":2}}"#, "format version 2"),
        (#"{"version":{"major":6}}"#, "format version 6"),
        (#"{"version":{"major":5},"products":[{"type":"Consumable"}]}"#, "'productID' of a product is missing"),
        (#"{"version":{"major":5},"products":[{"productID":"a","type":"Boat"}]}"#, "'type' of a is unknown: Boat"),
        (
            #"{"version":{"major":5},"products":[{"productID":"a","type":"Consumable","displayPrice":"-1"}]}"#,
            "'displayPrice' of a is not a price"
        ),
        (
            #"{"version":{"major":5},"subscriptionGroups":[{"id":"g","subscriptions":[{"productID":"a","displayPrice":"1","#
                + #""type":"RecurringSubscription","recurringSubscriptionPeriod":"P1Y6M"}]}]}"#,
            "'recurringSubscriptionPeriod' of a is not a period"
        ),
    ])
    func `what is no such file is refused, and the error names the member`(text: String, reason: String) {
        #expect { try catalogue(text) } throws: { "\($0)".contains(reason) }
    }

    @Test(
        arguments: [
            ("4.99", 4990), ("0", 0), ("300", 300_000), ("1.9", 1900), ("0.001", 1), ("1.2345", nil), (".5", nil),
            ("1,99", nil), ("", nil), ("1.2.3", nil), ("٣", nil), ("9999999999999", nil),
        ] as [(String, Int64?)])
    func `a decimal price is milliunits`(text: String, milliunits: Int64?) {
        #expect(StorePrice(decimal: text)?.milliunits == milliunits)
    }

    @Test(arguments: [
        ("P1M", "2026-01-31T10:00:00Z", "2026-02-28T10:00:00Z"),
        ("P1M", "2028-01-31T10:00:00Z", "2028-02-29T10:00:00Z"),
        ("P3M", "2026-11-30T00:00:00Z", "2027-02-28T00:00:00Z"),
        ("P1Y", "2028-02-29T23:59:59Z", "2029-02-28T23:59:59Z"),
        ("P1W", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"),
        ("P3D", "2026-02-27T00:00:00Z", "2026-03-02T00:00:00Z"),
        ("P13M", "2026-12-01T00:00:00Z", "2028-01-01T00:00:00Z"),
    ])
    func `a period ends by the calendar`(text: String, start: String, end: String) throws {
        let period = try #require(Period(iso8601: text))
        #expect(period.iso8601 == text)
        #expect(try period.end(from: #require(Timestamp(iso8601: start))).iso8601 == end)
    }

    @Test(arguments: ["", "P", "M", "PM", "P0M", "P-1M", "P1", "1M", "P1H", "P1Y6M", "PT1M", "P99999999999D"])
    func `what is no period of one unit is refused`(text: String) {
        #expect(Period(iso8601: text) == nil)
    }
}
