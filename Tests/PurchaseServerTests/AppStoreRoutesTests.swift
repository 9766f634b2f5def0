// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Logging
import PurchaseLedger
import PurchaseServer
import Reconciliation
import Synchronization
import TestWorld
import Testing

/// The routes by which a backend has the App Store tell or do something, against a simulated one.
@Suite struct AppStoreRoutesTests {
    typealias World = LedgerRoutesTests.World
    private static let now = LedgerRoutesTests.now

    /// A server that knows nothing, and an App Store with one subscriber, `anna`, in her second month.
    struct Shop {
        var server: World
        let transport: SimulatedTransport
        fileprivate let way: Way
        let account: String
        let id: String
        let orderId: String
        let reconciler: Reconciler

        /// - Parameters:
        ///   - days: How long ago she subscribed.
        ///   - change: A change to the verifier.
        init(days: Int64 = 40, _ change: (inout AppStoreVerifier) -> Void = { _ in }) async throws {
            server = try await World(change)
            let service = try #require(server.server.ledger)
            var world = AppStoreSimulator.World(
                selling: [.subscription("month", Period(1, .month))],
                in: AppIdentity(bundleId: "com.example", appAppleId: 7),
                at: now.advanced(by: .seconds(-days * 86_400)))
            account = try #require(try world.addCustomer("anna").appAccountToken)
            id = try #require(try world.buy("month", by: "anna"))
            world.advance(to: now)
            orderId = try #require(world.orderId(ofTransaction: id))
            let key = try StoreKey(seed: 1)
            transport = SimulatedTransport(SimulatedStore(world, server.store.signer, key), wall: { now })
            let way = Way(transport)
            self.way = way
            let reconcilers = Reconcilers(
                service.ledger, service.verifier,
                keys: ["com.example": try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem)],
                apps: service.apps,
                over: way, now: { way.time }, wall: { now }, sleep: { _ in }, random: SeededRandom(seed: 1))
            server.server.ledger?.reconcilers = reconcilers
            reconciler = try #require(
                reconcilers.all[LedgerScope(bundleId: "com.example", environment: .production)])
        }

        /// Lets the App Store show a notification about the subscriber, which it could not deliver.
        func playNotifications() async throws {
            let world = await transport.store.world
            let occurrence = try #require(world.occurrences.first { $0.transaction != nil })
            let token = try server.store.signer.notification(occurrence, from: world.catalogue)
            let item =
                #"{"signedPayload":"\#(token)","sendAttempts":[{"attemptDate":5,"sendAttemptResult":"TIMED_OUT"}]}"#
            way.play { request in
                guard request.path.hasSuffix("/notifications/history") else { return nil }
                let page = #"{"hasMore":false,"notificationHistory":[\#(item)]}"#
                return APIAnswer(
                    status: 200, headers: ["content-type": "application/json"], body: Array(page.utf8))
            }
        }

        func periods() async throws -> Int {
            let (_, answer) = try await server.send(.get, "/v1/subscriptions/\(id)")
            return answer["transactions"]?.array?.count ?? 0
        }
    }

    /// Between the server and the App Store: answers in its place as a test says.
    fileprivate final class Way: AppStoreTransport {
        typealias Answer = @Sendable (APIRequest) -> APIAnswer?

        private let store: SimulatedTransport
        private let state = Mutex<(answer: Answer?, time: Timestamp, delay: Int64)>((nil, now, 0))

        init(_ store: SimulatedTransport) {
            self.store = store
        }

        /// The server's time.
        var time: Timestamp { state.withLock { $0.time } }

        /// - Parameter delay: How long each answer takes, in milliseconds.
        func play(delay: Int64 = 0, _ answer: Answer?) {
            state.withLock { ($0.answer, $0.delay) = (answer, delay) }
        }

        /// Refuses requests as if Apple had never known the id, a number of times.
        func refuse(_ times: Int, where isRefused: @escaping @Sendable (String) -> Bool) {
            let rest = Rest(times)
            play { request in
                guard isRefused(request.target), rest.take() else { return nil }
                let body = #"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#
                return APIAnswer(status: 404, headers: ["content-type": "application/json"], body: Array(body.utf8))
            }
        }

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> APIAnswer {
            let answer = state.withLock { state in
                state.time.milliseconds += state.delay
                return state.answer
            }
            if let answer = answer?(request) { return answer }
            return try await store.answer(to: request, in: environment, within: timeout)
        }
    }

    /// A number that counts down.
    private final class Rest: Sendable {
        private let rest: Mutex<Int>
        init(_ count: Int) { rest = Mutex(count) }
        var count: Int { rest.withLock { $0 } }
        func take() -> Bool {
            rest.withLock { rest in
                rest -= 1
                return rest >= 0
            }
        }
    }

    /// The bodies of requests.
    private final class Bodies: Sendable {
        let all = Mutex<[String]>([])
    }

    // MARK: - The log

    @Test func `a refusal of the App Store is not logged as silence`() async throws {
        var shop = try await Shop()
        let log = LogLines()
        shop.server.server.logger = Logger(label: "test") { _ in log }
        #expect(try await shop.server.send(.post, "/v1/backfill", #"{"transactionId":"7"}"#).0 == .notFound)
        for (body, form) in [
            ("transactionId,orderId\n7,M1", "has commas"), ("7\n8\n", "has several lines"),
            (#"["7","8"]"#, "has commas"), (#"{"transactionId":"7,8"}"#, nil),
            (#"{"transactionId":"7","orderId":"M1"}"#, nil), ("", nil),
        ] {
            let (status, answer) = try await shop.server.send(.post, "/v1/backfill", body)
            let message = answer["error"]?["message"]?.string ?? ""
            #expect(status == .badRequest && message.contains("one id a line") == (form != nil), "\(message)")
            #expect(message.contains(form ?? ""), "\(message)")
        }
        #expect(log.text.contains { $0.hasPrefix("The App Store refused a question") }, "\(log.text)")
        #expect(!log.text.contains { $0.hasPrefix("The App Store did not answer") })
        await shop.transport.update { $0.faults.timeouts = 1 }
        #expect(try await shop.server.send(.get, "/v1/orders/\(shop.orderId)").0 == .badGateway)
        #expect(log.text.contains { $0.hasPrefix("The App Store did not answer") }, "\(log.text)")
    }

    // MARK: - Backfill

    @Test(arguments: ["transactionId", "orderId", "document"])
    func `a backfill by any name of a customer brings in all of it, and a second one nothing`(
        member: String
    ) async throws {
        let shop = try await Shop()
        let document = try shop.server.store.sign(TestStore.transaction(shop.id))
        let values = ["transactionId": shop.id, "orderId": shop.orderId, "document": document]
        let body = #"{"\#(member)":"\#(values[member] ?? "")"}"#
        let (status, answer) = try await shop.server.send(.post, "/v1/backfill", body)
        #expect(status == .ok, "\(answer.compactText)")
        #expect(answer["complete"] == .bool(true) && answer["refused"]?.integer == 0)
        #expect(answer["originalTransactionIds"]?.array?.first?.string == shop.id)
        #expect(try await shop.periods() == 2)
        let (_, customer) = try await shop.server.send(.get, "/v1/customers/\(shop.account)")
        #expect(customer["subscriptions"]?.array?.first?["willRenew"] == .bool(true))
        let (_, again) = try await shop.server.send(.post, "/v1/backfill", body)
        #expect(again["recorded"]?.integer == 0 && again["alreadyKnown"]?.integer ?? 0 > 0, "\(again.compactText)")
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
    }

    @Test func `without an answer of the App Store a backfill is a job, which goes on once there is one`() async throws
    {
        let shop = try await Shop()
        await shop.transport.update { $0.faults.timeouts = 1 }
        let (status, answer) = try await shop.server.send(.post, "/v1/backfill", #"{"transactionId":"\#(shop.id)"}"#)
        #expect(status == .accepted)
        #expect(answer["complete"] == .bool(false))
        #expect(answer["reason"]?.string?.contains("timedOut") == true, "\(answer.compactText)")
        let job = try #require(try await shop.server.ledger.jobs().items.first)
        #expect(job.id.kind == .customerHistory && job.id.name == shop.id)
        await shop.transport.update { $0.faults.timeouts = 0 }
        // The pause is over.
        var due = job
        due.dueAt = Self.now
        try await shop.server.ledger.replace(job, with: due, at: Self.now)
        while try await shop.reconciler.workOnce() {}
        #expect(try await shop.periods() == 2)
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
    }

    @Test(
        arguments: [
            ("{}", 400, "invalidRequest"), (#"{"transactionId":"x"}"#, 400, "invalidRequest"),
            (#"{"transactionId":"7","orderId":"M7"}"#, 400, "invalidRequest"),
            (#"{"document":"bm90IGEgcmVjZWlwdA=="}"#, 400, "invalidRequest"),
            (#"{"orderId":"MZZZZZZZZZ"}"#, 404, "notFound"), (#"{"transactionId":"7"}"#, 404, "appStoreRefused"),
        ] as [(String, Int, String)])
    func `a wrong backfill is refused, and leaves no job`(body: String, status: Int, code: String) async throws {
        let shop = try await Shop()
        let (found, answer) = try await shop.server.send(.post, "/v1/backfill", body)
        #expect(found.code == status, "\(answer.compactText)")
        #expect(answer["error"]?["code"]?.string == code)
        #expect(answer["error"]?["appStoreCode"]?.integer == (code == "appStoreRefused" ? 4_040_010 : nil))
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
    }

    @Test(arguments: [1, .max])
    func `half a history is never complete: a page that contradicts the first is asked again, then by a job`(
        times: Int
    ) async throws {
        let shop = try await Shop(days: 800)
        let all = await shop.transport.store.world.history(of: "anna").count
        let key = ChainKey(shop.id, in: LedgerScope(bundleId: "com.example", environment: .production))
        func purchases() async throws -> Int? { try await shop.server.ledger.chain(key)?.purchases.count }
        shop.way.refuse(times) { $0.contains("revision=") }
        let body = #"{"transactionId":"\#(shop.id)"}"#
        let (status, answer) = try await shop.server.send(.post, "/v1/backfill", body)
        #expect(answer["complete"] == .bool(times == 1), "\(answer.compactText)")
        if times > 1 {
            let job = try #require(try await shop.server.ledger.jobs().items.first { $0.id.kind == .customerHistory })
            #expect(status == .accepted && answer["nextAttempt"]?.integer == job.dueAt.milliseconds)
            #expect(answer["reason"]?.string?.hasPrefix("contradiction: ") == true, "\(answer.compactText)")
            #expect(try await purchases() == 20)
            shop.way.play(nil)
            try await shop.server.ledger.replace(job, with: job.next(at: Self.now, nil), at: Self.now)
            while try await shop.reconciler.workOnce() {}
        }
        #expect(all > 20)
        #expect(try await purchases() == all)
        #expect(try await !shop.server.ledger.jobs().items.contains { $0.id.kind == .customerHistory })
    }

    @Test(arguments: [
        ("extension", #"{"extendByDays":7,"extendReasonCode":3,"requestIdentifier":"outage 1"}"#),
        ("app-account-token", #"{"appAccountToken":"0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"}"#),
    ])
    func `after an accepted change the App Store knows the purchase: if it denies that, a job reads the history`(
        change: String, body: String
    ) async throws {
        let shop = try await Shop()
        shop.way.refuse(.max) { $0.contains("/history/") }
        let isExtension = change == "extension"
        let path = (isExtension ? "/v1/subscriptions/" : "/v1/transactions/") + "\(shop.id)/\(change)"
        #expect(try await shop.server.send(isExtension ? .post : .put, path, body).0 == .ok)
        let job = try #require(try await shop.server.ledger.jobs().items.first { $0.id.kind == .customerHistory })
        #expect(job.failure?.hasPrefix("contradiction: ") == true)
        shop.way.play(nil)
        try await shop.server.ledger.replace(job, with: job.next(at: Self.now, nil), at: Self.now)
        while try await shop.reconciler.workOnce() {}
        #expect(try await shop.periods() == 2)
    }

    @Test func `refunds without an end are not asked for again, and the answer names the way that has a job`()
        async throws
    {
        let shop = try await Shop()
        let pages = Rest(0)
        shop.way.play(delay: 100) { _ in
            _ = pages.take()
            let page = #"{"hasMore":true,"revision":"\#(pages.count)","signedTransactions":["x"]}"#
            return APIAnswer(status: 200, headers: ["content-type": "application/json"], body: Array(page.utf8))
        }
        let (status, answer) = try await shop.server.send(.get, "/v1/transactions/\(shop.id)/refunds")
        #expect(status == .badGateway)
        #expect(answer["error"]?["retryable"] == .bool(false), "\(answer.compactText)")
        #expect(answer["error"]?["message"]?.string?.contains("POST /v1/backfill") == true)
        #expect(-pages.count <= 201)
    }

    @Test func `a notification history in a circle is a job with the reason, and after an hour a concern`()
        async throws
    {
        let shop = try await Shop()
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        shop.way.play { request in
            guard request.path.hasSuffix("/notifications/history") else { return nil }
            let page = #"{"hasMore":true,"paginationToken":"again","notificationHistory":[]}"#
            return APIAnswer(status: 200, headers: ["content-type": "application/json"], body: Array(page.utf8))
        }
        try await shop.reconciler.start()
        while try await shop.reconciler.workOnce() {}
        let jobs = try await shop.server.ledger.jobs().items
        #expect(jobs.first { $0.id.kind == .notificationHistory }?.failure?.hasPrefix("contradiction: ") == true)
        let histories = try #require(shop.server.server.ledger).histories
        for seconds: Int64 in [0, 3601] {
            _ = try await histories.look(
                at: [scope], in: shop.server.ledger, at: Self.now.advanced(by: .seconds(seconds)))
            let concern = try await shop.server.send(.get, "/health/ready", key: nil).1["concern"]?.string
            #expect(concern?.contains("contradiction: ") == (seconds == 0 ? nil : true), "\(concern ?? "")")
        }
    }

    private static let uuid = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
    private static let routes: [(HTTPRequest.Method, String, String)] = [
        (.post, "/v1/backfill", #"{"transactionId":"1"}"#), (.get, "/v1/orders/M1", ""),
        (.get, "/v1/transactions/1/refunds", ""),
        (.put, "/v1/transactions/1/app-account-token", #"{"appAccountToken":"\#(uuid)"}"#),
        (
            .post, "/v1/subscriptions/1/extension",
            #"{"extendByDays":1,"extendReasonCode":0,"requestIdentifier":"a"}"#
        ),
        (
            .post, "/v1/extensions",
            #"{"extendByDays":1,"extendReasonCode":0,"requestIdentifier":"\#(uuid)","productId":"month"}"#
        ),
        (.get, "/v1/extensions/month/\(uuid)", ""), (.get, "/v1/transactions/1/app-store", ""),
        (.get, "/v1/transactions/1/statuses", ""), (.get, "/v1/transactions/1/history", ""),
        (.get, "/v1/transactions/1/app-transaction", ""), (.get, "/v1/notifications", ""),
        (.post, "/v1/notifications/test", ""), (.get, "/v1/notifications/test/a_1", ""),
    ]

    @Test func `each route needs an In-App Purchase key, an App Store and its answer`() async throws {
        let (shop, none) = (try await Shop(), try await World())
        for (method, path, body) in Self.routes {
            let (status, answer) = try await none.send(method, path, body)
            #expect(status == .notFound && answer["error"]?["code"]?.string == "noSigningKey", "\(path)")
            let (xcode, refusal) = try await shop.server.send(method, path + "?environment=xcode", body)
            #expect(xcode == .badRequest && refusal["error"]?["code"]?.string == "invalidRequest", "\(path)")
        }
    }

    // MARK: - What a person asks

    /// The questions about a customer, with a member that the first item of the answer has.
    private static let questions = [
        ("transactions/ID/app-store", "transaction"), ("transactions/ID/statuses", "renewalInfo"),
        ("transactions/ID/history", "transaction"), ("transactions/ID/app-transaction", "appTransaction"),
        ("notifications?since=0", "notification"),
    ]

    @Test(arguments: questions)
    func `a question is answered with decoded documents alone, and records only on request`(
        path: String, member: String
    ) async throws {
        let shop = try await Shop()
        if path.hasPrefix("notifications") { try await shop.playNotifications() }
        let path = "/v1/" + path.replacing("ID", with: shop.id)
        let (status, answer) = try await shop.server.send(.get, path)
        #expect(status == .ok && answer["complete"] == .bool(true), "\(answer.compactText)")
        #expect(answer["items"]?.array?.first?[member]?.members?.isEmpty == false, "\(answer.compactText)")
        // Neither a token nor an account.
        let text = answer.compactText
        #expect(!text.contains("eyJ") && !text.contains(shop.account), "\(text)")
        #expect(answer["recorded"] == nil)
        #expect(try await shop.periods() == 0)
        guard member != "appTransaction" else { return }
        let (_, recorded) = try await shop.server.send(
            .get, path + (path.contains("?") ? "&" : "?") + "record=true")
        #expect(recorded["recorded"]?.integer ?? 0 > 0, "\(recorded.compactText)")
        #expect(try await shop.periods() > 0)
    }

    @Test func `only notifications that failed are asked for, from the time that a person names`() async throws {
        let shop = try await Shop()
        let asked = Bodies()
        shop.way.play { request in
            asked.all.withLock { $0.append(String(decoding: request.body, as: UTF8.self)) }
            return nil
        }
        let since = Self.now.advanced(by: .seconds(-7 * 86_400)).milliseconds
        for query in ["", "?since=\(since)&onlyFailures=true&transactionId=\(shop.id)"] {
            #expect(try await shop.server.send(.get, "/v1/notifications" + query).0 == .ok)
        }
        let bodies = try asked.all.withLock { $0 }.map { try JSONValue(parsing: $0.utf8) }
        let day = Self.now.advanced(by: .seconds(-86_400)).milliseconds
        #expect(bodies.map { $0["startDate"]?.integer } == [day, since])
        #expect(bodies.map { $0["onlyFailures"] } == [nil, .bool(true)])
        #expect(bodies.map { $0["transactionId"]?.string } == [nil, shop.id])
    }

    @Test func `a refused document is said, and the rest of the answer is there`() async throws {
        let shop = try await Shop()
        shop.way.play { request in
            guard request.target.contains("/history/") else { return nil }
            let page = #"{"hasMore":false,"revision":"a","signedTransactions":["x.y.z"]}"#
            return APIAnswer(status: 200, headers: ["content-type": "application/json"], body: Array(page.utf8))
        }
        let (status, answer) = try await shop.server.send(.get, "/v1/transactions/\(shop.id)/history?record=true")
        #expect(status == .ok && answer["recorded"]?.integer == 0, "\(answer.compactText)")
        #expect(answer["items"]?.array?.first?["refusal"]?.string?.hasPrefix("malformed") == true)
    }

    @Test func `a history without an end is read for a while, and the answer says so`() async throws {
        let shop = try await Shop()
        let pages = Rest(0)
        shop.way.play(delay: 100) { _ in
            _ = pages.take()
            let page = #"{"hasMore":true,"revision":"\#(pages.count)","signedTransactions":["x"]}"#
            return APIAnswer(status: 200, headers: ["content-type": "application/json"], body: Array(page.utf8))
        }
        let (status, answer) = try await shop.server.send(.get, "/v1/transactions/\(shop.id)/history")
        #expect(status == .ok && answer["complete"] == .bool(false))
        #expect(-pages.count <= 201)
    }

    @Test func `a test notification has an id, and its result once Apple made an attempt`() async throws {
        let shop = try await Shop()
        #expect(try await shop.server.send(.post, "/v1/notifications/test").0 == .notFound)
        await shop.transport.update { $0.notificationURLs[.production] = "http://127.0.0.1:1/" }
        let (status, answer) = try await shop.server.send(.post, "/v1/notifications/test")
        let id = try #require(answer["id"]?.string)
        #expect(status == .ok && !id.isEmpty)
        let path = "/v1/notifications/test/\(id)"
        let (missing, error) = try await shop.server.send(.get, path)
        #expect(missing == .notFound && error["error"]?["code"]?.string == "notFound", "\(error.compactText)")
        shop.way.play { request in
            guard request.target.contains("/test/") else { return nil }
            let body = #"{"signedPayload":"x","sendAttempts":[{"attemptDate":5,"sendAttemptResult":"TLS_ISSUE"}]}"#
            return APIAnswer(status: 200, headers: ["content-type": "application/json"], body: Array(body.utf8))
        }
        let (_, result) = try await shop.server.send(.get, path)
        let attempt = result["items"]?.array?.first?["attempts"]?.array?.first
        #expect(attempt?["result"]?.string == "TLS_ISSUE" && attempt?["at"]?.integer == 5, "\(result.compactText)")
        #expect(attempt?["meaning"]?.string?.contains("certificate") == true)
    }

    // MARK: - Without a usable answer

    /// What can come in the place of the App Store's answer.
    struct Trouble: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// `nil` for silence.
        var answer: APIAnswer?

        init(_ name: String, status: Int, type: String, body: String, headers: [String: String] = [:]) {
            testDescription = name
            answer = APIAnswer(
                status: status, headers: headers.merging(["content-type": type]) { $1 }, body: Array(body.utf8))
        }

        init(number: Int, headers: [String: String] = [:]) {
            self.init(
                "\(number)", status: number / 10_000, type: "application/json",
                body: #"{"errorCode":\#(number),"errorMessage":"x"}"#, headers: headers)
        }

        init() {
            testDescription = "silence"
        }
    }

    static let troubles =
        [Trouble(), Trouble("no JSON", status: 200, type: "application/json", body: "{")]
        + [200, 403, 404, 502, 503].map { Trouble("\($0) with a page", status: $0, type: "text/html", body: "<html>") }
        + [5_000_000, 5_000_001, 4_040_002].map { Trouble(number: $0) }
        + [
            Trouble(number: 4_290_000),
            Trouble(number: 4_290_000, headers: ["retry-after": "\(now.milliseconds + 3_600_000)"]),
        ]

    /// Each operation that asks the App Store, with a request about the subscriber.
    private static func requests(
        _ shop: Shop
    ) throws -> [(operation: Operation, method: HTTPRequest.Method, path: String, body: String)] {
        let operations = Operation.all.map { $0.operation }.filter { $0.errors.contains(.appStoreUnavailable) }
        return try operations.map { operation in
            let (method, path, body) = try #require(
                (routes + [(.get, "/v1/support/M1", "")]).first { method, path, _ in
                    let (parts, names) = (path.split(separator: "/"), operation.path.split(separator: "/"))
                    return method == operation.method && parts.count == names.count
                        && zip(parts, names).allSatisfy { $0 == $1 || $1.hasPrefix("{") }
                }, "\(operation.path)")
            let known = path.replacing("/M1", with: "/\(shop.orderId)").replacing("/1/", with: "/\(shop.id)/")
            return (operation, method, known, body.replacing(#""1""#, with: #""\#(shop.id)""#))
        }
    }

    @Test(arguments: troubles)
    func `a question without a usable answer has a job and its next attempt, or is none of 503`(
        trouble: Trouble
    ) async throws {
        let shop = try await Shop()
        if trouble.answer == nil { await shop.transport.update { $0.faults.timeouts = 1 } }
        shop.way.play { _ in trouble.answer }
        for (operation, method, path, body) in try Self.requests(shop) {
            let (status, answer) = try await shop.server.send(method, path, body)
            if operation.path == BackfillCustomer.operation.path {
                let jobs = try await shop.server.ledger.jobs().items
                let job = try #require(jobs.first { $0.id.kind == .customerHistory }, "\(answer.compactText)")
                #expect(status == .accepted && answer["nextAttempt"]?.integer == job.dueAt.milliseconds)
            } else if trouble.testDescription == "4040002" {
                #expect(status == .notFound && answer["error"]?["retryable"] == .bool(true), "\(path)")
            } else {
                #expect(status == .badGateway, "\(path): \(answer.compactText)")
                #expect(answer["error"]?["code"]?.string == "appStoreUnavailable", "\(path)")
                #expect(answer["error"]?["retryable"] == .bool(true), "\(path)")
            }
        }
    }

    @Test func `so it is with an answer whose signer cannot be checked now`() async throws {
        let shop = try await Shop {
            $0.revocation = .checked(
                by: RevocationChecker(transport: PitfallRoutesTests.NoResponder()), acceptsUnknown: false)
        }
        for (operation, method, path, body) in try Self.requests(shop) {
            let (status, answer) = try await shop.server.send(method, path, body)
            #expect(status != .serviceUnavailable, "\(path)")
            guard operation.path == LookUpOrder.operation.path else { continue }
            #expect(status == .badGateway && answer["error"]?["code"]?.string == "appStoreUnavailable")
            #expect(answer["error"]?["retryable"] == .bool(true), "\(answer.compactText)")
        }
        let job = try await shop.server.ledger.jobs().items.first { $0.id.kind == .customerHistory }
        #expect(job?.failure?.hasPrefix("revocationUnknown") == true, "\(job?.failure ?? "")")
    }

    @Test(
        arguments: [
            (.get, "/v1/orders/a%20b", ""), (.get, "/v1/transactions/abc/refunds", ""),
            (.put, "/v1/transactions/1/app-account-token", #"{"appAccountToken":"anna"}"#),
            (.put, "/v1/transactions/1/app-account-token", #"{"appAccountToken":""}"#),
            (
                .post, "/v1/subscriptions/1/extension",
                #"{"extendByDays":1,"extendReasonCode":0,"requestIdentifier":""}"#
            ),
            (
                .post, "/v1/extensions",
                #"{"extendByDays":1,"extendReasonCode":0,"requestIdentifier":"x","productId":"month"}"#
            ),
            (.get, "/v1/extensions/month/x", ""), (.post, "/v1/backfill", #"{"orderId":"a b"}"#),
        ] as [(HTTPRequest.Method, String, String)])
    func `an id that cannot be Apple's is refused before the App Store is asked`(
        method: HTTPRequest.Method, path: String, body: String
    ) async throws {
        let shop = try await Shop()
        let (status, answer) = try await shop.server.send(method, path, body)
        #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidRequest", "\(answer.compactText)")
    }

    // MARK: - Orders and refunds

    @Test func `the transactions of an order and the refunds of a customer are recorded and answered`() async throws {
        let shop = try await Shop()
        let (status, order) = try await shop.server.send(.get, "/v1/orders/\(shop.orderId)")
        #expect(status == .ok, "\(order.compactText)")
        #expect(order["recorded"]?.integer == 1)
        #expect(order["transactions"]?.array?.map { $0["transactionId"]?.string } == [shop.id])
        let customers = order["transactions"]?.array?.first?["customers"]?.array?.compactMap(\.string)
        #expect(customers == [shop.account.lowercased()])
        let (_, none) = try await shop.server.send(.get, "/v1/transactions/\(shop.id)/refunds")
        #expect(none["transactions"]?.array?.isEmpty == true)
        let id = shop.id
        try await shop.transport.update { store in
            // Of two documents of one instant nobody knows which is newer.
            store.world.advance(to: Self.now.advanced(by: .seconds(1)))
            try store.world.refund(id)
        }
        let (_, refunds) = try await shop.server.send(.get, "/v1/transactions/\(shop.id)/refunds")
        #expect(refunds["transactions"]?.array?.first?["revocationDate"]?.integer != nil, "\(refunds.compactText)")
        let (_, known) = try await shop.server.send(.get, "/v1/transactions/\(shop.id)")
        #expect(known["revocationDate"]?.integer != nil)
        for path in ["/v1/orders/MZZZZZZZZZ", "/v1/transactions/7/refunds"] {
            #expect(try await shop.server.send(.get, path).0 == .notFound, "\(path)")
        }
        #expect(try await shop.server.send(.get, "/v1/orders/\(shop.orderId)?environment=sandbox").0 == .badRequest)
    }

    // MARK: - Changes

    @Test func `an extended subscription ends later in the ledger at once, and only once for one request`() async throws
    {
        let shop = try await Shop()
        let path = "/v1/subscriptions/\(shop.id)/extension"
        let body = #"{"extendByDays":7,"extendReasonCode":3,"requestIdentifier":"outage 1"}"#
        let (status, answer) = try await shop.server.send(.post, path, body)
        #expect(status == .ok && answer["success"] == .bool(true), "\(answer.compactText)")
        let end = try #require(answer["effectiveDate"]?.integer)
        func expiry() async throws -> Int64? {
            let (_, known) = try await shop.server.send(.get, "/v1/subscriptions/\(shop.id)")
            return known["subscription"]?["expiresDate"]?.integer
        }
        #expect(try await expiry() == end)
        _ = try await shop.server.send(.post, path, body)
        #expect(try await expiry() == end)
        let other = body.replacing("outage 1", with: "outage 2")
        #expect(try await shop.server.send(.post, path, other).0 == .ok)
        let (refused, third) = try await shop.server.send(.post, path, body.replacing("outage 1", with: "outage 3"))
        #expect(refused == .forbidden, "\(third.compactText)")
        #expect(third["error"]?["code"]?.string == "appStoreRefused")
        #expect(third["error"]?["appStoreCode"]?.integer ?? 0 > 4_030_000)
        // The App Store does not say whether it knew a request.
        let list = try await shop.server.send(.get, "/v1/audit").1["items"]?.array ?? []
        #expect(list.map { $0["operation"]?.string } == Array(repeating: "extendSubscription", count: 3))
        #expect(list.allSatisfy { $0["subject"]?.string == shop.id })
    }

    @Test func `a purchase whose account was set belongs to that account at once`() async throws {
        let shop = try await Shop()
        let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
        let path = "/v1/transactions/\(shop.id)/app-account-token"
        let (status, answer) = try await shop.server.send(.put, path, #"{"appAccountToken":"\#(account)"}"#)
        #expect(status == .ok, "\(answer.compactText)")
        let (found, customer) = try await shop.server.send(.get, "/v1/customers/\(account)")
        #expect(found == .ok)
        #expect(customer["subscriptions"]?.array?.first?["originalTransactionId"]?.string == shop.id)
        let list = try await shop.server.send(.get, "/v1/audit").1["items"]?.array ?? []
        #expect(list.map { $0["operation"]?.string } == ["setAppAccountToken"])
        _ = try await shop.server.send(.delete, "/v1/customers/\(account)")
        #expect(try await !shop.server.send(.get, "/v1/audit").1.compactText.contains(account))
    }

    @Test func `an extension for all subscribers is begun, and its progress is told`() async throws {
        let shop = try await Shop()
        let request = "6a1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"
        let body =
            #"{"extendByDays":2,"extendReasonCode":3,"requestIdentifier":"\#(request)","productId":"month"}"#
        let (status, begun) = try await shop.server.send(.post, "/v1/extensions", body)
        #expect(status == .ok && begun["requestIdentifier"]?.string == request, "\(begun.compactText)")
        let path = "/v1/extensions/month/\(request)"
        #expect(try await shop.server.send(.get, path).1["complete"] == .bool(false))
        await shop.transport.update { $0.world.advance(to: Self.now.advanced(by: .seconds(10 * 86_400))) }
        let (_, done) = try await shop.server.send(.get, path)
        #expect(done["complete"] == .bool(true) && done["succeededCount"]?.integer == 1, "\(done.compactText)")
    }
}
