// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import PurchaseLedger
import Synchronization
import TestData
import TestWorld
import Testing

@testable import PurchaseServer

/// Tests that no answer about a customer changes without an event about the customer.
@Suite struct AnswerYearTests {
    @Test(arguments: Seeds.first(2, soak: 10))
    func `over a year, a customer's answer changes only with an event about the customer`(seed: UInt64) async throws {
        let told = try await AnswerYear(RandomYear(seed: seed, customers: 12), seed: seed).after(steps: 200)
        #expect(told.changes > 100)
    }

    @Test(.takesLong) func `also with 24 customers, where each exception occurs`() async throws {
        let told = try await AnswerYear(RandomYear(seed: 3, customers: 24), seed: 3).after(steps: 600)
        #expect(told.excepted == AnswerYear.exceptions)
    }
}

/// A year in which a backend also does to its customers whatever it may.
private struct AnswerYear {
    /// Members that change without an event, or with time alone.
    static let exceptions: Set<String> = [
        // The time of the answer, and of its next change.
        "asOf", "nextChange",
        // A count of those who tried, whom an attacker chooses.
        "claimants",
        // The newest document about a purchase. Most documents say nothing new.
        "evidence",
        // The first id of a customer without purchases: it presented a purchase that others kept.
        "ids",
    ]

    private var year: RandomYear
    private var random: SeededRandom
    private let server: ServerApplication
    private let key: String
    private let clock: WorldTime
    private var answers: [String: JSONValue] = [:]
    private var cursor: String?
    /// The number of answers that changed.
    private(set) var changes = 0
    /// The exceptions that occurred without an event.
    private(set) var excepted: Set<String> = ["asOf"]

    /// The server's time.
    private final class WorldTime: Sendable {
        let now: Mutex<Timestamp>

        init(_ now: Timestamp) { self.now = Mutex(now) }
    }

    init(_ year: RandomYear, seed: UInt64) async throws {
        self.year = year
        random = SeededRandom(seed: seed &+ 1)
        let clock = WorldTime(year.now)
        self.clock = clock
        var service = LedgerService(ledger: year.ledger, verifier: year.verifier)
        service.apps = [RandomYear.scope.bundleId: AppConfiguration(RandomWorld.app)]
        server = ServerApplication(
            ledger: service, requestSeed: seed, now: { clock.now.withLock { $0 } }, logger: .quiet)
        let (key, text) = APIKey.make(
            name: "server", role: .server, bundleId: RandomYear.scope.bundleId, at: year.now, using: &random)
        try await year.ledger.put(key)
        self.key = text
    }

    /// The year after some steps.
    func after(steps: Int64) async throws -> AnswerYear {
        try await checkedApplication(of: server).test(.router) { client in
            var told = self
            var year = year
            try await year.run(steps: steps) { year in
                told.clock.now.withLock { [now = year.now] in $0 = now }
                told.year = year
                try await told.work()
                try await told.compare(client)
                try await told.act(client)
                try await told.compare(client)
                year = told.year
            }
            return told
        }
    }

    /// Ends the grants that are due.
    private func work() async throws {
        let now = year.now
        let runner = JobRunner(year.ledger, [year.ledger.grantEnds(in: [RandomYear.scope], now: { now })], now: { now })
        while try await runner.workOnce() {}
    }

    private func send(
        _ method: HTTPRequest.Method, _ path: String, _ body: String = "", to client: some TestClientProtocol
    ) async throws -> TestResponse {
        try await client.execute(
            uri: path, method: method, headers: [.authorization: "Bearer \(key)"], body: ByteBuffer(string: body))
    }

    private func get(_ path: String, from client: some TestClientProtocol) async throws -> JSONValue {
        let response = try await send(.get, path, to: client)
        #expect(response.status == .ok)
        return try JSONValue(parsing: response.body.readableBytesView)
    }

    // MARK: - Operations

    private mutating func someone() -> String {
        Bool.random(using: &random) ? year.user() : year.account()
    }

