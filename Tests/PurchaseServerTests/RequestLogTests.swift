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
import Synchronization
import TestData
import TestWorld
import Testing

/// Collects log lines.
private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    func add(_ line: String) { lines.withLock { $0.append(line) } }
}

/// The log: a line for each request, and warnings about genuine documents that were refused.
@Suite struct RequestLogTests {
    final class Clock: Sendable {
        private let time = Mutex(LedgerRoutesTests.now)
        var now: Timestamp { time.withLock { $0 } }
        func pass(_ milliseconds: Int64) {
            time.withLock { $0 = Timestamp(milliseconds: $0.milliseconds + milliseconds) }
        }
    }

    /// A server whose log can be read.
    struct World {
        let world: LedgerRoutesTests.World
        let clock = Clock()
        let router: Router<BasicRequestContext>
        private let log = Lines()

        init(
            _ policy: RequestLogPolicy = .all, storage: any LedgerStorage = MemoryLedgerStorage(),
            _ change: (inout AppStoreVerifier) -> Void = { _ in }
        ) async throws {
            world = try await LedgerRoutesTests.World(storage: storage, change)
            var server = world.server
            let (log, clock) = (log, clock)
            server.logger = Logger(label: "test") { _ in
                LineLogHandler(.json, now: { clock.now }, write: log.add)
            }
            server.now = { clock.now }
            server.requestLog = policy
            router = server.router()
        }

        func lines(_ message: String = "request") throws -> [JSONValue] {
            try log.all.map { try JSONValue(parsing: $0.utf8) }.filter { $0["message"]?.string == message }
        }

        @discardableResult
        func send(
            _ method: HTTPRequest.Method, _ path: String, _ body: String = "", headers: HTTPFields = [:]
        ) async throws -> TestResponse {
            try await Application(router: router).test(.router) { client in
                try await client.execute(uri: path, method: method, headers: headers, body: ByteBuffer(string: body))
            }
        }
    }

    private static let longest = String(repeating: "a", count: 128)
    private static let requestId = HTTPField.Name("X-Request-Id")

