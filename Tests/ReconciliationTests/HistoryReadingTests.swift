// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import Reconciliation
import Synchronization
import TestData
import Testing

/// How the notification history is read while the App Store refuses, is away, or learns of a notification late.
@Suite struct HistoryReadingTests {
    private typealias Scene = JobTests.Scene

    /// What a reconciler calls with what was not read.
    private final class Unread: Sendable {
        private let jobs = Mutex<[Job]>([])
        var sentences: [String] { jobs.withLock { $0.compactMap(\.failure) } }
        func add(_ job: Job) { jobs.withLock { $0.append(job) } }
    }

    /// A page that another one follows.
    private static func page(before token: String) -> APIAnswer {
        APIAnswer(json: #"{"hasMore":true,"paginationToken":"\#(token)","notificationHistory":[]}"#)
    }

    /// The first page of a window, and of its token that it has expired.
    private static func expired(_ request: APIRequest) -> APIAnswer {
        request.query.isEmpty ? page(before: "token") : refusal(.paginationTokenExpired)
    }

    private static func refusal(_ code: APIErrorCode) -> APIAnswer { .refusal(code.rawValue) }

    /// The dates of a request for the history; `nil` of any other one.
    private static func dates(of request: APIRequest) -> ClosedRange<Int64>? {
        guard request.path.hasSuffix("/notifications/history"), let body = JSONValue(readable: request.body),
            let start = body["startDate"]?.integer, let end = body["endDate"]?.integer, start <= end
        else { return nil }
        return start...end
    }

    private func cursor(_ scene: Scene) async throws -> HistoryCursor {
        try #require(try await scene.jobs().compactMap(HistoryCursor.init).first)
    }

    private func failure(_ scene: Scene) async throws -> String? {
        try await scene.job(.notificationHistory)?.failure
    }

    private func started(_ scene: Scene) async throws -> Bool {
        try await scene.ledger.events(of: "com.example", limit: 100).events.contains { $0.kind == .subscriptionStarted }
    }

    @Test(arguments: [(.production, 179), (.sandbox, 29)] as [(AppStoreModel.Environment, Int64)])
    func `each environment's whole history is read at first, and nothing is refused`(
        environment: AppStoreModel.Environment, days: Int64
    ) async throws {
        let scene = try await Scene(in: environment)
        try await scene.buy()
        try await scene.work(afterDays: days)
        #expect(try await started(scene))
        #expect(try await failure(scene) == nil)
        #expect(try await cursor(scene).unread == nil)
        #expect(scene.requests.count <= 20)
    }

    @Test(arguments: [.production, .sandbox] as [AppStoreModel.Environment])
    func `after an outage longer than the history the rest is read, and what is lost is said once`(
        environment: AppStoreModel.Environment
    ) async throws {
        var scene = try await Scene(in: environment)
        let said = Unread()
        scene.reconciler.onUnread = { said.add($0) }
        try await scene.work()
        let last = scene.time.now
        let limit: Int64 = environment == .sandbox ? 30 : 180
        try await scene.pass(days: limit + 10)
        for _ in 0..<5 {
            try await scene.work()
            #expect(try await failure(scene) == nil)
            try await scene.pass(seconds: 900)
        }
        #expect(said.sentences.count == 1)
        #expect(said.sentences[0].contains("from \(last.iso8601) to "))
        // It is too old to be asked for again.
        try await scene.work(afterDays: 1)
        #expect(try await cursor(scene).unread == nil)
    }

    /// The App Store shows this many days of the history.
    private func show(days: Int64, _ scene: Scene, counting refusals: JobTests.Counter) {
        let time = scene.time
        scene.requests.answer = { request in
            guard let dates = Self.dates(of: request), dates.lowerBound < time.now.milliseconds - days * 86_400_000
            else { return nil }
            refusals.add(request)
            return Self.refusal(.startDateTooFarInPast)
        }
    }

    @Test(arguments: [30, 100, 170] as [Int64])
    func `what the App Store does not show is passed over at once, named once, and asked for again once a day`(
        days: Int64
    ) async throws {
        var scene = try await Scene()
        let (said, refusals) = (Unread(), JobTests.Counter())
        scene.reconciler.onUnread = { said.add($0) }
        try await scene.buy()
        try await scene.pass(days: 175)
        show(days: days, scene, counting: refusals)
        try await scene.work()
        #expect(try await failure(scene) == nil)
        #expect(refusals.count <= 3)
        #expect(said.sentences.count == 1)
        for _ in 0..<2 {
            let before = refusals.count
            for _ in 0..<8 { try await scene.work(afterSeconds: 10_800) }
            #expect(refusals.count - before <= 13)
        }
        #expect(try await scene.entitlements == ["pro"])
        #expect(refusals.count > 0 && said.sentences.count == 1)
        // All that the App Store shows was read by then, but for two days that grew too old.
        let unread = try #require(try await cursor(scene).unread)
        #expect(unread.end.milliseconds <= scene.time.now.milliseconds - (days - days / 3) * 86_400_000)
        // It shows all again.
        scene.requests.answer = nil
        try await scene.work(afterSeconds: 86_400)
        #expect(try await cursor(scene).unread == nil)
        #expect(try await started(scene))
    }

    @Test func `one refusal of yesterday's history, which nobody should refuse, skips nothing`() async throws {
        var scene = try await Scene()
        let said = Unread()
        scene.reconciler.onUnread = { said.add($0) }
        try await scene.work()
        try await scene.buy()
        try await scene.pass(days: 1)
        await scene.transport.update { $0.faults.failNext[.notificationHistory] = [.startDateTooFarInPast] }
        try await scene.work()
        #expect(try await failure(scene)?.hasPrefix("refused: ") == true)
        try await scene.work(afterSeconds: 60)
        #expect(try await failure(scene) == nil)
        #expect(try await started(scene))
        #expect(said.sentences.isEmpty)
        #expect(try await cursor(scene).unread == nil)
    }

    @Test func `a limit of half a day, which nobody knows, is found out, and no request is repeated for ever`()
        async throws
    {
        var scene = try await Scene()
        let (said, refusals) = (Unread(), JobTests.Counter())
        scene.reconciler.onUnread = { said.add($0) }
        try await scene.work()
        try await scene.pass(days: 2)
        let time = scene.time
        scene.requests.answer = { request in
            guard let dates = Self.dates(of: request), dates.lowerBound < time.now.milliseconds - 43_200_000 else {
                return nil
            }
            refusals.add(request)
            return Self.refusal(.startDateTooFarInPast)
        }
        for _ in 0..<40 {
            try await scene.work()
            try await scene.pass(seconds: 900)
        }
        #expect(try await failure(scene) == nil)
        #expect(try await cursor(scene).through > scene.time.now.advanced(by: .seconds(-1801)))
        #expect(said.sentences.count == 1)
        #expect(refusals.count <= 30)
    }

    @Test func `after an outage of 210 minutes a lost notification is found within 15 minutes`() async throws {
        let scene = try await Scene()
        try await scene.work()
        await scene.transport.update { $0.faults.internalErrors = 1 }
        try await scene.buy()
        for _ in 0..<210 { try await scene.work(afterSeconds: 60) }
        await scene.transport.update { $0.faults.internalErrors = 0 }
        #expect(try await !started(scene))
        try await scene.work(afterSeconds: 900)
        #expect(try await started(scene))
    }

    @Test(arguments: [0, 10] as [Int64])
    func `a notification whose first attempt came a day late is found within a day, also after an outage`(
        outage: Int64
    ) async throws {
        let scene = try await Scene()
        try await scene.work()
        await scene.transport.update {
            $0.faults.delays = 1
            $0.faults.longestDelay = 86_400
        }
        try await scene.transport.update { _ = try $0.world.buy("month", by: "anna") }
        try await scene.pass(seconds: 1)
        let due = try #require(await scene.transport.store.outbox.nextDue)
        try #require(due > scene.time.now.advanced(by: .seconds(10_800)), "Choose another seed.")
        while scene.time.now < due {
            try await scene.work()
            #expect(try await !started(scene))
            try await scene.pass(seconds: 900)
        }
        try await scene.pass(days: outage)
        if outage == 0 {
            for _ in 0..<96 {
                try await scene.work()
                try await scene.pass(seconds: 900)
            }
        }
        try await scene.work()
        #expect(try await started(scene))
    }

    @Test func `the last days are read again with one request a day, besides the 96 of the ordinary reading`()
        async throws
    {
        let scene = try await Scene()
        try await scene.buy()
        try await scene.work()
        let before = scene.requests.count
        for _ in 0..<(10 * 96) { try await scene.work(afterSeconds: 900) }
        #expect(scene.requests.count - before == 10 * 97)
    }

    @Test func `a slow second reading leaves the ordinary one its time, and a restarted server goes on with it`()
        async throws
    {
        let scene = try await Scene()
        try await scene.work()
        // An answer takes as long as half an interval, and no window has more than a minute.
        try await scene.pass(days: 2)
        let spans = JobTests.Counter()
        scene.requests.answer = { request in
            guard let dates = Self.dates(of: request) else { return nil }
            if dates.upperBound - dates.lowerBound > 90_000_000 { return Self.refusal(.paginationTokenExpired) }
            spans.add(request)
            return nil
        }
        scene.requests.delay = 450_000
        var last = scene.time.now
        for _ in 0..<12 {
            guard try await scene.workOnce() else { break }
            let cursor = try await cursor(scene)
            if let succeeded = cursor.succeededAt, succeeded > last { last = succeeded }
            // The interval, a window and the answers of the ordinary reading.
            #expect(scene.time.now.milliseconds - last.milliseconds <= 900_000 + 6 * 450_000)
        }
        scene.requests.delay = 0
        while try await scene.workOnce() {}
        // Each day of the five was read once more.
        let days = spans.requests.compactMap { Self.dates(of: $0) }.filter {
            $0.upperBound - $0.lowerBound > 50_000_000
        }
        #expect(Set(days.map(\.lowerBound)).count == days.count)
    }

    @Test func `a window whose tokens expire before it is read is halved until it can be read`() async throws {
        let scene = try await Scene()
        try await scene.buy()
        try await scene.pass(days: 100)
        scene.requests.answer = { request in
            guard let dates = Self.dates(of: request), dates.upperBound - dates.lowerBound > 50_000_000 else {
                return nil
            }
            return Self.expired(request)
        }
        try await scene.work()
        #expect(try await failure(scene) == nil)
        #expect(try await started(scene))
        #expect(try await cursor(scene).unread == nil)
    }

    @Test(arguments: [1, 2, 7])
    func `pages in a circle cost each attempt the circle and a page, and change no window`(length: Int) async throws {
        var scene = try await Scene()
        let (said, pages) = (Unread(), JobTests.Counter())
        scene.reconciler.onUnread = { said.add($0) }
        try await scene.work()
        try await scene.buy()
        let before = try await cursor(scene)
        scene.requests.answer = { request in
            guard Self.dates(of: request) != nil else { return nil }
            pages.add(request)
            return Self.page(before: "\(pages.count % length)")
        }
        for attempt in 1...20 {
            try await scene.work(afterSeconds: 900)
            #expect(pages.count == attempt * (length + 1))
            #expect(try await failure(scene)?.hasPrefix("contradiction: ") == true)
        }
        #expect(try await cursor(scene) == before && said.sentences.isEmpty)
        scene.requests.answer = nil
        try await scene.work(afterSeconds: 900)
        #expect(try await failure(scene) == nil)
        #expect(try await started(scene))
    }

    @Test(.takesLong) func `pages with ever new tokens end each attempt at the bound, and halve the window`()
        async throws
    {
        let scene = try await Scene()
        let pages = JobTests.Counter()
        try await scene.work()
        try await scene.buy()
        let window = try await cursor(scene).window
        // The rate limit lets as many requests pass.
        scene.requests.delay = 20
        scene.requests.answer = { request in
            pages.add(request)
            return Self.page(before: "\(pages.count)")
        }
        try await scene.work(afterSeconds: 900)
        #expect(pages.count == 20_000)
        #expect(try await failure(scene)?.hasPrefix("endlessPages: ") == true)
        #expect(try await cursor(scene).window == window / 2)
        scene.requests.answer = nil
        try await scene.work(afterSeconds: 900)
        #expect(try await failure(scene) == nil)
        #expect(try await started(scene))
    }

    @Test func `a second page that contradicts the first is no limit of the history, so nothing is skipped`()
        async throws
    {
        let scene = try await Scene()
        try await scene.work()
        try await scene.buy()
        for code in [APIErrorCode.startDateTooFarInPast, .appNotFound, .serverNotificationURLNotFound] {
            scene.requests.answer = { request in
                guard Self.dates(of: request) != nil else { return nil }
                return request.query.isEmpty ? Self.page(before: "token") : Self.refusal(code)
            }
            try await scene.work(afterSeconds: 900)
            let failure = try await failure(scene)
            #expect(failure?.hasPrefix("contradiction: ") == true && failure?.contains("\(code.rawValue)") == true)
        }
        #expect(try await cursor(scene).unread == nil)
        scene.requests.answer = nil
        try await scene.work(afterSeconds: 900)
        #expect(try await started(scene))
    }

    @Test func `a token that nobody sent has not expired, so nothing is skipped, and few questions are asked`()
        async throws
    {
        let scene = try await Scene()
        try await scene.work()
        try await scene.buy()
        scene.requests.answer = { request in
            Self.dates(of: request) == nil ? nil : Self.refusal(.paginationTokenExpired)
        }
        try await scene.pass(seconds: 900)
        let before = scene.requests.count
        for _ in 0..<14 {
            try await scene.work()
            try await scene.pass(seconds: 900)
        }
        // The window is halved to a minute once. Then there is a question for each interval.
        #expect(scene.requests.count - before <= 40, "\(scene.requests.count - before)")
        #expect(try await failure(scene)?.contains("4000017") == true)
        #expect(try await cursor(scene).unread == nil)
        scene.requests.answer = nil
        try await scene.work()
        #expect(try await started(scene))
    }

    @Test func `a minute that cannot be read is passed over after some attempts, and read once it can be`()
        async throws
    {
        var scene = try await Scene()
        let said = Unread()
        scene.reconciler.onUnread = { said.add($0) }
        try await scene.work()
        try await scene.buy()
        let moment = try #require(await scene.transport.store.outbox.entries.first).date.milliseconds
        scene.requests.answer = { request in
            guard let dates = Self.dates(of: request), dates.contains(moment) else { return nil }
            return Self.expired(request)
        }
        try await scene.pass(seconds: 900)
        for _ in 0..<10 {
            try await scene.work()
            try await scene.pass(seconds: 900)
        }
        #expect(try await failure(scene) == nil)
        #expect(try await !started(scene))
        let unread = try #require(try await cursor(scene).unread)
        #expect(unread.start.milliseconds <= moment && moment <= unread.end.milliseconds)
        #expect(unread.end.milliseconds - unread.start.milliseconds <= 300_000)
        #expect(said.sentences.count == 1)
        scene.requests.answer = nil
        try await scene.work(afterDays: 1)
        #expect(try await started(scene))
        #expect(try await cursor(scene).unread == nil)
    }

    @Test(arguments: [1, 2])
    func `a customer's history whose place the App Store refuses is read from its beginning, once`(
        refusals: Int
    ) async throws {
        var scene = try await Scene()
        let failed = Unread()
        scene.onFailure = { failed.add($0) }
        try await scene.buy()
        let id = await scene.transactionId
        let payload = Array(
            #"{"transactions":["\#(id)"],"revision":"place","hasBegunAnew":false,"hasSubscription":false}"#.utf8)
        try await scene.ledger.add(
            Job(Job.ID(.customerHistory, id, in: scene.scope), dueAt: scene.time.now, payload: payload),
            at: scene.time.now)
        let codes = Array(repeating: APIErrorCode.invalidRequestRevision, count: refusals)
        await scene.transport.update { $0.faults.failNext[.history] = codes }
        while try await scene.workOnce() {}
        // One that was given up stays, with the reason.
        let jobs = try await scene.jobs()
        #expect(jobs.count == refusals - 1 && jobs.allSatisfy { $0.failure != nil })
        #expect(failed.sentences.count == refusals - 1)
        #expect(try await scene.entitlements == (refusals == 1 ? ["pro"] : []))
    }
}
