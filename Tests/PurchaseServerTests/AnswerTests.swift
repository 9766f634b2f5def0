// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// Every response of the API byte for byte: the order of members, and which are `null` or absent.
@Suite struct AnswerTests {
    private typealias World = LedgerRoutesTests.World
    private static let now = LedgerRoutesTests.now
    private static let (start, end): (Int64, Int64) = (1_700_000_000_000, 1_702_592_000_000)

    private static func text(
        _ world: World, _ method: HTTPRequest.Method, _ path: String, _ body: String = "",
        key: APIKey.Role = .server
    ) async throws -> String {
        String(buffer: try await world.respond(method, path, body, key: key).body)
    }

    private static func name(_ token: String, _ kind: Evidence.Kind = .transaction) -> String {
        "\(start)-\(DocumentDigest(Array(token.utf8), kind))"
    }

    private static let scope = #""bundleId":"com.example","environments":["Production","Sandbox"]"#
    private static let entitlement = """
        {"name":"pro","environment":"Production","reason":"subscription","productId":"month","transactionId":"1",\
        "originalTransactionId":"1","until":\(end)}
        """
    private static let subscription = """
        {"originalTransactionId":"1","environment":"Production","status":"active","statusCode":1,"productId":"month",\
        "transactionId":"1","expiresDate":\(end),"hasAccess":true,"accessUntil":\(end),"nextChange":\(end),\
        "willRenew":null}
        """

    private static func purchase(evidence: String?) -> String {
        let evidence = evidence.map {
            #","evidence":{"id":"\#($0)","kind":"signedTransaction","signedDate":\#(start)}"#
        }
        return """
            {"transactionId":"1","originalTransactionId":"1","environment":"Production","productId":"month",\
            "type":"Auto-Renewable Subscription","purchaseDate":\(start),"expiresDate":\(end),"hasAccess":true,\
            "accessUntil":\(end),"quantity":1,"isUpgraded":false,"revocationDate":null\(evidence ?? "")}
            """
    }

    private static func customer(_ id: String, ids: String, evidence: String?) -> String {
        """
        {"id":"\(id)","ids":[\(ids)],\(scope),"asOf":\(start),"nextChange":\(end),"entitlements":[\(entitlement)],\
        "subscriptions":[\(subscription)],"purchases":[\(purchase(evidence: evidence))],"consumables":[],\
        "unknownProducts":[]}
        """
    }

