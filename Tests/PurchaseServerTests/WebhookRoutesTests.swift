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
import Synchronization
import TestWorld
import Testing

/// The routes by which a backend manages the endpoints that get its app's events.
@Suite struct WebhookRoutesTests {
    typealias World = LedgerRoutesTests.World
    private static let now = LedgerRoutesTests.now
    private static let url = #"{"url":"https://example.com/hooks"}"#

    /// A server with a secret file.
    ///
    /// - Parameter secret: The content of the file; `nil` for a server without a file.
    static func world(
        secret: String? = "the content of a secret file, long enough", clock: any Clock<Duration> = ContinuousClock()
    ) async throws -> World {
        var world = try await World(clock: clock)
        try setSecret(secret, of: &world)
        return world
    }

    private static func setSecret(_ secret: String?, of world: inout World) throws {
        world.server.ledger?.webhookSecrets = try secret.map { try WebhookSecrets(file: Array($0.utf8)) }
    }

    private static func add(_ body: String = url, to world: World) async throws -> (id: String, answer: JSONValue) {
        let (status, answer) = try await world.send(.post, "/v1/webhooks", body)
        #expect(status == .created, "\(answer.compactText)")
        return (try #require(answer["id"]?.string), answer)
    }

    private static func outcome(_ answer: (HTTPResponse.Status, JSONValue)) -> String {
        "\(answer.0.code) \(answer.1["error"]?["code"]?.string ?? "")"
    }

    // MARK: Endpoints

    @Test func `a new endpoint is answered with its secret, and later only the routes for secrets show it`()
        async throws
    {
        let world = try await Self.world()
        let (id, made) = try await Self.add(
            #"{"url":"HTTPS://Example.com","kinds":["purchase.made","grant.made"],"environment":"sandbox","#
                + #""ordered":true,"asymmetric":true}"#, to: world)
        let secret = try #require(made["secret"]?.string)
        let key = try #require(made["publicKey"]?.string)
        #expect(secret.hasPrefix("whsec_") && key.hasPrefix("whpk_"))
        let endpoint = """
            {"id":"\(id)","url":"https://example.com/","kinds":["grant.made","purchase.made"],"environment":"Sandbox",\
            "ordered":true,"asymmetric":true,"backfilled":true,"state":"active",\
            "createdAt":\(Self.now.milliseconds),"rotatedAt":null
            """
        #expect(made.compactText == #"\#(endpoint),"secret":"\#(secret)","publicKey":"\#(key)"}"#)
        let path = "/v1/webhooks/\(id)"
        let cursor = try await world.storage.endOfEvents(of: "com.example").rawValue
        #expect(try await world.send(.get, "/v1/webhooks").1.compactText == #"{"items":[\#(endpoint)}]}"#)
        #expect(
            try await world.send(.get, path).1.compactText == """
                \(endpoint),"deliveries":{"waiting":0,"setAsideCount":0,"setAside":[],"deliveredAt":null,\
                "failingSince":null,"cursor":"\(cursor)"}}
                """)
        #expect(
            try await world.send(.get, path + "/secret").1.compactText
                == #"{"secret":"\#(secret)","publicKey":"\#(key)"}"#)
        for (method, suffix, body) in [
            (HTTPRequest.Method.patch, "", #"{"ordered":false}"#), (.post, "/pause", ""), (.post, "/resume", ""),
            (.post, "/replay", #"{"after":"0"}"#),
        ] {
            let (status, answer) = try await world.send(method, path + suffix, body)
            #expect(status == .ok && answer["secret"] == nil && answer["id"]?.string == id, "\(suffix)")
        }
        let (_, rotated) = try await world.send(.post, path + "/rotate")
        #expect(rotated["rotatedAt"]?.integer == Self.now.milliseconds)
        let (_, shown) = try await world.send(.get, path + "/secret")
        #expect(rotated["secret"] == shown["secret"] && shown["secret"]?.string != secret)
        #expect(rotated["publicKey"] == shown["publicKey"] && shown["publicKey"]?.string != key)
    }

    @Test func `an endpoint without asymmetric signatures has no public key`() async throws {
        let world = try await Self.world()
        let (id, made) = try await Self.add(to: world)
        #expect(made["publicKey"] == nil && made["kinds"] == .null && made["environment"] == .null)
        #expect(try await world.send(.get, "/v1/webhooks/\(id)/secret").1["publicKey"] == nil)
    }

    private static let wrongSettings = [
        (#"{"url":"http://example.com"}"#, "webhookURLRefused", "must be https"),
        (#"{"url":"https://127.0.0.1/x"}"#, "webhookURLRefused", "127.0.0.1 is forbidden"),
        (#"{"url":"https://[::ffff:10.0.0.1]"}"#, "webhookURLRefused", "Write 10.0.0.1"),
        (#"{"url":"https://2130706433/"}"#, "webhookURLRefused", "invalid host"),
        (#"{"url":"https://a:b@example.com"}"#, "webhookURLRefused", "a user or a password"),
        (#"{"url":"https://example.com","environment":"xcode"}"#, "invalidRequest", "records nothing of Xcode"),
    ]

    @Test(arguments: wrongSettings)
    func `wrong settings are refused with the reason, in a new endpoint and in a change`(
        body: String, code: String, message: String
    ) async throws {
        let world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        for (method, path) in [(HTTPRequest.Method.post, "/v1/webhooks"), (.patch, "/v1/webhooks/\(id)")] {
            let answer = try await world.send(method, path, body)
            #expect(Self.outcome(answer) == "400 \(code)")
            #expect(answer.1["error"]?["message"]?.string?.contains(message) == true, "\(answer.1.compactText)")
        }
        let (_, list) = try await world.send(.get, "/v1/webhooks")
        #expect(list["items"]?.array?.count == 1)
        #expect(list["items"]?.array?.first?["url"]?.string == "https://example.com/hooks")
    }

    @Test(arguments: [
        (#"{"url":"https://a.example","from":"x"}"#, "400 invalidCursor"),
        (#"{"url":"https://a.example","from":"7.abc"}"#, "400 invalidCursor"),
        (#"{"url":"https://a.example","from":""}"#, "400 invalidCursor"),
    ])
    func `a new endpoint takes only a cursor of the app`(body: String, expected: String) async throws {
        let world = try await Self.world()
        #expect(Self.outcome(try await world.send(.post, "/v1/webhooks", body)) == expected)
        #expect(try await world.ledger.webhookEndpoints().isEmpty)
    }

    @Test func `a change changes what it names, and null takes a filter away`() async throws {
        let world = try await Self.world()
        let (id, _) = try await Self.add(
            #"{"url":"https://a.example","kinds":["grant.made"],"environment":"production"}"#, to: world)
        let path = "/v1/webhooks/\(id)"
        let (_, url) = try await world.send(.patch, path, #"{"url":"https://b.example/x?y=1"}"#)
        #expect(url["url"]?.string == "https://b.example/x?y=1" && url["kinds"]?.array?.count == 1)
        let (_, kinds) = try await world.send(.patch, path, #"{"kinds":null,"asymmetric":true}"#)
        #expect(kinds["kinds"] == .null && kinds["environment"]?.string == "Production")
        #expect(kinds["asymmetric"] == .bool(true))
        let (_, environment) = try await world.send(.patch, path, #"{"environment":null,"ordered":true}"#)
        #expect(environment["environment"] == .null && environment["ordered"] == .bool(true))
        #expect(try await world.send(.patch, path, #"{"backfilled":false}"#).1["backfilled"] == .bool(false))
        #expect(Self.outcome(try await world.send(.patch, path, "{}")) == "400 invalidRequest")
    }

    @Test func `a key of another app finds no endpoint`() async throws {
        let world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        var (other, random) = (world, SeededRandom(seed: 9))
        let (key, text) = APIKey.make(
            name: "other", role: .server, bundleId: "com.example.two", at: Self.now, using: &random)
        try await world.ledger.put(key)
        other.keys[.server] = text
        let routes = world.server.routes.filter { $0.path.hasPrefix("/v1/webhooks") }
        #expect(routes.count == 12)
        for route in routes where route.path != "/v1/webhooks" {
            let replay = route.path.hasSuffix("/replay") ? #"{"after":"0"}"# : ""
            let body = route.method == .patch ? #"{"ordered":true}"# : replay
            let (status, _) = try await other.send(route.method, route.path.replacing("{id}", with: id), body)
            #expect(status == .notFound, "\(route.method) \(route.path)")
        }
        #expect(try await other.send(.get, "/v1/webhooks").1["items"]?.array == [])
        #expect(try await world.send(.get, "/v1/webhooks/\(id)").1["ordered"] == .bool(false))
    }

    @Test func `a removed endpoint is not found any more, and a new one has another id and secret`() async throws {
        let world = try await Self.world()
        let (id, made) = try await Self.add(to: world)
        let (status, answer) = try await world.send(.delete, "/v1/webhooks/\(id)")
        #expect(status == .ok && answer.compactText == #"{"removed":true}"#)
        #expect(try await world.send(.delete, "/v1/webhooks/\(id)").0 == .notFound)
        #expect(try await world.send(.get, "/v1/webhooks/\(id)").0 == .notFound)
        let (other, again) = try await Self.add(to: world)
        #expect(other != id && again["secret"] != made["secret"])
    }

    // MARK: Secrets

    @Test func `without a secret file nothing is signed, and all else works`() async throws {
        var world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        try Self.setSecret(nil, of: &world)
        let path = "/v1/webhooks/\(id)"
        #expect(Self.outcome(try await world.send(.post, "/v1/webhooks", Self.url)) == "404 noWebhookSecrets")
        #expect(Self.outcome(try await world.send(.get, path + "/secret")) == "404 noWebhookSecrets")
        for action in ["rotate", "test"] {
            #expect(Self.outcome(try await world.send(.post, "\(path)/\(action)")) == "404 noWebhookSecrets")
        }
        for action in ["pause", "resume"] {
            #expect(try await world.send(.post, "\(path)/\(action)").0 == .ok)
        }
        let (_, found) = try await world.send(.get, path)
        #expect(found["rotatedAt"] == .null)
    }

    @Test func `a server with another secret file shows and makes no secret, until all endpoints are removed`()
        async throws
    {
        var world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        try Self.setSecret("the content of a different secret file", of: &world)
        let path = "/v1/webhooks/\(id)"
        for (method, path, body) in [
            (HTTPRequest.Method.post, "/v1/webhooks", Self.url), (.get, path + "/secret", ""),
            (.post, path + "/rotate", ""), (.post, path + "/test", ""),
        ] {
            #expect(Self.outcome(try await world.send(method, path, body)) == "503 otherWebhookSecrets", "\(path)")
        }
        #expect(try await world.send(.get, path).1["rotatedAt"] == .null)
        #expect(try await world.send(.delete, path).0 == .ok)
        _ = try await Self.add(to: world)
    }

    @Test func `the twenty-first endpoint of an app is refused`() async throws {
        let world = try await Self.world()
        for _ in 0..<WebhookEndpoint.maxCount { _ = try await Self.add(to: world) }
        #expect(Self.outcome(try await world.send(.post, "/v1/webhooks", Self.url)) == "409 tooManyWebhooks")
    }

    // MARK: Actions

    @Test func `a paused endpoint is resumed, and so is a disabled one`() async throws {
        let world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        let path = "/v1/webhooks/\(id)"
        #expect(try await world.send(.post, path + "/pause").1["state"]?.string == "paused")
        #expect(try await world.send(.get, path).1["state"]?.string == "paused")
        #expect(try await world.send(.post, path + "/resume").1["state"]?.string == "active")
        _ = try await world.ledger.changeWebhook(id, of: "com.example", at: Self.now) {
            $0.state = .disabled(reason: "It answered 410.", at: Self.now)
        }
        let (_, disabled) = try await world.send(.get, path)
        #expect(disabled["state"]?.string == "disabled" && disabled["disabledReason"]?.string == "It answered 410.")
        #expect(disabled["disabledAt"]?.integer == Self.now.milliseconds)
        let (_, resumed) = try await world.send(.post, path + "/resume")
        #expect(resumed["state"]?.string == "active" && resumed["disabledReason"] == nil)
    }

    @Test func `a resume says whether ids in the events that follow are gone`() async throws {
        var world = try await Self.world()
        for (days, isGone) in [(29.9, false), (30, true)] {
            let then = Self.now.advanced(by: .seconds(-days * 86_400))
            world.server.wall = { then }
            let (id, _) = try await Self.add(to: world)
            world.server.wall = { Self.now }
            let path = "/v1/webhooks/\(id)/resume"
            #expect(try await world.send(.post, path).1["idsGone"] == nil)
            let request = GrantRequest(id: "g \(days)", entitlement: "pro", why: "a test")
            _ = try await world.ledger.make(request, forCustomer: "anna", of: "com.example", at: then)
            #expect(try await world.send(.post, path).1["idsGone"] == (isGone ? .bool(true) : nil), "\(days)")
        }
    }

    @Test(arguments: [
        ("{}", "400 invalidRequest"), (#"{"after":"0","setAside":true}"#, "400 invalidRequest"),
        (#"{"setAside":false}"#, "400 invalidRequest"), (#"{"since":null}"#, "400 invalidRequest"),
        (#"{"since":0,"setAside":false}"#, "400 invalidRequest"),
        (#"{"after":"x"}"#, "400 invalidCursor"), (#"{"since":32503680000000}"#, "400 invalidRequest"),
        (#"{"after":"0"}"#, "200 "), (#"{"since":0}"#, "200 "), (#"{"setAside":true}"#, "200 "),
    ])
    func `a replay is of one kind: after a cursor, since a time, or of the events set aside`(
        body: String, expected: String
    ) async throws {
        let world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        #expect(Self.outcome(try await world.send(.post, "/v1/webhooks/\(id)/replay", body)) == expected)
    }

    @Test func `with a simulator's clock, the times of an endpoint are the machine's`() async throws {
        var world = try await Self.world()
        let wall = Self.now.advanced(by: .seconds(-400 * 86_400))
        world.server.wall = { wall }
        let (id, made) = try await Self.add(to: world)
        let (_, rotated) = try await world.send(.post, "/v1/webhooks/\(id)/rotate")
        #expect(made["createdAt"]?.integer == wall.milliseconds && rotated["rotatedAt"]?.integer == wall.milliseconds)
        _ = try await world.send(.post, "/v1/webhooks/\(id)/resume")
        #expect(try await world.ledger.webhookEndpoint(id, of: "com.example")?.mendedAt == wall)
        // The events have the ledger's times.
        let since = #"{"since":\#(Self.now.milliseconds - 1)}"#
        #expect(Self.outcome(try await world.send(.post, "/v1/webhooks/\(id)/replay", since)) == "200 ")
    }

    @Test func `a text that is no cursor is refused with advice that suits the request`() async throws {
        let world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        let (_, replay) = try await world.send(.post, "/v1/webhooks/\(id)/replay", #"{"after":"x"}"#)
        let (_, addition) = try await world.send(.post, "/v1/webhooks", #"{"url":"https://a.example","from":"x"}"#)
        let refused = "is not a cursor of this app and ledger: send the id of an event"
        #expect(replay["error"]?["message"]?.string == "“after” \(refused).")
        #expect(addition["error"]?["message"]?.string == "“from” \(refused), or omit “from”.")
    }

    @Test func `the answer about an endpoint has its failed events, and its attempts are a list of their own`()
        async throws
    {
        let world = try await Self.world()
        let (id, _) = try await Self.add(to: world)
        let path = "/v1/webhooks/\(id)"
        try await Self.fail(id, in: world.ledger)
        let (_, found) = try await world.send(.get, path)
        let deliveries = try #require(found["deliveries"])
        #expect(deliveries["waiting"]?.integer == 1 && deliveries["setAsideCount"]?.integer == 102)
        let setAside = try #require(deliveries["setAside"]?.array)
        #expect(setAside.count == 100 && setAside.first?["event"]?.string == "103.e")
        #expect(setAside.last?["event"]?.string == "4.e" && setAside.last?["reason"]?.string == "500")
        #expect(deliveries["cursor"]?.string == "7.e")
        #expect(deliveries["failingSince"]?.integer == Self.now.milliseconds)

        let (_, all) = try await world.send(.get, path + "/attempts")
        let items = try #require(all["items"]?.array)
        #expect(items.map { $0["event"]?.string } == ["3.e", "2.e"])
        let text = items.map(\.compactText)
        let time = Self.now.milliseconds
        #expect(
            text == [
                #"{"event":"3.e","at":\#(time),"milliseconds":20000,"status":null,"failure":"no answer","answer":""}"#,
                #"{"event":"2.e","at":\#(time),"milliseconds":12,"status":200,"answer":"thanks"}"#,
            ])
        #expect(try await world.send(.get, path + "/attempts?limit=1").1["items"]?.array?.count == 1)

        let (_, replayed) = try await world.send(.post, path + "/replay", #"{"setAside":true}"#)
        #expect(replayed["deliveries"]?["waiting"]?.integer == 103)
        #expect(replayed["deliveries"]?["setAsideCount"]?.integer == 0)
    }

    /// Commits what a delivering server would: two attempts, an event that waits, and 102 that were set aside.
    private static func fail(_ id: String, in ledger: Ledger) async throws {
        let end = now.advanced(by: .seconds(60))
        let job = try #require(
            try await ledger.leaseWebhook(id, of: "com.example", until: end, at: now))
        var progress = WebhookProgress(from: EventCursor(9, epoch: "e"))
        progress.positions[3] = EventCursor(7, epoch: "e")
        progress.failingSince = now
        let failed = (1...103).map { number in
            FailedDelivery(
                of: EventCursor(Int64(number), epoch: "e"), to: id, of: "com.example", lane: 0, attempts: 10,
                dueAt: number == 1 ? now : nil, failedAt: now, reason: "500")
        }
        let attempts = [
            WebhookAttempt(
                of: EventCursor(2, epoch: "e"), at: now, milliseconds: 12, status: 200, failure: nil, answer: "thanks"),
            WebhookAttempt(
                of: EventCursor(3, epoch: "e"), at: now, milliseconds: 20_000, status: nil, failure: "no answer",
                answer: ""),
        ]
        let endpoint = try #require(try await ledger.webhookEndpoint(id, of: "com.example"))
        _ = try await ledger.commitWebhook(
            job, WebhookResults(progress: progress, failed: failed, attempts: attempts), to: endpoint, until: end,
            at: now)
    }

    // MARK: Tests of endpoints

    /// The requests that a receiver got.
    private final class Received: Sendable {
        private let requests = Mutex<[(headers: HTTPFields, body: [UInt8])]>([])

        var all: [(headers: HTTPFields, body: [UInt8])] { requests.withLock { $0 } }

        /// A receiver that answers 200, but 500 to a kind of event.
        func receiver(failing kind: String) -> some ApplicationProtocol {
            let router = Router()
            router.post("hooks") { request, _ in
                let body = Array(try await request.body.collect(upTo: 1 << 20).readableBytesView)
                self.requests.withLock { $0.append((request.headers, body)) }
                let isRefused = try JSONValue(parsing: body)["kind"]?.string == kind
                return Response(
                    status: isRefused ? .internalServerError : .ok, body: .init(byteBuffer: ByteBuffer(string: "seen")))
            }
            return Application(router: router)
        }
    }

    /// A clock by which no time passes, so that a slow machine sends all examples too.
    private struct StillClock: Clock {
        let now = ContinuousClock.now
        let minimumResolution = Duration.zero

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            try await ContinuousClock().sleep(for: now.duration(to: deadline))
        }
    }

    @Test func `a test sends a signed example of each wanted kind, and returns the answers`() async throws {
        var world = try await Self.world(clock: StillClock())
        world.server.ledger?.webhookNetworks = [try #require(IPNetwork("127.0.0.0/8"))]
        let received = Received()
        let answers = try await received.receiver(failing: "grant.made").test(.live) { [world] client in
            let port = try #require(client.port)
            let (id, made) = try await Self.add(
                #"{"url":"http://127.0.0.1:\#(port)/hooks","asymmetric":true}"#, to: world)
            _ = try await world.send(.post, "/v1/webhooks/\(id)/rotate")
            let (status, answer) = try await world.send(.post, "/v1/webhooks/\(id)/test")
            #expect(status == .ok)
            #expect(made["id"]?.string == id)
            return answer
        }
        let items = try #require(answers["items"]?.array)
        let kinds = LedgerEvent.Kind.allCases.map(\.rawValue)
        #expect(items.map { $0["kind"]?.string } == kinds)
        for item in items {
            let isRefused = item["kind"]?.string == "grant.made"
            #expect(item["status"]?.integer == (isRefused ? 500 : 200), "\(item.compactText)")
            #expect(item["failure"]?.string == (isRefused ? "500" : nil))
            #expect(item["answer"]?.string == "seen")
        }
        #expect(received.all.count == kinds.count)
        for request in received.all {
            let id = try #require(HTTPField.Name("webhook-id").flatMap { request.headers[$0] })
            let body = try JSONValue(parsing: request.body)
            #expect(id.hasPrefix("test_") && body["id"]?.string == id && body["test"] == .bool(true))
            #expect(items.contains { $0["id"]?.string == id && $0["kind"] == body["kind"] })
            let signatures = HTTPField.Name("webhook-signature").flatMap { request.headers[$0] } ?? ""
            let versions = signatures.split(separator: " ").map { $0.prefix { $0 != "," } }
            #expect(versions == ["v1", "v1a", "v1", "v1a"])
        }
        let ledgerEvents = try await world.ledger.events(of: "com.example", limit: 9).events
        #expect(ledgerEvents.isEmpty)
    }

    @Test func `a key sees neither addresses nor which names are known, and the log has both`() async throws {
        var world = try await Self.world()
        let log = LogLines()
        world.server.logger = Logger(label: "test") { _ in log }
        var seen: Set<String> = []
        for host in ["localhost", "no-such-name.invalid"] {
            let (id, _) = try await Self.add(#"{"url":"https://\#(host):9/","kinds":["grant.made"]}"#, to: world)
            let (status, answer) = try await world.send(.post, "/v1/webhooks/\(id)/test")
            let items = try #require(answer["items"]?.array)
            #expect(status == .ok && items.map { $0["kind"]?.string } == ["grant.made", "ledger.restored"])
            #expect(items.allSatisfy { $0["status"] == .null })
            seen.formUnion(items.compactMap { $0["failure"]?.string })
        }
        #expect(seen == ["refused"])
        let lines = log.text.filter { $0.contains("The test of a webhook was refused") }
        #expect(lines.count == 2 && lines[0].contains("is forbidden") && lines[1].contains("no-such-name.invalid"))
    }

    @Test func `a test of an endpoint whose address is forbidden meanwhile is refused`() async throws {
        var world = try await Self.world()
        world.server.ledger?.webhookNetworks = [try #require(IPNetwork("127.0.0.0/8"))]
        let (id, _) = try await Self.add(#"{"url":"http://127.0.0.1:9"}"#, to: world)
        world.server.ledger?.webhookNetworks = []
        #expect(Self.outcome(try await world.send(.post, "/v1/webhooks/\(id)/test")) == "400 webhookURLRefused")
    }
}
