// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization
import TestData
import Testing

/// Which jobs a runner does, in which order and how many at once, and what it does when they fail.
@Suite struct JobRunnerTests {
    private static let scopes = ["com.example.a", "com.example.b"].map {
        LedgerScope(bundleId: $0, environment: .production)
    }
    private static let (heavy, light) = (Job.Kind(rawValue: "heavy"), Job.Kind(rawValue: "light"))

    /// A ledger, a time, and what is to become of each job.
    private final class Scene: Sendable {
        private struct State {
            var now = Timestamp(milliseconds: 1_769_851_800_000)
            var done: [Job.ID] = []
            var failure: @Sendable (Job) -> JobFailure? = { _ in nil }
        }

        let ledger = Ledger(storage: MemoryLedgerStorage())
        let asksNobody: Set<Job.Kind>
        private let state = Mutex(State())

        init(asksNobody: Set<Job.Kind> = []) { self.asksNobody = asksNobody }

        var now: Timestamp { state.withLock { $0.now } }
        /// The jobs that were begun, in this order.
        var done: [Job.ID] { state.withLock { $0.done } }

        func pass(_ time: Duration) { state.withLock { $0.now = $0.now.advanced(by: time) } }
        func fail(_ failure: @escaping @Sendable (Job) -> JobFailure?) { state.withLock { $0.failure = failure } }

        func runner(
            _ kinds: [Job.Kind] = [heavy, light], in scopes: [LedgerScope] = scopes, maxAtOnce: Int = 3
        ) -> JobRunner {
            let table = kinds.enumerated().map { number, kind in
                JobKind(kind, in: scopes, weight: -number, maxAtOnce: maxAtOnce) { lease in
                    let failure = self.state.withLock { state in
                        state.done.append(lease.job.id)
                        return state.failure
                    }
                    if let failure = failure(lease.job) { throw failure }
                    if !self.asksNobody.contains(kind) { lease.noteAnswer() }
                    return .done
                }
            }
            return JobRunner(ledger, table, now: { self.now })
        }

        func add(
            _ kind: Job.Kind, _ names: some Sequence<Int>, in scope: LedgerScope, after: Duration = .zero
        )
            async throws
        {
            for name in names {
                let job = Job(Job.ID(kind, "\(name)", in: scope), dueAt: now.advanced(by: after + .milliseconds(name)))
                try await ledger.add(job, at: now)
            }
        }

        /// The runner is called each second for a while.
        func work(_ runner: JobRunner, for seconds: Int) async throws {
            for _ in 0..<seconds {
                pass(.seconds(1))
                while try await runner.workOnce() {}
            }
        }

        var left: [Job] { get async throws { try await ledger.jobs().items } }
    }

    @Test func `a flood of one kind and app holds up neither another kind of the app nor another app`() async throws {
        let scene = Scene()
        try await scene.add(Self.light, 0..<200, in: Self.scopes[0])
        try await scene.add(Self.heavy, [0], in: Self.scopes[0], after: .milliseconds(500))
        try await scene.add(Self.light, [0], in: Self.scopes[1], after: .milliseconds(500))
        scene.pass(.seconds(1))
        let begun = try await scene.runner().begin().jobs.map(\.id)
        #expect(begun.first == Job.ID(Self.heavy, "0", in: Self.scopes[0]))
        #expect(begun.contains(Job.ID(Self.light, "0", in: Self.scopes[1])))
        #expect(begun.filter { $0.kind == Self.light && $0.scope == Self.scopes[0] }.map(\.name) == ["0", "1", "2"])
    }

    @Test func `jobs of one weight begin in the order of their apps, in each process`() async throws {
        let scene = Scene()
        // A set of so many has this order by chance once in 40,320 processes.
        let scopes = "hgfedcba".map { LedgerScope(bundleId: "com.example.\($0)", environment: .production) }
        for scope in scopes { try await scene.add(Self.light, [0], in: scope) }
        scene.pass(.seconds(1))
        let begun = try await scene.runner(in: scopes).begin().jobs
        #expect(begun.map(\.id.scope) == scopes.reversed())
    }

