// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import TestWorld
import Testing

/// The ledger over HTTP, as apps and Apple use it.
@Suite struct LedgerRoutesTests {
    static let now = TestStore.start
    static let month: Int64 = 30 * 86_400_000
    static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    /// A server with an app, and a key of each role.
    struct World {
        let store: TestStore
        let storage: any LedgerStorage
        let ledger: Ledger
        var server: ServerApplication { didSet { application = checkedApplication(of: server) } }
        private var application: Application<DeclaredAnswers>
        var keys: [APIKey.Role: String]

        /// - Parameter change: A change to the verifier.
        init(
            storage: any LedgerStorage = MemoryLedgerStorage(), policy: ClaimPolicy = .accountTokenWins,
            refused: Set<String> = [], proof: CustomerProof? = nil, clock: any Clock<Duration> = ContinuousClock(),
            bounds: ServerBounds = ServerBounds(),
            _ change: (inout AppStoreVerifier) -> Void = { _ in }
        ) async throws {
            self.storage = storage
            store = try TestStore()
            var verifier = store.verifier(
                of: .only([AppIdentity(bundleId: "com.example"), AppIdentity(bundleId: "com.example.two")]))
            change(&verifier)
            let catalogue = Catalogue(
                products: ["month": .init(entitlements: ["pro"])], refusedPurchases: refused)
            ledger = Ledger(
                storage: storage, rules: LedgerRules(catalogues: ["com.example": catalogue], claimPolicy: policy))
            var service = LedgerService(ledger: ledger, verifier: verifier)
            var app = AppConfiguration(AppIdentity(bundleId: "com.example"))
            app.customerProof = proof
            app.entitlements = ["gold"]
            service.apps = ["com.example": app]
            server = ServerApplication(
                ledger: service, bounds: bounds, requestSeed: 0xabc, now: { LedgerRoutesTests.now }, clock: clock,
                logger: .quiet)
            application = checkedApplication(of: server)
            var random = SeededRandom(seed: 1)
            var keys: [APIKey.Role: String] = [:]
            for role in APIKey.Role.allCases {
                let (key, text) = APIKey.make(
                    name: role.rawValue, role: role, bundleId: "com.example", at: LedgerRoutesTests.now, using: &random)
                try await ledger.put(key)
                keys[role] = text
            }
            self.keys = keys
        }

        /// The same server with another ledger.
        func server(keeping ledger: Ledger) throws -> ServerApplication {
            var server = server
            server.ledger = LedgerService(ledger: ledger, verifier: try #require(server.ledger?.verifier))
            return server
        }

        func publish(_ events: [LedgerEvent]) async throws {
            try await storage.commit(LedgerQuery()) { _ in
                var changes = LedgerChanges()
                changes.events = events
                return .commit(changes, ())
            }
        }

        func transaction(_ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }) throws -> String {
            try store.sign(TestStore.transaction("1", change))
        }

        func notification(
            _ type: String, transaction: String? = nil,
            _ change: (inout ResponseBodyV2DecodedPayload) -> Void = { _ in }
        ) throws -> String {
            try store.body(TestStore.notification(type, transaction: transaction, change))
        }

        /// Sends a request with a key, and a customer's token if there is one, and returns status and JSON.
        func send(
            _ method: HTTPRequest.Method, _ path: String, _ body: String = "", key: APIKey.Role? = .server,
            token: String? = nil
        ) async throws -> (HTTPResponse.Status, JSONValue) {
            let response = try await respond(method, path, body, key: key, token: token)
            return (response.status, try JSONValue(parsing: response.body.readableBytesView))
        }

        /// Submits a document of a customer.
        ///
        /// - Parameter document: `nil` for the transaction 1.
        @discardableResult
        func submit(
            _ document: String? = nil, for customer: String = "anna", _ query: String = "",
            key: APIKey.Role? = .server
        ) async throws -> (HTTPResponse.Status, JSONValue) {
            let body = #"{"document":"\#(try document ?? transaction())"}"#
            return try await send(.post, "/v1/customers/\(customer)/purchases\(query)", body, key: key)
        }