    @Test func `the JSON of a customer, for a server key and for a client key`() async throws {
        let world = try await World()
        let token = try world.transaction()
        let submitted = try await Self.text(
            world, .post, "/v1/customers/anna/purchases", #"{"document":"\#(token)"}"#)
        let anna = Self.customer("anna", ids: #""anna""#, evidence: Self.name(token))
        #expect(
            submitted
                == #"{"recorded":1,"alreadyKnown":0,"keptByOthers":[],"tooManyClaims":[],"customer":\#(anna)}"#)
        #expect(try await Self.text(world, .get, "/v1/customers/anna") == anna)
        let both = Self.customer("anna", ids: #""anna","a2""#, evidence: Self.name(token))
        #expect(try await Self.text(world, .post, "/v1/customers/anna/aliases", #"{"alias":"a2"}"#) == both)
        let client = Self.customer("a2", ids: #""a2""#, evidence: nil)
        #expect(try await Self.text(world, .get, "/v1/customers/a2", key: .client) == client)
        #expect(
            try await Self.text(world, .delete, "/v1/customers/anna")
                == #"{"deleted":true,"unlinkedPurchases":1,"forgottenDocuments":1,"keptDocuments":0}"#)
    }

    @Test func `the JSON of a customer without purchases, and of refused claims`() async throws {
        let world = try await World(policy: .keep)
        let body = #"{"document":"\#(try world.transaction())"}"#
        _ = try await world.send(.post, "/v1/customers/anna/purchases", body)
        let nothing = """
            {"id":"bert","ids":["bert"],\(Self.scope),"asOf":\(Self.start),"nextChange":null,"entitlements":[],\
            "subscriptions":[],"purchases":[],"consumables":[],"unknownProducts":[]}
            """
        #expect(
            try await Self.text(world, .post, "/v1/customers/bert/purchases", body)
                == #"{"recorded":0,"alreadyKnown":1,"keptByOthers":["1"],"tooManyClaims":[],"claimants":2,"#
                + #""customer":\#(nothing)}"#)
        let transferring = try await World(policy: .transfer)
        let presented = #"{"document":"\#(try transferring.transaction())"}"#
        var refused: String?
        // The first claim takes the purchase from no customer. Ten more claims within a day may change the owner.
        for claim in 0...11 {
            let path = "/v1/customers/stranger\(claim)/purchases"
            refused = try await transferring.send(.post, path, presented, key: .client).1["tooManyClaims"]?.compactText
        }
        #expect(refused == #"[{"originalTransactionId":"1","retryAt":\#(Self.start + 86_400_000)}]"#)
    }

    @Test func `the JSON of an active and of an inactive entitlement`() async throws {
        let world = try await World()
        try await world.submit()
        let path = "/v1/customers/anna/entitlements"
        let (asOf, next) = (#""asOf":\#(Self.start)"#, #""nextChange":\#(Self.end)"#)
        #expect(
            try await Self.text(world, .get, "\(path)/pro")
                == #"{"name":"pro","isActive":true,\#(asOf),\#(next),"entitlement":\#(Self.entitlement)}"#)
        #expect(
            try await Self.text(world, .get, "\(path)/gold") == #"{"name":"gold","isActive":false,\#(asOf),\#(next)}"#)
        #expect(
            try await Self.text(world, .get, "\(path)/pro?environment=sandbox")
                == #"{"name":"pro","isActive":false,\#(asOf),"nextChange":null}"#)
    }

    @Test func `the JSON of a consumable with every optional member, and of an unconfigured product`()
        async throws
    {
        let world = try await World()
        let token = try world.transaction {
            ($0.transactionId, $0.originalTransactionId, $0.productId) = ("2", "2", "coins")
            ($0.type, $0.expiresDate, $0.quantity) = (Open(.consumable), nil, 3)
            ($0.revocationDate, $0.revocationReason) = (Self.now, Open(rawValue: 1))
            $0.revocationType = Open(rawValue: "REFUND_FULL")
            $0.inAppOwnershipType = Open(rawValue: "FAMILY_SHARED")
            $0.webOrderLineItemId = "9"
        }
        let answer = try await world.submit(token).1["customer"]
        #expect(
            answer?["consumables"]?.compactText == """
                [{"productId":"coins","transactionId":"2","environment":"Production","purchaseDate":\(Self.start),\
                "quantity":3,"revokedQuantity":3,"transferred":false}]
                """)
        #expect(answer?["unknownProducts"]?.compactText == #"["coins"]"#)
        #expect(
            try await Self.text(world, .get, "/v1/transactions/2") == """
                {"transactionId":"2","originalTransactionId":"2","environment":"Production","productId":"coins",\
                "type":"Consumable","purchaseDate":\(Self.start),"expiresDate":null,"hasAccess":false,\
                "accessUntil":\(Self.start),"quantity":3,"isUpgraded":false,\
                "revocationDate":\(Self.start),"revocationReason":1,"revocationType":"REFUND_FULL",\
                "revokedQuantity":3,"inAppOwnershipType":"FAMILY_SHARED","webOrderLineItemId":"9",\
                "evidence":{"id":"\(Self.name(token))","kind":"signedTransaction","signedDate":\(Self.start)},\
                "customers":["anna"]}
                """)
    }

    @Test func `a claim of a backend corrects the owner if it says so, and one of an app never does`() async throws {
        let world = try await World()
        let token = try world.transaction()
        func claim(
            _ customer: String, _ rest: String = "", key: APIKey.Role = .server
        ) async throws -> (HTTPResponse.Status, JSONValue) {
            try await world.send(
                .post, "/v1/customers/\(customer)/purchases", #"{"document":"\#(token)"\#(rest)}"#, key: key)
        }
        func owners() async throws -> [String] {
            let answer = try await world.send(.get, "/v1/transactions/1").1
            return (answer["customers"]?.array ?? []).compactMap(\.string)
        }
        #expect(try await claim("anna").0 == .ok)
        #expect(try await claim("bert", #","correct":true"#, key: .client).0 == .badRequest)
        #expect(try await owners() == ["anna"])
        #expect(try await claim("bert", #","correct":true"#).0 == .ok)
        #expect(try await owners() == ["bert"])
        for key in [APIKey.Role.client, .server] {
            #expect(try await claim("anna", key: key).1["keptByOthers"]?.array?.count == 1)
        }
        #expect(try await claim("anna", #","correct":true"#).0 == .ok)
        #expect(try await owners() == ["anna"])
    }

    @Test func `the JSON of a subscription, before and after its renewal info is known`() async throws {
        let world = try await World()
        let token = try world.transaction()
        try await world.submit(token)
        let history = "[\(Self.purchase(evidence: Self.name(token)))]"
        #expect(
            try await Self.text(world, .get, "/v1/subscriptions/1")
                == #"{"subscription":\#(Self.subscription),"transactions":\#(history),"renewalInfo":null,"customers":["anna"]}"#
        )
        var renewal = JWSRenewalInfoDecodedPayload()
        (renewal.originalTransactionId, renewal.productId, renewal.autoRenewProductId) = ("1", "month", "year")
        (renewal.environment, renewal.signedDate) = (Open(.production), Self.now)
        (renewal.renewalDate, renewal.autoRenewStatus) = (Timestamp(milliseconds: Self.end), Open(.off))
        (renewal.expirationIntent, renewal.priceIncreaseStatus) = (Open(rawValue: 1), Open(rawValue: 0))
        let signed = try world.store.sign(renewal)
        let notification = try world.notification("DID_CHANGE_RENEWAL_STATUS", transaction: token) {
            $0.data?.signedRenewalInfo = signed
        }
        #expect(try await world.send(.post, "/notifications/v2", notification, key: nil).0 == .ok)
        let subscription = """
            \(Self.subscription.dropLast("null}".count))false,\
            "renewal":{"autoRenewProductId":"year","priceIncreaseStatus":0},"expirationIntent":1}
            """
        let info = #"{"id":"\#(Self.name(signed, .renewalInfo))","signedDate":\#(Self.start)}"#
        #expect(
            try await Self.text(world, .get, "/v1/subscriptions/1")
                == #"{"subscription":\#(subscription),"transactions":\#(history),"renewalInfo":\#(info),"customers":["anna"]}"#
        )
    }

    @Test func `a purchase with its offer, price and storefront, and a commitment with its renewal`() async throws {
        let world = try await World()
        var commitment = TransactionCommitmentInfo()
        (commitment.billingPeriodNumber, commitment.totalBillingPeriods) = (4, 12)
        let year = Timestamp(milliseconds: Self.start + 31_536_000_000)
        (commitment.commitmentExpiresDate, commitment.commitmentPrice) = (year, 119_880)
        let token = try world.transaction {
            ($0.offerType, $0.offerIdentifier) = (Open(.promotional), "autumn")
            ($0.offerDiscountType, $0.offerPeriod) = (Open(.payAsYouGo), "P1M")
            ($0.price, $0.currency, $0.storefront) = (9_990, "EUR", "DEU")
            $0.commitmentInfo = commitment
        }
        var renewal = JWSRenewalInfoDecodedPayload()
        (renewal.originalTransactionId, renewal.autoRenewStatus) = ("1", Open(.on))
        (renewal.environment, renewal.signedDate) = (Open(.production), Self.now)
        var next = RenewalCommitmentInfo()
        (next.commitmentAutoRenewStatus, next.commitmentAutoRenewProductId) = (Open(.off), "year")
        renewal.commitmentInfo = next
        let signed = try world.store.sign(renewal)
        let notification = try world.notification("DID_CHANGE_RENEWAL_STATUS", transaction: token) {
            $0.data?.signedRenewalInfo = signed
        }
        #expect(try await world.send(.post, "/notifications/v2", notification, key: nil).0 == .ok)
        let text = try await Self.text(world, .get, "/v1/subscriptions/1")
        #expect(
            text.contains(
                """
                "willRenew":true,"commitment":{"billingPeriodNumber":4,"totalBillingPeriods":12,\
                "expiresDate":\(year.milliseconds),"price":119880,"currency":"EUR","willRenew":false,\
                "autoRenewProductId":"year"}}
                """), "\(text)")
        #expect(
            text.contains(
                """
                "revocationDate":null,"offerType":2,"offerIdentifier":"autumn","offerDiscountType":"PAY_AS_YOU_GO",\
                "offerPeriod":"P1M","price":9990,"currency":"EUR","storefront":"DEU","billingPeriodNumber":4,\
                "evidence":
                """), "\(text)")
        let events = try await Self.text(world, .get, "/v1/events")
        #expect(events.contains(#""willRenew":true,"commitmentWillRenew":false}"#), "\(events)")
    }