    @Test func `at once there are as many jobs of a kind as the table says, and eight of an app`() async throws {
        let scene = Scene()
        for kind in [Self.heavy, Self.light] { try await scene.add(kind, 0..<20, in: Self.scopes[0]) }
        scene.pass(.seconds(1))
        let runner = scene.runner(maxAtOnce: 5)
        let begun = try await runner.begin().jobs
        #expect(begun.count { $0.id.kind == Self.heavy } == 5 && begun.count == 8)
        runner.search()
        #expect(try await runner.begin().jobs.isEmpty)
        try await runner.perform(begun[0])
        #expect(try await runner.begin().jobs.map(\.id) == [Job.ID(Self.heavy, "5", in: Self.scopes[0])])
    }

    @Test func `jobs of another kind, and of an app that the table does not name, are left alone`() async throws {
        let scene = Scene()
        try await scene.add(Job.Kind(rawValue: "of a newer version"), 0..<100, in: Self.scopes[0])
        try await scene.add(Self.light, 0..<100, in: Self.scopes[1])
        let before = Set(try await scene.left)
        try await scene.add(Self.light, [100], in: Self.scopes[0])
        scene.pass(.seconds(1))
        while try await scene.runner(in: [Self.scopes[0]]).workOnce() {}
        #expect(scene.done == [Job.ID(Self.light, "100", in: Self.scopes[0])])
        #expect(Set(try await scene.left) == before)
    }

    @Test(.takesLong, arguments: [JobFailure.Extent.all, .perhapsAll], [nil, Duration.seconds(1), .seconds(7200)])
    func `while all jobs of an app fail, one a minute is tried, and after that all are done within a minute`(
        extent: JobFailure.Extent, pause: Duration?
    ) async throws {
        let scene = Scene()
        try await scene.add(Self.light, 0..<300, in: Self.scopes[0])
        try await scene.add(Self.light, 0..<300, in: Self.scopes[1])
        scene.fail { [scope = Self.scopes[0]] job in
            job.id.scope == scope ? JobFailure("It fails.", extent: extent, pause: pause) : nil
        }
        let runner = scene.runner()
        try await scene.work(runner, for: 1200)
        let tried = scene.done.count { $0.scope == Self.scopes[0] }
        #expect((20...25).contains(tried), "\(tried) attempts")
        #expect(scene.done.count { $0.scope == Self.scopes[1] } == 300)
        scene.fail { _ in nil }
        try await scene.work(runner, for: 61)
        let left = try await scene.left.count
        // What failed itself is tried again when it was told to.
        #expect(pause == .seconds(7200) ? left == tried : left == 0, "\(left)")
    }

    @Test func `one job that always fails as in an outage delays only itself`() async throws {
        let scene = Scene()
        try await scene.add(Self.light, 0..<100, in: Self.scopes[0])
        scene.fail { $0.id.name == "3" ? JobFailure("It fails.", extent: .perhapsAll) : nil }
        let runner = scene.runner()
        try await scene.work(runner, for: 2)
        #expect(try await scene.left.map(\.id.name) == ["3"])
        try await scene.work(runner, for: 3600)
        let attempts = scene.done.count { $0.name == "3" }
        #expect((5...70).contains(attempts), "\(attempts)")
    }

    @Test func `a job that always fails keeps no lighter kind of its app from being done`() async throws {
        let scene = Scene()
        try await scene.add(Self.heavy, [0], in: Self.scopes[0])
        scene.fail { $0.id.kind == Self.heavy ? JobFailure("It fails.", extent: .perhapsAll) : nil }
        let runner = scene.runner()
        try await scene.work(runner, for: 3600)
        try await scene.add(Self.light, 0..<10, in: Self.scopes[0])
        try await scene.work(runner, for: 62)
        #expect(try await scene.left.map(\.id.kind) == [Self.heavy])
    }

