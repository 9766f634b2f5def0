// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import HTTPTypes
import HummingbirdTesting
import LedgerPostgres
import LedgerSQLite
import NIOCore
import PurchaseLedger
import TestData
import TestPostgres
import TestWorld
import Testing

@testable import PurchaseServer

/// A text that a stranger might send.
struct HostileText: Sendable {
    /// The text as a JSON string.
    let json: String
    /// `nil` for half of a surrogate pair, which no path can have.
    let text: String?

    /// Every form refuses half of a surrogate pair.
    func isRefused(by form: TextForm) -> Bool { text.map { !form.allows($0) } ?? true }

    private static let values: [UInt32] = [
        0, 1, 8, 9, 0xa, 0xb, 0xd, 0x1b, 0x1f, 0x7f, 0x80, 0x85, 0x9b, 0x9f, 0x61c, 0x200d, 0x200e, 0x200f, 0x2028,
        0x2029, 0x202a, 0x202e, 0x2066, 0x2069, 0xfdd0, 0xfdef, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x1_fffe, 0x10_d800,
        0x10_ffff,
    ]

    private static let texts = [
        "\u{0}", "\r\n", " ", "\u{3000}", "e\u{301}", "é", "\"\\/<>&'--", "%00", "{}",
        String(repeating: "é", count: 129),
        String(repeating: "x", count: 501), String(repeating: "x", count: 2049),
    ]

    private static let surrogates = [#""\ud800x""#, #""x\udfff""#, #""\udc00\ud800""#, #""x\ud83d""#]

    static let all: [HostileText] = {
        let characters = values.compactMap { Unicode.Scalar($0) }.map { "a\(Character($0))b" }
        return (characters + texts).map { HostileText(json: JSONValue.string($0).compactText, text: $0) }
            + surrogates.map { HostileText(json: $0, text: nil) }
    }()
}

/// The forms of texts: each operation refuses what its form refuses, and whoever reads what the server publishes can
/// store it.
@Suite struct TextFormTests {
    private typealias World = LedgerRoutesTests.World
    private typealias Send =
        @Sendable (HTTPRequest.Method, String, String, APIKey.Role) async throws -> (Int, JSONValue)

    private static func withClient<Value: Sendable>(
        _ world: World, _ body: @escaping @Sendable (Send) async throws -> Value
    ) async throws -> Value {
        try await checkedApplication(of: world.server).test(.router) { client in
            try await body { method, path, text, role in
                let response = try await client.execute(
                    uri: path, method: method, headers: [.authorization: "Bearer \(world.keys[role] ?? "")"],
                    body: ByteBuffer(string: text))
                return (response.status.code, try JSONValue(parsing: response.body.readableBytesView))
            }
        }
    }

    /// Every byte as an escape.
    private static func encoded(_ text: String) -> String {
        text.utf8.map { "%" + String(UInt16($0) | 0x100, radix: 16).dropFirst() }.joined()
    }