    @Test func `each request has one line with its route, status, code and key, whatever the outcome`()
        async throws
    {
        let world = try await World()
        let key = try #require(world.world.keys[.client])
        let bearer: HTTPFields = [.authorization: "Bearer \(key)"]
        let id = JSONValue.string(String(key.split(separator: "_")[1]))
        func unknown(_ path: String) -> [String: JSONValue] {
            ["route": .string("none"), "status": .number("404"), "code": .string("notFound"), "path": .string(path)]
        }
        let cases: [(HTTPRequest.Method, String, String, HTTPFields, [String: JSONValue])] = [
            (
                .get, "/health/live", "", [:],
                ["route": .string("/health/live"), "method": .string("GET"), "status": .number("200")]
            ),
            (.get, "/mollymiller/anna", "", [:], unknown("/*/*")),
            (.post, "/api/notifications/v2?anna", "{}", [:], unknown("/api/notifications/v2")),
            (.get, "/v1/customer/anna/", "", [:], unknown("/v1/*/*")),
            (.get, "/anna@example.com/anna", "", [:], unknown("/*/*")),
            (.get, String(repeating: "/x", count: 99), "", [:], unknown(String(repeating: "/*", count: 8))),
            (
                .get, "/v1/customers/anna/entitlements/por", "", bearer,
                [
                    "route": .string("/v1/customers/{id}/entitlements/{name}"), "status": .number("404"),
                    "code": .string("unknownEntitlement"), "key": id,
                ]
            ),
            (.get, "/v1/customers/anna", "", [:], ["status": .number("401"), "code": .string("unauthorized")]),
            (.get, "/v1/events", "", bearer, ["status": .number("403"), "code": .string("forbidden"), "key": id]),
            (.post, "/notifications/v2", "{}", [:], ["status": .number("400"), "code": .string("invalidRequest")]),
            (
                .post, "/notifications/v2", String(repeating: " ", count: 300_000), [:],
                ["route": .string("/notifications/v2"), "status": .number("413"), "code": .string("tooLarge")]
            ),
            (
                .get, "/verifyReceipt", "", [:],
                ["route": .string("/verifyReceipt"), "status": .number("200"), "verifyReceiptStatus": .number("21000")]
            ),
            (
                .post, "/verifyReceipt", #"{"receipt-data":"AAAA"}"#, [:],
                ["route": .string("/verifyReceipt"), "status": .number("200"), "verifyReceiptStatus": .number("21002")]
            ),
        ]
        for (method, path, body, headers, expected) in cases {
            let count = try world.lines().count
            try await world.send(method, path, body, headers: headers)
            let lines = try world.lines()
            #expect(lines.count == count + 1, "\(path)")
            let line = try #require(lines.last)
            for (name, value) in expected { #expect(line[name] == value, "\(path): \(line.compactText)") }
            for name in ["code", "key", "path"] { #expect(line[name] == expected[name], "\(path)") }
            #expect(line["ms"]?.integer != nil && !line.compactText.contains("anna"))
        }
    }

    @Test(arguments: [
        (RequestLogPolicy.all, 12), (.errors, 2), (.oneIn(5), 4), (.off, 0),
    ])
    func `requestLog may omit successful requests, but omits errors only if it is off`(
        policy: RequestLogPolicy, count: Int
    ) async throws {
        let world = try await World(policy)
        for _ in 0..<10 { try await world.send(.get, "/health/live") }
        try await world.send(.get, "/nowhere")
        try await world.send(.post, "/verifyReceipt", "x")
        // `oneIn(5)` logs requests 1, 6 and 11, and every error. Requests 11 and 12 fail, so there are four lines.
        #expect(try world.lines().count == count)
    }

    @Test(arguments: [
        ("X-Request-Id", "a-Z.0_", "a-Z.0_"), ("X-Request-Id", longest, longest), ("X-Request-Id", longest + "a", nil),
        ("X-Request-Id", "", nil), ("X-Request-Id", "a b", nil),
        ("X-Request-Id", "anna@example.com", nil), ("X-Request-Id", "é", nil),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("traceparent", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", nil),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e473G-00f067aa0ba902b7-01", nil),
        ("traceparent", "00-4bf9", nil),
    ])
    func `the log and the response have the client's request id if it is well-formed, else a new one`(
        header: String, value: String, id: String?
    ) async throws {
        let world = try await World()
        let (name, answered) = (try #require(HTTPField.Name(header)), try #require(Self.requestId))
        for path in ["/health/live", "/nowhere"] {
            let response = try await world.send(.get, path, headers: [name: value])
            let found = try #require(response.headers[answered])
            // A new id begins with the server's `requestSeed`: 0xabc in `LedgerRoutesTests.World`.
            #expect(found == id || id == nil && found.hasPrefix("abc-"), "\(found)")
            #expect(try world.lines().last?["requestId"]?.string == found)
        }
        let ids = try world.lines().compactMap { $0["requestId"]?.string }
        #expect(id != nil || Set(ids).count == 2)
    }

    @Test func `the refusal of a genuine document is logged as a warning with its app and environment`()
        async throws
    {
        let world = try await World { $0.environments = [.production] }
        let key = try #require(world.world.keys[.server])
        let forged = "com.example.three\nlevel=error"
        let cases: [(String, String?, String?, (inout JWSTransactionDecodedPayload) -> Void)] = [
            ("otherApp", forged, "Production", { $0.bundleId = forged }),
            ("otherEnvironment", "com.example", "Sandbox", { $0.environment = Open(.sandbox) }),
            ("otherEnvironment", "com.example", "Moon", { $0.environment = Open(rawValue: "Moon") }),
        ]
        for (code, bundleId, environment, change) in cases {
            let transaction = try world.world.transaction(change)
            let notification = try world.world.notification("DID_RENEW", transaction: transaction) { payload in
                var transaction = JWSTransactionDecodedPayload()
                change(&transaction)
                if let id = transaction.bundleId { payload.data?.bundleId = id }
                if let environment = transaction.environment { payload.data?.environment = environment }
            }
            for (path, body) in [
                ("/notifications/v2", notification), ("/v1/customers/c/purchases", #"{"document":"\#(transaction)"}"#),
            ] {
                let headers: HTTPFields = [.authorization: "Bearer \(key)"]
                let response = try await world.send(.post, path, body, headers: headers)
                #expect(response.status == .badRequest)
                let warning = try #require(try world.lines("A genuine document was refused").last)
                #expect(warning["level"]?.string == "warning" && warning["code"]?.string == code)
                #expect(warning["bundleId"]?.string == bundleId && warning["environment"]?.string == environment)
                #expect(try warning["requestId"] == world.lines().last?["requestId"])
            }
        }
        let count = try world.lines("A genuine document was refused").count
        #expect(count == 6)
        // A forged document causes no warning.
        try await world.send(.post, "/notifications/v2", #"{"signedPayload":"a.b.c"}"#)
        #expect(try world.lines("A genuine document was refused").count == count)
    }

    @Test func `warnings about refused documents are limited per minute, and the rest is counted`() async throws {
        let world = try await World()
        let body = try world.world.notification("TEST") { $0.data?.bundleId = "com.other" }
        for _ in 0..<25 { try await world.send(.post, "/notifications/v2", body) }
        let message = "A genuine document was refused"
        #expect(try world.lines(message).count == 10)
        world.clock.pass(60_000)
        try await world.send(.post, "/notifications/v2", body)
        #expect(try world.lines(message).count == 11)
        #expect(try world.lines(message).last?["suppressed"]?.integer == 15)
    }

    @Test func `readiness has the time of the last accepted notification, even after a restart`() async throws {
        let storage = MemoryLedgerStorage()
        let world = try await World(storage: storage)
        func last(_ world: World) async throws -> JSONValue? {
            let response = try await world.send(.get, "/health/ready")
            return try JSONValue(parsing: response.body.readableBytesView)["lastNotificationAccepted"]
        }
        let notification = try world.world.notification("TEST")
        #expect(try await last(world) == .null)
        try await world.send(.post, "/notifications/v2", notification)
        #expect(try await last(world)?.integer == LedgerRoutesTests.now.milliseconds)
        // A notification that the ledger already has does not count, because anyone who has a copy can send it. Version
        // 1 notifications do not count either.
        world.clock.pass(5)
        try await world.send(.post, "/notifications/v2", notification)
        try await world.send(.post, "/notifications/v2", "{}")
        let encoded = try Base64.encode(world.world.store.sign(TestStore.receipt()))
        let v1 = #"{"unified_receipt":{"latest_receipt":"\#(encoded)"}}"#
        #expect(try await world.send(.post, "/notifications/v1", v1).status == .ok)
        #expect(try await last(world)?.integer == LedgerRoutesTests.now.milliseconds)
        let restarted = try await last(World(storage: storage))
        #expect(restarted?.integer == LedgerRoutesTests.now.milliseconds)
    }
}

/// A value in a log line cannot start a new line, end its field or control a terminal.
@Suite struct LogLineTests {
    private static func line(
        _ format: LogFormat, _ value: Logger.MetadataValue, name: String = "value", error: (any Error)? = nil
    ) -> String {
        let log = Lines()
        var logger = Logger(label: "test") { _ in
            LineLogHandler(format, now: { Timestamp(milliseconds: 1_700_000_000_001) }, write: log.add)
        }
        logger.logLevel = .info
        logger.info("two words", error: error, metadata: [name: value])
        return log.all.joined(separator: "|")
    }

    @Test(arguments: [
        ("plain-1./{id}", "plain-1./{id}"), ("", #""""#), ("a b", #""a b""#), ("a=b", #""a=b""#),
        ("a\"b", #""a\"b""#), ("\\n", #""\\n""#), ("a\nlevel=error", #""a\nlevel=error""#),
        ("\u{1b}[31m", #""\u{1b}[31m""#), ("\r", #""\u{d}""#),
        ("\u{2028}\u{202e}\u{85}\u{0}", #""\u{2028}\u{202e}\u{85}\u{0}""#), ("é", #""é""#), ("\r\n", #""\u{d}\n""#),
        ("\u{7f}\u{9b}31m", #""\u{7f}\u{9b}31m""#), ("\u{e0001}", #""\u{e0001}""#),
    ])
    func `any value stays one field of one line`(value: String, text: String) throws {
        let expected = "time=2023-11-14T22:13:20.001Z level=info message=\"two words\" value=\(text)"
        #expect(Self.line(.text, .string(value)) == expected)
        let line = Self.line(.json, .string(value))
        #expect(try JSONValue(parsing: line.utf8)["value"]?.string == value)
        // Nothing in either format acts on a terminal.
        for scalar in (line + text).unicodeScalars {
            #expect(![.control, .format, .lineSeparator].contains(scalar.properties.generalCategory), "\(line)")
        }
    }

    @Test func `numbers are numbers in JSON, and metadata cannot replace a fixed member`() throws {
        let json = try JSONValue(parsing: Self.line(.json, .stringConvertible(17)).utf8)
        #expect(json.members?.map(\.name) == ["time", "level", "message", "value"])
        #expect(json["value"]?.integer == 17 && json["time"]?.string == "2023-11-14T22:13:20.001Z")
        #expect(
            Self.line(.text, "x", name: "error", error: LedgerStorageError(.full, "y")).hasSuffix(" error_=x"))
        #expect(Self.line(.text, "x", name: "error").hasSuffix(" error=x"))
        for name in ["time", "level", "message"] {
            let json = try JSONValue(parsing: Self.line(.json, "x", name: name).utf8)
            #expect(json[name]?.string != "x" && json["\(name)_"]?.string == "x")
        }
        #expect(Self.line(.text, "x", name: "a b\n=c").hasSuffix(" a_b__c=x"))
    }
}
