// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import TestWorld
import Testing

/// The commands of the control port, without a socket.
@Suite struct ControlTests {
    static let wall = Timestamp(milliseconds: 1_800_000_000_000)
    private static let authority = Result { try StoreAuthority.fixture() }

    /// A simulator that stands still, and the commands that a test sends to it.
    struct Session {
        var simulator: Simulator
        var wall = ControlTests.wall

        init(speed: Double = 0) throws {
            let authority = try ControlTests.authority.get()
            var random = SeededRandom(seed: 1)
            let catalogue = StoreCatalogue.example(bundleId: "com.example", appAppleId: 7)
            let store = SimulatedStore(
                World(seed: 1, catalogue: catalogue, now: RandomWorld.start), WorldSigner(authority),
                try StoreKey(using: &random))
            simulator = Simulator(store, roots: try SimulatorRoots(authority), speed: speed, at: wall)
        }

        /// Sends a command, and returns the status and the JSON of its response.
        @discardableResult
        mutating func send(_ line: String, _ body: String = "") throws -> (status: Int, json: JSONValue) {
            let parts = line.split(separator: " ")
            let answer = simulator.control(String(parts[0]), String(parts[1]), Array(body.utf8), at: wall)
            return (answer.status, try JSONValue(parsing: answer.body))
        }

        /// Sends commands such as `POST /customers {"name":"anna"}`, all of which must succeed.
        mutating func run(_ lines: [String]) throws {
            for line in lines {
                let parts = line.split(separator: " ", maxSplits: 2)
                let (status, json) = try send("\(parts[0]) \(parts[1])", parts.count > 2 ? String(parts[2]) : "")
                #expect(status == 200, "\(line): \(json.compactText)")
            }
        }

        func types(since first: Int = 0) -> [String] {
            simulator.store.world.occurrences.dropFirst(first).map { occurrence in
                [occurrence.topic.type.rawValue, occurrence.topic.subtype?.rawValue].compactMap(\.self)
                    .joined(separator: ".")
            }
        }
    }

    /// Commands, and the notifications of the last one.
    struct Story: Sendable, CustomTestStringConvertible {
        var name: String
        var before: [String] = []
        var command: String
        var notifications: [String]

        var testDescription: String { name }
    }

    private static let anna = #"POST /customers {"name":"anna"}"#
    private static let ben = #"POST /customers {"name":"ben"}"#
    private static let notify = #"POST /settings {"notify":"https://example.com/notifications"}"#
    private static let subscribe = #"POST /customers/anna/buy {"product":"com.example.pro.monthly"}"#
    private static let coins = #"POST /customers/anna/buy {"product":"com.example.coins"}"#
    private static let week = #"POST /clock/advance {"days":8}"#
    private static let paid = [anna, subscribe, week]