    @Test func `seats that were taken back, and those in force`() async throws {
        let world = try await World()
        var seats = TransactionMultiSeatInfo()
        seats.revokedSeatQuantity = 2
        let token = try world.transaction { ($0.quantity, $0.multiSeatInfo) = (5, seats) }
        let answer = try await world.submit(token).1["customer"]
        #expect(answer?["subscriptions"]?.array?.first?["seats"]?.integer == 3)
        #expect(answer?["purchases"]?.array?.first?["quantity"]?.integer == 5)
        #expect(answer?["purchases"]?.array?.first?["revokedQuantity"]?.integer == 2)
    }

    @Test func `a document without a signing date has no signedDate`() async throws {
        let world = try await World()
        let token = try world.transaction { $0.signedDate = nil }
        var renewal = JWSRenewalInfoDecodedPayload()
        (renewal.originalTransactionId, renewal.environment) = ("1", Open(.production))
        renewal.autoRenewStatus = Open(.on)
        let info = try world.store.sign(renewal)
        let notification = try world.notification("SUBSCRIBED", transaction: token) {
            $0.data?.signedRenewalInfo = info
        }
        let answer = try await Self.text(world, .post, "/notifications/v2", notification)
        #expect(answer == "{}")
        let text = try await Self.text(world, .get, "/v1/subscriptions/1")
        let id = "undated-\(DocumentDigest(Array(token.utf8), .transaction))"
        #expect(text.contains(#""evidence":{"id":"\#(id)","kind":"signedTransaction","signedDate":null}"#))
        let name = "undated-\(DocumentDigest(Array(info.utf8), .renewalInfo))"
        #expect(text.hasSuffix(#""renewalInfo":{"id":"\#(name)","signedDate":null},"customers":[]}"#), "\(text)")
        #expect(try await world.send(.get, "/v1/evidence/\(name)").1["signedDate"] == .null)
    }

