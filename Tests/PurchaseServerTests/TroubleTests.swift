// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import LedgerSQLite
import Logging
import NIOCore
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import Synchronization
import TestData
import TestWorld
import Testing

/// A server with a ledger in a file, a clock that tests set, and a log that tests read.
private final class TroubledServer: Sendable {
    static let start = TestStore.start

    let storage: SQLiteLedgerStorage
    let log = LogLines(haveLevels: true)
    let key: String
    private let clock = Clock()
    private let store: TestStore
    private let server: ServerApplication
    private let application: Application<DeclaredAnswers>
    private let folder: TemporaryFolder

    init(
        refused: Set<String> = [], keepsEvidence: Bool = false, claimPolicy: ClaimPolicy = .transfer
    ) async throws {
        folder = try TemporaryFolder()
        storage = try SQLiteLedgerStorage(path: folder.path())
        store = try TestStore()
        var configuration = ServerConfiguration()
        configuration.keepEvidence = keepsEvidence
        configuration.claimPolicy = claimPolicy
        var app = AppConfiguration(AppIdentity(bundleId: "com.example"))
        app.refusedPurchases = refused
        configuration.apps = [app]
        let service = LedgerService(configuration, storage: storage, verifier: store.verifier(in: []))
        var random = SystemRandomNumberGenerator()
        let (key, text) = APIKey.make(
            name: "test", role: .server, bundleId: "com.example", at: Self.start, using: &random)
        try await service.ledger.put(key)
        self.key = text
        let log = log
        var logger = Logger(label: "test") { _ in log }
        logger.logLevel = .trace
        let clock = clock
        server = ServerApplication(ledger: service, requestSeed: 1, now: { clock.now }, logger: logger)
        application = checkedApplication(of: server)
    }

    func pass(_ milliseconds: Int64) { clock.pass(milliseconds) }

    private final class Clock: Sendable {
        private let time = Mutex(TroubledServer.start)
        var now: Timestamp { time.withLock { $0 } }
        func pass(_ milliseconds: Int64) {
            time.withLock { $0 = Timestamp(milliseconds: $0.milliseconds + milliseconds) }
        }
    }

    func send(
        _ method: HTTPRequest.Method, _ path: String, _ body: String = "", key: String? = nil
    ) async throws -> (status: Int, json: JSONValue) {
        let headers: HTTPFields = [.authorization: "Bearer \(key ?? self.key)"]
        return try await application.test(.router) { client in
            let response = try await client.execute(
                uri: path, method: method, headers: headers, body: ByteBuffer(string: body))
            return (response.status.code, try JSONValue(parsing: response.body.readableBytesView))
        }
    }

    func token(_ id: String) throws -> String { try token(id, account: nil) }

    func token(_ id: String, account: String?) throws -> String {
        try store.sign(
            TestStore.transaction(id, product: "book", type: .nonConsumable, until: nil) {
                $0.appAccountToken = account
            })
    }

    var service: LedgerService? { server.ledger }

    /// A subscription that ends after a day.
    func subscription(_ id: String) throws -> String { try store.sign(TestStore.transaction(id, until: 1)) }

    func sign(_ payload: String) throws -> String { try store.sign(payload) }

    func notification(_ id: String) throws -> String { try notification(about: id, with: nil) }

    func notification(token: String) throws -> String { try notification(about: nil, with: nil, token: token) }

    func notification(
        about id: String?, with member: (name: String, value: String)?, token: String? = nil
    ) throws -> String {
        let transaction = try token ?? id.map(self.token)
        return try store.body(
            TestStore.notification("ONE_TIME_CHARGE", transaction: transaction) {
                $0.notificationUUID = id ?? "none"
                if let member { $0.data?.unknownMembers.members.append(.init(member.name, .string(member.value))) }
            })
    }

    func receipt(_ ids: [String]) throws -> String {
        #"{"receipt-data":"\#(Base64.encode(try signedReceipt(ids)))"}"#
    }

    func signedReceipt(_ ids: [String]) throws -> [UInt8] {
        try store.sign(TestStore.receipt(ids.map { TestStore.purchase($0, product: "book", until: nil) }))
    }
}

