// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Testing

/// A request to a simulated App Store, and its answer.
struct APICase: Sendable, CustomTestStringConvertible {
    var name: String
    var request: String
    var body: [UInt8]
    var environment: Environment
    /// What happens before the request.
    var prepare: @Sendable (inout StoreFixture) throws -> Void
    var route: StoreRoute?
    var status: Int
    var code: APIErrorCode?
    /// A member that the answer has; `nil` if it has no body.
    var member: String?

    var testDescription: String { name }

    /// A request that is granted.
    init(
        _ route: StoreRoute, _ request: String, _ body: String = "", in environment: Environment = .production,
        status: Int = 200, has member: String? = nil,
        after prepare: @escaping @Sendable (inout StoreFixture) throws -> Void = { _ in }
    ) {
        self.init("\(route)", request, body, in: environment, after: prepare)
        (self.route, self.status, self.member) = (route, status, member)
    }

    /// A request that is refused.
    init(
        _ code: APIErrorCode, _ request: String, _ body: String = "", in environment: Environment = .production,
        after prepare: @escaping @Sendable (inout StoreFixture) throws -> Void = { _ in }
    ) {
        self.init("\(code): \(request) \(body.prefix(60))", request, body, in: environment, after: prepare)
        (self.code, status) = (code, Open(code).httpStatus)
    }

    private init(
        _ name: String, _ request: String, _ body: String, in environment: Environment,
        after prepare: @escaping @Sendable (inout StoreFixture) throws -> Void
    ) {
        (self.name, self.request, self.environment, self.prepare) = (name, request, environment, prepare)
        self.body = Array(body.utf8)
        status = 200
    }

    func answer() throws -> StoreResponse {
        var fixture = try StoreFixture.shop()
        try prepare(&fixture)
        if body.starts(with: Array("PNG".utf8)) {
            return try fixture.call(request, Self.png(String(decoding: body, as: UTF8.self)), in: environment)
        }
        return try fixture.call(request, String(decoding: body, as: UTF8.self), in: environment)
    }

    /// The beginning of a PNG: `PNG 3840 2160`, and `alpha` if it has transparency.
    static func png(_ text: String) -> [UInt8] {
        let words = text.split(separator: " ")
        let sizes = words.dropFirst().prefix(2).flatMap { word -> [UInt8] in
            let number = UInt32(word) ?? 0
            return (0..<4).map { UInt8(truncatingIfNeeded: number >> (24 - 8 * $0)) }
        }
        let colour: UInt8 = words.last == "alpha" ? 6 : 2
        return [0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10, 0, 0, 0, 13] + Array("IHDR".utf8) + sizes
            + [8, colour, 0, 0, 0, 0, 0, 0, 0]
    }
}

@Suite struct RouteTests {
    static let uuid = "0a9b4f6e-3f0c-4f9e-8f2b-7f2f3c1d5e6a"
    static let other = "1b9b4f6e-3f0c-4f9e-8f2b-7f2f3c1d5e6b"
    static let extend = #"{"extendByDays":3,"extendReasonCode":1,"requestIdentifier":"one"}"#
    static let extendAll = extendAll()
    static let report = #"{"customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":false}"#
    static let reportV1 = reportV1()
    static let message = #"{"header":"Stay","body":"Please"}"#

    static func extendAll(
        days: String = "3", reason: String = "0", id: String = uuid, product: String = "gold.year", more: String = ""
    ) -> String {
        #"{"extendByDays":\#(days),"extendReasonCode":\#(reason),"requestIdentifier":"\#(id)","#
            + #""productId":"\#(product)"\#(more)}"#
    }

