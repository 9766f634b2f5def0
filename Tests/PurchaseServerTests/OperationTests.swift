// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import TestData
import Testing

/// What each declared operation does with an input in any other form than its fields have.
@Suite struct OperationTests {
    fileprivate typealias World = LedgerRoutesTests.World

    private static let operations = Operation.all.map { $0.operation }

    // MARK: - Values

    static func right(_ field: Field) -> JSONValue {
        switch field.form {
        case .text(.webhookURL): .string("https://example.com/")
        case .text(.uuid): .string("0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11")
        case .text, .document: .string("1")
        case .time: .number("1")
        case .number(let range): .number("\(range.lowerBound)")
        case .flag: .bool(true)
        case .word(let words): .string(words[0])
        case .words(let words): .array([.string(words[0])])
        case .list: .array([.string("1")])
        case .object: .object([])
        }
    }

    /// Values in a wrong form, and out of the range.
    private static func wrong(_ field: Field) -> [JSONValue] {
        switch field.form {
        case .text(let form):
            [.number("1"), .string(String(repeating: "x", count: form.length.upperBound + 1)), .string("1\u{0}")]
        case .document: [.number("1"), .array([])]
        case .time: [.string("tomorrow"), .number("1.5"), .number("-1"), .number("9223372036854775808")]
        case .number(let range): [.string("x"), .number("1.5")] + beyond(range).map { .number("\($0)") }
        case .flag: [.string("yes"), .number("1")]
        case .word: [.string("moon"), .number("1")]
        case .words(let words): [.string("moon"), .array([]), .array([.string(words[0]), .string(words[0])])]
        case .list(let form, let limit):
            [.string("1"), .array([]), .array(.init(repeating: .string("1"), count: limit + 1))]
                + (form == nil ? [] : [.array([.string("1\u{0}")])])
        case .object: [.array([]), .string("x")]
        }
    }

    private static func beyond(_ range: ClosedRange<Int64>) -> [Int64] { [range.lowerBound - 1, range.upperBound + 1] }

    struct Request {
        let operation: PurchaseServer.Operation
        var query = ""
        var members: [JSONValue.Member]

        /// A right request.
        init(_ operation: PurchaseServer.Operation) {
            self.operation = operation
            members = operation.fields.filter { $0.place == .body && $0.isRequired }.map { .init($0.name, right($0)) }
        }

        var path: String {
            var path = operation.path
            for field in operation.fields where field.place == .path {
                path = path.replacing("{\(field.name)}", with: right(field).string ?? "")
            }
            return path + query
        }

        fileprivate func send(_ world: World) async throws -> (HTTPResponse.Status, JSONValue) {
            try await world.send(
                operation.method, path, operation.bodyLimit == nil ? "" : JSONValue.object(members).compactText)
        }

        fileprivate func refusal(_ world: World) async throws -> String? {
            let (status, answer) = try await send(world)
            guard status == .badRequest, answer["error"]?["code"]?.string == "invalidRequest" else { return nil }
            return answer["error"]?["message"]?.string
        }
    }

    // MARK: - HTTP

    @Test(.takesLong) func `each member that is missing, wrong, unknown or given twice is refused by its name`()
        async throws
    {
        let world = try await World()
        for operation in Self.operations where operation.bodyLimit != nil && !operation.readsBody {
            func check(_ name: String, _ text: String? = nil, _ change: (inout [JSONValue.Member]) -> Void) async throws
            {
                var request = Request(operation)
                change(&request.members)
                let message = try await request.refusal(world)
                let isNamed = message?.hasPrefix("“\(name)”") == true
                #expect(isNamed && message?.contains(text ?? name) == true, "\(operation.path) \(request.members)")
            }
            for field in operation.fields where field.place == .body {
                let name = field.name
                if field.isRequired { try await check(name, "is missing") { $0.removeAll { $0.name == name } } }
                for value in Self.wrong(field) {
                    let isHostile = value.compactText.contains("u0000")
                    let text = isHostile ? "U+0000 at position 2 is not allowed" : name
                    try await check(name, text) { $0 = $0.filter { $0.name != name } + [.init(name, value)] }
                }
                let member = JSONValue.Member(name, Self.right(field))
                try await check(name, "is given twice") { $0 = $0.filter { $0.name != name } + [member, member] }
            }
            if operation.path != SubmitPurchases.operation.path {
                try await check("moon", "is unknown. This route accepts ") { $0.append(.init("moon", .null)) }
            }
            let path = Request(operation).path
            for body in ["[]", "x", "{\"a\":1}{", "null"] {
                let (status, answer) = try await world.send(operation.method, path, body)
                let isNamed = answer["error"]?["message"]?.string?.hasPrefix("The body is not a JSON object.") == true
                #expect(status == .badRequest && isNamed, "\(operation.path) \(body): \(answer)")
            }
        }
    }

