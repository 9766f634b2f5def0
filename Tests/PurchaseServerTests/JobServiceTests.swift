// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import PurchaseServer
import Synchronization
import Testing
import TestWorld

/// When a server does what is due.
@Suite struct JobServiceTests {
    private static let now = Timestamp(milliseconds: 1_769_851_800_000)
    private static let scope = LedgerScope(bundleId: TestStore.bundleId, environment: .production)
    private static let kind = Job.Kind(rawValue: "kind")

    /// A clock on which time passes only if it is told: a pause lasts until then, or until its task is cancelled.
    private final class StoppedClock: Clock {
        typealias Instant = ContinuousClock.Instant

        let now = ContinuousClock().now
        var minimumResolution: Duration { .zero }
        private let waiting = Mutex<[AsyncStream<Void>.Continuation]>([])

        func sleep(until deadline: Instant, tolerance: Duration?) async throws {
            let (pause, end) = AsyncStream.makeStream(of: Void.self)
            waiting.withLock { $0.append(end) }
            for await _ in pause {}
            try Task.checkCancellation()
        }

        /// Ends all pauses.
        func pass() { waiting.withLock { $0.splice() }.forEach { $0.finish() } }
    }

    /// A server whose jobs are only counted, and the names of those that were done.
    private final class Scene: Sendable {
        let storage = MemoryLedgerStorage()
        let service: LedgerService
        let clock = StoppedClock()
        let done: AsyncStream<String>

        init() throws {
            let (done, note) = AsyncStream.makeStream(of: String.self)
            self.done = done
            var service = LedgerService(ledger: Ledger(storage: storage), verifier: try TestStore().verifier())
            service.jobs = [
                JobKind(kind, in: [scope], weight: 1, maxAtOnce: 1) { lease in
                    note.yield(lease.job.id.name)
                    return .done
                }
            ]
            self.service = service
        }

        /// Runs the server while `body` does.
        func serve(_ body: (inout AsyncStream<String>.Iterator) async throws -> Void) async throws {
            let jobs = JobService(
                service, now: { now }, clock: clock, logger: Logger(label: "test") { _ in LogLines() })
            let running = Task { try await jobs.run() }
            var iterator = done.makeAsyncIterator()
            try await body(&iterator)
            running.cancel()
            try await running.value
        }
    }

    private static func job(_ name: String) -> Job { Job(Job.ID(kind, name, in: scope), dueAt: now) }

    @Test func `a commit of this server that leaves a job due has it done without waiting for the next search`()
        async throws
    {
        let scene = try Scene()
        try await scene.serve { done in
            for name in ["a", "b"] {
                try await scene.service.ledger.add(Self.job(name), at: Self.now)
                #expect(await done.next() == name)
            }
        }
    }

    @Test func `a job that another server or a command has stored is done after the next search`() async throws {
        let scene = try Scene()
        let other = Ledger(storage: scene.storage)
        try await other.add(Self.job("a"), at: Self.now)
        try await scene.serve { done in
            #expect(await done.next() == "a")
            try await other.add(Self.job("b"), at: Self.now)
            let ticking = Task { [clock = scene.clock] in
                while true {
                    clock.pass()
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
            #expect(await done.next() == "b")
            ticking.cancel()
        }
    }
}

extension Array {
    /// Takes all elements.
    fileprivate mutating func splice() -> [Element] {
        defer { self = [] }
        return self
    }
}