    static func reportV1(_ member: String = "platform", _ value: String = "1") -> String {
        let members = [
            "customerConsented": "true", "consumptionStatus": "1", "platform": "1", "sampleContentProvided": "true",
            "deliveryStatus": "0", "appAccountToken": #""""#, "accountTenure": "1", "playTime": "1",
            "lifetimeDollarsRefunded": "1", "lifetimeDollarsPurchased": "1", "userStatus": "1",
        ].merging([member: value]) { $1 }
        return "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }

    static let granted: [APICase] = [
        APICase(.transactionInfo, "GET /inApps/v1/transactions/{sub}", has: "signedTransactionInfo"),
        APICase(.transactionInfo, "GET /inApps/v1/transactions/{coins}", has: "signedTransactionInfo"),
        APICase(.transactionInfo, "GET /inApps/v1/transactions/{sandbox}", in: .sandbox, has: "signedTransactionInfo"),
        APICase(.history, "GET /inApps/v2/history/{sub}", has: "signedTransactions"),
        APICase(.history, "GET /inApps/v2/history/{ann app}?sort=DESCENDING", has: "revision"),
        APICase(.historyV1, "GET /inApps/v1/history/{coins}?revoked=true&productType=CONSUMABLE", has: "hasMore"),
        APICase(.statuses, "GET /inApps/v1/subscriptions/{book}?status=1&status=4", has: "data"),
        APICase(
            .appTransactionInfo, "GET /inApps/v1/transactions/appTransactions/{sub}", has: "signedAppTransactionInfo"),
        APICase(
            .appAccountToken, "PUT /inApps/v1/transactions/{sub}/appAccountToken", #"{"appAccountToken":"\#(uuid)"}"#),
        APICase(.finish, "POST /inApps/v1/transactions/{coins}/finish"),
        APICase(.consumption, "PUT /inApps/v2/transactions/consumption/{coins}", report, status: 202),
        APICase(.consumptionV1, "PUT /inApps/v1/transactions/consumption/{coins}", reportV1, status: 202),
        APICase(.orderLookup, "GET /inApps/v1/lookup/{order}", has: "signedTransactions"),
        APICase(.orderLookup, "GET /inApps/v1/lookup/MUNKNOWN00", has: "status"),
        APICase(.refunds, "GET /inApps/v2/refund/lookup/{sub}", has: "revision"),
        APICase(.refundsV1, "GET /inApps/v1/refund/lookup/{coins}", has: "signedTransactions"),
        APICase(.extend, "PUT /inApps/v1/subscriptions/extend/{sub}", extend, has: "effectiveDate"),
        APICase(.extendAll, "POST /inApps/v1/subscriptions/extend/mass", extendAll, has: "requestIdentifier"),
        APICase(
            .extensionStatus, "GET /inApps/v1/subscriptions/extend/mass/gold.year/\(uuid)", has: "complete",
            after: { _ = try $0.call("POST /inApps/v1/subscriptions/extend/mass", extendAll) }),
        APICase(
            .notificationHistory, "POST /inApps/v1/notifications/history",
            #"{"startDate":{earlier},"endDate":{later},"notificationType":"DID_RENEW","#
                + #""notificationSubtype":"BILLING_RECOVERY"}"#,
            has: "notificationHistory"),
        APICase(.testNotification, "POST /inApps/v1/notifications/test", has: "testNotificationToken"),
        APICase(.testNotificationStatus, "GET /inApps/v1/notifications/test/{test}", has: "sendAttempts") {
            let answer = try $0.call("POST /inApps/v1/notifications/test")
            for delivery in try $0.store.takeDeliveries() { $0.store.record(.success, of: delivery) }
            $0.names["test"] = answer.json["testNotificationToken"]?.string
        },
        APICase(.uploadImage, "PUT /inApps/v1/messaging/image/\(uuid)", "PNG 3840 2160"),
        APICase(.uploadImage, "PUT /inApps/v1/messaging/image/\(uuid)?imageSize=BULLET_POINT", "PNG 64 64 alpha"),
        APICase(.deleteImage, "DELETE /inApps/v1/messaging/image/\(uuid)", in: .sandbox, after: image),
        APICase(.images, "GET /inApps/v1/messaging/image/list", has: "imageIdentifiers"),
        APICase(.uploadMessage, "PUT /inApps/v1/messaging/message/\(uuid)", message),
        APICase(.deleteMessage, "DELETE /inApps/v1/messaging/message/\(uuid)", in: .sandbox, after: storedMessage),
        APICase(.messages, "GET /inApps/v1/messaging/message/list", has: "messageIdentifiers"),
        APICase(
            .setDefaultMessage, "PUT /inApps/v1/messaging/default/gold.month/en-US",
            #"{"messageIdentifier":"\#(uuid)"}"#, in: .sandbox, after: storedMessage),
        APICase(
            .defaultMessage, "GET /inApps/v1/messaging/default/gold.month/en-US", in: .sandbox,
            has: "messageIdentifier", after: defaultMessage),
        APICase(
            .deleteDefaultMessage, "DELETE /inApps/v1/messaging/default/gold.month/en-US", in: .sandbox,
            after: defaultMessage),
        APICase(
            .setRealtimeURL, "PUT /inApps/v1/messaging/realtime/url", #"{"realtimeURL":"https://example.com/ask"}"#,
            after: passedTest),
        APICase(
            .realtimeURL, "GET /inApps/v1/messaging/realtime/url", in: .sandbox, has: "realtimeURL",
            after: realtimeURL),
        APICase(.deleteRealtimeURL, "DELETE /inApps/v1/messaging/realtime/url", in: .sandbox, after: realtimeURL),
        APICase(
            .performanceTest, "POST /inApps/v1/messaging/performanceTest", #"{"originalTransactionId":"{sandbox}"}"#,
            in: .sandbox, has: "requestId", after: realtimeURL),
        APICase(
            .performanceTestResult, "GET /inApps/v1/messaging/performanceTest/result/{test}", in: .sandbox,
            has: "result", after: runningTest),
    ]

    @Sendable static func image(_ fixture: inout StoreFixture) throws {
        _ = try fixture.call(
            "PUT /inApps/v1/messaging/image/\(uuid)", APICase.png("PNG 3840 2160"), in: .sandbox)
    }

    @Sendable static func storedMessage(_ fixture: inout StoreFixture) throws {
        _ = try fixture.call("PUT /inApps/v1/messaging/message/\(uuid)", message, in: .sandbox)
    }

    @Sendable static func defaultMessage(_ fixture: inout StoreFixture) throws {
        try storedMessage(&fixture)
        let body = #"{"messageIdentifier":"\#(uuid)"}"#
        _ = try fixture.call("PUT /inApps/v1/messaging/default/gold.month/en-US", body, in: .sandbox)
    }

    @Sendable static func realtimeURL(_ fixture: inout StoreFixture) throws {
        let body = #"{"realtimeURL":"https://example.com/ask"}"#
        _ = try fixture.call("PUT /inApps/v1/messaging/realtime/url", body, in: .sandbox)
    }

    @Sendable static func runningTest(_ fixture: inout StoreFixture) throws {
        try realtimeURL(&fixture)
        let body = #"{"originalTransactionId":"{sandbox}"}"#
        let answer = try fixture.call("POST /inApps/v1/messaging/performanceTest", body, in: .sandbox)
        fixture.names["test"] = answer.json["requestId"]?.string
    }

    @Sendable static func passedTest(_ fixture: inout StoreFixture) throws {
        try runningTest(&fixture)
        fixture.wait(minutes: 2)
    }

    @Test(arguments: granted) func `a request is granted`(test: APICase) throws {
        let answer = try test.answer()
        #expect(answer.status == test.status, "\(answer.note ?? "")")
        #expect(answer.json == .null || answer.json["errorCode"] == nil)
        #expect(answer.headers == (answer.body.isEmpty ? [:] : ["content-type": "application/json"]))
        if let member = test.member { #expect(answer.json[member] != nil) } else { #expect(answer.body.isEmpty) }
    }

    @Test(arguments: granted) func `a planned failure meets the next request to its route only`(test: APICase) throws {
        var test = test
        let (route, prepare) = (try #require(test.route), test.prepare)
        test.prepare = {
            try prepare(&$0)
            $0.store.faults.failNext[route] = [.accountNotFoundRetryable]
        }
        #expect(try test.answer().code == 4_040_002)
    }

    @Test func `every route is granted in a case`() {
        #expect(Set(Self.granted.compactMap(\.route)) == Set(StoreRoute.allCases))
    }

    @Test(arguments: [
        ("GET /inapps/v1/history/{sub}", 404), ("GET /inApps/v1/history/{sub}/", 404), ("GET /", 404),
        ("POST /inApps/v1/history/{sub}", 405), ("GET /inApps/v3/history/{sub}", 404),
    ]) func `paths are exact`(request: String, status: Int) throws {
        var fixture = try StoreFixture.shop()
        let answer = try fixture.call(request)
        #expect(answer.status == status && answer.body.isEmpty)
    }

    @Test(arguments: [
        ("GET /inApps/v1/lookup/{order}", Environment.sandbox),
        ("POST /inApps/v1/messaging/performanceTest", .production),
    ]) func `an environment has its own routes only`(request: String, environment: Environment) throws {
        var fixture = try StoreFixture.shop()
        #expect(try fixture.call(request, in: environment).status == 404)
    }

    @Test func `what is signed verifies`() async throws {
        var fixture = try StoreFixture.shop()
        fixture.wait(minutes: 60 * 24)
        let now = fixture.store.world.now
        let verifier = try fixture.verifier()
        let info = try fixture.call("GET /inApps/v1/transactions/{sub}").json["signedTransactionInfo"]?.string
        let transaction = try await verifier.verify(
            try #require(info).utf8, as: JWSTransactionDecodedPayload.self, at: now)
        #expect(transaction.payload.signedDate == now)
        for token in try fixture.call("GET /inApps/v2/history/{sub}").json["signedTransactions"]?.array ?? [] {
            _ = try await verifier.verify(
                try #require(token.string).utf8, as: JWSTransactionDecodedPayload.self, at: now)
        }
        let app = try fixture.call("GET /inApps/v1/transactions/appTransactions/{sub}").json["signedAppTransactionInfo"]
        _ = try await verifier.verify(try #require(app?.string).utf8, as: AppTransaction.self, at: now)
        let data = try fixture.call("GET /inApps/v1/subscriptions/{sub}").json["data"]?.array?.first
        let item = try #require(data?["lastTransactions"]?.array?.first)
        let renewal = try #require(item["signedRenewalInfo"]?.string)
        _ = try await verifier.verify(renewal.utf8, as: JWSRenewalInfoDecodedPayload.self, at: now)
        for delivery in try fixture.store.takeDeliveries() {
            let envelope = try JSONValue(parsing: delivery.body)
            _ = try await verifier.verify(
                notification: try #require(envelope["signedPayload"]?.string).utf8, at: now)
        }
    }
}
