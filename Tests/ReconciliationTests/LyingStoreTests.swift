// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import Reconciliation
import Testing

/// What becomes of questions while somebody answers in Apple's place, and that all is right afterwards, without a
/// restart.
@Suite struct LyingStoreTests {
    /// What becomes of each kind of question while the store lies: its state, and the code of the failure.
    struct Row: Sendable, CustomTestStringConvertible {
        var lie: Lie
        var consumption: String
        var history: String
        var status: String
        var reading: String
        var line: String
        var testDescription: String { lie.testDescription }

        init(
            _ lie: Lie, consumption: String, history: String, status: String, reading: String, line: String
        ) {
            (self.lie, self.consumption, self.history) = (lie, consumption, history)
            (self.status, self.reading, self.line) = (status, reading, line)
        }

        /// A lie after which everything is asked again soon.
        init(_ lie: Lie, passing code: String) {
            self.init(
                lie, consumption: "waiting \(code)", history: "waiting \(code)", status: "soon \(code)",
                reading: "soon \(code)", line: code)
        }
    }

    static let rows =
        [403, 404, 407, 413, 503].map { Row(.page($0), passing: "unavailable") } + [
            Row(.silence, passing: "timedOut"),
            Row(.page(200), passing: "malformedAnswer"), Row(.page(202), passing: "malformedAnswer"),
            Row(.code(5_000_999), passing: "unavailable"),
            Row(
                .tokenRefusedOnce, consumption: "answered", history: "done", status: "done", reading: "done",
                line: "taken"),
            Row(.accepted, passing: "malformedAnswer"), Row(.emptyList, passing: "malformedAnswer"),
            Row(
                .code(4_000_999), consumption: "waiting refused", history: "givenUp refused",
                status: "tomorrow refused", reading: "soon refused", line: "refused"),
            Row(
                .code(4_030_999), consumption: "waiting refused", history: "givenUp refused",
                status: "tomorrow refused", reading: "soon refused", line: "refused"),
            Row(
                .code(4_040_999), consumption: "waiting refused", history: "givenUp refused",
                status: "tomorrow refused", reading: "soon refused", line: "refused"),
        ]

    private static func code(_ failure: String?) -> String { failure.map { String($0.prefix { $0 != ":" }) } ?? "" }

    // MARK: - A consumption request

    @Test(arguments: rows) func `a consumption request is answered before its deadline once Apple can be asked`(
        row: Row
    ) async throws {
        let shop = try await ConsumptionTests.Shop()
        let information = ConsumptionTests.consented
        shop.scene.lie(row.lie)
        _ = try await shop.scene.ledger.supply(information, about: shop.key, at: shop.scene.time.now)
        for _ in 0..<6 {
            try await shop.scene.work()
            let failure = try await shop.failure
            let found = "\(try await shop.question.state.rawValue) \(Self.code(failure))"
            #expect(found.trimming == row.consumption)
            try await shop.scene.pass(seconds: 3600)
        }
        shop.scene.lie(nil)
        if try await shop.question.state == .refused {
            _ = try await shop.scene.ledger.supply(information, about: shop.key, at: shop.scene.time.now)
        }
        // The pause after a failure is at most a twentieth of the time that Apple waits.
        try await shop.scene.work(afterSeconds: 43_200 / 20)
        let question = try await shop.question
        #expect(question.state == .answered)
        #expect(try #require(question.answeredAt) < question.deadline(in: .production))
    }

    @Test func `in the sandbox too, where Apple waits five minutes`() async throws {
        let shop = try await ConsumptionTests.Shop(in: .sandbox)
        shop.scene.lie(.page(403))
        _ = try await shop.scene.ledger.supply(ConsumptionTests.consented, about: shop.key, at: shop.scene.time.now)
        for _ in 0..<16 {
            try await shop.scene.work()
            try await shop.scene.pass(seconds: 15)
        }
        shop.scene.lie(nil)
        try await shop.scene.work(afterSeconds: 15)
        #expect(try await shop.question.state == .answered)
    }

    // MARK: - A promised history

    @Test(arguments: rows) func `a promised history is read once Apple can be asked, or stays visible with the reason`(
        row: Row
    ) async throws {
        let scene = try await JobTests.Scene()
        try await scene.buy()
        try await scene.promise()
        let id = try #require(try await scene.job(.customerHistory)).id
        scene.lie(row.lie)
        try await scene.work(afterSeconds: 61)
        let job = try await scene.ledger.job(id)
        let state = job.map { $0.isGivenUp ? "givenUp" : "waiting" } ?? "done"
        #expect("\(state) \(Self.code(job?.failure))".trimming == row.history)

        scene.lie(nil)
        try await scene.pass(seconds: 3600)
        if let job, job.isGivenUp { try await scene.retry(job) }
        try await scene.work()
        #expect(try await scene.ledger.job(id) == nil)
        #expect(scene.requests.requests.contains { $0.path == "/inApps/v2/history/\(id.name)" })
        #expect(try await scene.ledger.chain(ChainKey(id.name, in: scene.scope))?.renewal != nil)
    }

    @Test func `a promised history that was given up is reported, kept for 30 days, and then forgotten`() async throws {
        var scene = try await JobTests.Scene()
        let reported = Mutexed<[Job]>([])
        scene.onFailure = { job in reported.update { $0.append(job) } }
        try await scene.buy()
        try await scene.promise()
        scene.lie(.code(4_000_999))
        try await scene.work(afterSeconds: 61)
        scene.lie(nil)
        let job = try #require(try await scene.job(.customerHistory))
        #expect(job.isGivenUp && job.failure?.contains("4000999") == true)
        #expect(reported.value.contains(job))
        try await scene.work(afterDays: 29)
        #expect(try await scene.job(.customerHistory) == job)
        let before = scene.requests.requests.count { $0.path.contains("/history/") }
        try await scene.work(afterDays: 1)
        #expect(try await scene.job(.customerHistory) == nil)
        #expect(scene.requests.requests.count { $0.path.contains("/history/") } == before)
    }