        func respond(
            _ method: HTTPRequest.Method, _ path: String, _ body: String = "", key: APIKey.Role?, token: String? = nil
        ) async throws -> TestResponse {
            var headers: HTTPFields = key.map { [.authorization: "Bearer \(keys[$0] ?? "")"] } ?? [:]
            if let name = HTTPField.Name("Quittance-Customer-Token") { headers[name] = token }
            return try await application.test(.router) { [headers] client in
                try await client.execute(uri: path, method: method, headers: headers, body: ByteBuffer(string: body))
            }
        }
    }

    @Test(arguments: [("?environment=production", 400), ("?environment=sandbox", 200), ("?environment=any", 200)])
    func `a document of another environment than the request names is refused, and changes no owner`(
        query: String, status: Int
    ) async throws {
        let world = try await World()
        let document = try world.transaction { $0.environment = Open(.sandbox) }
        let answer = try await world.submit(document, query)
        #expect(answer.0.code == status)
        #expect(answer.1["error"]?["code"]?.string == (status == 400 ? "otherEnvironment" : nil))
        #expect(answer.1["error"]?["environment"]?.string == (status == 400 ? "Sandbox" : nil))
        let customer = try await world.send(.get, "/v1/customers/anna?environment=sandbox").1
        #expect(customer["purchases"]?.array?.count == (status == 400 ? 0 : 1))
    }

    @Test func `a submitted purchase belongs to the customer immediately, with its evidence`()
        async throws
    {
        let world = try await World()
        let token = try world.transaction()
        let (status, answer) = try await world.submit(token)
        #expect(status == .ok)
        #expect(answer["recorded"]?.integer == 1)
        let customer = try #require(answer["customer"])
        #expect(customer["entitlements"]?.array?.map { $0["name"]?.string } == ["pro"])
        #expect(customer["nextChange"]?.integer == Self.now.milliseconds + Self.month)
        let evidence = customer["purchases"]?.array?.first?["evidence"]
        let digest = DocumentDigest(Array(token.utf8), .transaction)
        #expect(evidence?["id"]?.string == "\(Self.now.milliseconds)-\(digest)")

        let (read, again) = try await world.send(.get, "/v1/customers/anna")
        #expect(read == .ok)
        #expect(again == customer)
        let (_, pro) = try await world.send(.get, "/v1/customers/anna/entitlements/pro", key: .client)
        #expect(pro["isActive"] == .bool(true))
        let (_, none) = try await world.send(.get, "/v1/customers/anna/entitlements/gold", key: .client)
        #expect(none["isActive"] == .bool(false))
        #expect(try await world.send(.get, "/v1/customers/anna?environment=sandbox").1["entitlements"]?.array == [])
        #expect(try await world.send(.get, "/v1/subscriptions/1").1["subscription"]?["statusCode"]?.integer == 1)
        #expect(try await world.send(.get, "/v1/transactions/1").1["productId"]?.string == "month")
        #expect(try await world.send(.get, "/v1/transactions/2").0 == .notFound)
    }

    @Test func `if one of several documents is invalid, all are refused, with its index and the reason`() async throws {
        let world = try await World()
        let other = try world.transaction { $0.bundleId = "com.example.two" }
        let body = #"{"documents":["\#(try world.transaction())","\#(other)"]}"#
        let (status, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body)
        #expect(status == .badRequest)
        #expect(answer["error"]?["code"]?.string == "otherApp")
        #expect(answer["error"]?["message"]?.string?.hasPrefix("documents[1]: ") == true)
        #expect(try await world.send(.get, "/v1/customers/anna").1["ids"]?.array == [])
    }