    @Test(.takesLong) func `a member that is null is as good as absent, unless null is a value`() async throws {
        let world = try await World()
        for operation in Self.operations where !operation.readsBody {
            for field in operation.fields where field.place == .body && !field.isNullable {
                var request = Request(operation)
                request.members.removeAll { $0.name == field.name }
                let absent = try await request.refusal(world)
                request.members.append(.init(field.name, .null))
                let null = try await request.refusal(world)
                #expect(
                    null == absent && (absent == "“\(field.name)” is missing.") == field.isRequired, "\(null ?? "")")
            }
        }
    }

    @Test func `a submission with members that no version knows is read by its documents`() async throws {
        let world = try await World()
        let document = try world.transaction()
        for body in [
            #"{"document":"\#(document)","documents":null,"appVersion":"1.2"}"#,
            #"{"documents":["\#(document)"],"document":null,"appVersion":{"a":[]}}"#,
        ] {
            let (status, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body, key: .client)
            #expect(status == .ok, "\(answer)")
        }
        let refused = [
            (#"{"document":"\#(document)","documents":["\#(document)"]}"#, "Exactly one of “document” and “documents”"),
            (#"{"documents":["\#(document)",1]}"#, "“documents”: [1] is not a text."),
            ("{}", "Exactly one of “document” and “documents”"),
        ]
        for (body, message) in refused {
            let (status, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body)
            let found = answer["error"]?["message"]?.string ?? ""
            #expect(status == .badRequest && found.hasPrefix(message), "\(body): \(found)")
        }
    }

    @Test func `a word twice, a near word and a name twice are named`() async throws {
        let world = try await World()
        let faults: [(HTTPRequest.Method, String, String, String)] = [
            (
                .patch, "attributes", #"{"attributes":{"plan":{"value":"a"},"plan":{"value":"b"}}}"#,
                "“plan” is given twice."
            ),
            (
                .patch, "attributes", #"{"attribute":{}}"#,
                "Did you mean “attributes”? This route accepts attributes, new, by and reason."
            ),
            (.post, "grants", #"{"entitlement":"pro","reason":"w"}"#, "Did you mean “why”?"),
            (.post, "grants/x/end", #"{"why":"w"}"#, "Did you mean “reason”?"),
            (.post, "grants", #"{"entitlement":"pro","why":"w"}"#, "needs either “until” or “forever”."),
        ]
        for (method, path, body, message) in faults {
            let (_, answer) = try await world.send(method, "/v1/customers/anna/\(path)", body)
            #expect(answer["error"]?["message"]?.string?.contains(message) == true, "\(answer)")
        }
        let (_, answer) = try await world.send(.get, "/v1/events?kind=grant.mode")
        #expect(answer["error"]?["message"]?.string?.contains("Did you mean “grant.made”?") == true, "\(answer)")
    }

    @Test(.takesLong) func `each parameter that is wrong, unknown or given twice is refused by its name`() async throws
    {
        // Without a wait of a minute.
        let (world, patient) = (try await World(), try await World(clock: VirtualClock()))
        for operation in Self.operations {
            func check(_ query: String, _ name: String, _ text: String) async throws {
                var request = Request(operation)
                request.query = "?\(query)"
                let message = try await request.refusal(world)
                #expect(
                    message?.contains(name) == true && message?.contains(text) == true, "\(operation.path) \(query)")
            }
            for field in operation.fields where field.place == .query {
                let right = Self.right(field)
                let text = right.string ?? right.array?.first?.string ?? right.compactText
                var twice = "is given twice"
                if case .words(let words) = field.form {
                    twice = "has a word twice"
                    var request = Request(operation)
                    request.query = "?\(field.name)=\(words[0])&\(field.name)=\(words[1]),\(words[2])"
                    #expect(try await request.refusal(world) == nil, "\(request.path)")
                }
                try await check("\(field.name)=\(text)&\(field.name)=\(text)", field.name, twice)
                try await check("\(field.name)=%00", field.name, field.name)
                try await check("\(field.name)=%zz", "“\(field.name)” has a %", "or is not UTF-8")
                guard case .number(let range) = field.form else { continue }
                for number in Self.beyond(range) {
                    try await check("\(field.name)=\(number)", field.name, "a whole number")
                }
                for number in [range.lowerBound, range.upperBound] {
                    var request = Request(operation)
                    request.query = "?\(field.name)=\(number)"
                    #expect(try await request.refusal(patient) == nil, "\(request.path)")
                }
            }
            try await check("moon=1", "“moon”", "is unknown. This route accepts ")
            for field in operation.fields where field.place == .path {
                let path = operation.path.replacing("{\(field.name)}", with: "1%00").replacing(/\{[^}]*\}/, with: "1")
                let error = try await world.send(operation.method, path, "{}").1["error"]
                let expected = "“\(field.name)”: U+0000 at position 2 is not allowed. "
                #expect(error?["message"]?.string?.hasPrefix(expected) == true, "\(path) \(error?.compactText ?? "")")
            }
        }
    }

    @Test(arguments: Seeds.first(10))
    func `a made-up body is never an error of the server`(seed: UInt64) async throws {
        let world = try await World()
        var random = SeededRandom(seed: seed)
        var accepted = 0
        for _ in 0..<1000 {
            let operation = try #require(Self.operations.randomElement(using: &random))
            guard operation.bodyLimit != nil else { continue }
            var request = Request(operation)
            for field in operation.fields where field.place == .body && Int.random(in: 0...2, using: &random) == 0 {
                let isRight = Int.random(in: 0...2, using: &random) > 0
                let value = isRight ? Self.right(field) : Self.anything(using: &random)
                request.members = request.members.filter { $0.name != field.name } + [.init(field.name, value)]
            }
            if Int.random(in: 0...9, using: &random) == 0 {
                request.members.append(.init("moon", Self.anything(using: &random)))
            }
            let (status, answer) = try await request.send(world)
            #expect(status != .internalServerError, "\(request.operation.path) \(request.members): \(answer)")
            accepted += status.code < 300 ? 1 : 0
        }
        #expect(accepted > 10)
    }

    private static let texts = [
        "", "1", "anna", "pro", "gold", "30d", "2026-01-31", "-1", "all", "x=y", "production", "\u{0}", "\u{202e}", "😀",
        "2000000000000", "9223372036854775807", "https://example.com/", "grant.made",
        String(repeating: "x", count: 3000),
    ]

    private static func anything(using random: inout SeededRandom) -> JSONValue {
        let text = texts.randomElement(using: &random) ?? ""
        return switch Int.random(in: 0...8, using: &random) {
        case 0: .null
        case 1: .bool(text.isEmpty)
        case 2:
            .number(
                ["0", "-1", "1.5", "2000000000000", "9223372036854775807", "1e99"].randomElement(using: &random) ?? "")
        case 3: .array([.string(text), .null])
        case 4: .array([.string(text)])
        case 5: .object([.init(text, .object([.init("value", .string(text))]))])
        default: .string(text)
        }
    }

    // MARK: - Spelling

    @Test func `swapped, missing, added and wrong letters are one mistake each`() {
        let words = ["verify", "serve", "check", "--database"]
        for word in ["evrify", "verfy", "verrify", "verifi", "veify"] {
            #expect(Spelling.nearest(to: word, in: words) == ["verify"], "\(word)")
        }
        #expect(Spelling.nearest(to: "--dtabsae", in: words) == ["--database"])
        #expect(Spelling.nearest(to: "VERFY", in: words) == ["verify"])
        for word in ["", "a", "ab", String(repeating: "verify", count: 1000)] {
            #expect(Spelling.nearest(to: word, in: words) == [], "\(word)")
        }
    }

    // MARK: - The command line

    private static let now = LedgerRoutesTests.now

    /// The words for a value.
    private static func words(_ value: JSONValue) -> [String] {
        value.array.map { $0.compactMap(\.string) } ?? [value.string ?? value.compactText]
    }

    private static func fault(_ operation: Operation, _ words: [String: [String]]) -> String? {
        do {
            _ = try FieldValues(operation.fields, at: now) { words[$0.option] ?? [] }
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test func `each option that is missing, wrong or given twice is refused by its name`() {
        for operation in Self.operations where !operation.command.isEmpty {
            var right: [String: [String]] = [:]
            for field in operation.fields where field.isRequired {
                right[field.option] = field.form == .object ? ["a=b"] : Self.words(Self.right(field))
            }
            #expect(Self.fault(operation, right) == nil, "\(operation.command)")
            for field in operation.fields {
                let name = field.name(isOption: true)
                func check(_ words: [String], _ text: String) {
                    var changed = right
                    changed[field.option] = words
                    let fault = Self.fault(operation, changed) ?? ""
                    #expect(fault.contains(name) && fault.contains(text), "\(operation.command) \(words): \(fault)")
                }
                if field.isRequired { check([], "is missing") }
                if field.place == .path { check([""], "is empty") }
                if field.isNullable {
                    let values = try? FieldValues([field], at: Self.now) { _ in ["all"] }
                    #expect(values?[field] == .null, "\(operation.command) \(name)")
                }
                if [.document, .object].contains(field.form) || field.isListOfDocuments { continue }
                check(["1\u{0}"], field.textForm != nil ? "U+0000" : field.form == .flag ? "is neither" : "is not")
                if case .number(let range) = field.form {
                    for number in Self.beyond(range) { check(["\(number)"], "to \(range.upperBound)") }
                }
                if case .list = field.form { continue }
                let once = field.form == .time ? ["2026-01-31"] : Self.words(Self.right(field))
                check(once + once, "is given twice")
            }
        }
    }

    @Test func `the help of a field has its words, its range, and what counts without it`() {
        let fields = Self.operations.flatMap(\.fields)
        for field in fields {
            let text = field.explanation(isOption: true)
            switch field.form {
            case .number(let range):
                #expect(text.contains(", from \(range.lowerBound) to \(range.upperBound)"), "\(text)")
            case .word(let words): #expect(words.allSatisfy { text.contains("`\($0)`") }, "\(text)")
            default: break
            }
            #expect(!field.meaning.contains("without it"), "\(text)")
        }
        #expect(
            ListEvents.operation.fields.first { $0.name == "limit" }?.explanation(isOption: true)
                == "the most events on the page, from 1 to 500; 100 without it")
    }

    @Test func `the papers of HTTP have no words of the command line`() {
        for field in Self.operations.flatMap(\.fields) {
            let text = field.explanation(isOption: false)
            let words = ["may be repeated", "such as 7d", "such as 30d", ", or all"]
            #expect(!words.contains { text.contains($0) }, "\(text)")
            #expect(field.place == .query || !text.contains("commas"), "\(text)")
        }
        func new(_ operation: Operation, isOption: Bool) -> String? {
            operation.fields.first { $0.name == "new" }?.explanation(isOption: isOption)
        }
        let meaning = "whether to make a customer of an id that no customer has; "
        #expect(new(MakeGrant.operation, isOption: false) == meaning + "true without it")
        #expect(new(MovePurchase.operation, isOption: false) == meaning + "false without it")
        #expect(new(MakeGrant.operation, isOption: true) == meaning + "false without it")
    }

    @Test func `answers for people say no, and their commands fail`() {
        let no = JSONValue.object([.init("name", .string("pro")), .init("isActive", .bool(false))])
        #expect(CheckEntitlement.operation.text?(no) == "pro  not active" && CheckEntitlement.operation.isFailure(no))
        let yes = JSONValue.object([.init("name", .string("pro")), .init("isActive", .bool(true))])
        #expect(CheckEntitlement.operation.text?(yes) == "pro  isActive" && !CheckEntitlement.operation.isFailure(yes))
        let consent = JSONValue.object([.init("id", .string("anna")), .init("consentedAt", .null)])
        #expect(RecordConsent.operation.text?(consent) == "anna  does not consent")
        let grant = JSONValue.object([.init("id", .string("o1")), .init("key", .string("xmv8adas"))])
        #expect(EndGrant.operation.text?(grant) == "o1  key xmv8adas")
    }

    @Test func `times on the command line are instants, dates, and whole days ahead or ago`() {
        func time(_ text: String, _ name: String = "until") -> Int64? {
            let field = MakeGrant.operation.fields.first { $0.name == name }
            guard let field, let values = try? FieldValues([field], at: Self.now, words: { _ in [text] }) else {
                return nil
            }
            return values[field]?.integer
        }
        #expect(time("2026-01-31T00:00:00Z") == time("2026-01-31"))
        // The same for all of a day, and no less than the days.
        let day: Int64 = 86_400_000
        let midnight = Self.now.milliseconds / day * day
        #expect(time("30d") == midnight + 31 * day && time("0d") == midnight + day)
        #expect(time("7d", "from") == midnight - 7 * day && time("0d", "from") == midnight)
        #expect(time("99999d", "from") == nil)
        #expect(time("tomorrow") == nil && time("-1d") == nil && time("99999999999d") == nil)
    }
}

extension Field {
    fileprivate var isListOfDocuments: Bool { if case .list(nil, _) = form { true } else { false } }
}