    @Test func `the JSON of evidence`() async throws {
        let world = try await World()
        let token = try world.transaction()
        let body = try world.notification("SUBSCRIBED", transaction: token) {
            $0.subtype = Open(rawValue: "RESUBSCRIBE")
        }
        #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
        let notification = try #require(try JSONValue(parsing: body.utf8)["signedPayload"]?.string)
        let middle = #""environment":"Production","signedDate":\#(Self.start),"receivedAt":\#(Self.start)"#
        let (name, other) = (Self.name(token), Self.name(notification, .notification))
        #expect(
            try await Self.text(world, .get, "/v1/evidence/\(name)")
                == #"{"id":"\#(name)","kind":"transaction",\#(middle),"document":"\#(token)"}"#)
        #expect(
            try await Self.text(world, .get, "/v1/evidence/\(other)") == """
                {"id":"\(other)","kind":"notification",\(middle),"notificationType":"SUBSCRIBED","subtype":"RESUBSCRIBE",\
                "notificationUUID":"u","document":"\(notification)"}
                """)
    }

    @Test func `the JSON of events, with the states before and after each event`() async throws {
        let world = try await World()
        let test = try world.notification("TEST")
        for body in [try world.notification("SUBSCRIBED", transaction: world.transaction()), test] {
            #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
        }
        let token = try #require(try JSONValue(parsing: test.utf8)["signedPayload"]?.string)
        let recorded = #""recordedAt":\#(Self.start)"#
        let effective = #""effectiveAt":\#(Self.start)"#
        let scope = #""bundleId":"com.example","environment":"Production""#
        #expect(
            try await Self.text(world, .get, "/v1/events") == """
                {"items":[{"id":"1.com.example","kind":"transaction.recorded",\(recorded),\(scope),\
                "originalTransactionId":"1",\(effective),"transactionId":"1","productId":"month",\
                "type":"Auto-Renewable Subscription","quantity":1,"purchaseDate":\(Self.start),\
                "expiresDate":\(Self.end),"renewalNumber":1},\
                {"id":"2.com.example","kind":"subscription.started",\(recorded),\(scope),\
                "originalTransactionId":"1",\(effective),"transactionId":"1","productId":"month",\
                "type":"Auto-Renewable Subscription","quantity":1,"before":null,\
                "after":{"status":"active","productId":"month","transactionId":"1","hasAccess":true,\
                "until":\(Self.end),"willRenew":null},\
                "entitlementsBefore":[],"entitlementsAfter":[{"name":"pro","reason":"subscription",\
                "environment":"Production","until":\(Self.end),"transactionId":"1"}]},\
                {"id":"3.com.example","kind":"notification.received",\(recorded),\(scope),\(effective),"detail":"TEST",\
                "evidence":"\(Self.name(token, .notification))",\
                "notification":{"data":{"bundleId":"com.example","environment":"Production"}},\
                "before":null,"after":null}],\
                "nextCursor":"3.com.example"}
                """)
    }

    @Test(arguments: ["?", "?&", "?limit=5&", "?limit=%35", "?l%69mit=5"])
    func `a query may have escapes and nothing between two ampersands`(query: String) async throws {
        let (status, answer) = try await World().send(.get, "/v1/events\(query)")
        #expect(status == .ok, "\(answer.compactText)")
    }

    @Test func `an invalid cursor is 400, and a cursor before erased events is 410 with the oldest cursor`()
        async throws
    {
        let world = try await World()
        _ = try await world.send(.post, "/notifications/v2", world.notification("TEST"), key: nil)
        for cursor in ["1", "1.com.other", "-1", "x", ""] {
            let (status, answer) = try await world.send(.get, "/v1/events?after=\(cursor)")
            #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidCursor", "\(cursor)")
        }
        let (status, lost) = try await world.send(.get, "/v1/events?after=2.com.example")
        #expect(status == .gone && lost["error"]?["code"]?.string == "cursorExpired")
        #expect(lost["error"]?["oldest"]?.string == "1.com.example")
        #expect(lost["error"]?["message"]?.string?.contains("was restored") == true)
        #expect(try await world.ledger.eraseEvents(before: Timestamp(milliseconds: Self.start + 1)) == 1)
        let response = try await world.respond(.get, "/v1/events?after=0", key: .server)
        #expect(response.status == .gone)
        #expect(
            String(buffer: response.body) == """
                {"error":{"code":"cursorExpired","message":"Events after this cursor were erased. The remaining events \
                begin after the cursor in “oldest”.","retryable":false,"oldest":"1.com.example"}}
                """)
        let end = #"{"items":[],"nextCursor":"1.com.example"}"#
        for query in ["?after=1.com.example", ""] {
            #expect(try await Self.text(world, .get, "/v1/events" + query) == end)
        }
    }

    @Test func `the JSON of an error and of the health routes`() async throws {
        var world = try await World()
        #expect(
            try await Self.text(world, .get, "/v1/transactions/1")
                == #"{"error":{"code":"notFound","message":"The transaction is not known here.","retryable":false}}"#)
        #expect(try await Self.text(world, .get, "/health/live") == #"{"status":"live"}"#)
        #expect(
            try await Self.text(world, .get, "/health/ready") == #"{"status":"ready","lastNotificationAccepted":null}"#)
        world.server.ledger = nil
        #expect(try await Self.text(world, .get, "/health/ready") == #"{"status":"ready"}"#)
    }
}