extension LogLines {
    fileprivate var all: String { text.joined(separator: "\n") }
}

/// Tests the server on a full disk, with damage and during outages; and what logs never contain.
@Suite struct TroubleTests {
    @Test(.takesLong)
    func `on a full disk, the server answers 503 and is not ready, until there is space`() async throws {
        let server = try await TroubledServer()
        #expect(try await server.send(.get, "/health/ready").status == 200)
        let pages = try await server.storage.number("PRAGMA page_count")
        try await server.storage.execute("PRAGMA max_page_count = \(pages)")
        var refused: [String] = []
        for id in (1...40).map(String.init) {
            let answer = try await server.send(.post, "/notifications/v2", server.notification(id))
            if answer.status != 200 {
                refused.append(id)
                #expect(answer.status == 503)
                #expect(answer.json["error"]?["retryable"] == .bool(true))
                #expect(try await server.send(.get, "/v1/transactions/\(id)").status == 404)
            }
        }
        #expect(refused.count > 20)
        server.pass(1000)
        #expect(try await server.send(.get, "/health/ready").status == 503)
        #expect(try await server.send(.get, "/health/live").status == 200)
        try await server.storage.execute("PRAGMA max_page_count = 1000000")
        for id in refused {
            #expect(try await server.send(.post, "/notifications/v2", server.notification(id)).status == 200)
            #expect(try await server.send(.get, "/v1/transactions/\(id)").status == 200)
        }
        server.pass(1000)
        #expect(try await server.send(.get, "/health/ready").status == 200)
    }

    @Test func `an unavailable storage is logged, and reads and writes get the same error`()
        async throws
    {
        let server = try await TroubledServer()
        let receipt = try server.receipt(["1"])
        try server.storage.close()
        #expect(try await server.send(.post, "/verifyReceipt", receipt).json["status"]?.integer == 21005)
        #expect(server.log.all.contains("Storage failed") && server.log.all.contains("/verifyReceipt"))
        for (method, path, body) in [
            (HTTPRequest.Method.get, "/v1/transactions/1", ""),
            (.post, "/notifications/v2", try server.notification("1")),
        ] {
            let answer = try await server.send(method, path, body)
            #expect(answer.status == 503)
            let message = answer.json["error"]?["message"]?.string
            #expect(message == "The ledger is unavailable, and may or may not have recorded this. Retry later.")
        }
    }

