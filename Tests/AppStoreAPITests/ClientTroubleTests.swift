// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Testing

/// What a client does if a server misbehaves.
@Suite struct ClientTroubleTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var steps: [ScriptedTransport.Step]
        /// `nil` if the call succeeds.
        var code: AppStoreAPIError.Code?
        var requests: Int
        var isRetryable = false
        /// The milliseconds that pass.
        var elapsed: ClosedRange<Int64> = 0...15_000

        var testDescription: String { name }
    }

    private static let info = #"{"signedTransactionInfo":"x"}"#
    private static let start = ClientClock.start.milliseconds
    private static let all = AppStoreClient.attempts

    private static func limited(until text: String) -> ScriptedTransport.Step {
        .answer(
            429, #"{"errorCode":4290000}"#, headers: ["content-type": "application/json", "retry-after": text])
    }

    private static let answers: [Case] = [
        Case(name: "a good answer", steps: [.answer(200, info)], requests: 1, elapsed: 0...0),
        Case(
            name: "a content type with a charset",
            steps: [.answer(200, info, headers: ["content-type": "Application/JSON; charset=utf-8"])], requests: 1),
        Case(
            name: "another content type", steps: [.answer(200, info, headers: ["content-type": "text/html"])],
            code: .malformedAnswer, requests: 1, isRetryable: true),
        Case(
            name: "no content type", steps: [.answer(200, info, headers: [:])], code: .malformedAnswer, requests: 1,
            isRetryable: true),
        Case(
            name: "half an answer", steps: [.answer(200, #"{"signedTransactionInfo":"#)], code: .malformedAnswer,
            requests: 1, isRetryable: true),
        Case(name: "an array", steps: [.answer(200, "[]")], code: .malformedAnswer, requests: 1, isRetryable: true),
        Case(
            name: "a missing member", steps: [.answer(200, "{}")], code: .malformedAnswer, requests: 1,
            isRetryable: true),
        Case(
            name: "a null member", steps: [.answer(200, #"{"signedTransactionInfo":null}"#)], code: .malformedAnswer,
            requests: 1, isRetryable: true),
        Case(
            name: "a member of another type", steps: [.answer(200, #"{"signedTransactionInfo":1}"#)],
            code: .malformedAnswer, requests: 1, isRetryable: true),
        Case(
            name: "a body over the limit",
            steps: [.answer(200, "{\"signedTransactionInfo\":\"\(String(repeating: "x", count: 1 << 20))\"}")],
            code: .malformedAnswer, requests: 1, isRetryable: true),
        Case(
            name: "a body that the transport cuts off", steps: [.fails(.answerTooLong)], code: .malformedAnswer,
            requests: 1, isRetryable: true),
        Case(
            name: "too deep JSON", steps: [.answer(200, String(repeating: "[", count: 100_000))],
            code: .malformedAnswer, requests: 1, isRetryable: true),
        Case(name: "a redirect", steps: [.answer(302)], code: .malformedAnswer, requests: 1, isRetryable: true),
        Case(
            name: "a good answer with another status", steps: [.answer(202, info)], code: .malformedAnswer,
            requests: 1, isRetryable: true),
    ]

    private static let refusals: [Case] = [
        Case(name: "an unknown id", steps: [.code(.transactionIdNotFound)], code: .refused, requests: 1),
        Case(
            name: "a number that nobody knows", steps: [.answer(403, #"{"errorCode":4039999}"#)], code: .refused,
            requests: 1),
        Case(
            name: "an account that may appear", steps: [.code(.accountNotFoundRetryable)], code: .refused,
            requests: all, isRetryable: true, elapsed: 1...15_000),
        Case(
            name: "an account that appears", steps: [.code(.accountNotFoundRetryable), .answer(200, info)],
            requests: 2, elapsed: 0...1_000),
        Case(name: "a token for another app", steps: [.answer(401, "", headers: [:])], code: .credentials, requests: 2),
        Case(
            name: "a token for another app, as Apple says it",
            steps: [.answer(401, "Unauthenticated\n\nRequest ID: X.0.0\n", headers: ["content-type": "text/plain"])],
            code: .credentials, requests: 2),
        Case(
            name: "a token that is refused once", steps: [.answer(401, "", headers: [:]), .answer(200, info)],
            requests: 2, elapsed: 0...0),
        Case(
            name: "a server that fails once", steps: [.code(.generalInternal), .answer(200, info)], requests: 2,
            elapsed: 0...1_000),
        Case(
            name: "a server that fails always", steps: [.code(.generalInternal)], code: .unavailable, requests: all,
            isRetryable: true, elapsed: 1...15_000),
        Case(
            name: "a proxy that fails always", steps: [.answer(502, "<html>", headers: [:])], code: .unavailable,
            requests: all, isRetryable: true, elapsed: 1...15_000),
    ]

    /// Answers that are not Apple's.
    private static let strangers: [(String, ScriptedTransport.Step)] =
        [400, 401, 403, 404, 407, 413, 429, 503].map { ("a page with \($0)", page($0)) } + [
            ("a refusal without a body", .answer(400, "", headers: [:])),
            ("a number of a gateway's", .answer(403, #"{"errorCode":403}"#)),
            ("a number of another status", .answer(403, #"{"errorCode":4040010}"#)),
            ("a number that is a text", .answer(404, #"{"errorCode":"4040010"}"#)),
            ("a number in a page", .answer(404, #"{"errorCode":4040010}"#, headers: ["content-type": "text/html"])),
            ("a token that a gateway refuses", .answer(401, #"{"message":"Unauthorized"}"#)),
            ("a server that fails in a way that nobody knows", .answer(500, #"{"errorCode":5000999}"#)),
        ]

    private static let passing = strangers.map { name, step in
        Case(name: name, steps: [step], code: .unavailable, requests: all, isRetryable: true, elapsed: 1...15_000)
    }

    private static func page(_ status: Int) -> ScriptedTransport.Step {
        .answer(status, "\r\n<html><body>No.</body></html>", headers: ["content-type": "text/html"])
    }

    private static let waits: [Case] = [
        Case(
            name: "the rate limit, until a time", steps: [limited(until: "\(start + 20_000)"), .answer(200, info)],
            requests: 2, elapsed: 20_000...21_000),
        Case(
            name: "the rate limit, for seconds", steps: [limited(until: "20"), .answer(200, info)], requests: 2,
            elapsed: 20_000...21_000),
        Case(
            name: "the rate limit, until a date",
            steps: [limited(until: "Sun, 17 Mar 2030 17:47:00 GMT"), .answer(200, info)], requests: 2,
            elapsed: 20_000...21_000),
        Case(
            name: "the rate limit, until after the deadline", steps: [limited(until: "\(start + 80_000)")],
            code: .rateLimited, requests: 1, isRetryable: true, elapsed: 0...0),
        Case(
            name: "the rate limit, until the end of time", steps: [limited(until: "9223372036854775807")],
            code: .rateLimited, requests: 1, isRetryable: true, elapsed: 0...0),
        Case(
            name: "the rate limit, until the past", steps: [limited(until: "1"), limited(until: "0")],
            code: .rateLimited, requests: all, isRetryable: true, elapsed: 1...17_000),
        Case(
            name: "the rate limit, until nonsense", steps: [limited(until: "soon")], code: .rateLimited, requests: all,
            isRetryable: true, elapsed: 1...15_000),
        Case(
            name: "a reset", steps: [.fails(.unreachable("reset")), .answer(200, info)], requests: 2,
            elapsed: 0...1_000),
        Case(
            name: "resets without end", steps: [.fails(.unreachable("reset"))], code: .unreachable, requests: all,
            isRetryable: true, elapsed: 1...15_000),
        Case(
            name: "a transport's own error", steps: [.failsOtherwise], code: .unreachable, requests: all,
            isRetryable: true, elapsed: 1...15_000),
        Case(
            name: "silence", steps: [.silent], code: .timedOut, requests: 3, isRetryable: true,
            elapsed: 70_000...76_000),
        Case(name: "a cancelled task", steps: [.cancelled], code: .cancelled, requests: 1),
    ]

    @Test(arguments: answers + refusals + passing + waits) func `a call ends, with a clear error`(
        example: Case
    ) async throws {
        let fixture = try ClientFixture(production: example.steps)
        var found: AppStoreAPIError?
        do throws(AppStoreAPIError) {
            let answer = try await fixture.client.send(.transactionInfo("1"), to: .production)
            #expect(answer.signedTransactionInfo == "x")
        } catch {
            found = error
        }
        #expect(found?.code == example.code, "\(found?.description ?? "success")")
        #expect(found?.isRetryable ?? false == example.isRetryable)
        #expect(fixture.transport.calls.count == example.requests)
        #expect(example.elapsed.contains(fixture.clock.elapsed), "\(fixture.clock.elapsed) ms")
    }

    /// Answers to Send Consumption Information, which Apple answers with 202 and no body.
    @Test(
        arguments: [
            (.answer(202, "", headers: [:]), nil), (.answer(202, "", headers: ["content-type": "text/html"]), nil),
            (.answer(202, "", headers: ["content-length": "0"]), nil),
            (.answer(202, "{}"), .malformedAnswer), (.answer(202, " "), .malformedAnswer),
            (.answer(202, #"{"error":"blocked"}"#), .malformedAnswer),
            (.answer(202, #"{"errorCode":2020000}"#), .malformedAnswer),
            (.answer(202, #"{"errorCode":4040010}"#), .malformedAnswer),
            (.answer(202, "Accepted", headers: ["content-type": "text/plain"]), .malformedAnswer),
            (page(200), .malformedAnswer), (page(202), .malformedAnswer), (.answer(200, ""), .malformedAnswer),
            (.answer(202, "\u{feff} <p>", headers: [:]), .malformedAnswer), (.answer(204, ""), .malformedAnswer),
        ] as [(ScriptedTransport.Step, AppStoreAPIError.Code?)])
    func `what has no answer but a status is done only with the documented status, and without a body`(
        step: ScriptedTransport.Step, code: AppStoreAPIError.Code?
    ) async throws {
        let fixture = try ClientFixture(production: [step])
        let body = ConsumptionRequest(
            customerConsented: true, deliveryStatus: Open(.delivered), sampleContentProvided: false)
        var found: AppStoreAPIError?
        do throws(AppStoreAPIError) {
            try await fixture.client.send(.sendConsumptionInformation(body, about: "1"), to: .production)
        } catch {
            found = error
        }
        #expect(found?.code == code)
        #expect(found?.isRetryable ?? true)
        guard case .answer(_, let text, _) = step else { return }
        // Whose answer it was is seen by the operator, and not by the clients who get the message.
        #expect((found?.causes != nil) == !text.isEmpty)
        #expect(text.count < 2 || found?.message.contains(text) != true)
    }

    @Test
    func `a body that Apple does not send is shown up to 200 bytes, without what could change a terminal`() async throws
    {
        let odd = "\u{1b}[2J\u{0}" + String(decoding: [0xef, 0xb7, 0x90] as [UInt8], as: UTF8.self)
        let body = #"{"error":"blocked"# + odd + #""}"# + String(repeating: "é", count: 300)
        let fixture = try ClientFixture(production: [.answer(200, body)])
        let error = try #require(
            await #expect(throws: AppStoreAPIError.self) {
                try await fixture.client.send(.finishTransaction("1"), to: .production)
            })
        let causes = try #require(error.causes)
        #expect(causes.hasPrefix(#"The answer begins: “{"error":"blocked [2J  "}éé"#) && causes.hasSuffix("é”."))
        #expect((190...240).contains(causes.utf8.count))
    }

    /// The lists that Apple always sends, even if they are empty.
    private static let lists: [String: Set<String>] = [
        "Get Transaction History": ["hasMore", "signedTransactions"],
        "Get Transaction History V1": ["hasMore", "signedTransactions"],
        "Get Refund History": ["hasMore", "signedTransactions"], "Get Refund History V1": ["signedTransactions"],
        "Get All Subscription Statuses": ["data"], "Get Notification History": ["hasMore", "notificationHistory"],
        "Get Customer Groups": ["groups"], "Get Group Members": ["hasMore", "members"],
        "List Seats": ["assignedSeatClaimIds"], "Get Image List": ["imageIdentifiers"],
        "Get Message List": ["messageIdentifiers"], "Look Up Order ID": ["status"],
    ]

    @Test(arguments: EndpointSample.all)
    func `an empty list is a success, and no list is none`(sample: EndpointSample) async throws {
        guard let members = Self.lists[sample.name] else { return }
        func text(_ list: String, without missing: String? = nil) -> String {
            let values = ["hasMore": "false", "status": "1"]
            let texts = members.filter { $0 != missing }.sorted().map { #""\#($0)":\#(values[$0] ?? list)"# }
            return "{\(texts.joined(separator: ","))}"
        }
        let lies = members.map { text("[]", without: $0) } + (sample.name == "Look Up Order ID" ? [] : [text("null")])
        for (body, code) in [(text("[]"), nil)] + lies.map({ ($0, AppStoreAPIError.Code.malformedAnswer) }) {
            let fixture = try ClientFixture(production: [.answer(200, body)], sandbox: [.answer(200, body)])
            var found: AppStoreAPIError.Code?
            do throws(AppStoreAPIError) { try await sample.call(fixture.client) } catch { found = error.code }
            #expect(found == code, "\(sample.name): \(body)")
        }
    }

    @Test(arguments: [
        (#"{"status":0}"#, AppStoreAPIError.Code?.some(.malformedAnswer)), (#"{"status":1}"#, nil),
        (#"{"status":0,"signedTransactions":null}"#, .malformedAnswer),
        (#"{"status":0,"signedTransactions":[]}"#, .malformedAnswer),
        (#"{"status":0,"signedTransactions":["x"]}"#, nil),
    ])
    func `an order that exists has transactions`(body: String, code: AppStoreAPIError.Code?) async throws {
        let fixture = try ClientFixture(production: [.answer(200, body)])
        var found: AppStoreAPIError.Code?
        do throws(AppStoreAPIError) {
            _ = try await fixture.client.send(.lookUpOrder("M1"), to: .production)
        } catch {
            found = error.code
        }
        #expect(found == code)
    }

    @Test func `the table of lists names endpoints`() {
        #expect(Set(Self.lists.keys).subtracting(EndpointSample.all.map(\.name)) == [])
    }

    @Test func `only consumption information is answered with 202`() {
        let statuses = [
            Endpoint.finishTransaction("1").successStatus, Endpoint.transactionInfo("1").successStatus,
            Endpoint.sendConsumptionInformationV1(.sample, about: "1").successStatus,
        ]
        #expect(statuses == [200, 200, 202])
    }

    @Test func `an error has Apple's number, and no id`() async throws {
        let fixture = try ClientFixture(production: [.code(.transactionIdNotFound)])
        let error = await #expect(throws: AppStoreAPIError.self) {
            try await fixture.client.send(.transactionInfo("410000000000001"), to: .production)
        }
        #expect(error?.errorCode == .transactionIdNotFound)
        #expect(error?.status == 404)
        #expect(error?.environment == .production)
        #expect(
            error?.description
                == "refused: Apple refused 'Get Transaction Info' with HTTP status 404: 4040010 TransactionIdNotFoundError."
        )
    }

    @Test(arguments: [
        ("Sun, 17 Mar 2030 17:41:40 GMT", "This machine's clock is five minutes ahead of Apple's"),
        ("Sun, 17 Mar 2030 17:47:40 GMT", "This machine's clock is one minute behind Apple's"),
        ("Sun, 17 Mar 2030 14:46:40 GMT", "This machine's clock is three hours ahead of Apple's"),
        ("Tue, 05 Feb 2030 17:46:40 GMT", "This machine's clock is 40 days ahead of Apple's"),
        ("Sun, 17 Mar 2030 17:47:39 GMT", nil), ("nonsense", nil), (nil, nil),
    ])
    func `a refused token names what to compare, and how far the clock is wrong`(
        date: String?, clock: String?
    )
        async throws
    {
        let headers = date.map { ["date": $0] } ?? [:]
        let fixture = try ClientFixture(
            production: [.answer(401, "", headers: headers)], sandbox: [.answer(401, "", headers: headers)])
        let key = try ClientFixture.key.get()
        for environment in [Environment.production, .sandbox] {
            let error = try #require(
                await #expect(throws: AppStoreAPIError.self) {
                    try await fixture.client.send(.transactionInfo("410000000000001"), to: environment)
                })
            for part in [key.id, key.issuer, "com.example is an app", "“In-App Purchase” key"] {
                #expect(error.description.contains(part), "\(error)")
            }
            #expect(!error.description.contains("410000000000001"))
            #expect(error.description.contains("until it has been in the App Store") == (environment == .production))
            #expect(error.description.contains(clock ?? "This machine's clock") == (clock != nil), "\(error)")
        }
        let both = await #expect(throws: AppStoreAPIError.self) {
            try await fixture.client.find(.transactionInfo("410000000000001"))
        }
        #expect(both?.code == .credentials && both?.description.contains(key.id) == true)
    }

    @Test func `a number of Advanced Commerce is read by its own list`() async throws {
        // 4000028 is another error of the App Store Server API.
        let fixture = try ClientFixture(production: [.answer(400, #"{"errorCode":4000028}"#)])
        let body = AdvancedCommerceSubscriptionCancelRequest(requestInfo: .init(requestReferenceId: "u"))
        let error = await #expect(throws: AppStoreAPIError.self) {
            try await fixture.client.send(.cancelSubscription(body, of: "1"), to: .production)
        }
        #expect(error?.advancedCommerceErrorCode == .invalidStorefront)
        #expect(error?.errorCode == nil)
    }

    /// A failure, and how many requests follow from it for each kind of endpoint.
    static let repetitions: [(ScriptedTransport.Step, always: Int, ifUnanswered: Int, onInvitation: Int)] = [
        (.fails(.unreachable("reset")), all, all, 1), (.code(.generalInternal), all, 1, 1),
        (.code(.generalInternalRetryable), all, all, all), (limited(until: "0"), all, all, all),
        (.code(.generalBadRequest), 1, 1, 1),
    ]

    @Test func `what must not happen twice is sent once`() async throws {
        for (step, always, ifUnanswered, onInvitation) in Self.repetitions {
            let refund = AdvancedCommerceRequestRefundRequest(
                requestInfo: .init(requestReferenceId: "u"), items: [], refundRiskingPreference: false)
            let counts = [
                try await requests(.transactionInfo("1"), step),
                try await requests(.requestRefund(refund, of: "1"), step),
                try await requests(.requestTestNotification, step),
            ]
            #expect(counts == [always, ifUnanswered, onInvitation], "\(step)")
        }
    }

    private func requests<Answer>(_ endpoint: Endpoint<Answer>, _ step: ScriptedTransport.Step) async throws -> Int {
        let fixture = try ClientFixture(production: [step])
        await #expect(throws: AppStoreAPIError.self) {
            _ = try await fixture.client.send(endpoint, to: .production, within: .seconds(3600))
        }
        return fixture.transport.calls.count
    }

    @Test(arguments: [Environment.xcode, .localTesting, .sandbox]) func `an environment without a server is refused`(
        environment: Environment
    ) async throws {
        let fixture = try ClientFixture(environments: [.production, .xcode, .localTesting])
        let error = await #expect(throws: AppStoreAPIError.self) {
            try await fixture.client.send(.transactionInfo("1"), to: environment)
        }
        #expect(error?.code == .noServer)
        #expect(fixture.transport.calls.isEmpty)
    }

    @Test func `after the rate limit other calls are told when to call, and send nothing`() async throws {
        let fixture = try ClientFixture(production: [Self.limited(until: "\(Self.start + 600_000)")])
        for code in [AppStoreAPIError.Code.rateLimited, .overBudget, .overBudget] {
            let error = await #expect(throws: AppStoreAPIError.self) {
                try await fixture.client.send(.transactionInfo("1"), to: .production)
            }
            #expect(error?.code == code)
            #expect(error?.retryAt == Timestamp(milliseconds: Self.start + 600_000))
        }
        #expect(fixture.transport.calls.count == 1)
        fixture.transport.play([.answer(200, Self.info)], in: .production)
        fixture.clock.advance(600_000)
        _ = try await fixture.client.send(.transactionInfo("1"), to: .production)
        #expect(fixture.transport.calls.count == 2)
    }

    @Test func `no attempt may take longer than what is left of the call`() async throws {
        let fixture = try ClientFixture(production: [.silent])
        _ = try? await fixture.client.send(.transactionInfo("1"), to: .production, within: .seconds(40))
        let timeouts = fixture.transport.calls.map(\.timeout)
        #expect(timeouts.count == 2)
        #expect(timeouts.first == .seconds(30))
        #expect(timeouts.last.map { $0 <= .seconds(10) && $0 > .zero } == true)
    }
}