    static let stories = [
        Story(name: "a customer is added", command: anna, notifications: []),
        Story(name: "buy", before: [anna], command: subscribe, notifications: ["SUBSCRIBED.INITIAL_BUY"]),
        Story(
            name: "buy with an offer", before: paid + ["POST /customers/anna/cancel"],
            command: #"POST /customers/anna/buy {"product":"com.example.pro.monthly","offer":"three-months"}"#,
            notifications: ["OFFER_REDEEMED"]),
        Story(
            name: "buy several", before: [anna],
            command: #"POST /customers/anna/buy {"product":"com.example.coins","quantity":3}"#,
            notifications: ["ONE_TIME_CHARGE"]),
        Story(
            name: "upgrade", before: paid, command: #"POST /customers/anna/buy {"product":"com.example.pro.yearly"}"#,
            notifications: ["DID_CHANGE_RENEWAL_PREF.UPGRADE"]),
        Story(
            name: "cancel", before: paid, command: "POST /customers/anna/cancel",
            notifications: ["DID_CHANGE_RENEWAL_STATUS.AUTO_RENEW_DISABLED"]),
        Story(
            name: "resume", before: paid + ["POST /customers/anna/cancel"], command: "POST /customers/anna/resume",
            notifications: ["DID_CHANGE_RENEWAL_STATUS.AUTO_RENEW_ENABLED"]),
        Story(name: "the clock is turned", before: [anna, subscribe], command: week, notifications: ["DID_RENEW"]),
        Story(
            name: "the clock is turned to a time", before: [anna, subscribe],
            command: #"POST /clock/advance {"to":"2026-03-10T00:00:00Z"}"#, notifications: ["DID_RENEW", "DID_RENEW"]),
        Story(
            name: "billing is broken", before: paid + ["POST /customers/anna/billing/break"],
            command: #"POST /clock/advance {"days":31}"#, notifications: ["DID_FAIL_TO_RENEW.GRACE_PERIOD"]),
        Story(
            name: "billing is fixed",
            before: paid + ["POST /customers/anna/billing/break", #"POST /clock/advance {"days":31}"#],
            command: "POST /customers/anna/billing/fix", notifications: ["DID_RENEW.BILLING_RECOVERY"]),
        Story(name: "refund", before: paid, command: "POST /customers/anna/refund", notifications: ["REFUND"]),
        Story(
            name: "refund of a part", before: [anna, coins], command: #"POST /customers/anna/refund {"percentage":50}"#,
            notifications: ["REFUND"]),
        Story(
            name: "refund request", before: [anna, coins], command: "POST /customers/anna/refund/request",
            notifications: ["CONSUMPTION_REQUEST"]),
        Story(
            name: "refund declined", before: [anna, coins, "POST /customers/anna/refund/request"],
            command: "POST /customers/anna/refund/decline", notifications: ["REFUND_DECLINED"]),
        Story(
            name: "refund reversed", before: [anna, coins, "POST /customers/anna/refund"],
            command: "POST /customers/anna/refund/reverse", notifications: ["REFUND_REVERSED"]),
        Story(
            name: "price", before: paid, command: #"POST /customers/anna/price {"price":5990}"#,
            notifications: ["PRICE_INCREASE.PENDING"]),
        Story(
            name: "consent", before: paid + [#"POST /customers/anna/price {"price":5990}"#],
            command: "POST /customers/anna/consent", notifications: ["PRICE_INCREASE.ACCEPTED"]),
        Story(
            name: "family", before: paid + [ben], command: #"POST /customers/anna/family {"with":["ben"]}"#,
            notifications: ["SUBSCRIBED.INITIAL_BUY"]),
        Story(
            name: "family left", before: paid + [ben, #"POST /customers/anna/family {"with":["ben"]}"#],
            command: "POST /customers/ben/family/leave", notifications: ["REVOKE"]),
        Story(
            name: "a purchase waits", before: [#"POST /customers {"name":"anna","askToBuy":true}"#], command: coins,
            notifications: []),
        Story(
            name: "approve", before: [#"POST /customers {"name":"anna","askToBuy":true}"#, coins],
            command: "POST /customers/anna/approve", notifications: ["ONE_TIME_CHARGE"]),
        Story(
            name: "decline", before: [anna, "POST /customers/anna/ask-to-buy", coins],
            command: "POST /customers/anna/decline", notifications: []),
        Story(
            name: "expire", before: paid + ["POST /customers/anna/expire"],
            command: #"POST /clock/advance {"days":31}"#, notifications: ["EXPIRED"]),
        Story(
            name: "extend", before: paid, command: #"POST /customers/anna/extend {"days":30}"#,
            notifications: ["RENEWAL_EXTENDED"]),
        Story(
            name: "move", before: paid, command: #"POST /customers/anna/move {"storefront":"deu"}"#, notifications: []),
        Story(
            name: "external token", before: [anna], command: "POST /customers/anna/external-token",
            notifications: ["EXTERNAL_PURCHASE_TOKEN.CREATED"]),
        Story(
            name: "consent rescinded", before: [anna], command: "POST /customers/anna/rescind-consent",
            notifications: ["RESCIND_CONSENT"]),
        Story(
            name: "a product is taken off sale", before: paid + ["POST /products/com.example.pro.monthly/remove"],
            command: #"POST /clock/advance {"days":31}"#, notifications: ["EXPIRED.PRODUCT_NOT_FOR_SALE"]),
        Story(
            name: "test", before: [notify], command: "POST /notifications/test", notifications: ["TEST"]),
        Story(name: "speed", command: #"POST /clock/speed {"speed":86400}"#, notifications: []),
    ]

    @Test(arguments: stories) func `a command has its notifications`(story: Story) throws {
        var session = try Session()
        try session.run(story.before)
        let first = session.simulator.store.world.occurrences.count
        try session.run([story.command])
        #expect(session.types(since: first) == story.notifications)
    }

    @Test(arguments: [
        ("GET /nowhere", "", 404, "unknownRoute", "GET /commands"),
        ("GET /customers/anna/buy", "", 405, "methodNotAllowed", "POST"),
        ("POST /clock/advance", "{", 400, "malformed", "not JSON"),
        ("POST /clock/advance", "[1]", 400, "malformed", "JSON object"),
        ("POST /clock/advance", "", 400, "invalid", "days"),
        ("POST /clock/advance", #"{"day":1}"#, 400, "invalid", "knows days, hours"),
        ("POST /clock/advance", #"{"days":-1}"#, 400, "invalid", "from 0 to 3660"),
        ("POST /clock/advance", #"{"days":9223372036854775807}"#, 400, "invalid", "from 0 to 3660"),
        ("POST /clock/advance", #"{"to":"tomorrow"}"#, 400, "invalid", "ISO 8601"),
        ("POST /clock/advance", #"{"to":"2025-01-01T00:00:00Z"}"#, 409, "impossible", "cannot be turned back"),
        ("POST /clock/advance", #"{"to":"9999-01-01T00:00:00Z"}"#, 400, "invalid", "More than 3660 days"),
        ("POST /clock/advance", #"{"to":"2027-01-01T00:00:00Z","days":1}"#, 400, "invalid", "either"),
        ("POST /clock/advance", #"{"days":1,"deliver":1}"#, 400, "invalid", "true or false"),
        ("POST /clock/speed", #"{"speed":1e300}"#, 400, "invalid", "from 0 to 31622400"),
        ("POST /clock/speed", #"{"speed":-1}"#, 400, "invalid", "from 0 to 31622400"),
        ("POST /customers", "{}", 400, "invalid", "name is missing"),
        ("POST /customers", #"{"name":"anna"}"#, 409, "impossible", "anna already"),
        ("POST /customers", #"{"name":"x","environment":"Xcode"}"#, 400, "invalid", "Production, Sandbox"),
        ("POST /customers", #"{"name":"x","storefront":"XXX"}"#, 400, "invalid", "USA"),
        ("GET /customers/nobody", "", 404, "unknownCustomer", "There are anna, carl"),
        ("POST /customers", #"{"name":"x","appAccountToken":"anna"}"#, 400, "invalid", "a UUID"),
        ("POST /customers/anna/buy", #"{"product":"com.example.coins","appAccountToken":7}"#, 400, "invalid", "a text"),
        ("POST /customers/nobody/cancel", "", 404, "unknownCustomer", "There are anna, carl"),
        ("POST /customers/anna/buy", "{}", 400, "invalid", "product is missing"),
        ("POST /customers/anna/buy", #"{"product":"x"}"#, 404, "unknownProduct", "com.example.pro.monthly"),
        ("POST /customers/anna/buy", #"{"product":"com.example.coins","quantity":11}"#, 400, "invalid", "from 1 to 10"),
        (
            "POST /customers/anna/buy", #"{"product":"com.example.coins","quantity":"2"}"#, 400, "invalid",
            "from 1 to 10"
        ),
        (
            "POST /customers/anna/buy", #"{"product":"com.example.lifetime","quantity":2}"#, 409, "impossible",
            "quantity"
        ),
        ("POST /customers/anna/resume", "", 409, "impossible", ""),
        (
            "POST /customers/anna/buy", #"{"product":"com.example.pro.monthly"}"#, 409, "impossible",
            "cannot be bought again: its next plan is com.example.pro.monthly"
        ),
        ("POST /customers/anna/cancel", #"{"subscription":"1"}"#, 404, "unknownTransaction", "no subscription 1"),
        ("POST /customers/anna/refund", "", 409, "ambiguous", "com.example.coins"),
        ("POST /customers/anna/refund", #"{"transaction":"1"}"#, 404, "unknownTransaction", "no transaction 1"),
        ("POST /customers/anna/refund/decline", "", 409, "impossible", "a requested refund"),
        ("POST /customers/anna/refund/reverse", "", 409, "impossible", "a refunded purchase"),
        ("POST /customers/anna/approve", "", 409, "impossible", "waits"),
        ("POST /customers/anna/family", "{}", 400, "invalid", "array"),
        ("POST /customers/anna/extend", #"{"days":91}"#, 400, "invalid", "from 1 to 90"),
        ("POST /customers/carl/cancel", "", 409, "impossible", "no subscription"),
        ("POST /products/x/remove", "", 404, "unknownProduct", "com.example.coins"),
        ("POST /faults", #"{"nonsense":1}"#, 400, "invalid", "nonsense"),
        ("POST /settings", #"{"notify":"localhost"}"#, 400, "invalid", "a URL such as"),
        ("POST /settings", #"{"notifyVersion":3}"#, 400, "invalid", "from 1 to 2"),
        ("POST /settings", #"{"url":"http://localhost"}"#, 400, "invalid", "knows notify"),
        ("GET /customers/anna/receipts/1", "", 404, "unknownTransaction", "no transaction 1"),
    ])
    func `an error has a code and says what to do`(
        line: String, body: String, status: Int, code: String, hint: String
    ) throws {
        var session = try Session()
        try session.run(Self.paid + [Self.coins, #"POST /customers {"name":"carl"}"#])
        let before = session.simulator.store.world.occurrences
        let answer = try session.send(line, body)
        #expect(answer.status == status)
        #expect(answer.json["error"]?["code"]?.string == code)
        let message = try #require(answer.json["error"]?["message"]?.string)
        #expect(message.contains(hint), "\(message)")
        #expect(session.simulator.store.world.occurrences == before)
    }

    @Test func `a command names one of several purchases`() throws {
        var session = try Session()
        try session.run([Self.anna, Self.coins, Self.coins])
        let ids = session.simulator.store.world.customers["anna"]?.purchases ?? []
        let refused = try session.send("POST /customers/anna/refund")
        let message = try #require(refused.json["error"]?["message"]?.string)
        #expect(ids.count == 2 && ids.allSatisfy { message.contains($0) })
        try session.run([#"POST /customers/anna/refund {"transaction":"\#(ids[1])"}"#])
        #expect(session.simulator.store.world.purchases[ids[1]]?.revocationDate != nil)
        #expect(session.simulator.store.world.purchases[ids[0]]?.revocationDate == nil)
        // One is left, so none need be named.
        try session.run(["POST /customers/anna/refund"])
        #expect(session.simulator.store.world.purchases[ids[0]]?.revocationDate != nil)
    }

    @Test(arguments: ["anna", "Änne Müller", "a/b", "50%", "?", "🙂", #"""#, "{name}"])
    func `any name can stand in a path`(name: String) throws {
        var session = try Session()
        let body = JSONValue.object([.init("name", .string(name))]).compactText
        #expect(try session.send("POST /customers", body).status == 200)
        let hex = name.utf8.map { byte in "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
        let answer = try session.send("GET /customers/\(hex)")
        #expect(answer.json["name"]?.string == name)
    }

    @Test func `what is signed after a change is newer, although the clock stands still`() throws {
        var session = try Session()
        try session.run([Self.anna, Self.subscribe, "POST /customers/anna/refund"])
        let dates = session.simulator.store.world.occurrences.map(\.date.milliseconds)
        #expect(dates == [RandomWorld.start.milliseconds + 1, RandomWorld.start.milliseconds + 2])
    }

    @Test func `the clock runs at its speed, and what falls due happens`() throws {
        var session = try Session(speed: 86_400)
        try session.run([Self.anna, Self.subscribe])
        session.wall = Timestamp(milliseconds: session.wall.milliseconds + 8000)
        let clock = try session.send("GET /clock").json
        #expect(clock["now"]?.integer == RandomWorld.start.milliseconds + 8 * 86_400_000 + 1)
        #expect(session.types().last == "DID_RENEW")
        try session.run([#"POST /clock/speed {"speed":0}"#])
        session.wall = Timestamp(milliseconds: session.wall.milliseconds + 3_600_000)
        #expect(try session.send("GET /clock").json["now"] == clock["now"])
    }

    @Test func `the state shows who has what and what is next`() throws {
        var session = try Session()
        try session.run(Self.paid + [Self.coins])
        let state = try session.send("GET /state").json
        let anna = try #require(state["customers"]?.array?.first)
        let subscription = try #require(anna["subscriptions"]?.array?.first)
        #expect(subscription["status"]?.string == "active")
        #expect(subscription["next"]?["event"]?.string == "renewal")
        #expect(subscription["next"]?["date"]?.string == "2026-03-07T09:30:00.001Z")
        #expect(subscription["transactions"]?.array?.count == 2)
        #expect(anna["purchases"]?.array?.first?["orderId"]?.string?.first == "M")
        #expect(state["clock"]?["date"]?.string == "2026-02-08T09:30:00.002Z")
        #expect(state["products"]?.array?.count == 4)
    }

    @Test func `settings are set one by one, all or none, and cleared by null`() throws {
        var session = try Session()
        let before = try session.send("GET /settings").json
        #expect(
            before.compactText
                == #"{"notify":null,"notifyVersion":2,"sandboxNotify":null,"sandboxNotifyVersion":2,"#
                + #""sharedSecret":null}"#)
        try session.run([
            #"POST /settings {"notify":"http://localhost:8080/x","sharedSecret":"s"}"#,
            #"POST /settings {"sandboxNotifyVersion":1}"#,
        ])
        #expect(session.simulator.store.notificationURLs == [.production: "http://localhost:8080/x"])
        #expect(session.simulator.store.notificationVersions[.sandbox] == .one)
        #expect(session.simulator.store.sharedSecret == "s")
        let refused = try session.send("POST /settings", #"{"sharedSecret":"t","notify":"x"}"#)
        #expect(refused.status == 400 && session.simulator.store.sharedSecret == "s")
        try session.run([#"POST /settings {"notify":null,"sharedSecret":null,"sandboxNotifyVersion":null}"#])
        #expect(try session.send("GET /settings").json == before)
    }

    @Test func `a long life keeps its newest occurrences, and counts them all`() throws {
        var session = try Session()
        try session.run([Self.anna, Self.notify])
        let kept = Simulator.keptOccurrences
        for _ in 0..<(2 * kept + 10) { try session.send("POST /notifications/test") }
        #expect((kept...2 * kept).contains(session.simulator.store.world.occurrences.count))
        #expect(session.simulator.store.world.occurrenceCount == 2 * kept + 10)
        let bought = try session.send("POST /customers/anna/buy", #"{"product":"com.example.coins"}"#).json
        #expect(bought["notificationCount"]?.integer == 1)
        #expect(bought["notifications"]?.array?.first?["type"]?.string == "ONE_TIME_CHARGE")
        #expect(try session.send("GET /state").json["notifications"]?.integer == Int64(2 * kept + 11))
        let dates = session.simulator.store.world.occurrences.map(\.date)
        #expect(zip(dates, dates.dropFirst()).allSatisfy { $0 < $1 })
    }

    @Test func `an old transaction receipt is a property list`() throws {
        var session = try Session()
        try session.run([Self.anna])
        let id = try session.send("POST /customers/anna/buy", #"{"product":"com.example.coins"}"#).json["transactionId"]
        let path = "/customers/anna/receipts/\(id?.string ?? "")"
        let answer = session.simulator.control("GET", path, [], at: session.wall)
        #expect(answer.status == 200)
        #expect(String(decoding: answer.body, as: UTF8.self).hasPrefix("{\n\t\"signature\" = "))
    }

    @Test func `every command is listed with its members`() throws {
        var session = try Session()
        let list = try session.send("GET /commands").json.array ?? []
        #expect(list.count > 35)
        let buy = list.first { $0["path"]?.string == "/customers/{name}/buy" }
        let members = ["product", "offer", "quantity", "monthly", "appAccountToken", "deliver"]
        #expect(buy?["members"]?.members?.map(\.name) == members)
        let notifying = list.filter { $0["members"]?["deliver"] != nil }.compactMap { $0["path"]?.string }
        let changing = list.filter { $0["method"]?.string == "POST" }.compactMap { $0["path"]?.string }
            .filter { $0.hasPrefix("/customers/") }
        #expect(Set(notifying) == Set(changing + ["/clock/advance", "/notifications/test"]))
    }

    @Test func `an account token is the backend's own, of a customer and of one purchase`() throws {
        var session = try Session()
        let own = ["0D6E5C0A-6A52-4A0B-9D4B-0F1F4E3A9B11", "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b12"]
        try session.run([
            #"POST /customers {"name":"anna","appAccountToken":"\#(own[0])"}"#, Self.subscribe,
            #"POST /customers/anna/buy {"product":"com.example.coins","appAccountToken":"\#(own[1])"}"#, Self.coins,
            #"POST /customers {"name":"ben","account":false,"askToBuy":true}"#,
            #"POST /customers/ben/buy {"product":"com.example.coins","appAccountToken":"\#(own[1])"}"#,
            "POST /customers/ben/approve", Self.week,
        ])
        let world = session.simulator.store.world
        let tokens = ["anna", "ben"].map { world.history(of: $0).map(\.transaction.appAccountToken) }
        let anna = own[0].lowercased()
        #expect(tokens == [[anna, own[1], anna, anna], [own[1]]])
        #expect(world.customers["anna"]?.appAccountToken == anna && world.customers["ben"]?.appAccountToken == nil)
    }

    @Test func `the roots are files that a verifier reads`() throws {
        var session = try Session()
        let files = ["/root.cer", "/receipt-root.cer", "/roots.pem", "/receipt-intermediate.cer"].map {
            session.simulator.control("GET", $0, [], at: session.wall).body
        }
        #expect(files[0] == session.simulator.roots.tokens)
        #expect(files[1] == session.simulator.roots.receipts)
        #expect(files[3] == session.simulator.roots.receiptIntermediate)
        #expect(String(decoding: files[2], as: UTF8.self).split(separator: "BEGIN CERTIFICATE").count == 3)
    }
}