    @Test func `documents of other roots than the ledger's are 503 and logged, and the server stays ready`()
        async throws
    {
        let server = try await TroubledServer()
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let note = LedgerRecord(
            RecordKey(RecordKind(rawValue: "trustAnchors"), "", of: .scope(scope)),
            payload: Array(#"[{"root":"apple"}]"#.utf8))
        let ledger = try #require(server.service?.ledger)
        try await ledger.storage.commit(LedgerQuery()) { _ in
            var changes = LedgerChanges()
            changes.records = [note]
            return .commit(changes, ())
        }
        let answer = try await server.send(.post, "/notifications/v2", server.notification("1"))
        #expect(answer.status == 503)
        #expect(answer.json["error"]?["code"]?.string == "otherRoots")
        #expect(answer.json["error"]?["retryable"] == .bool(true))
        let log = server.log.all
        #expect(log.contains("error Documents of other roots are not recorded"), "\(log)")
        for part in ["of the simulator's root ", "with documents of Apple's roots", "a database of its own"] {
            #expect(log.contains(part), "\(log)")
        }
        #expect(try await ledger.check(by: #require(server.service).verifier).documents == 0)
        #expect(try await server.send(.get, "/v1/transactions/1").status == 404)
        server.pass(1000)
        #expect(try await server.send(.get, "/health/ready").status == 200)
    }

    @Test func `a ledger that cannot be searched is logged as an error once a minute, not at each attempt`()
        async throws
    {
        let uses = Mutex(0)
        let (enough, done) = AsyncStream.makeStream(of: Void.self)
        let storage = FailingStorage(error: LedgerStorageError(.unavailable, "a test")) {
            let count = uses.withLock { count in
                count += 1
                return count
            }
            if count == 300 { done.finish() }
        }
        let log = LogLines(haveLevels: true)
        let logger = Logger(label: "test") { _ in log }
        let clock = VirtualClock()
        let service = LedgerService(ledger: Ledger(storage: storage), verifier: try TestStore().verifier())
        let jobs = JobService(service, now: { TroubledServer.start }, clock: clock, logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await jobs.run() }
            for await _ in enough {}
            group.cancelAll()
            try await group.waitForAll()
        }
        let lines = log.all.split(separator: "\n")
        // The clock moves at least a second between two attempts, and on a busy machine some minutes.
        let minutes = Int(clock.now.offset / .seconds(60))
        #expect((2...minutes + 1).contains(lines.count), "\(minutes) minutes")
        #expect(lines.allSatisfy { $0.hasPrefix("error ") && $0.contains("a test") }, "\(lines)")
    }

    @Test(.timeLimit(.minutes(60)))
    func `a damaged purchase stops neither due changes of other purchases, nor erasures, nor readiness`() async throws {
        let server = try await TroubledServer()
        for id in ["1", "2"] {
            let body = #"{"document":"\#(try server.subscription(id))"}"#
            #expect(try await server.send(.post, "/v1/customers/anna/purchases", body).status == 200)
        }
        try await server.storage.execute("UPDATE chains SET predecessors = '{' WHERE originalTransactionId = '1'")
        server.pass(3 * 86_400_000)
        let now = Timestamp(milliseconds: TroubledServer.start.milliseconds + 3 * 86_400_000)
        let service = try #require(server.service)
        let logger = Logger(label: "test") { [log = server.log] _ in log }
        let housekeeping = Housekeeping(
            ledger: service.ledger, eventRetention: .seconds(86_400), now: { now }, clock: VirtualClock(),
            logger: logger)
        let jobs = JobService(service, now: { now }, clock: VirtualClock(), logger: logger)
        let running = Task {
            async let others: Void = jobs.run()
            try await housekeeping.run()
            try await others
        }
        let logged = ["warning Changes of damaged purchases", "warning The catalogue changed"]
        while !logged.allSatisfy(server.log.all.contains) { try await Task.sleep(for: .milliseconds(1)) }
        running.cancel()
        try await running.value
        let lines = server.log.all.split(separator: "\n").filter { $0.contains("1 of com.example") }
        #expect(lines.count >= 2 && !lines.contains { $0.contains("2 of com.example") })
        #expect(!server.log.all.contains("could not be"))
        let events = try await server.send(.get, "/v1/events").json["items"]?.array ?? []
        #expect(events.allSatisfy { $0["originalTransactionId"]?.string == "2" })
        #expect(events.first?["kind"]?.string == "subscription.stale")
        #expect(try await server.send(.get, "/health/ready").status == 200)
    }

    @Test func `a start logs the last notification's time if known, and an unreadable ledger as an error`() async throws
    {
        let server = try await TroubledServer()
        let service = try #require(server.service)
        let logger = Logger(label: "test") { [log = server.log] _ in log }
        await service.logLastNotification(to: logger)
        #expect(server.log.all.contains("No accepted notification is known") && !server.log.all.contains("\"at\""))
        #expect(try await server.send(.post, "/notifications/v2", server.notification("1")).status == 200)
        await service.logLastNotification(to: logger)
        #expect(server.log.all.contains("\"at\": 2023-11-14T22:13:20Z"))
        let closed = try await TroubledServer()
        try closed.storage.close()
        await closed.service?.logLastNotification(to: Logger(label: "test") { [log = closed.log] _ in log })
        #expect(closed.log.all.hasPrefix("error Storage failed"))
    }

    @Test func `readiness reports whether the ledger can be written, at most a second late`() async throws {
        let server = try await TroubledServer()
        try server.storage.close()
        #expect(try await server.send(.get, "/health/ready").status == 503)
        #expect(try await server.send(.get, "/health/live").status == 200)
        let working = try await TroubledServer()
        #expect(try await working.send(.get, "/health/ready").status == 200)
        try working.storage.close()
        working.pass(999)
        #expect(try await working.send(.get, "/health/ready").status == 200)
        working.pass(1)
        #expect(try await working.send(.get, "/health/ready").status == 503)
    }

    @Test func `the evidence of an answer can be read, byte for byte, until its customer is deleted`() async throws {
        let server = try await TroubledServer()
        let token = try server.token("1")
        let submitted = try await server.send(.post, "/v1/customers/anna/purchases", #"{"document":"\#(token)"}"#)
        let name = submitted.json["customer"]?["purchases"]?.array?.first?["evidence"]?["id"]?.string ?? ""
        let evidence = try await server.send(.get, "/v1/evidence/\(name)")
        #expect(evidence.json["document"]?.string == token)
        #expect(evidence.json["kind"]?.string == "transaction")
        let (date, digest) = (name.prefix { $0 != "-" }, name.drop { $0 != "-" }.dropFirst())
        for (name, status) in [
            ("0", 400), ("\(date)-\(String(repeating: "z", count: 64))", 400), (String(digest), 400),
            ("-\(digest)", 400), ("\(date)-\(String(digest.reversed()))", 404), ("1\(date)-\(digest)", 404),
            ("undated-\(digest)", 404),
        ] {
            #expect(try await server.send(.get, "/v1/evidence/\(name)").status == status)
        }
        let deleted = try await server.send(.delete, "/v1/customers/anna")
        #expect(deleted.json["forgottenDocuments"]?.integer == 1)
        #expect(try await server.send(.get, "/v1/evidence/\(name)").status == 404)
        #expect(try await server.send(.get, "/v1/transactions/1").status == 404)
    }

    @Test func `one receipt in several encodings is one document`() async throws {
        let server = try await TroubledServer()
        let receipt = try server.signedReceipt(["1"])
        // The same container with an indefinite length (X.690 section 8.1.3.6), as in genuine receipts.
        try #require(receipt[1] == 0x82)
        let indefinite = [0x30, 0x80] + receipt.dropFirst(4) + [0, 0]
        for document in [receipt, indefinite, receipt] {
            let body = #"{"receipt-data":"\#(Base64.encode(document))"}"#
            #expect(try await server.send(.post, "/verifyReceipt", body).json["status"]?.integer == 0)
        }
        #expect(try await server.storage.number("SELECT count(*) FROM documents") == 1)
    }

    @Test func `an erased purchase returns only to the customer who submits it`() async throws {
        let server = try await TroubledServer(claimPolicy: .keep)
        let receipt = try Base64.encode(server.signedReceipt(["1", "2"]))
        let present = #"{"document":"\#(receipt)"}"#
        for (customer, id) in [("anna", "1"), ("bert", "2")] {
            let body = #"{"document":"\#(try server.token(id))"}"#
            #expect(try await server.send(.post, "/v1/customers/\(customer)/purchases", body).status == 200)
        }
        _ = try await server.send(.post, "/v1/customers/anna/purchases", present)
        let deleted = try await server.send(.delete, "/v1/customers/anna")
        // Anna's token is erased. The receipt is kept, since it is about bert's purchase too.
        #expect(deleted.json["forgottenDocuments"]?.integer == 1)
        #expect(deleted.json["keptDocuments"]?.integer == 1)
        // Anyone can send the receipt again.
        _ = try await server.send(.post, "/verifyReceipt", #"{"receipt-data":"\#(receipt)"}"#)
        #expect(try await server.send(.get, "/v1/transactions/1").status == 404)
        let service = try #require(server.service)
        let rebuilt = try await service.ledger.rebuild(by: service.verifier, at: TroubledServer.start)
        #expect(rebuilt.differing == [] && rebuilt.faults == [])
        #expect(try await server.send(.get, "/v1/transactions/1").status == 404)
        // The submitting customer owns it, and keeps it after bert is deleted.
        let claimed = try await server.send(.post, "/v1/customers/carl/purchases", present)
        #expect(claimed.json["keptByOthers"]?.array?.map(\.string) == ["2"])
        #expect(try await server.send(.delete, "/v1/customers/bert").json["keptDocuments"]?.integer == 1)
        #expect(try await server.send(.get, "/v1/transactions/1").status == 200)
        let again = try await service.ledger.rebuild(by: service.verifier, at: TroubledServer.start)
        #expect(again.differing == [] && again.faults == [])
    }

    @Test func `a notification with a deleted token in an unknown member can still be read`()
        async throws
    {
        let server = try await TroubledServer()
        let token = try server.token("1")
        _ = try await server.send(.post, "/v1/customers/anna/purchases", #"{"document":"\#(token)"}"#)
        let notification = try server.notification(about: nil, with: ("signedFooInfo", token))
        #expect(try await server.send(.post, "/notifications/v2", notification).status == 200)
        #expect(try await server.send(.delete, "/v1/customers/anna").status == 200)
        #expect(try await server.send(.post, "/notifications/v2", notification).status == 200)
        let checked = try await #require(server.service).ledger.check(by: #require(server.service).verifier)
        #expect(checked.documents == 1 && checked.faults == [])
    }

    @Test func `the account id in a purchase is erased with the customer who submitted the purchase`() async throws {
        let server = try await TroubledServer()
        let token = try server.token("1", account: "7e3fb204-2a7d-41e6-b58f-0c6b8e6f4a31")
        _ = try await server.send(.post, "/v1/customers/anna/purchases", #"{"document":"\#(token)"}"#)
        _ = try await server.send(.delete, "/v1/customers/anna")
        #expect(try await server.storage.number("SELECT count(*) FROM customerIds") == 0)
        #expect(try await server.storage.number("SELECT count(*) FROM statements") == 0)
    }

    @Test func `a receipt without purchases creates a customer without purchases`() async throws {
        let server = try await TroubledServer()
        let body = #"{"document":"\#(Base64.encode(try server.signedReceipt([])))"}"#
        let answer = try await server.send(.post, "/v1/customers/bob/purchases", body)
        #expect(answer.status == 200)
        #expect(answer.json["customer"]?["purchases"]?.array == [])
    }

    @Test func `receipts without purchases are answered, and nothing of them is stored`() async throws {
        let server = try await TroubledServer()
        let changes = try await server.storage.number("SELECT total_changes()")
        let receipt = Base64.encode(try server.signedReceipt([]))
        for _ in 1...3 {
            let verified = try await server.send(.post, "/verifyReceipt", #"{"receipt-data":"\#(receipt)"}"#)
            #expect(verified.json["status"]?.integer == 0)
            let body = #"{"document":"\#(receipt)"}"#
            #expect(try await server.send(.post, "/v1/customers/bob/purchases", body).json["recorded"]?.integer == 0)
        }
        #expect(try await server.storage.number("SELECT count(*) FROM documents") == 0)
        // The customer alone was written.
        #expect(try await server.storage.number("SELECT total_changes()") - changes < 10)
        _ = try await server.send(.post, "/verifyReceipt", try server.receipt(["1"]))
        #expect(try await server.storage.number("SELECT count(*) FROM documents") == 1)
    }

    @Test func `a known document is not written again`() async throws {
        let server = try await TroubledServer()
        let (receipt, notification) = (try server.receipt(["1"]), try server.notification("2"))
        for _ in 0..<3 {
            _ = try await server.send(.post, "/verifyReceipt", receipt)
            _ = try await server.send(.post, "/notifications/v2", notification)
        }
        let changes = try await server.storage.number("SELECT total_changes()")
        _ = try await server.send(.post, "/verifyReceipt", receipt)
        _ = try await server.send(.post, "/notifications/v2", notification)
        #expect(try await server.storage.number("SELECT total_changes()") == changes)
    }

    @Test(arguments: [
        ("a%40b%2Fc", "a@b/c"), ("a@b", "a@b"), ("%C3%A9", "é"), ("100%25", "100%"), ("%EF%BB%BFbom", "\u{feff}bom"),
    ])
    func `a customer's id is the same, however a client encodes it`(path: String, id: String) async throws {
        let server = try await TroubledServer()
        let body = #"{"document":"\#(try server.token("1"))"}"#
        let answer = try await server.send(.post, "/v1/customers/\(path)/purchases", body)
        #expect(answer.json["customer"]?["id"]?.string == id)
        #expect(answer.json["customer"]?["ids"]?.array?.map(\.string) == [id])
        for wrong in ["%zz", "%", "%2", "%+1", "%FF"] {
            #expect(try await server.send(.get, "/v1/customers/\(wrong)").status == 400)
        }
    }

    @Test(
        arguments: [
            (#""isUpgraded":"many""#, 503, nil), (#""quantity":"3""#, 200, 3), (#""quantity":"many""#, 200, 1),
            (#""quantity":[3],"price":{},"storefront":1,"offerType":"2""#, 200, 1),
        ] as [(String, Int, Int64?)])
    func `a genuine document is answered 503 if a member that decides cannot be read, and only then`(
        members: String, status: Int, quantity: Int64?
    ) async throws {
        let server = try await TroubledServer()
        let token = try server.sign(
            """
            {"transactionId":"1","originalTransactionId":"1","bundleId":"com.example","environment":"Production",\
            "productId":"month","type":"Consumable","signedDate":1700000000000,\(members)}
            """)
        let answer = try await server.send(.post, "/notifications/v2", server.notification(token: token))
        #expect(answer.status == status)
        #expect(answer.json["error"]?["code"]?.string == (status == 503 ? "unreadable" : nil))
        let transaction = try await server.send(.get, "/v1/transactions/1")
        #expect(transaction.json["quantity"]?.integer == quantity)
    }

    @Test func `a check finds every damaged document, and verifies the others`() async throws {
        let server = try await TroubledServer()
        for id in ["1", "2", "3", "4"] {
            _ = try await server.send(.post, "/notifications/v2", server.notification(id))
        }
        try await server.storage.execute(
            "UPDATE documents SET content = x'00' WHERE number IN (4, 8)")
        let service = try #require(server.service)
        let checked = try await service.ledger.check(by: service.verifier)
        // Four notifications with a token each are eight documents, and two of them are damaged.
        #expect(checked.documents == 6)
        #expect(checked.faults.count == 2)
        #expect(checked.faults.allSatisfy { $0.error.contains("Document 4 ") || $0.error.contains("Document 8 ") })
    }

    @Test func `with keepEvidence, evidence stays after its customer is deleted`() async throws {
        let server = try await TroubledServer(keepsEvidence: true)
        let body = #"{"document":"\#(try server.token("1"))"}"#
        _ = try await server.send(.post, "/v1/customers/anna/purchases", body)
        #expect(try await server.send(.delete, "/v1/customers/anna").json["forgottenDocuments"]?.integer == 0)
        #expect(try await server.send(.get, "/v1/transactions/1").status == 200)
        #expect(try await server.send(.get, "/v1/customers/anna").json["ids"]?.array == [])
    }

    @Test(arguments: [(["1"], 21010), (["2"], 0), (["3", "1"], 21010)])
    func `a receipt with a refused purchase is answered 21010`(ids: [String], status: Int) async throws {
        let server = try await TroubledServer(refused: ["1"])
        #expect(
            try await server.send(.post, "/verifyReceipt", server.receipt(ids)).json["status"]?.integer == Int64(status)
        )
    }

    @Test func `logs contain no customer, no key and no document`() async throws {
        let server = try await TroubledServer()
        let token = try server.token("70010201")
        _ = try await server.send(
            .post, "/v1/customers/anna@example.com/purchases", #"{"document":"\#(token)"}"#)
        _ = try await server.send(.get, "/v1/customers/anna@example.com")
        _ = try await server.send(
            .get, "/v1/customers/anna@example.com", key: "qt_aaaaaaaa_\(String(repeating: "b", count: 44))")
        _ = try await server.send(.post, "/notifications/v2", server.notification("70010202"))
        _ = try await server.send(.post, "/verifyReceipt", server.receipt(["70010203"]))
        try server.storage.close()
        // These fail, which is logged.
        _ = try await server.send(.get, "/v1/customers/anna@example.com")
        _ = try await server.send(.post, "/notifications/v2", server.notification("70010204"))
        let text = server.log.all
        #expect(text.contains("Storage failed") && text.contains("/v1/customers/{id}"))
        for secret in ["anna", server.key, "bbbb", token, String(token.suffix(40)), "7001020", "eyJ"] {
            #expect(!text.contains(secret), "\(secret)")
        }
    }
}
