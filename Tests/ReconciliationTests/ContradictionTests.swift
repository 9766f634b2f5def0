// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
@testable import Reconciliation
import Synchronization
import TestData
import Testing

/// What becomes of a reading while an answer contradicts an earlier one or the ledger: Apple no longer knows the
/// customer whose first page it has just sent, an answer lacks what Apple has signed, or its pages never end.
@Suite struct ContradictionTests {
    private typealias Scene = JobTests.Scene

    /// How a question names the customer.
    enum Name: CaseIterable, Sendable {
        case transaction, order
        /// By three ids, of which the App Store knows the second.
        case receipt
    }

    /// A request of a reading that is answered as if Apple had never known the customer, or knew no purchase.
    struct Case: Sendable, CustomTestStringConvertible {
        var name: Name
        /// The number of different requests before this one.
        var position: Int
        var code: Int64 = 4_040_010
        var testDescription: String { "\(name), request \(position), \(word)" }

        static let empty: Int64 = 0

        /// What a failure says besides its code.
        var word: String { code == Self.empty ? "is empty" : "\(code)" }

        var answer: APIAnswer {
            guard code == Self.empty else { return .refusal(code) }
            return APIAnswer(json: #"{"hasMore":false,"revision":"r","signedTransactions":[],"data":[]}"#)
        }
    }

    /// The account, the app, and the id are unknown or not usable, or a number that Apple has not documented.
    private static let codes: [Int64] = [
        4_040_001, 4_040_003, 4_040_005, 4_040_010, 4_000_002, 4_000_006, 4_000_008, 4_040_999,
    ]

    // After an order there is the first page, after a transaction's first page the second, and after this one the
    // statuses. Before the receipt's second id comes a true refusal of its first.
    static let cases =
        (codes + [Case.empty]).flatMap { code in (1...2).map { Case(name: .transaction, position: $0, code: code) } }
        + [4_040_010, Case.empty].flatMap { code in
            (1...3).map { Case(name: .order, position: $0, code: code) }
                + (2...3).map { Case(name: .receipt, position: $0, code: code) }
        }

    /// Refuses a request of a reading a number of times.
    private final class Refusal: Sendable {
        private let example: Case
        private let state: Mutex<(targets: [String], times: Int)>

        init(_ example: Case, times: Int) {
            self.example = example
            state = Mutex(([], times))
        }

        func answer(to request: APIRequest) -> APIAnswer? {
            state.withLock { state in
                if !state.targets.contains(request.target) { state.targets.append(request.target) }
                guard state.targets.firstIndex(of: request.target) == example.position, state.times > 0 else {
                    return nil
                }
                state.times -= 1
                return example.answer
            }
        }
    }

    /// A customer with a subscription of 26 periods, which are two pages, and a ledger that has heard nothing.
    private struct Customer {
        var scene: Scene
        let id: String

        init() async throws {
            scene = try await Scene()
            try await scene.buy()
            try await scene.pass(days: 790)
            id = await scene.transactionId
        }

        func question(_ name: Name) async throws -> HistoryQuestion {
            var question = try HistoryQuestion(transactionId: id)
            switch name {
            case .transaction: break
            case .order:
                let world = await scene.transport.store.world
                question = try HistoryQuestion(orderId: try #require(world.orderId(ofTransaction: id)))
            case .receipt: question.transactions = ["7", id, "8"]
            }
            return question
        }

        func job() async throws -> Job? { try await scene.job(.customerHistory) }

        /// Answers the request of the example so many times as it says.
        func refuse(_ example: Case, times: Int = .max) {
            let refusal = Refusal(example, times: times)
            scene.requests.answer = { refusal.answer(to: $0) }
        }

        /// - Returns: The job that reads the rest, if there is one.
        func takeHistory(_ name: Name = .transaction, within time: Duration = .seconds(20)) async throws -> Job? {
            let outcome = try await scene.reconciler.takeHistory(question(name), within: time)
            return if case .later(let job) = outcome { job } else { nil }
        }

        /// Lets time pass, and does the jobs that are due.
        func pass(seconds: Int64) async throws {
            try await scene.pass(seconds: seconds)
            while try await scene.workOnce() {}
        }
    }

