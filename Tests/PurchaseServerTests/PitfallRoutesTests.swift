// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// The pitfalls of the fact sheet about purchase backends (3.3) that concern HTTP or verifyReceipt's answers, by
/// number. PitfallTests has the others, and lists those that are not tested.
@Suite struct PitfallRoutesTests {
    private typealias World = LedgerRoutesTests.World
    private static let now = LedgerRoutesTests.now
    private static let month = LedgerRoutesTests.month

    private static func later(_ months: Int64, _ milliseconds: Int64 = 0) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds + months * month + milliseconds)
    }

    private static func kinds(_ world: World) async throws -> [String?] {
        let items = try await world.send(.get, "/v1/events").1["items"]?.array ?? []
        return items.map { $0["kind"]?.string }
    }

    private static func documents(_ world: World) async throws -> Int {
        try await world.storage.documents(.all, limit: 100).count
    }

    // MARK: - Notifications

    @Test func `pitfall 6: a notification that arrives six times concurrently is recorded once`()
        async throws
    {
        let world = try await World()
        let transaction = try world.transaction { $0.appAccountToken = "anna" }
        let body = try world.notification("SUBSCRIBED", transaction: transaction)
        try await withThrowingTaskGroup(of: HTTPResponse.Status.self) { group in
            for _ in 0..<6 {
                group.addTask { try await world.send(.post, "/notifications/v2", body, key: nil).0 }
            }
            for try await status in group { #expect(status == .ok) }
        }
        #expect(try await Self.kinds(world) == ["transaction.recorded", "purchase.linked", "subscription.started"])
        // The transaction and the notification.
        #expect(try await Self.documents(world) == 2)
    }

    @Test func `1d: concurrent notifications about one chain publish each change once`() async throws {
        let world = try await World()
        let first = try world.transaction()
        let renewal = try world.transaction {
            $0.transactionId = "2"
            $0.purchaseDate = Self.later(1)
            $0.expiresDate = Self.later(2)
        }
        let refund = try world.transaction {
            $0.signedDate = Self.later(0, 1)
            $0.revocationDate = Self.now
        }
        _ = try await world.send(
            .post, "/notifications/v2", world.notification("SUBSCRIBED", transaction: first), key: nil)
        let bodies = try [renewal, refund, renewal, refund].map { try world.notification("X", transaction: $0) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for body in bodies {
                group.addTask { _ = try await world.send(.post, "/notifications/v2", body, key: nil) }
            }
            try await group.waitForAll()
        }
        let kinds = try await Self.kinds(world).filter { $0 != "notification.received" }
        #expect(kinds.count { $0 == "subscription.started" } == 1)
        #expect(kinds.count { $0 == "purchase.refunded" } == 1)
    }

    struct NoResponder: OCSPTransport {
        struct Unreachable: Error {}
        func answer(to request: [UInt8], from responder: String) async throws -> [UInt8] { throw Unreachable() }
    }

    @Test(arguments: [LedgerStorageError.Code.full, .readOnly, .damaged, .unavailable])
    func `pitfall 7: a notification that could not be stored is 503, so that Apple sends it again`(
        code: LedgerStorageError.Code
    ) async throws {
        var world = try await World()
        world.server = try world.server(
            keeping: Ledger(storage: FailingStorage(error: LedgerStorageError(code, "broken"))))
        let response = try await world.respond(.post, "/notifications/v2", world.notification("TEST"), key: nil)
        // 503 always says when to send again.
        #expect(response.status == .serviceUnavailable && response.headers[.retryAfter] == "5")
        let body = String(buffer: response.body)
        #expect(body.contains(#""retryable":true"#) && !body.contains("broken"))
    }

    @Test
    func `pitfall 7 and 25: an unknown revocation status is 503, nothing is recorded, and a later attempt can succeed`()
        async throws
    {
        let body: String
        let world = try await World {
            $0.revocation = .checked(by: RevocationChecker(transport: NoResponder()), acceptsUnknown: false)
        }
        body = try world.notification("DID_RENEW", transaction: world.transaction())
        let (status, answer) = try await world.send(.post, "/notifications/v2", body, key: nil)
        #expect(status == .serviceUnavailable)
        #expect(answer["error"]?["code"]?.string == "revocationUnknown")
        #expect(answer["error"]?["retryable"] == .bool(true))
        #expect(try await Self.documents(world) == 0)
        let healed = try await World()
        #expect(try await healed.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
    }

    @Test func `pitfall 15: a version 1 CANCEL has the effect of a REFUND only if its receipt states the cancellation`()
        async throws
    {
        var purchase = Self.purchase()
        func status(after path: String, _ body: String, in world: World) async throws -> Int64? {
            #expect(try await world.send(.post, path, body, key: nil).0 == .ok)
            return try await world.send(.get, "/v1/subscriptions/1").1["subscription"]?["statusCode"]?.integer
        }
        for (isCancelled, expected) in [(true, Int64(5)), (false, 1)] {
            let (first, second) = (try await World(), try await World())
            purchase.cancellationDate = isCancelled ? Self.now : nil
            let receipt = Base64.encode(try first.store.sign(TestStore.receipt([purchase])))
            let cancel =
                #"{"notification_type":"CANCEL","cancellation_date_ms":"1","unified_receipt":{"latest_receipt":"\#(receipt)"}}"#
            #expect(try await status(after: "/notifications/v1", cancel, in: first) == expected)
            let transaction = try second.transaction { $0.revocationDate = isCancelled ? Self.now : nil }
            let refund = try second.notification("REFUND", transaction: transaction)
            #expect(try await status(after: "/notifications/v2", refund, in: second) == expected)
        }
    }

    struct Unusual: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var type: String
        var change: @Sendable (inout ResponseBodyV2DecodedPayload) -> Void
    }

    static let unusual = [
        Unusual(testDescription: "pitfall 22: TEST, which has no transaction", type: "TEST") { _ in },
        Unusual(testDescription: "1e: SUMMARY, which has no data", type: "RENEWAL_EXTENSION") {
            $0.data = nil
            $0.subtype = Open(.summary)
            $0.summary = NotificationSummary()
            $0.summary?.environment = Open(.production)
            $0.summary?.bundleId = "com.example"
        },
        Unusual(testDescription: "1e: FAILURE of a mass extension", type: "RENEWAL_EXTENSION") {
            $0.subtype = Open(.failure)
        },
        Unusual(testDescription: "1e: REFUND_REVERSED without a transaction", type: "REFUND_REVERSED") { _ in
        },
        Unusual(testDescription: "pitfall 40: an unknown type", type: "FROM_THE_FUTURE") {
            $0.subtype = Open(rawValue: "NEW")
            $0.data?.status = Open(rawValue: 77)
            $0.unknownMembers = UnknownMembers([JSONValue.Member("newThing", .bool(true))])
        },
    ]

    @Test(arguments: unusual) func `an unusual notification is accepted, stored and published`(
        _ unusual: Unusual
    ) async throws {
        let world = try await World()
        let body = try world.notification(unusual.type, unusual.change)
        #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
        #expect(try await Self.documents(world) == 1)
        #expect(try await Self.kinds(world) == ["notification.received"])
    }

    @Test func `pitfall 43: a notification that can never be accepted does not delay the next ones`() async throws {
        let world = try await World()
        let bad = try world.notification("DID_RENEW", transaction: "a.b.c")
        let good = try world.notification("DID_RENEW", transaction: world.transaction())
        for (body, status) in [(bad, 400), (good, 200), (bad, 400)] {
            #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0.code == status)
        }
        #expect(try await Self.kinds(world) == ["transaction.recorded", "subscription.started"])
    }

    // MARK: - Origin

    /// The signer whose certificates the forgeries change: of the committed ones the plans are not known.
    private static let authority = Result { try CertificateAuthority(from: Timestamp(milliseconds: 1_699_000_000_000)) }

    struct Forgery: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: String
        /// The body of a notification with one fault. The trusted authority is the argument.
        var body: @Sendable (CertificateAuthority) throws -> String

        init(
            _ description: String, _ code: String,
            _ body: @escaping @Sendable (CertificateAuthority) throws -> String
        ) {
            testDescription = description
            self.code = code
            self.body = body
        }
    }

    static let forgeries = [
        Forgery("pitfall 44: a signer without the marker OID of the App Store", "untrustedChain") {
            var authority = $0
            authority.tokens.leaf.markerOIDs = []
            return try notification(signedBy: authority)
        },
        Forgery("pitfall 44: an intermediate without its marker OID", "untrustedChain") {
            var authority = $0
            authority.tokens.intermediate.markerOIDs = []
            return try notification(signedBy: authority)
        },
        Forgery("pitfall 44: a signer that was not valid yet when it signed", "certificateExpired") {
            try notification(signedBy: $0, at: Timestamp(milliseconds: 1_698_000_000_000))
        },
        Forgery("1e: an untrusted authority with Apple's marker OIDs and names", "untrustedChain") { _ in
            try notification(signedBy: CertificateAuthority(from: Timestamp(milliseconds: 1_699_000_000_000)))
        },
        Forgery("1e: a genuine notification with a transaction from another signer", "untrustedChain") {
            let other = try CertificateAuthority(from: Timestamp(milliseconds: 1_699_000_000_000))
            return try notification(signedBy: $0, transaction: other.sign(TestStore.transaction()))
        },
        Forgery("pitfall 23: a production notification with a sandbox transaction", "otherPurchase") {
            try notification(
                signedBy: $0, transaction: $0.sign(TestStore.transaction { $0.environment = Open(.sandbox) }))
        },
        Forgery("pitfall 45: a notification from Xcode, which sends none to servers", "otherEnvironment") {
            try notification(signedBy: $0, environment: .xcode)
        },
        Forgery("another developer's app", "otherApp") { try notification(signedBy: $0, bundleId: "com.other") },
    ]

    @Test(.takesLong, arguments: forgeries) func `a refused notification is not stored (1d: another server stored it)`(
        _ forgery: Forgery
    ) async throws {
        let authority = try Self.authority.get()
        let roots = try authority.trust
        let world = try await World { $0.roots = roots }
        let (status, answer) = try await world.send(
            .post, "/notifications/v2", forgery.body(authority), key: nil)
        #expect(status == .badRequest)
        #expect(answer["error"]?["code"]?.string == forgery.code)
        #expect(answer["error"]?["retryable"] == .bool(false))
        #expect(try await Self.documents(world) == 0)
        #expect(try await Self.kinds(world) == [])
        // Without the fault the notification is accepted.
        let genuine = try Self.notification(
            signedBy: authority, transaction: authority.sign(TestStore.transaction()))
        #expect(try await world.send(.post, "/notifications/v2", genuine, key: nil).0 == .ok)
    }

    @Test func `pitfall 44: certificates must be valid at the time of signing, not of verification`() async throws {
        var world = try await World()
        // Long after the signer's certificate has expired.
        world.server.now = { Timestamp(milliseconds: Self.now.milliseconds + 20 * 365 * 86_400_000) }
        let body = try world.notification("DID_RENEW", transaction: world.transaction())
        #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
        #expect(try await Self.documents(world) == 2)
    }

    @Test(
        arguments: [
            (AppStoreModel.Environment.production, 42, 200), (.production, 43, 400), (.production, nil, 400),
            (.sandbox, nil, 200), (.sandbox, 0, 200),
        ] as [(AppStoreModel.Environment, Int64?, Int)])
    func `pitfall 24: the app's Apple ID is ignored in the sandbox, and compared in production`(
        environment: AppStoreModel.Environment, id: Int64?, status: Int
    ) async throws {
        let world = try await World {
            $0.apps = .only([AppIdentity(bundleId: "com.example", appAppleId: 42)])
        }
        let body = try world.notification("DID_RENEW") {
            $0.data?.environment = Open(environment)
            $0.data?.appAppleId = id
        }
        let (found, answer) = try await world.send(.post, "/notifications/v2", body, key: nil)
        #expect(found.code == status)
        let sentence = "The app's Apple ID is \(id.map(String.init) ?? "missing"), accepted is 42."
        #expect(answer["error"]?["message"]?.string?.hasPrefix(sentence) == (status == 400 ? true : nil), "\(answer)")
    }

    @Test
    func `pitfall 23: a server for production refuses sandbox purchases, and one for both environments separates them`()
        async throws
    {
        let strict = try await World { $0.environments = [.production] }
        let sandbox = try strict.transaction { $0.environment = Open(.sandbox) }
        let submission = #"{"document":"\#(sandbox)"}"#
        let (status, answer) = try await strict.send(.post, "/v1/customers/anna/purchases", submission)
        #expect(status == .badRequest)
        #expect(answer["error"]?["code"]?.string == "otherEnvironment")

        let both = try await World()
        #expect(try await both.send(.post, "/v1/customers/anna/purchases?environment=sandbox", submission).0 == .ok)
        let production = try await both.send(.get, "/v1/customers/anna?environment=production").1
        #expect(production["entitlements"]?.array == [])
        #expect(production["purchases"]?.array == [])
        #expect(try await both.send(.get, "/v1/subscriptions/1?environment=production").0 == .notFound)
        let there = try await both.send(.get, "/v1/customers/anna/entitlements/pro?environment=sandbox").1
        #expect(there["isActive"] == .bool(true))
    }

    @Test(arguments: [
        ("/verifyReceipt", ReceiptType.production, 0), ("/verifyReceipt", .productionSandbox, 21007),
        ("/sandbox/verifyReceipt", .productionSandbox, 0), ("/sandbox/verifyReceipt", .production, 21008),
    ])
    func `pitfall 23: a receipt at the wrong endpoint gets 21007 or 21008, and is not recorded`(
        path: String, type: ReceiptType, status: Int
    ) async throws {
        let world = try await World()
        var receipt = TestStore.receipt([Self.purchase()])
        receipt.receiptType = Open(type)
        let document = Base64.encode(try world.store.sign(receipt))
        let answer = try await world.send(.post, path, #"{"receipt-data":"\#(document)"}"#, key: nil).1
        #expect(answer["status"]?.integer == Int64(status))
        #expect(try await Self.documents(world) == (status == 0 ? 1 : 0))
    }

    // MARK: - verifyReceipt

    /// Sends a receipt to verifyReceipt after some transactions were recorded.
    private static func ask(
        _ world: World, _ receipt: AppReceipt, after transactions: [String] = [], _ members: String = ""
    ) async throws -> JSONValue {
        for transaction in transactions {
            let body = try world.notification("DID_RENEW", transaction: transaction)
            #expect(try await world.send(.post, "/notifications/v2", body, key: nil).0 == .ok)
        }
        let document = Base64.encode(try world.store.sign(receipt))
        let body = #"{"receipt-data":"\#(document)"\#(members)}"#
        return try await world.send(.post, "/verifyReceipt", body, key: nil).1
    }

    private static func ids(_ answer: JSONValue) -> [String?]? {
        answer["latest_receipt_info"]?.array?.map { $0["transaction_id"]?.string }
    }

    @Test func `pitfall 27: latest_receipt_info is sorted by date, and in_app as in the receipt`() async throws {
        let world = try await World()
        // The encoder sorts the purchases by their bytes, in which the id comes first.
        let purchases = ["2", "3", "1"].enumerated().map { period, id in
            Self.purchase(id, from: Self.later(Int64(period)), until: Self.later(Int64(period) + 1))
        }
        let answer = try await Self.ask(world, TestStore.receipt(purchases))
        #expect(Self.ids(answer) == ["1", "3", "2"])
        #expect(answer["receipt"]?["in_app"]?.array?.map { $0["transaction_id"]?.string } == ["1", "2", "3"])
        let latest = try await Self.ask(world, TestStore.receipt(purchases), #","exclude-old-transactions":true"#)
        #expect(Self.ids(latest) == ["1"])
    }

    @Test func `pitfall 30 and 31: dates have Apple's three forms, and numbers and Booleans are strings`() async throws
    {
        let world = try await World()
        let refund = try world.transaction {
            $0.quantity = 1
            $0.signedDate = Self.later(0, 1)
            $0.revocationDate = Self.now
            $0.revocationReason = Open(.appIssue)
            $0.isUpgraded = true
        }
        let answer = try await Self.ask(world, TestStore.receipt([Self.purchase()]), after: [refund])
        let row = try #require(answer["latest_receipt_info"]?.array?.first)
        let expected = [
            "purchase_date": "2023-11-14 22:13:20 Etc/GMT", "purchase_date_ms": "1700000000000",
            "purchase_date_pst": "2023-11-14 14:13:20 America/Los_Angeles",
            "expires_date": "2023-12-14 22:13:20 Etc/GMT", "expires_date_ms": "1702592000000",
            "cancellation_date_ms": "1700000000000", "cancellation_reason": "1", "quantity": "1",
            "is_upgraded": "true", "is_trial_period": "false",
        ]
        for (name, text) in expected { #expect(row[name] == .string(text), "\(name)") }
        #expect(answer["status"]?.integer == 0)
    }

    @Test func `pitfall 13: a cancellation that a newer receipt lacks disappears with its reason`()
        async throws
    {
        let world = try await World()
        let refund = try world.transaction {
            $0.revocationDate = Self.now
            $0.revocationReason = Open(.appIssue)
        }
        var receipt = TestStore.receipt([Self.purchase()])
        receipt.receiptCreationDate = Self.later(1)
        let answer = try await Self.ask(world, receipt, after: [refund])
        let row = try #require(answer["latest_receipt_info"]?.array?.first)
        #expect(row["cancellation_date"] == nil)
        #expect(row["cancellation_reason"] == nil)
    }

    @Test func `pitfall 32: a renewal from a newer receipt is in the answer about an older receipt`()
        async throws
    {
        let world = try await World()
        var newer = TestStore.receipt([
            Self.purchase(), Self.purchase("2", from: Self.later(1), until: Self.later(2)),
        ])
        newer.receiptCreationDate = Self.later(1)
        let full = try await Self.ask(world, newer)
        let answer = try await Self.ask(world, TestStore.receipt([Self.purchase()]))
        #expect(Self.ids(answer) == ["2", "1"])
        #expect(answer["latest_receipt_info"] == full["latest_receipt_info"])
        #expect(answer["latest_receipt"] == full["latest_receipt"])
        #expect(answer["receipt"]?["in_app"]?.array?.count == 1)
    }

    // MARK: - Documents

    private static func purchase(
        _ id: String = "1", from: Timestamp = now, until: Timestamp = later(1)
    ) -> InAppPurchase {
        var purchase = TestStore.purchase(id, original: "1", type: .autoRenewableSubscription)
        (purchase.purchaseDate, purchase.expiresDate) = (from, until)
        return purchase
    }

    /// The body of a notification with one fault.
    private static func notification(
        signedBy authority: CertificateAuthority, at signed: Timestamp = now,
        environment: AppStoreModel.Environment = .production, bundleId: String = "com.example",
        transaction: String? = nil
    ) throws -> String {
        let payload = TestStore.notification("DID_RENEW", transaction: transaction) {
            $0.data?.bundleId = bundleId
            $0.data?.environment = Open(environment)
            $0.signedDate = signed
        }
        return #"{"signedPayload":"\#(try authority.sign(payload))"}"#
    }
}