    private mutating func act(_ client: some TestClientProtocol) async throws {
        let path = "/v1/customers/\(try someone().inPath)"
        let other = year.user()
        let name = year.names.randomElement(using: &random) ?? ""
        let transaction = year.transactions(of: name).randomElement(using: &random)?.transactionId ?? "1"
        let purchase = "/v1/transactions/\(transaction)"
        let why = #""reason": "a test""#
        let (method, uri, body): (HTTPRequest.Method, String, String) =
            switch Int.random(in: 0..<14, using: &random) {
            case 0: (.post, path + "/aliases", #"{"alias": "\#(other)"}"#)
            case 1: (.post, path + "/aliases", #"{"alias": "alias \#(Int.random(in: 0..<9, using: &random))"}"#)
            case 2: (.post, path + "/unlink", #"{"alias": "\#(other)", \#(why)}"#)
            case 3: (.post, path + "/unmerge", "{\(why)}")
            case 4: (.delete, path, "")
            case 5:
                (.post, path + "/grants", #"{"entitlement": "pro", "forever": true, "why": "a test", "id": "g"}"#)
            case 6:
                (
                    .post, path + "/grants",
                    #"{"entitlement": "pro", "until": \#(year.now.milliseconds + 86_400_000 * 9), "why": "a test"}"#
                )
            case 7: (.post, path + "/grants/g/end", "{}")
            case 8: (.patch, path + "/attributes", #"{"attributes": {"plan": {"value": "\#(other)"}}}"#)
            case 9: (.put, path + "/consent", #"{"customerConsented": \#(Bool.random(using: &random))}"#)
            case 10: (.post, purchase + "/move", #"{"customers": ["\#(other)"], "new": true, \#(why)}"#)
            case 11: (.post, purchase + "/move", #"{"customers": ["user 1", "user 2"], "new": true, \#(why)}"#)
            case 12: (.post, purchase + "/deny", "{\(why)}")
            default: (.post, purchase + "/allow", "{\(why)}")
            }
        let response = try await send(method, uri, body, to: client)
        #expect(response.status.code != 400 && response.status.code < 500, "\(method) \(uri) \(body) \(response)")
    }

    // MARK: - Answers

    /// The members of events that name customers.
    private static let ids = ["customer", "ids", "mergedCustomer", "removedId", "deletedId", "deletedIds"]

    /// Compares all answers with those before, and expects an event about each customer whose answer changed.
    private mutating func compare(_ client: some TestClientProtocol) async throws {
        var told: Set<String> = []
        while true {
            let page = try await get("/v1/events?limit=500" + (cursor.map { "&after=\($0)" } ?? ""), from: client)
            guard let events = page["items"]?.array, !events.isEmpty else { break }
            cursor = page["nextCursor"]?.string
            for event in events { told.formUnion(Self.ids.flatMap { event[$0]?.texts ?? [] }) }
        }
        for id in (0..<year.names.count).map({ "user \($0)" }) {
            let path = "/v1/customers/\(try id.inPath)?environment=any"
            let answer = try await get(path, from: client)
            let before = answers.updateValue(answer, forKey: id)
            let ids = Set([answer, before].flatMap { $0?["ids"]?.texts ?? [] } + [id])
            let paths = Self.differences(before, answer)
            guard before != nil, !paths.isEmpty else { continue }
            guard ids.isDisjoint(with: told) else {
                changes += 1
                continue
            }
            for path in paths {
                let exception = path.first { Self.exceptions.contains($0) }
                if let exception { excepted.insert(exception) }
                let isExcepted = exception == "ids" ? before?["ids"]?.texts == [] : exception != nil
                #expect(
                    isExcepted,
                    "\(id) at \(year.now.iso8601): \(path) of \(before?.compactText ?? "") became \(answer.compactText)"
                )
            }
        }
    }

    /// The paths of the members that differ, without the positions in lists.
    private static func differences(_ old: JSONValue?, _ new: JSONValue?, at path: [String] = []) -> [[String]] {
        guard old != new else { return [] }
        if let (before, after) = (old?.members, new?.members) as? ([JSONValue.Member], [JSONValue.Member]) {
            return Set((before + after).map(\.name)).sorted()
                .flatMap { differences(old?[$0], new?[$0], at: path + [$0]) }
        }
        if let before = old?.array, let after = new?.array, before.count == after.count {
            return zip(before, after).flatMap { differences($0, $1, at: path) }
        }
        return [path]
    }
}

extension String {
    fileprivate var inPath: String {
        get throws { try #require(addingPercentEncoding(withAllowedCharacters: .alphanumerics)) }
    }
}

extension JSONValue {
    /// A text, or the texts of a list.
    fileprivate var texts: [String] { string.map { [$0] } ?? array?.compactMap(\.string) ?? [] }
}