    @Test func `a new request for a history that was given up asks again`() async throws {
        let scene = try await JobTests.Scene()
        try await scene.buy()
        try await scene.promise()
        scene.lie(.code(4_000_999))
        try await scene.work(afterSeconds: 61)
        #expect(try await scene.job(.customerHistory)?.isGivenUp == true)
        scene.lie(.page(403))
        let question = try HistoryQuestion(transactionId: await scene.transactionId)
        guard case .later(let job) = try await scene.reconciler.takeHistory(question, within: .seconds(20)) else {
            return #expect(Bool(false), "A page was taken for a history")
        }
        #expect(!job.isGivenUp && Self.code(job.failure) == "unavailable")
        scene.lie(nil)
        try await scene.work(afterSeconds: 3600)
        #expect(try await scene.job(.customerHistory) == nil)
    }

    // MARK: - A question about a subscription

    @Test(arguments: rows) func `an uncertain subscription is asked about soon, unless Apple itself refuses`(
        row: Row
    ) async throws {
        let scene = try await JobTests.Scene()
        try await scene.makeStale()
        scene.lie(row.lie)
        try await scene.work()
        let job = try await scene.job(.subscriptionStatus)
        let isSoon = job.map { $0.dueAt <= scene.time.now.advanced(by: .seconds(3600)) } ?? false
        let state = job == nil ? "done" : isSoon ? "soon" : "tomorrow"
        #expect("\(state) \(Self.code(job?.failure))".trimming == row.status)

        scene.lie(nil)
        try await scene.work(afterSeconds: state == "tomorrow" ? 86_400 : 3600)
        #expect(try await scene.job(.subscriptionStatus) == nil)
        #expect(try await scene.entitlements == ["pro"])
    }

    @Test func `only answers count, and after 60 the question is given up, reported, kept and forgotten`() async throws
    {
        var scene = try await JobTests.Scene()
        let reported = Mutexed<[Job]>([])
        scene.onFailure = { job in reported.update { $0.append(job) } }
        try await scene.makeStale()
        scene.lie(.page(403))
        for _ in 0..<100 {
            try await scene.work()
            try await scene.pass(seconds: 3600)
        }
        scene.lie(.code(4_000_999))
        for day in 1...60 {
            try await scene.work()
            #expect(try await scene.job(.subscriptionStatus)?.isGivenUp == (day == 60))
            try await scene.pass(days: 1)
        }
        let job = try #require(try await scene.job(.subscriptionStatus))
        #expect(job.failure?.contains("4000999") == true)
        #expect(reported.value.contains(job))
        try await scene.retry(job)
        try await scene.work()
        #expect(try await scene.job(.subscriptionStatus)?.isGivenUp == true)
        try await scene.work(afterDays: 30)
        #expect(try await scene.job(.subscriptionStatus) == nil)
    }

    // MARK: - The history of notifications, and a backfill

    @Test(arguments: rows) func `the history of notifications is read once Apple can be asked`(row: Row) async throws {
        let scene = try await JobTests.Scene()
        try await scene.buy()
        scene.lie(row.lie)
        try await scene.work()
        let job = try #require(try await scene.job(.notificationHistory))
        let isSoon = job.dueAt <= scene.time.now.advanced(by: .seconds(3600))
        let state = job.failure == nil ? "done" : isSoon ? "soon" : "late"
        #expect("\(state) \(Self.code(job.failure))".trimming == row.reading)

        scene.lie(nil)
        try await scene.work(afterSeconds: 3600)
        #expect(try await scene.job(.notificationHistory)?.failure == nil)
        #expect(try await scene.entitlements == ["pro"])
    }

    @Test(arguments: rows) func `a line of a backfill fails with the reason, and is taken in the next time`(
        row: Row
    ) async throws {
        let scene = try await JobTests.Scene()
        try await scene.buy()
        let line = (number: 1, question: try HistoryQuestion(transactionId: await scene.transactionId))
        let time = scene.time
        let made = Backfill(
            [scene.reconciler], wall: { time.now }, sleep: { time.now = time.now.advanced(by: $0) })
        let backfill = try #require(made)
        func outcome() async throws -> String {
            var word = ""
            try await backfill.run([line]) { _, outcome in
                switch outcome {
                case .taken: word = "taken"
                case .covered: word = "covered"
                case .failed(let reason): word = Self.code(reason)
                }
            }
            return word
        }
        scene.lie(row.lie)
        #expect(try await outcome() == row.line)
        scene.lie(nil)
        #expect(["taken", "covered"].contains(try await outcome()))
        #expect(try await scene.entitlements == ["pro"])
    }
}

extension JobTests.Scene {
    /// As `quittance jobs retry` does.
    fileprivate func retry(_ job: Job) async throws {
        var due = job
        due.dueAt = time.now
        try await ledger.replace(job, with: due, at: time.now)
    }

    /// Promises to read the customer's history, since there is no time to do it at once.
    fileprivate func promise() async throws {
        let question = try HistoryQuestion(transactionId: await transactionId)
        guard case .later = try await reconciler.takeHistory(question, within: .zero) else {
            return #expect(Bool(false), "The history was read without any time")
        }
    }
}

extension String {
    /// The text without a blank at its end.
    fileprivate var trimming: String { hasSuffix(" ") ? String(dropLast()) : self }
}