    @Test(arguments: [
        ("", "invalidRequest"), (#"{"document":"x"}"#, "malformed"), (#"{"document":"a.b.c"}"#, "malformed"),
        (#"{"document":"AAAA"}"#, "malformed"),
    ])
    func `a malformed submission is refused with an error code`(body: String, code: String) async throws {
        let (status, answer) = try await World().send(.post, "/v1/customers/anna/purchases", body)
        #expect(status == .badRequest)
        #expect(answer["error"]?["code"]?.string == code)
        #expect(answer["error"]?["retryable"] == .bool(false))
    }

    @Test func `a notification is recorded once, whatever it is about`() async throws {
        let world = try await World()
        let renewal = try world.notification(
            "DID_RENEW", transaction: world.transaction { $0.appAccountToken = "anna" })
        for body in [renewal, renewal, try world.notification("TEST"), try world.notification("NEVER_HEARD_OF")] {
            #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
        }
        let (_, events) = try await world.send(.get, "/v1/events")
        #expect(
            events["items"]?.array?.map { $0["kind"]?.string } == [
                "transaction.recorded", "purchase.linked", "subscription.started", "notification.received",
                "notification.received",
            ])
        let ids = try #require(events["items"]?.array?.map { $0["id"]?.string ?? "" })
        #expect(events["nextCursor"]?.string == ids[4])
        #expect(try await world.send(.get, "/v1/events?after=\(ids[4])").1["items"]?.array == [])
        #expect(try await world.send(.get, "/v1/events?after=\(ids[1])&limit=1").1["items"]?.array?.count == 1)
        #expect(try await world.send(.get, "/v1/customers/anna").1["entitlements"]?.array?.count == 1)
    }

    @Test(arguments: [
        ("v2", #"{"signedPayload":"a.b.c"}"#),
        ("v1", #"{"notification_type":"DID_RENEW","unified_receipt":{"latest_receipt":"AAAA"}}"#),
    ])
    func `a notification of a malformed document is 400`(version: String, body: String) async throws {
        let (status, answer) = try await World().send(.post, "/notifications/\(version)", body, key: nil)
        #expect(status == .badRequest && answer["error"]?["code"]?.string == "malformed")
    }

    @Test func `a wrong body at an address of notifications is named, with what to send instead`() async throws {
        let world = try await World()
        let right = try world.notification("TEST")
        let token = try #require(try JSONValue(parsing: right.utf8)["signedPayload"]?.string)
        let first = #"{"notification_type":"CANCEL","password":"hidden","unified_receipt":{"latest_receipt":"AA=="}}"#
        let (mark, utf16Mark): ([UInt8], [UInt8]) = ([0xef, 0xbb, 0xbf], [0xff, 0xfe])
        let utf16 = right.utf16.reduce(into: utf16Mark) { $0 += [UInt8($1 & 0xff), UInt8($1 >> 8)] }
        let rows: [(path: String, body: [UInt8], form: String, advice: String?)] = [
            ("v2", Array(first.utf8), "notificationV1", "choose Version 2 for this URL in App Store Connect"),
            ("v1", Array(right.utf8), "notificationV2", "its address is /notifications/v2"),
            ("v1", Array(#"{"notification_type":"CANCEL"}"#.utf8), "notificationV1", nil),
            ("v2", Array(token.utf8), "token", "the bare document"),
            ("v1", Array(token.utf8), "token", "the bare document"),
            ("v2", Array("\(token)\n".utf8), "whiteSpace+token", "the bare document"),
            ("v2", Array("signedPayload=\(token)".utf8), "formBody+token", "a form: send JSON"),
            ("v2", Array("[\(right)]".utf8), "list+token", "send each notification by itself"),
            ("v2", SentForm.gzip(Array(right.utf8)), "gzip+jsonMember+token", "send it uncompressed"),
            ("v2", mark + Array(right.utf8), "byteOrderMark+jsonMember+token", "byte order mark"),
            ("v2", utf16, "utf16+jsonMember+token", "send UTF-8"), ("v2", [], "nothing", "Nothing was sent"),
            ("v2", Array(#"{"signedPayload":null}"#.utf8), "nothing", "Nothing was sent"),
            ("v2", Array(#"{"signedPayload":5}"#.utf8), "jsonMember+jsonWithoutDocument", nil),
            ("v2", Array(#"{"payload":"x"}"#.utf8), "jsonWithoutDocument", nil),
            ("v2", Array(#"{"signedPayload":"x""#.utf8), "brokenJSON", "begins like JSON"),
            ("v2", Array(#"{"signedTransactionInfo":"\#(token)"}"#.utf8), "jsonMember+token", "jsonMember+token"),
        ]
        try await checkedApplication(of: world.server).test(.router) { client in
            for (path, body, form, advice) in rows {
                let response = try await client.execute(
                    uri: "/notifications/\(path)", method: .post, body: ByteBuffer(bytes: body))
                let error = try JSONValue(parsing: response.body.readableBytesView)["error"]
                let message = try #require(error?["message"]?.string)
                #expect(response.status == .badRequest && error?["code"]?.string == "invalidRequest", "\(form)")
                #expect(error?["form"]?.string == form, "\(form): \(message)")
                #expect(message.hasPrefix("The body is not {") && !message.contains("hidden"), "\(message)")
                #expect(message.contains(advice ?? "…}"), "\(message)")
                #expect((advice == nil) == (message.hasSuffix("…}.") || message.hasSuffix("…}}.")), "\(message)")
            }
        }
        #expect(try await world.ledger.events(of: "com.example", limit: 9).events.isEmpty)
    }

    private struct Unforeseen: Error {}

    @Test(arguments: [(LedgerStorageError(.full, "no room"), 21005), (Unforeseen(), 21009)] as [(any Error, Int64)])
    func `for a fault of the server, verifyReceipt's status does not call the receipt invalid`(
        error: any Error, status: Int64
    ) async throws {
        var world = try await World()
        world.server = try world.server(keeping: Ledger(storage: FailingStorage(error: error)))
        let receipt = Base64.encode(
            try world.store.sign(TestStore.receipt([TestStore.purchase("1", original: "1")])))
        let answer = try await world.send(.post, "/verifyReceipt", #"{"receipt-data":"\#(receipt)"}"#, key: nil).1
        #expect(answer["status"]?.integer == status)
    }

    @Test(arguments: ["/v1/events", "/v1/customers/anna", "/v1/subscriptions/1"])
    func `a key whose role only a newer version knows opens nothing, and the other keys open as before`(
        path: String
    ) async throws {
        var world = try await World()
        var random = SeededRandom(seed: 2)
        var (key, text) = APIKey.make(name: "new", role: .server, bundleId: "com.example", at: Self.now, using: &random)
        key.role = Open(rawValue: "auditor")
        try await world.ledger.put(key)
        #expect(try await world.send(.get, path).0 != .forbidden)
        world.keys[.server] = text
        let (status, answer) = try await world.send(.get, path)
        #expect(status == .forbidden && answer["error"]?["code"]?.string == "forbidden")
    }

    @Test func `events of a kind that only a newer version knows are passed on, with characters that texts may have`()
        async throws
    {
        let world = try await World()
        let body = #""gift":{"from":[1.50,"\ud800\u0000"]},"after":{"status":"paused","since":9},"before":null"#
        let gift = LedgerEvent(
            Open(rawValue: "purchase.gifted"), in: Self.scope, at: Self.now, customer: nil, chainName: "7",
            body: Array("{\(body)}".utf8))
        try await world.publish([LedgerEvent(.purchased, in: Self.scope, at: Self.now), gift])
        let (status, page) = try await world.send(.get, "/v1/events")
        let items = page["items"]?.array ?? []
        #expect(status == .ok && items.map { $0["kind"]?.string } == ["purchase.made", "purchase.gifted"])
        #expect(items.last?["after"]?["status"]?.string == "paused")
        let cursor = try #require(page["nextCursor"]?.string)
        #expect(
            items.last?.compactText == #"""
                {"id":"\#(cursor)","kind":"purchase.gifted","recordedAt":\#(Self.now.milliseconds),\#
                "bundleId":"com.example","environment":"Production","originalTransactionId":"7",\#(body.replacing(#"\ud800\u0000"#, with: "\u{fffd}\u{fffd}"))}
                """#)
    }

    @Test(arguments: [
        "", "{", "{}", "[1]", "{1}", "damaged", #"{"detail":"cut,"before":null}"#, #"{"a":1}{"b":2}"#,
        "{\"a\":\"\u{1}\"}", #"{"id":"other"}"#, #"{"kind":"other","detail":"x"}"#,
        "{\"a\":" + String(repeating: "[", count: 2000) + String(repeating: "]", count: 2000) + "}",
    ])
    func `an event whose body is damaged keeps its cursor, and holds no other event back`(body: String) async throws {
        let world = try await World()
        let damaged = LedgerEvent(
            Open(.purchased), in: Self.scope, at: Self.now, customer: nil, chainName: nil, body: Array(body.utf8))
        try await world.publish([damaged, LedgerEvent(.refunded, in: Self.scope, at: Self.now)])
        let (status, page) = try await world.send(.get, "/v1/events")
        let items = page["items"]?.array ?? []
        #expect(status == .ok && items.map { $0["kind"]?.string } == ["purchase.made", "purchase.refunded"])
        #expect(items.map { $0.members?.count } == [5, 8])
    }

    @Test(arguments: [
        #"{"detail":"x"}"#, #"{ "detail" : "x" }"#, " {\"detail\":\"x\"}", "{\"detail\":\"x\"}\n", "{}", "{ }",
    ])
    func `white space in the body of an event loses no member`(body: String) async throws {
        let world = try await World()
        let event = LedgerEvent(
            Open(.purchased), in: Self.scope, at: Self.now, customer: nil, chainName: nil, body: Array(body.utf8))
        try await world.publish([event])
        let (status, page) = try await world.send(.get, "/v1/events")
        let item = try #require(page["items"]?.array?.first)
        #expect(status == .ok && item["detail"]?.string == (body.contains("x") ? "x" : nil))
        #expect(item.members?.count == (body.contains("x") ? 6 : 5))
    }

    @Test func `a revoked key is refused, a wrong secret does not match, and only a hash is stored`() async throws {
        let world = try await World()
        let text = try #require(world.keys[.server])
        let (id, secret) = try #require(APIKey.parts(of: text))
        var key = try #require(try await world.ledger.apiKey(id))
        #expect(key.admits(secret, at: Self.now))
        #expect(!key.admits(String(secret.reversed()), at: Self.now))
        #expect(!key.secretHash.elementsEqual(secret.utf8))
        let revoked = {
            key.revokedAt = Self.now; return key
        }()
        try await world.ledger.put(revoked)
        #expect(try await world.send(.get, "/v1/events").0 == .unauthorized)
    }

    @Test func `aliases and deletion return the result`() async throws {
        let world = try await World()
        try await world.submit()
        let (_, merged) = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"a2"}"#)
        #expect(merged["ids"]?.array?.map(\.string) == ["anna", "a2"])
        #expect(try await world.send(.post, "/v1/customers/nobody/aliases", #"{"alias":"x"}"#).0 == .notFound)
        #expect(try await world.send(.delete, "/v1/customers/a2").1["unlinkedPurchases"]?.integer == 1)
        #expect(try await world.send(.get, "/v1/customers/anna").1["ids"]?.array == [])
    }

    @Test func `a merge changes no earlier event, and a deletion takes the customer from them, and nothing else`()
        async throws
    {
        let world = try await World()
        try await world.submit()
        let bert = try world.store.sign(TestStore.transaction("2"))
        try await world.submit(bert, for: "bert")
        func items() async throws -> [[JSONValue.Member]] {
            try await world.send(.get, "/v1/events").1["items"]?.array?.compactMap(\.members) ?? []
        }
        func customers(_ items: [[JSONValue.Member]]) -> Set<String?> {
            Set(items.map { members in members.first { $0.name == "customer" }?.value.string })
        }
        let before = try await items()
        #expect(before.count >= 4 && customers(before) == ["anna", "bert"])
        func rest(_ items: [[JSONValue.Member]]) -> [[JSONValue.Member]] {
            items.prefix(before.count).map { $0.filter { $0.name != "customer" } }
        }
        #expect(try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"bert"}"#).0 == .ok)
        let merged = try await items()
        #expect(Array(merged.prefix(before.count)) == before)
        let names = ["customer", "mergedCustomer", "deletedId"]
        func named(_ items: [[JSONValue.Member]]) -> [String: String] {
            let members = items.last?.filter { names.contains($0.name) } ?? []
            return Dictionary(members.map { ($0.name, $0.value.string ?? "") }) { $1 }
        }
        #expect(named(merged) == ["customer": "anna", "mergedCustomer": "bert"])
        #expect(try await world.send(.delete, "/v1/customers/bert").0 == .ok)
        let deleted = try await items()
        #expect(customers(Array(deleted.dropLast())) == [nil] && rest(deleted) == rest(before))
        #expect(named(deleted) == ["customer": "anna", "deletedId": "bert"])
        for (id, kinds) in [("anna", ["customer.deleted"]), ("bert", ["customer.merged", "customer.deleted"])] {
            let found = try await world.send(.get, "/v1/events?customer=\(id)").1["items"]?.array ?? []
            #expect(found.map { $0["kind"]?.string } == kinds)
        }
    }

    @Test(
        arguments: [(42, "com.example", true), (43, "com.example", false), (42, "com.other", false)]
            as [(Int64, String, Bool)])
    func `verifyReceipt answers for any app's receipt, but records it only if the app is configured`(
        appleId: Int64, bundleId: String, isRecorded: Bool
    ) async throws {
        let world = try await World { $0.apps = .only([AppIdentity(bundleId: "com.example", appAppleId: 42)]) }
        var receipt = TestStore.receipt([TestStore.purchase()])
        (receipt.appItemId, receipt.bundleId) = (appleId, bundleId)
        let document = Base64.encode(try world.store.sign(receipt))
        let answer = try await world.send(.post, "/verifyReceipt", #"{"receipt-data":"\#(document)"}"#, key: nil).1
        #expect(answer["status"]?.integer == 0)
        #expect(answer["receipt"]?["bundle_id"]?.string == bundleId)
        #expect((answer["latest_receipt"] != nil) == isRecorded)
        #expect(try await world.send(.get, "/v1/transactions/1").0 == (isRecorded ? .ok : .notFound))
    }

    @Test func `verifyReceipt's answer has changes that were recorded after the receipt was signed`() async throws {
        var world = try await World()
        let receipt = TestStore.receipt([TestStore.purchase()])
        let plan = ReceiptPlan(receipt.encoded, by: world.store.receipts)
        let document = Base64.encode(try plan.signed())
        // Certificates outside the signer's chain are not signed: the receipt is accepted, and stored without them.
        var wrapped = plan
        wrapped.certificates += Array(repeating: DEREncoding.sequence([UInt8](repeating: 0, count: 9999)), count: 7)
        let sent = Base64.encode(try wrapped.signed())
        func ask(_ more: String = "") async throws -> JSONValue {
            try await world.send(.post, "/verifyReceipt", #"{"receipt-data":"\#(sent)"\#(more)}"#, key: nil).1
        }
        let first = try await ask()
        #expect(first["latest_receipt_info"]?.array?.count == 1)
        #expect(first["latest_receipt"]?.string == document)
        #expect(first["pending_renewal_info"]?.array == [])

        let renewal = try world.transaction {
            $0.transactionId = "2"
            $0.purchaseDate = receipt.inAppPurchases[0].expiresDate
            $0.expiresDate = Timestamp(milliseconds: Self.now.milliseconds + 2 * Self.month)
        }
        let refund = try world.transaction {
            $0.signedDate = Timestamp(milliseconds: Self.now.milliseconds + 1)
            $0.revocationDate = Self.now
        }
        for transaction in [renewal, refund] {
            _ = try await world.send(
                .post, "/notifications/v2", world.notification("DID_RENEW", transaction: transaction), key: nil)
        }
        let second = try await ask()
        #expect(second["receipt"] == first["receipt"])
        #expect(second["latest_receipt_info"]?.array?.map { $0["transaction_id"]?.string } == ["2", "1"])
        #expect(second["latest_receipt_info"]?.array?.map { $0["cancellation_date"] != nil } == [false, true])
        let latest = try await ask(#","exclude-old-transactions":true"#)
        #expect(latest["latest_receipt_info"]?.array?.map { $0["transaction_id"]?.string } == ["2"])

        world.server.ledger?.apps["com.example"]?.sharedSecret = "s3cret"
        for (password, status) in [("", 21004), (#","password":"s3cre""#, 21004), (#","password":"s3cret""#, 0)] {
            #expect(try await ask(password)["status"]?.integer == Int64(status))
        }
    }
}