    // MARK: - One customer

    @Test(.takesLong, arguments: cases)
    func `a single contradiction is tried again, and the history is whole`(example: Case) async throws {
        let customer = try await Customer()
        customer.refuse(example, times: 1)
        #expect(try await customer.takeHistory(example.name) == nil)
        #expect(try await customer.scene.isWhole)
        #expect(try await customer.job() == nil)
    }

    @Test(.takesLong, arguments: cases)
    func `a lasting contradiction is a job that says so, and the history is whole once it is over`(
        example: Case
    ) async throws {
        let customer = try await Customer()
        customer.refuse(example)
        let job = try #require(try await customer.takeHistory(example.name))
        #expect(job.failure?.hasPrefix("contradiction: ") == true && job.failure?.contains(example.word) == true)
        #expect(job.dueAt > customer.scene.time.now)
        #expect(try await customer.job() == job)
        #expect(try await !customer.scene.isWhole)
        // A job that reads on contradicts what was read before it, so it too believes nothing.
        try await customer.pass(seconds: 61)
        #expect(try await customer.job()?.failure?.hasPrefix("contradiction: ") == true)
        customer.scene.requests.answer = nil
        try await customer.pass(seconds: 3600)
        #expect(try await customer.job() == nil)
        #expect(try await customer.scene.isWhole)
    }

    @Test func `a history that contradicts itself for a day is given up, reported, and read again on request`()
        async throws
    {
        var customer = try await Customer()
        let reported = Mutexed<[Job]>([])
        customer.scene.onFailure = { job in reported.update { $0.append(job) } }
        customer.refuse(Case(name: .transaction, position: 1))
        _ = try await customer.takeHistory()
        for attempt in 2...30 {
            #expect(try await customer.job()?.isGivenUp == false, "attempt \(attempt)")
            try await customer.pass(seconds: 3600)
        }
        let job = try #require(try await customer.job())
        #expect(job.isGivenUp && job.failure?.hasPrefix("contradiction: ") == true)
        #expect(reported.value.contains(job))
        customer.scene.requests.answer = nil
        #expect(try await customer.takeHistory() == nil)
        #expect(try await customer.scene.isWhole)
    }

    @Test func `the first answer about an id is believed: one that nobody knows is refused, and leaves no job`()
        async throws
    {
        let customer = try await Customer()
        for code in Self.codes {
            customer.refuse(Case(name: .transaction, position: 0, code: code), times: 1)
            let error = await #expect(throws: AppStoreAPIError.self) { _ = try await customer.takeHistory() }
            #expect(error?.code == .refused && error?.errorCode?.rawValue == code)
            #expect(try await customer.job() == nil)
        }
    }

    // MARK: - What the ledger has

    @Test func `an empty history of a transaction that the ledger has is asked for again, then by a job`()
        async throws
    {
        let customer = try await Customer()
        func outcome(times: Int) async throws -> Job? {
            customer.refuse(Case(name: .transaction, position: 0, code: Case.empty), times: times)
            return try await customer.takeHistory()
        }
        // Of a transaction that nobody has seen, an empty history is believed.
        #expect(try await outcome(times: .max) == nil)
        #expect(try await !customer.scene.isWhole)
        #expect(try await outcome(times: 0) == nil)
        #expect(try await customer.scene.isWhole)
        #expect(try await outcome(times: 1) == nil)
        let job = try #require(try await outcome(times: .max))
        #expect(job.failure?.hasPrefix("contradiction: ") == true && job.failure?.contains("is empty") == true)
        try await customer.pass(seconds: 61)
        #expect(try await customer.job()?.failure?.hasPrefix("contradiction: ") == true)
        customer.scene.requests.answer = nil
        try await customer.pass(seconds: 3600)
        #expect(try await customer.job() == nil)
    }