    private static func isSame(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

    // MARK: - The table

    @Test func `the table of texts in docs/api.md is that of the forms`() async throws {
        let routes = try await World().server.routes
        let rows = TextForm.all.map { form in
            let fields = routes.flatMap(\.fields).filter { $0.textForm == form }.map(\.name)
            let found = form == .other ? [] : Set(fields).sorted().map { "`\($0)`" }
            let names = found.isEmpty ? "–" : found.joined(separator: ", ")
            let characters =
                switch form.characters {
                case .line: "one line"
                case .lines: "also tabs and line ends"
                case .letters(let others): "A to Z, a to z, digits, `\(others)`"
                case .only(_, let characters): characters
                }
            let length = form.characters == .line || form.characters == .lines ? " \(form.unit)" : ""
            return "| \(form.name) | \(form.size)\(length) | \(characters) | \(names) |"
        }
        let table = ["| text | length | characters | parameters and members |", "|---|---|---|---|"] + rows
        let text = try Project.text("docs/api.md")
        #expect(text.contains("\n" + table.joined(separator: "\n") + "\n\n"), "\(table.joined(separator: "\n"))")
    }

    // MARK: - What is stored

    /// An operation that stores a text.
    private struct Writing {
        let name: String
        let form: TextForm
        let method: HTTPRequest.Method
        var role = APIKey.Role.server
        /// Makes the path from the encoded text.
        let path: @Sendable (String) -> String
        /// Makes the body from the text as JSON, and from the number of the request.
        let body: @Sendable (String, Int) throws -> String
    }

    private static func writings(_ world: World) -> [Writing] {
        let grant = #""entitlement":"gold","forever":true"#
        return [
            Writing(
                name: "the customer of a submission", form: .customerID, method: .post, role: .client,
                path: { "/v1/customers/\($0)/purchases" },
                body: { _, number in
                    // A free app: whoever has it can send a genuine document.
                    #"{"document":"\#(try world.store.sign(TestStore.appTransaction("9\(number)")))"}"#
                }),
            Writing(
                name: "the customer of a grant", form: .customerID, method: .post,
                path: { "/v1/customers/\($0)/grants" }, body: { _, _ in #"{\#(grant),"why":"w"}"# }),
            Writing(
                name: "the customer of an attribute", form: .customerID, method: .patch,
                path: { "/v1/customers/\($0)/attributes" }, body: { _, _ in #"{"attributes":{"a":{"value":"x"}}}"# }),
            Writing(
                name: "the customer of a consent", form: .customerID, method: .put,
                path: { "/v1/customers/\($0)/consent" }, body: { _, _ in #"{"customerConsented":true}"# }),
            Writing(
                name: "an owner", form: .customerID, method: .post, path: { _ in "/v1/transactions/1/move" },
                body: { text, _ in #"{"customers":["anna",\#(text)],"reason":"r","new":true}"# }),
            Writing(
                name: "the reason of a move", form: .reason, method: .post, path: { _ in "/v1/transactions/1/move" },
                body: { text, number in #"{"customers":["n\#(number)"],"reason":\#(text),"new":true}"# }),
            Writing(
                name: "the id of a grant", form: .grantID, method: .post, path: { _ in "/v1/customers/ids/grants" },
                body: { text, _ in #"{\#(grant),"why":"w","id":\#(text)}"# }),
            Writing(
                name: "the reason for a grant", form: .why, method: .post, path: { _ in "/v1/customers/whys/grants" },
                body: { text, _ in #"{\#(grant),"why":\#(text)}"# }),
            Writing(
                name: "the author of a grant", form: .author, method: .post, path: { _ in "/v1/customers/bys/grants" },
                body: { text, _ in #"{\#(grant),"why":"w","by":\#(text)}"# }),
            Writing(
                name: "the name of an attribute", form: .attributeName, method: .patch,
                path: { _ in "/v1/customers/anna/attributes" },
                body: { text, _ in #"{"attributes":{\#(text):{"value":"x"}}}"# }),
            Writing(
                name: "the value of an attribute", form: .attributeValue, method: .patch,
                path: { _ in "/v1/customers/anna/attributes" },
                body: { text, _ in #"{"attributes":{"a":{"value":\#(text)}}}"# }),
            // It merges the customers that the others have made, so it comes last.
            Writing(
                name: "an alias", form: .customerID, method: .post, path: { _ in "/v1/customers/anna/aliases" },
                body: { text, _ in #"{"alias":\#(text)}"# }),
        ]
    }

    /// All pages of the events and of the customers.
    private static func pages(_ send: Send) async throws -> [JSONValue] {
        var pages = [try await send(.get, "/v1/customers", "", .server).1]
        var after = ""
        repeat {
            let page = try await send(.get, "/v1/events?limit=20\(after)", "", .server).1
            pages.append(page)
            after = "&after=\(page["nextCursor"]?.string ?? "")"
        } while pages.last?["items"]?.array?.isEmpty == false
        return pages
    }

    /// The strings in a document, also the names of its members.
    private static func strings(in json: JSONValue) -> [String] {
        switch json {
        case .string(let text): [text]
        case .array(let elements): elements.flatMap(strings)
        case .object(let members): members.flatMap { [$0.name] + strings(in: $0.value) }
        default: []
        }
    }

    /// Sends every text to every operation that stores texts.
    ///
    /// - Returns: All answers, and all pages that a follower reads.
    private func sent(to storage: any LedgerStorage) async throws -> [JSONValue] {
        let world = try await World(storage: storage)
        return try await Self.withClient(world) { send in
            var answers: [JSONValue] = []
            let document = try world.transaction()
            let first = try await send(
                .post, "/v1/customers/anna/purchases", #"{"document":"\#(document)"}"#, .server)
            #expect(first.0 == 200)
            var accepted: [(name: String, text: String)] = []
            for writing in Self.writings(world) {
                for (number, hostile) in HostileText.all.enumerated() {
                    let path = writing.path(Self.encoded(hostile.text ?? "x"))
                    let isInPath = path != writing.path("")
                    guard hostile.text != nil || !isInPath else { continue }
                    let answer = try await send(
                        writing.method, path, writing.body(hostile.json, number), writing.role)
                    let isRefused = hostile.isRefused(by: writing.form)
                    #expect((answer.0 == 400) == isRefused, "\(writing.name): \(hostile.json), \(answer)")
                    #expect(isRefused || answer.0 < 300, "\(writing.name): \(hostile.json), \(answer)")
                    answers.append(answer.1)
                    if !isRefused, let text = hostile.text { accepted.append((writing.name, text)) }
                }
            }
            #expect(accepted.count > 50)
            answers += try await Self.pages(send)
            let known = Set(answers.flatMap(Self.strings).map { Array($0.utf8) })
            for (name, text) in accepted { #expect(known.contains(Array(text.utf8)), "\(name): \(text)") }
            return answers
        }
    }

    @Test func `a text is refused by its form or read back equal, in SQLite`() async throws {
        let folder = try TemporaryFolder()
        let storage = try SQLiteLedgerStorage(path: folder.path("ledger.sqlite"))
        _ = try await sent(to: storage)
        try storage.close()
    }

    @Test(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `a text is refused by its form or read back equal, in PostgreSQL, whose jsonb takes all that was answered`()
        async throws
    {
        let database = try TestPostgres.database()
        let storage = try await Self.storage(database)
        let answers = try await sent(to: storage)
        try Self.store(answers, in: database)
    }

    private static func storage(_ database: TestDatabase) async throws -> PostgresLedgerStorage {
        var settings = PostgresSettings(database.server.address(database.name))
        // On a busy machine a request may take longer than usual.
        settings.requestLimit = .seconds(600)
        return try await PostgresLedgerStorage(
            settings, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
    }

    /// Stores JSON as a follower does that keeps what it reads.
    private static func store(_ values: [JSONValue], in database: TestDatabase) throws {
        try database.psql("CREATE TABLE follower (body jsonb NOT NULL)")
        var rest = values.map { "($body$\($0.compactText)$body$)" }
        while let first = rest.popLast() {
            var rows = [first]
            // A command has a limited length.
            while rows.reduce(0, { $0 + $1.utf8.count }) < 40_000, let row = rest.popLast() { rows.append(row) }
            try database.psql("INSERT INTO follower VALUES \(rows.joined(separator: ","))")
        }
        #expect(try database.psql("SELECT count(*) FROM follower") == "\(values.count)")
    }

    // MARK: - What Apple signed

    private static let signed = [
        (#"a\u0000b"#, "a\u{fffd}b"), (#"\ud800x"#, "\u{fffd}x"), (#"x\udc00\ud800"#, "x\u{fffd}\u{fffd}"),
        (#"a\u202eb\u0085"#, "a\u{fffd}b\u{fffd}"), (#"\ufdd0\ufdd0"#, "\u{fffd}\u{fffd}"), (#"\uffff"#, "\u{fffd}"),
        (#"a\tb\nc"#, "a\tb\nc"), (#"e\u0301😀\u200d"#, "e\u{301}😀\u{200d}"),
    ]

    /// Whether a text in JSON is an id of a customer.
    private static func isCustomer(_ text: String) throws -> Bool {
        TextForm.customerID.allows(try JSONValue(parsing: Array("\"\(text)\"".utf8)).string ?? "")
    }

    @Test func `an account that Apple signed names a customer who can be read and deleted by it, or none`()
        async throws
    {
        let world = try await World()
        let accounts =
            Self.signed.map(\.0) + [String(repeating: "x", count: 256), String(repeating: "x", count: 257), " "]
        try await Self.withClient(world) { send in
            for (number, account) in accounts.enumerated() {
                let transaction = try JSONValue(
                    encoding: TestStore.transaction("\(300 + number)") { $0.appAccountToken = "account" }
                ).compactText.replacing(#""account""#, with: #""\#(account)""#)
                let body = try world.notification("SUBSCRIBED", transaction: world.store.sign(transaction))
                #expect(try await send(.post, "/notifications/v2", body, .server).0 == 200)
            }
            let named = try accounts.filter(Self.isCustomer)
            let ids = try named.map { try JSONValue(parsing: Array("\"\($0)\"".utf8)).string ?? "" }
            let listed = try await send(.get, "/v1/customers", "", .server).1["items"]?.array ?? []
            #expect(ids.count == 2 && listed.count == ids.count, "\(listed)")
            for id in ids {
                let path = "/v1/customers/\(Self.encoded(id))"
                #expect(try await send(.get, path, "", .server).1["subscriptions"]?.array?.count == 1, "\(id)")
                #expect(try await send(.delete, path, "", .server).0 == 200, "\(id)")
            }
            #expect(try await send(.get, "/v1/customers", "", .server).1["items"]?.array?.isEmpty == true)
        }
    }

    /// Submits purchases of products with such ids, and sends notifications about accounts with such ids.
    ///
    /// - Returns: All pages that a follower reads, and the bodies of all webhooks.
    private func published(from storage: any LedgerStorage) async throws -> [JSONValue] {
        let world = try await World(storage: storage)
        let pages = try await Self.withClient(world) { send in
            for (number, (text, expected)) in Self.signed.enumerated() {
                let id = "\(100 + number)"
                let payload = try JSONValue(encoding: TestStore.transaction(id)).compactText
                let document = try world.store.sign(
                    payload.replacing(#""productId":"month""#, with: #""productId":"\#(text)""#))
                let answer = try await send(
                    .post, "/v1/customers/anna/purchases", #"{"document":"\#(document)"}"#, .client)
                #expect(answer.0 == 200, "\(answer.1.compactText)")
                let (_, purchase) = try await send(.get, "/v1/transactions/\(id)", "", .server)
                #expect(Self.isSame(purchase["productId"]?.string ?? "", expected), "\(text): \(purchase)")
                // The document itself is as Apple signed it.
                let (_, evidence) = try await send(
                    .get, "/v1/evidence/\(purchase["evidence"]?["id"]?.string ?? "")", "", .server)
                #expect(evidence["document"]?.string == document)
                let other = try JSONValue(
                    encoding: TestStore.transaction("\(200 + number)") { $0.appAccountToken = "account" }
                ).compactText.replacing(#""account""#, with: #""\#(text)""#)
                let body = try world.notification("SUBSCRIBED", transaction: world.store.sign(other))
                #expect(try await send(.post, "/notifications/v2", body, .server).0 == 200)
            }
            return try await Self.pages(send)
        }
        let events = pages.dropFirst().flatMap { $0["items"]?.array ?? [] }
        for (text, expected) in Self.signed {
            #expect(events.contains { Self.isSame($0["productId"]?.string ?? "", expected) }, "\(text)")
            // Nobody could read or delete a customer by an id that is published in another form.
            let isCustomer = try Self.isCustomer(text)
            #expect(events.contains { Self.isSame($0["customer"]?.string ?? "", expected) } == isCustomer, "\(text)")
        }
        let page = try await world.ledger.events(of: "com.example", after: nil, limit: 500)
        let bodies = try page.events.map { try JSONValue(parsing: WebhookPage.body(of: $0, in: page).get()) }
        #expect(bodies == events)
        return pages + bodies
    }

    @Test func `a character that no text may have is published as U+FFFD if Apple signed it`() async throws {
        _ = try await published(from: MemoryLedgerStorage())
    }

    @Test(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)"))
    func `a follower and a receiver that store all bodies in jsonb take what Apple signed`() async throws {
        let database = try TestPostgres.database()
        try Self.store(await published(from: Self.storage(database)), in: database)
    }

    // MARK: - The configuration

    @Test(arguments: [
        (#""bundleId":"com.example\u0000""#, "apps[0].bundleId: U+0000 at position 12 is not allowed. "),
        (#""bundleId":"x","products":{"a\ud800":{}}"#, ": U+D800 at position 2 is not allowed. "),
        (#""bundleId":"x","products":{"p":{"entitlements":["a","b\u202e"]}}"#, "entitlements[1]: U+202E at position 2"),
        (#""bundleId":"x","entitlements":["a\nb"]"#, "apps[0].entitlements[0]: U+000A at position 2 is not allowed. "),
        (#""bundleId":"x","sandboxAccess":"listed","sandboxCustomers":["\u0007"]"#, "sandboxCustomers[0]: U+0007"),
        (#""bundleId":"x","sharedSecret":"hunter\u00002""#, "apps[0].sharedSecret: U+0000 at position 7"),
    ])
    func `the configuration refuses a text by its form`(app: String, message: String) throws {
        let text = #"{"apps":[{\#(app)}]}"#
        let error = #expect(throws: ConfigurationError.self) {
            try ConfigurationFile(parsing: Array(text.utf8), settings: [])
        }
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("hunter") == false)
    }
}
