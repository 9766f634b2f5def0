// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Testing

/// Apple's rate limits: a budget an hour for each endpoint and environment.
@Suite struct CallBudgetTests {
    /// A request of each class of rates, with a thousandth of Apple's budget in production and in the sandbox.
    static let classes: [(route: StoreRoute, request: String, production: Int, sandbox: Int)] = [
        (.statuses, "GET /inApps/v1/subscriptions/{sub}", 180, 18),
        (.extend, "PUT /inApps/v1/subscriptions/extend/{sub}", 72, 7),
        (.refunds, "GET /inApps/v2/refund/lookup/{sub}", 36, 3),
        (.testNotificationStatus, "GET /inApps/v1/notifications/test/x", 3, 1),
    ]

    @Test(arguments: classes, [Environment.production, .sandbox])
    func `an endpoint answers an hour's calls, and then says when the next hour begins`(
        test: (route: StoreRoute, request: String, production: Int, sandbox: Int), environment: Environment
    ) throws {
        var fixture = try StoreFixture.shop()
        fixture.store.faults.rateLimitScale = 0.001
        let (budget, hour) = (environment == .production ? test.production : test.sandbox, 3_600_000 as Int64)
        #expect(test.route.callsPerHour(in: environment, scale: 0.001) == budget)
        fixture.wallClock = Timestamp(milliseconds: StoreFixture.wallClock.milliseconds / hour * hour + 1_234_567)
        for _ in 0..<budget { #expect(try fixture.call(test.request, "", in: environment).status != 429) }
        let refused = try fixture.call(test.request, "", in: environment)
        let next = fixture.wallClock.milliseconds / hour * hour + hour
        #expect(refused.status == 429 && refused.code == APIErrorCode.rateLimitExceeded.rawValue)
        #expect(refused.headers["retry-after"] == "\(next)")
        let other: Environment = environment == .production ? .sandbox : .production
        #expect(try fixture.call(test.request, "", in: other).status != 429)
        fixture.wallClock = Timestamp(milliseconds: next)
        #expect(try fixture.call(test.request, "", in: environment).status != 429)
    }

    @Test func `the budgets are Apple's`() {
        let calls = Dictionary(grouping: StoreRoute.allCases, by: \.callsPerSecond)
        #expect(Set(calls.keys) == [50, 20, 10, 1])
        #expect(Set(calls[20] ?? []) == [.appAccountToken, .extend])
        #expect(Set(calls[10] ?? []) == [.orderLookup, .refunds, .refundsV1, .setDefaultMessage])
        #expect(StoreRoute.history.callsPerHour(in: .production) == 180_000)
        #expect(StoreRoute.history.callsPerHour(in: .sandbox) == 18_000)
        #expect(StoreRoute.history.callsPerHour(in: .sandbox, scale: 0) == 1)
        #expect(StoreRoute.history.callsPerHour(in: .production, scale: .infinity) == 180_000_000)
        #expect(Faults.unkind.rateLimitScale == 1 && Faults.none.rateLimitScale == nil)
    }

    @Test func `an endpoint has a budget of its own, and a kind store has none`() throws {
        var fixture = try StoreFixture.shop()
        fixture.store.faults.rateLimitScale = 0
        let requests = ["GET /inApps/v1/subscriptions/{sub}", "GET /inApps/v1/transactions/{sub}"]
        #expect(try requests.map { try fixture.call($0).status } == [200, 200])
        #expect(try requests.map { try fixture.call($0).status } == [429, 429])
        fixture.store.faults.rateLimitScale = nil
        #expect(try requests.map { try fixture.call($0).status } == [200, 200])
    }
}
