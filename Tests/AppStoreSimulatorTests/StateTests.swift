// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestWorld
import Testing

/// What requests to a simulated App Store change, and what its answers say about the world.
@Suite struct StateTests {
    private static func payload(_ token: JSONValue?) throws -> JSONValue {
        try JSONValue(parsing: JWS(Array((token?.string ?? "").utf8)).payload)
    }

    @Test func `statuses are the whole customer's, by group`() throws {
        var fixture = try StoreFixture.shop()
        var other = StoreProduct(id: "news", type: .autoRenewableSubscription, price: StorePrice(milliunits: 990))
        other.plan = SubscriptionPlan(group: "21000002", level: 1, period: Period(1, .month))
        fixture.store.world.catalogue.add(other)
        try fixture.store.world.buy("news", by: "bob")
        try fixture.store.world.buy("gold.month", by: "bob")
        let answer = try fixture.call("GET /inApps/v1/subscriptions/{shared}")
        let groups = answer.json["data"]?.array ?? []
        #expect(groups.compactMap { $0["subscriptionGroupIdentifier"]?.string } == ["21000001", "21000002"])
        #expect(groups.map { $0["lastTransactions"]?.array?.count } == [2, 1])
        #expect(
            answer.json["appAppleId"]?.integer == 1_500_000_001 && answer.json["environment"]?.string == "Production")
        try fixture.store.world.leaveFamily("bob")
        let revoked = try fixture.call("GET /inApps/v1/subscriptions/{shared}?status=5")
        #expect(revoked.json["data"]?.array?.count == 1)
        #expect(try fixture.call("GET /inApps/v1/subscriptions/{toys}", in: .sandbox).json["appAppleId"] == nil)
    }

    @Test func `a customer without subscriptions has empty data`() throws {
        var world = try RandomWorld(seed: 1, customers: 0).world
        try world.addCustomer("dan")
        let id = try #require(try world.buy("coins", by: "dan"))
        var fixture = try StoreFixture(world)
        #expect(try fixture.call("GET /inApps/v1/subscriptions/\(id)").json["data"]?.array == [])
    }

    @Test func `an extension moves the end once, however often the request is repeated`() throws {
        var fixture = try StoreFixture.shop()
        let path = "PUT /inApps/v1/subscriptions/extend/{sub}"
        let end = try #require(fixture.store.world.subscriptions[fixture.names["sub"] ?? ""]?.end)
        let first = try fixture.call(path, RouteTests.extend)
        let again = try fixture.call(path, RouteTests.extend)
        #expect(first.json["effectiveDate"]?.integer == end.milliseconds + 3 * 86_400_000)
        #expect(first == again)
        #expect(first.json["success"] == .bool(true) && first.json["webOrderLineItemId"]?.string?.isEmpty == false)
        let info = try fixture.call("GET /inApps/v1/transactions/{sub}").json["signedTransactionInfo"]
        #expect(try Self.payload(info)["expiresDate"] == first.json["effectiveDate"])
    }

    @Test(arguments: [(Environment.production, "gold.year", "sub"), (.sandbox, "gold.month", "sandbox")])
    func `a mass extension is complete some time later, and happens once`(
        environment: Environment, product: String, name: String
    ) throws {
        var fixture = try StoreFixture.shop()
        let body = RouteTests.extendAll(product: product)
        let status = "GET /inApps/v1/subscriptions/extend/mass/\(product)/\(RouteTests.uuid)"
        let chain = try #require(fixture.names[name])
        let end = try #require(fixture.store.world.subscriptions[chain]?.end)
        for _ in 0..<2 { #expect(try fixture.call(Self.mass, body, in: environment).status == 200) }
        #expect(try fixture.call(status, in: environment).json["complete"] == .bool(false))
        fixture.wait(minutes: environment == .production ? 120 : 1)
        let answer = try fixture.call(status, in: environment).json
        #expect(answer["complete"] == .bool(true) && answer["succeededCount"]?.integer == 1)
        #expect(answer["completeDate"]?.integer == fixture.store.world.now.milliseconds)
        #expect(fixture.store.world.subscriptions[chain]?.extensions.count == 1)
        #expect(fixture.store.world.subscriptions[chain]?.end ?? end > end)
        let types = fixture.store.world.occurrences.suffix(2).map(\.topic.type)
        #expect(types == [.renewalExtended, .renewalExtension])
        let again = try fixture.call(Self.mass, body, in: environment)
        fixture.wait(minutes: 3)
        #expect(again.status == 200)
        #expect(fixture.store.world.subscriptions[chain]?.extensions.count == 1)
    }
    private static let mass = "POST /inApps/v1/subscriptions/extend/mass"

    @Test func `an account token that is set later is in the next answer`() throws {
        var fixture = try StoreFixture.shop()
        let body = #"{"appAccountToken":"\#(RouteTests.uuid)"}"#
        #expect(try fixture.call("PUT /inApps/v1/transactions/{coins}/appAccountToken", body).body.isEmpty)
        let info = try fixture.call("GET /inApps/v1/transactions/{coins}").json["signedTransactionInfo"]
        #expect(try Self.payload(info)["appAccountToken"]?.string == RouteTests.uuid)
    }

    @Test(arguments: [("GRANT_FULL", 100_000), ("DECLINE", 100_000), ("GRANT_PRORATED", 50_000)])
    func `the sandbox refunds the share that a report prefers`(preference: String, percentage: Int) throws {
        var fixture = try StoreFixture.shop()
        let toys = try #require(fixture.names["toys"])
        try fixture.store.world.requestRefund(toys)
        let body =
            #"{"customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":true,"#
            + #""consumptionPercentage":30000,"refundPreference":"\#(preference)"}"#
        #expect(try fixture.call("PUT /inApps/v2/transactions/consumption/{toys}", body, in: .sandbox).status == 202)
        fixture.wait(minutes: 6)
        #expect(fixture.store.world.transaction(toys)?.revocationPercentage == percentage)
    }

    @Test func `an order has all its transactions, and an unknown one none`() throws {
        var fixture = try StoreFixture.shop()
        let known = try fixture.call("GET /inApps/v1/lookup/{order}")
        #expect(known.json["status"]?.integer == 0 && known.transactionIds == [fixture.names["sub"]])
        let unknown = try fixture.call("GET /inApps/v1/lookup/MZZZZZZZZZ")
        #expect(unknown.json["status"]?.integer == 1 && unknown.json["signedTransactions"] == nil)
    }

    @Test func `production approves images and messages after a day`() throws {
        var fixture = try StoreFixture.shop()
        _ = try fixture.call("PUT /inApps/v1/messaging/message/\(RouteTests.uuid)", RouteTests.message)
        let list = "GET /inApps/v1/messaging/message/list"
        let before = try fixture.call(list).json["messageIdentifiers"]?.array?.first?["messageState"]?.string
        fixture.wait(minutes: 60 * 24)
        let after = try fixture.call(list).json["messageIdentifiers"]?.array?.first?["messageState"]?.string
        #expect(before == "PENDING" && after == "APPROVED")
    }

    @Test func `a target is split into path and query as it was sent`() {
        let request = StoreRequest("GET", "/a%2Fb?x=1&y=%3D%26&x=&z")
        #expect(request.path == "/a%2Fb")
        #expect(request.query == [.init("x", "1"), .init("y", "=&"), .init("x", ""), .init("z", "")])
    }
}
