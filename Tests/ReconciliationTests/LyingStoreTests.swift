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
        var lie: LyingStore.Lie
        var consumption: String
        var history: String
        var status: String
        var reading: String
        var line: String
        var testDescription: String { lie.testDescription }

        init(
            _ lie: LyingStore.Lie, consumption: String, history: String, status: String, reading: String, line: String
        ) {
            (self.lie, self.consumption, self.history) = (lie, consumption, history)
            (self.status, self.reading, self.line) = (status, reading, line)
        }

        /// A lie after which everything is asked again soon.
        init(_ lie: LyingStore.Lie, passing code: String) {
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

    /// A shop whose App Store can be made to lie.
    private struct World: Sendable {
        var scene: JobTests.Scene
        let store: LyingStore

        init() async throws {
            var store: LyingStore?
            scene = try await JobTests.Scene { simulated, time in
                let lying = LyingStore(simulated, time)
                store = lying
                return lying
            }
            self.store = try #require(store)
        }

        /// The customer's transaction.
        var transactionId: String {
            get async { await scene.transport.store.world.history(of: "anna")[0].transaction.transactionId ?? "" }
        }

        func job(_ kind: Job.Kind) async throws -> Job? { try await scene.jobs().first { $0.id.kind == kind } }

        /// As `quittance jobs retry` does.
        func retry(_ job: Job) async throws {
            var due = job
            due.dueAt = scene.time.now
            try await scene.ledger.replace(job, with: due, at: scene.time.now)
        }

        /// Promises to read the customer's history, since there is no time to do it at once.
        func promise() async throws {
            let question = try HistoryQuestion(transactionId: await transactionId)
            guard case .later = try await scene.reconciler.takeHistory(question, within: .zero) else {
                return #expect(Bool(false), "The history was read without any time")
            }
        }

        /// A subscription whose period is over without news, in an app for which Apple keeps no history.
        func makeStale() async throws {
            try await scene.buy()
            try await scene.work()
            await scene.transport.update { $0.notificationURLs = [:] }
            try await scene.pass(days: 31)
        }
    }

    private static func code(_ failure: String?) -> String { failure.map { String($0.prefix { $0 != ":" }) } ?? "" }

    // MARK: - A consumption request

    @Test(arguments: rows) func `a consumption request is answered before its deadline once Apple can be asked`(
        row: Row
    ) async throws {
        var store: LyingStore?
        let shop = try await ConsumptionTests.Shop { simulated, time in
            let lying = LyingStore(simulated, time)
            store = lying
            return lying
        }
        let lying = try #require(store)
        let information = ConsumptionTests.consented
        lying.lie = row.lie
        _ = try await shop.scene.ledger.supply(information, about: shop.key, at: shop.scene.time.now)
        for _ in 0..<6 {
            try await shop.scene.work()
            let failure = try await shop.failure
            let found = "\(try await shop.question.state.rawValue) \(Self.code(failure))"
            #expect(found.trimming == row.consumption)
            try await shop.scene.pass(seconds: 3600)
        }
        lying.lie = nil
        if try await shop.question.state == .refused {
            _ = try await shop.scene.ledger.supply(information, about: shop.key, at: shop.scene.time.now)
        }
        // The pause after a failure is at most a twentieth of the time that Apple waits.
        try await shop.scene.pass(seconds: 43_200 / 20)
        try await shop.scene.work()
        let question = try await shop.question
        #expect(question.state == .answered)
        #expect(try #require(question.answeredAt) < question.deadline(in: .production))
    }

    @Test func `in the sandbox too, where Apple waits five minutes`() async throws {
        var store: LyingStore?
        let shop = try await ConsumptionTests.Shop(in: .sandbox) { simulated, time in
            let lying = LyingStore(simulated, time)
            store = lying
            return lying
        }
        let lying = try #require(store)
        lying.lie = .page(403)
        _ = try await shop.scene.ledger.supply(ConsumptionTests.consented, about: shop.key, at: shop.scene.time.now)
        for _ in 0..<16 {
            try await shop.scene.work()
            try await shop.scene.pass(seconds: 15)
        }
        lying.lie = nil
        try await shop.scene.pass(seconds: 15)
        try await shop.scene.work()
        #expect(try await shop.question.state == .answered)
    }

    // MARK: - A promised history

    @Test(arguments: rows) func `a promised history is read once Apple can be asked, or stays visible with the reason`(
        row: Row
    ) async throws {
        let world = try await World()
        try await world.scene.buy()
        try await world.promise()
        let id = try #require(try await world.job(.customerHistory)).id
        world.store.lie = row.lie
        try await world.scene.pass(seconds: 61)
        try await world.scene.work()
        let job = try await world.scene.ledger.job(id)
        let state = job.map { $0.isGivenUp ? "givenUp" : "waiting" } ?? "done"
        #expect("\(state) \(Self.code(job?.failure))".trimming == row.history)

        world.store.lie = nil
        try await world.scene.pass(seconds: 3600)
        if let job, job.isGivenUp { try await world.retry(job) }
        try await world.scene.work()
        #expect(try await world.scene.ledger.job(id) == nil)
        #expect(world.scene.requests.requests.contains { $0.path == "/inApps/v2/history/\(id.name)" })
        #expect(try await world.scene.ledger.chain(ChainKey(id.name, in: world.scene.scope))?.renewal != nil)
    }

    @Test func `a promised history that was given up is reported, kept for 30 days, and then forgotten`() async throws {
        var world = try await World()
        let reported = Mutexed<[Job]>([])
        world.scene.onFailure = { job in reported.update { $0.append(job) } }
        try await world.scene.buy()
        try await world.promise()
        world.store.lie = .code(4_000_999)
        try await world.scene.pass(seconds: 61)
        try await world.scene.work()
        world.store.lie = nil
        let job = try #require(try await world.job(.customerHistory))
        #expect(job.isGivenUp && job.failure?.contains("4000999") == true)
        #expect(reported.value.contains(job))
        try await world.scene.pass(days: 29)
        try await world.scene.work()
        #expect(try await world.job(.customerHistory) == job)
        let before = world.scene.requests.requests.count { $0.path.contains("/history/") }
        try await world.scene.pass(days: 1)
        try await world.scene.work()
        #expect(try await world.job(.customerHistory) == nil)
        #expect(world.scene.requests.requests.count { $0.path.contains("/history/") } == before)
    }

    @Test func `a new request for a history that was given up asks again`() async throws {
        let world = try await World()
        try await world.scene.buy()
        try await world.promise()
        world.store.lie = .code(4_000_999)
        try await world.scene.pass(seconds: 61)
        try await world.scene.work()
        #expect(try await world.job(.customerHistory)?.isGivenUp == true)
        world.store.lie = .page(403)
        let question = try HistoryQuestion(transactionId: await world.transactionId)
        guard case .later(let job) = try await world.scene.reconciler.takeHistory(question, within: .seconds(20)) else {
            return #expect(Bool(false), "A page was taken for a history")
        }
        #expect(!job.isGivenUp && Self.code(job.failure) == "unavailable")
        world.store.lie = nil
        try await world.scene.pass(seconds: 3600)
        try await world.scene.work()
        #expect(try await world.job(.customerHistory) == nil)
    }

    // MARK: - A question about a subscription

    @Test(arguments: rows) func `an uncertain subscription is asked about soon, unless Apple itself refuses`(
        row: Row
    ) async throws {
        let world = try await World()
        try await world.makeStale()
        world.store.lie = row.lie
        try await world.scene.work()
        let job = try await world.job(.subscriptionStatus)
        let isSoon = job.map { $0.dueAt <= world.scene.time.now.advanced(by: .seconds(3600)) } ?? false
        let state = job == nil ? "done" : isSoon ? "soon" : "tomorrow"
        #expect("\(state) \(Self.code(job?.failure))".trimming == row.status)

        world.store.lie = nil
        try await world.scene.pass(seconds: state == "tomorrow" ? 86_400 : 3600)
        try await world.scene.work()
        #expect(try await world.job(.subscriptionStatus) == nil)
        #expect(try await world.scene.entitlements == ["pro"])
    }

    @Test func `only answers count, and after 60 the question is given up, reported, kept and forgotten`() async throws
    {
        var world = try await World()
        let reported = Mutexed<[Job]>([])
        world.scene.onFailure = { job in reported.update { $0.append(job) } }
        try await world.makeStale()
        world.store.lie = .page(403)
        for _ in 0..<100 {
            try await world.scene.work()
            try await world.scene.pass(seconds: 3600)
        }
        world.store.lie = .code(4_000_999)
        for day in 1...60 {
            try await world.scene.work()
            #expect(try await world.job(.subscriptionStatus)?.isGivenUp == (day == 60))
            try await world.scene.pass(days: 1)
        }
        let job = try #require(try await world.job(.subscriptionStatus))
        #expect(job.failure?.contains("4000999") == true)
        #expect(reported.value.contains(job))
        try await world.retry(job)
        try await world.scene.work()
        #expect(try await world.job(.subscriptionStatus)?.isGivenUp == true)
        try await world.scene.pass(days: 30)
        try await world.scene.work()
        #expect(try await world.job(.subscriptionStatus) == nil)
    }

    // MARK: - The history of notifications, and a backfill

    @Test(arguments: rows) func `the history of notifications is read once Apple can be asked`(row: Row) async throws {
        let world = try await World()
        try await world.scene.buy()
        world.store.lie = row.lie
        try await world.scene.work()
        let job = try #require(try await world.job(.notificationHistory))
        let isSoon = job.dueAt <= world.scene.time.now.advanced(by: .seconds(3600))
        let state = job.failure == nil ? "done" : isSoon ? "soon" : "late"
        #expect("\(state) \(Self.code(job.failure))".trimming == row.reading)

        world.store.lie = nil
        try await world.scene.pass(seconds: 3600)
        try await world.scene.work()
        #expect(try await world.job(.notificationHistory)?.failure == nil)
        #expect(try await world.scene.entitlements == ["pro"])
    }

    @Test(arguments: rows) func `a line of a backfill fails with the reason, and is taken in the next time`(
        row: Row
    ) async throws {
        let world = try await World()
        try await world.scene.buy()
        let line = (number: 1, question: try HistoryQuestion(transactionId: await world.transactionId))
        let time = world.scene.time
        let made = Backfill(
            [world.scene.reconciler], wall: { time.now }, sleep: { time.now = time.now.advanced(by: $0) })
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
        world.store.lie = row.lie
        #expect(try await outcome() == row.line)
        world.store.lie = nil
        #expect(["taken", "covered"].contains(try await outcome()))
        #expect(try await world.scene.entitlements == ["pro"])
    }
}

extension String {
    /// The text without a blank at its end.
    fileprivate var trimming: String { hasSuffix(" ") ? String(dropLast()) : self }
}