    @Test func `statuses without the subscription about which they were asked are asked for again, and then each day`()
        async throws
    {
        let scene = try await Scene()
        try await scene.makeStale()
        let asked = JobTests.Counter()
        scene.requests.answer = { request in
            guard request.path.contains("/subscriptions/") else { return nil }
            asked.add(request)
            return Case(name: .transaction, position: 0, code: Case.empty).answer
        }
        try await scene.work()
        #expect(asked.count == 5)
        #expect(try await scene.job(.subscriptionStatus)?.failure?.hasPrefix("contradiction: ") == true)
        try await scene.work(afterSeconds: 3600)
        #expect(asked.count == 5)
        scene.requests.answer = nil
        try await scene.work(afterDays: 1)
        #expect(try await scene.job(.subscriptionStatus) == nil)
        #expect(try await scene.entitlements == ["pro"])
    }

    // MARK: - A backfill

    @Test(.takesLong, arguments: cases)
    func `a line of a backfill with a contradiction fails with it, and is whole the next time`(
        example: Case
    ) async throws {
        let customer = try await Customer()
        let line = (number: 1, question: try await customer.question(example.name))
        func outcome() async throws -> String {
            let time = customer.scene.time
            let made = Backfill([customer.scene.reconciler], wall: { time.now }, sleep: { _ in })
            var word = ""
            try await #require(made).run([line]) { _, outcome in
                if case .failed(let reason) = outcome { word = reason } else { word = "taken" }
            }
            return word
        }
        customer.refuse(example)
        let failure = try await outcome()
        #expect(failure.hasPrefix("contradiction: ") && failure.contains(example.word), "\(failure)")
        #expect(try await !customer.scene.isWhole)
        customer.refuse(example, times: 1)
        #expect(try await outcome() == "taken")
        #expect(try await customer.scene.isWhole)
    }

    // MARK: - Pages without an end

    /// A page of a customer's history with a transaction that is none, and that another page follows.
    private static func page(_ revision: String) -> APIAnswer {
        APIAnswer(json: #"{"hasMore":true,"revision":"\#(revision)","signedTransactions":["x"]}"#)
    }

    @Test(arguments: [1, 2, 7])
    func `pages of a customer in a circle are a job that says so, after the circle and a page`(
        length: Int
    ) async throws {
        let customer = try await Customer()
        let pages = JobTests.Counter()
        customer.scene.requests.answer = { request in
            pages.add(request)
            return Self.page("\(pages.count % length)")
        }
        #expect(try await customer.takeHistory()?.failure?.hasPrefix("contradiction: ") == true)
        #expect(pages.count == length + 1)
        customer.scene.requests.answer = nil
        try await customer.pass(seconds: 61)
        // The App Store refuses a place in the circle, so the history is read from its beginning.
        #expect(try await customer.job() == nil)
        #expect(try await customer.scene.isWhole)
    }

    @Test func `pages of a customer with ever new tokens end at the bound, twice, and then the job is given up`()
        async throws
    {
        let customer = try await Customer()
        // The rate limit lets as many requests pass.
        customer.scene.requests.delay = 20
        let pages = JobTests.Counter()
        customer.scene.requests.answer = { request in
            pages.add(request)
            return Self.page("\(pages.count)")
        }
        let job = try #require(try await customer.takeHistory(within: .seconds(60)))
        #expect(job.failure?.hasPrefix("endlessPages: ") == true && job.dueAt > customer.scene.time.now)
        #expect(pages.count == 1000)
        try await customer.pass(seconds: 61)
        let last = try #require(try await customer.job())
        #expect(last.isGivenUp && last.failure?.hasPrefix("endlessPages: ") == true)
        #expect(pages.count == 2000)
    }
}
