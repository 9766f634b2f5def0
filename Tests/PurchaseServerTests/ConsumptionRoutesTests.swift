// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import HummingbirdTesting
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// What a backend supplies for answers to consumption requests.
@Suite(.timeLimit(.minutes(60))) struct ConsumptionRoutesTests {
    typealias World = LedgerRoutesTests.World
    private static let path = "/v1/transactions/1/consumption"
    private static let hour: Int64 = 3_600_000

    /// A server that has got a consumption request about transaction 1, of a product with a default.
    static func world(_ type: ProductType = .autoRenewableSubscription) async throws -> World {
        var world = try await World()
        let rules = LedgerRules(asksAppStore: ["com.example"])
        world.server = try world.server(keeping: Ledger(storage: world.storage, rules: rules))
        var app = AppConfiguration(AppIdentity(bundleId: "com.example"))
        var defaults = ConsumptionInformation()
        defaults.deliveryStatus = Open(.delivered)
        app.consumption = ["month": defaults]
        world.server.ledger?.apps = ["com.example": app]
        let token = try world.transaction { $0.type = Open(type) }
        let notification = try world.notification("CONSUMPTION_REQUEST", transaction: token)
        #expect(try await world.respond(.post, "/notifications/v2", notification, key: nil).status == .ok)
        return world
    }

    @Test func `a request is shown with its deadline, and then what was supplied`() async throws {
        let world = try await Self.world()
        let (status, waiting) = try await world.send(.get, Self.path)
        let now = LedgerRoutesTests.now.milliseconds
        #expect(status == .ok)
        #expect(
            waiting.compactText == """
                {"transactionId":"1","status":"waiting","requestedAt":\(now),"deadline":\(now + 12 * Self.hour),\
                "answeredAt":null,"failure":null,"information":{}}
                """)
        let body = #"{"customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":false}"#
        let (stored, supplied) = try await world.send(.put, Self.path, body)
        #expect(stored == .ok)
        #expect(supplied["information"]?.compactText == body)
        #expect(try await world.send(.get, Self.path).1 == supplied)
        #expect(try await world.send(.get, "/v1/transactions/2/consumption").0 == .notFound)
        #expect(try await world.send(.put, "/v1/transactions/2/consumption", body).0 == .notFound)
    }

    @Test(arguments: [
        (
            #"{"deliveryStatus":"UNDELIVERED_OTHER","consumptionPercentage":1}"#,
            "“consumptionPercentage” must be 0"
        ),
        (#"{"refundPreference":"GRANT_PRORATED"}"#, "GRANT_PRORATED needs a “consumptionPercentage”"),
    ])
    func `what Apple would refuse is refused`(body: String, message: String) async throws {
        let world = try await Self.world(.consumable)
        let (status, error) = try await world.send(.put, Self.path, body)
        #expect(status == .badRequest)
        #expect(error["error"]?["message"]?.string?.contains(message) == true, "\(error.compactText)")
    }

    @Test func `after the deadline nothing can be supplied`() async throws {
        var world = try await Self.world()
        world.server.now = { LedgerRoutesTests.now.advanced(by: .seconds(43_200)) }
        let (status, error) = try await world.send(.put, Self.path, "{}")
        #expect(status == .conflict)
        #expect(error["error"]?["code"]?.string == "consumptionClosed")
    }

    @Test func `consent is recorded with its time and can be withdrawn, and only a server key reads it`()
        async throws
    {
        let world = try await Self.world()
        let (path, now) = ("/v1/customers/anna", LedgerRoutesTests.now.milliseconds)
        func consent(_ isGiven: Bool) async throws -> (HTTPResponse.Status, JSONValue) {
            try await world.send(.put, "\(path)/consent", #"{"customerConsented":\#(isGiven)}"#)
        }
        let (status, given) = try await consent(true)
        #expect(status == .ok)
        #expect(given.compactText == #"{"id":"anna","consentedAt":\#(now)}"#)
        #expect(try await world.send(.get, path).1["consentedAt"]?.integer == now)
        #expect(try await world.send(.get, path, key: .client).1["consentedAt"] == nil)
        #expect(try await consent(false).1.compactText == #"{"id":"anna","consentedAt":null}"#)
        #expect(try await world.send(.get, path).1["consentedAt"] == nil)
    }
}