/// What the server publishes and erases without a request.
@Suite struct HousekeepingTests {
    /// Runs it once, with a retention of two days.
    private static func run(_ world: LedgerRoutesTests.World, at now: Timestamp) async throws {
        let housekeeping = Housekeeping(
            ledger: world.ledger, eventRetention: .seconds(2 * 86_400), now: { now },
            clock: VirtualClock(cancelsSleepingTasks: true), logger: world.server.logger)
        try await housekeeping.run()
    }

    @Test func `events older than the retention are erased, and newer ones stay`() async throws {
        let world = try await LedgerRoutesTests.World()
        _ = try await world.send(.post, "/notifications/v2", world.notification("TEST"), key: nil)
        let day: Int64 = 86_400_000
        func publish(after days: Int64) async throws -> [LedgerEvent] {
            let now = Timestamp(milliseconds: LedgerRoutesTests.now.milliseconds + days * day)
            try await Self.run(world, at: now)
            _ = try await world.ledger.publishDueChanges(at: now)
            return try await world.ledger.events(of: "com.example", limit: 10).events
        }
        try await world.submit()
        #expect(try await !world.ledger.events(of: "com.example", limit: 1).events.isEmpty)
        #expect(try await publish(after: 3).isEmpty)
        // The due changes that this round publishes are new, and stay.
        #expect(try await !publish(after: 31).isEmpty)
    }

    /// The server was not running for the days in which no server served the webhook.
    @Test(arguments: [(WebhookEndpoint.State.active, 1), (.paused, 0)], [5, 50] as [Int64])
    func `old events stay while an active webhook needs them`(
        expected: (state: WebhookEndpoint.State, left: Int), days: Int64
    ) async throws {
        let world = try await LedgerRoutesTests.World()
        let start = LedgerRoutesTests.now
        var endpoint = WebhookEndpoint(
            id: "hook", of: "com.example", url: "https://example.com", createdAt: start)
        endpoint.state = expected.state
        _ = try await world.ledger.addWebhook(endpoint, fingerprint: "print", at: start)
        _ = try await world.send(.post, "/notifications/v2", world.notification("TEST"), key: nil)
        try await Self.run(world, at: start.advanced(by: .seconds(days * 86_400)))
        #expect(try await world.ledger.events(of: "com.example", limit: 10).events.count == expected.left)
    }
}