    @Test func `jobs that ask nobody end no pause`() async throws {
        let scene = Scene(asksNobody: [Self.heavy])
        try await scene.add(Self.heavy, 0..<100, in: Self.scopes[0])
        try await scene.add(Self.light, 0..<100, in: Self.scopes[0])
        scene.fail { $0.id.kind == Self.light ? JobFailure("It fails.", extent: .all) : nil }
        try await scene.work(scene.runner(), for: 1200)
        let tried = scene.done.count { $0.kind == Self.light }
        #expect((10...30).contains(tried), "\(tried)")
    }

    @Test func `the pauses of one job that fails by itself grow to an hour`() async throws {
        let scene = Scene()
        try await scene.add(Self.light, [0], in: Self.scopes[0])
        scene.fail { _ in JobFailure("It fails.") }
        var pauses: [Int64] = []
        let runner = scene.runner()
        scene.pass(.seconds(1))
        for _ in 0..<9 {
            #expect(try await runner.workOnce())
            let job = try #require(try await scene.left.first)
            #expect(job.failure == "It fails.")
            pauses.append((job.dueAt.milliseconds - scene.now.milliseconds) / 1000)
            scene.pass(.seconds(pauses.last ?? 0))
        }
        #expect(pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600])
    }

    @Test func `a clock that is set back neither prolongs a pause nor postpones a job for long`() async throws {
        let scene = Scene()
        try await scene.add(Self.light, 0..<10, in: Self.scopes[0])
        let runner = scene.runner()
        scene.pass(.seconds(86_400 * 10))
        scene.fail { _ in JobFailure("It fails.", extent: .all) }
        try await scene.work(runner, for: 1)
        scene.pass(.seconds(-86_400 * 10))
        scene.fail { _ in nil }
        try await scene.work(runner, for: 60)
        #expect(try await scene.left.count == 1)
        #expect(try await runner.pullBack() == 1)
        try await scene.work(runner, for: 1)
        #expect(try await scene.left.isEmpty)
    }

    @Test func `a job that waits no longer than its kind may is not pulled back`() async throws {
        let scene = Scene()
        try await scene.add(Self.light, [0], in: Self.scopes[0], after: .seconds(2 * 86_400 - 1))
        try await scene.add(Self.light, [1], in: Self.scopes[0], after: .seconds(2 * 86_400 + 1))
        #expect(try await scene.runner().pullBack() == 1)
        #expect(try await scene.left.first { $0.id.name == "1" }?.dueAt == scene.now)
    }

    @Test func `a job whose worker died is done again when its lease has ended`() async throws {
        let scene = Scene()
        try await scene.add(Self.light, [0], in: Self.scopes[0])
        scene.pass(.seconds(1))
        #expect(try await scene.runner().begin().jobs.count == 1)
        let other = scene.runner()
        try await scene.work(other, for: 119)
        #expect(scene.done.isEmpty)
        try await scene.work(other, for: 1)
        #expect(scene.done.count == 1)
        #expect(try await scene.left.isEmpty)
    }

    @Test func `a commit that leaves a job due says so, and no other commit does`() async throws {
        let calls = Mutex(0)
        var ledger = Ledger(storage: MemoryLedgerStorage())
        ledger.onDue = { calls.withLock { $0 += 1 } }
        let now = Timestamp(milliseconds: 1_769_851_800_000)
        let id = Job.ID(Self.light, "0", in: Self.scopes[0])
        try await ledger.add(Job(id, dueAt: now.advanced(by: .seconds(1))), at: now)
        #expect(calls.withLock { $0 } == 0)
        let later = now.advanced(by: .seconds(1))
        let leased = try await ledger.lease([id], until: later.advanced(by: .seconds(9)), at: later)
        #expect(leased.count == 1 && calls.withLock { $0 } == 0)
        try await ledger.replace(leased[0], with: leased[0].next(at: now, nil), at: now)
        #expect(calls.withLock { $0 } == 1)
    }
}
