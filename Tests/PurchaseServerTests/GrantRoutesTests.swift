// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import HummingbirdTesting
import Logging
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// The routes by which a backend gives entitlements to customers without a purchase.
@Suite struct GrantRoutesTests {
    private typealias World = LedgerRoutesTests.World
    private static let path = "/v1/customers/anna/grants"
    private static let now = LedgerRoutesTests.now.milliseconds
    private static let day: Int64 = 86_400_000

    @Test func `a grant is made with 201, repeated with 200, listed, and ended once`() async throws {
        let world = try await World()
        let until = Self.now + Self.day
        let body = #"{"id":"x-1","entitlement":"gold","until":\#(until),"why":"outage","by":"Eva"}"#
        let (status, made) = try await world.send(.post, Self.path, body)
        let key = world.keys[.server]?.dropFirst(3).prefix(8) ?? ""
        #expect(status == .created)
        #expect(
            made.compactText == """
                {"id":"x-1","entitlement":"gold","environment":"Production","isActive":true,"from":\(Self.now),\
                "until":\(until),"why":"outage","by":"Eva","key":"\(key)","madeAt":\(Self.now),"endedAt":null}
                """)
        let (repeated, same) = try await world.send(.post, Self.path, body)
        #expect(repeated == .ok && same == made)
        #expect(try await world.send(.get, Self.path).1["items"] == .array([made]))
        for by in [#"{"by":"Leo"}"#, ""] {
            let (ended, grant) = try await world.send(.post, Self.path + "/x-1/end", by)
            #expect(ended == .ok && grant["isActive"] == .bool(false))
            #expect(grant["endedAt"]?.integer == Self.now && grant["endedBy"]?.string == "Leo")
            #expect(grant["endedByKey"]?.string == String(key))
        }
        #expect(try await world.send(.post, Self.path + "/x-2/end").0 == .notFound)
        #expect(try await world.send(.post, "/v1/customers/bert/grants/x-1/end").0 == .notFound)
    }

    @Test func `the answer names the subscription that the customer goes on paying for, also if it is repeated`()
        async throws
    {
        let world = try await World()
        try await world.submit()
        var renewal = JWSRenewalInfoDecodedPayload()
        renewal.originalTransactionId = "1"
        renewal.environment = Open(.production)
        renewal.signedDate = LedgerRoutesTests.now
        renewal.autoRenewStatus = Open(.on)
        let info = try world.store.sign(renewal)
        let notification = try world.notification("SUBSCRIBED", transaction: world.transaction()) {
            $0.data?.signedRenewalInfo = info
        }
        #expect(try await world.send(.post, "/notifications/v2", notification, key: nil).0 == .ok)
        let body = #"{"id":"x-1","entitlement":"gold","why":"outage","forever":true}"#
        for expected in [HTTPResponse.Status.created, .ok] {
            let (status, grant) = try await world.send(.post, Self.path, body)
            #expect(status == expected && grant["paidSubscription"]?.string == "1", "\(grant.compactText)")
        }
    }

    @Test
    func `an entitlement by grant has its id and no transaction, in each answer, and counts only in its environment`()
        async throws
    {
        let world = try await World()
        for (environment, entitlement) in [("production", "gold"), ("xcode", "pro")] {
            let (status, _) = try await world.send(
                .post, Self.path + "?environment=\(environment)",
                #"{"id":"in-\#(environment)","entitlement":"\#(entitlement)","why":"a test","forever":true}"#)
            #expect(status == .created || environment == "xcode" && status == .badRequest, "\(environment)")
        }
        let entitlement = """
            {"name":"gold","environment":"Production","reason":"grant","grantId":"in-production","until":null}
            """
        let (_, customer) = try await world.send(.get, "/v1/customers/anna", key: .client)
        #expect(customer["entitlements"]?.compactText == "[\(entitlement)]")
        let (_, check) = try await world.send(.get, "/v1/customers/anna/entitlements/gold", key: .client)
        #expect(check["isActive"] == .bool(true) && check["entitlement"]?.compactText == entitlement)
        #expect(check["nextChange"] == .null)
        let (_, events) = try await world.send(.get, "/v1/events")
        let event = try #require(events["items"]?.array?.first)
        #expect(event["kind"]?.string == "grant.made" && event["customer"]?.string == "anna")
        #expect(event["grantId"]?.string == "in-production" && event["detail"]?.string == "a test")
        #expect(event["originalTransactionId"] == nil)
    }

    @Test(arguments: [
        (#"{"entitlement":"gold","why":"w","until":1}"#, "“until” is not in the future"),
        (#"{"entitlement":"gold","why":"w","until":9223372036854775807}"#, "year 9999"),
        (#"{"entitlement":"gold","why":"w","forever":true,"from":9223372036854775807}"#, "“from” is in the future"),
        (
            #"{"entitlement":"gold","why":"w","until":2999999999999,"forever":true}"#,
            "needs either “until” or “forever”."
        ),
    ])
    func `a wrong body is refused, and makes no customer`(body: String, message: String) async throws {
        let world = try await World()
        let (status, error) = try await world.send(.post, Self.path, body)
        #expect(status == .badRequest)
        #expect(error["error"]?["message"]?.string?.contains(message) == true, "\(error.compactText)")
        #expect(try await world.storage.customers(after: nil, limit: 1).items.isEmpty)
    }

    @Test func `each reason against a grant has its code`() async throws {
        let world = try await World()
        func code(_ body: String) async throws -> String {
            let (status, answer) = try await world.send(.post, Self.path, body)
            return "\(status.code) \(answer["error"]?["code"]?.string ?? "")"
        }
        #expect(try await code(#"{"entitlement":"silver","why":"w","forever":true}"#) == "404 unknownEntitlement")
        for number in 0..<20 {
            #expect(try await code(#"{"id":"\#(number)","entitlement":"gold","why":"w","forever":true}"#) == "201 ")
        }
        #expect(try await code(#"{"id":"0","entitlement":"pro","why":"w","forever":true}"#) == "409 otherGrant")
        #expect(try await code(#"{"entitlement":"pro","why":"w","forever":true}"#) == "409 tooManyGrants")
    }

    @Test func `a server without keys of App Store Connect ends grants of its apps`() async throws {
        let world = try await World()
        let service = try #require(world.server.ledger)
        let until = LedgerRoutesTests.now.advanced(by: .seconds(60))
        let request = GrantRequest(id: "x", entitlement: "gold", until: until, why: "w")
        _ = try await world.ledger.make(
            request, forCustomer: "anna", of: "com.example", at: LedgerRoutesTests.now)
        let end = until.advanced(by: .seconds(1))
        let runner = JobRunner(service.ledger, [service.grantEnds(now: { end })], now: { end })
        #expect(try await runner.workOnce())
        #expect(
            try await world.ledger.events(of: "com.example", limit: 9).events.map(\.kind.rawValue)
                == ["grant.made", "grant.ended"])
        #expect(try await runner.workOnce() == false)
    }

    @Test func `between the end of a grant and its job, no answer shows the grant as active`() async throws {
        var world = try await World()
        let until = Self.now + Self.day
        #expect(
            try await world.send(.post, Self.path, #"{"entitlement":"gold","until":\#(until),"why":"w"}"#).0 == .created
        )
        world.server.now = { Timestamp(milliseconds: until) }
        let grant = try await world.send(.get, Self.path).1["items"]?.array?.first
        #expect(grant?["isActive"] == .bool(false) && grant?["endedAt"]?.integer == until)
        #expect(try await world.send(.get, "/v1/customers/anna/entitlements/gold").1["isActive"] == .bool(false))
    }
}
