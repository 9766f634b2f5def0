// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Logging
import PurchaseLedger
import PurchaseServer
import Reconciliation
import TestWorld
import Testing

/// What the operator learns if a notification history is not read any more.
@Suite struct HistoryWatchTests {
    private typealias World = LedgerRoutesTests.World

    private static let start = TestStore.day(0)
    private static let (production, sandbox) = (scope(.production), scope(.sandbox))

    private static func scope(_ environment: AppStoreModel.Environment) -> LedgerScope {
        LedgerScope(bundleId: "com.example", environment: environment)
    }

    private static func after(_ seconds: Int64) -> Timestamp { start.advanced(by: .seconds(seconds)) }

    /// Stores the job of a history as a reading leaves it.
    ///
    /// - Parameters:
    ///   - success: When it was read to its end, in seconds after the start; `nil` for never.
    ///   - through: How far it was read.
    private static func store(
        _ scope: LedgerScope, success: Int64?, through: Int64, failure: String? = nil, in world: World
    ) async throws {
        let id = Job.ID(.notificationHistory, "", in: scope)
        if let old = try await world.ledger.job(id) { try await world.ledger.finish(old, at: start) }
        let end = success.map { #","succeededAt":\#(after($0).milliseconds)"# } ?? ""
        let payload = #"{"through":\#(after(through).milliseconds),"window":86400000,"again":[],"refusals":0\#(end)}"#
        try await world.ledger.add(
            Job(id, dueAt: after(through + 900), payload: Array(payload.utf8), failure: failure), at: start)
    }

    /// Looks, and returns the concern of `/health/ready`.
    private static func concern(_ world: World, after seconds: Int64) async throws -> String? {
        let service = try #require(world.server.ledger)
        _ = try await service.histories.look(at: [production, sandbox], in: world.ledger, at: after(seconds))
        return try await world.send(.get, "/health/ready", key: nil).1["concern"]?.string
    }

    @Test func `a history that was never read is a concern an hour after the first look, and not before`()
        async throws
    {
        let world = try await World()
        #expect(try await Self.concern(world, after: 0) == nil)
        #expect(try await Self.concern(world, after: 3600) == nil)
        let failure = "credentials: Apple refused the bearer token of 'Get Notification History'. ABCDEF1234 is the id."
        try await Self.store(Self.production, success: nil, through: 3000, failure: failure, in: world)
        let concern = try #require(try await Self.concern(world, after: 3601))
        #expect(
            concern.contains("com.example (Production) has not been read since \(Self.start.iso8601)"), "\(concern)")
        #expect(concern.contains("of 'Get Notification History'."), "\(concern)")
        #expect(!concern.contains("ABCDEF1234"), "readiness is public")
        #expect(concern.contains("com.example (Sandbox)") && concern.contains("no attempt has ended"), "\(concern)")
    }

    @Test func `a history is a concern from an hour after its last reading until the next`() async throws {
        let world = try await World()
        try await Self.store(Self.production, success: 0, through: 0, failure: "timedOut: x", in: world)
        try await Self.store(Self.sandbox, success: 3000, through: 3000, in: world)
        #expect(try await Self.concern(world, after: 3600) == nil)
        let concern = try #require(try await Self.concern(world, after: 3601))
        #expect(concern.contains("(Production)") && concern.contains("timedOut: x"), "\(concern)")
        #expect(!concern.contains("(Sandbox)"), "\(concern)")
        try await Self.store(Self.production, success: 3700, through: 3700, in: world)
        #expect(try await Self.concern(world, after: 3701) == nil)
    }

    @Test func `a reading that ends before the present is a concern too`() async throws {
        let world = try await World()
        try await Self.store(Self.production, success: 7200, through: 0, in: world)
        try await Self.store(Self.sandbox, success: 7200, through: 7200, in: world)
        let concern = try await Self.concern(world, after: 7200)
        #expect(
            concern?.contains("(Production) has not been read since \(Self.start.iso8601)") == true, "\(concern ?? "")")
    }

    @Test func `the log says once that a history is not read, and that it is again`() async throws {
        let (world, clock, log) = (try await World(), VirtualClock(), LogLines())
        try await Self.store(Self.production, success: 0, through: 0, failure: "timedOut: x", in: world)
        let service = try #require(world.server.ledger)
        let watcher = HistoryWatcher(
            service.histories, [Self.production], in: world.ledger,
            now: { Self.start.advanced(by: clock.now.offset) }, clock: clock,
            logger: Logger(label: "test") { _ in log })
        let task = Task { try await watcher.run() }
        func lines(_ message: String) -> [String] { log.text.filter { $0.hasPrefix(message) } }
        while lines("A notification history is not read").isEmpty { try await Task.sleep(for: .milliseconds(1)) }
        #expect(clock.now.offset > .seconds(3600))
        let end = clock.now.offset + .seconds(86_400)
        while clock.now.offset < end { try await Task.sleep(for: .milliseconds(1)) }
        try await Self.store(Self.production, success: 1 << 30, through: 1 << 30, in: world)
        while lines("A notification history is read again").isEmpty { try await Task.sleep(for: .milliseconds(1)) }
        task.cancel()
        _ = await task.result
        #expect(lines("A notification history is not read").count == 1)
        #expect(lines("A notification history is not read").first?.contains("timedOut: x") == true)
        #expect(lines("A notification history is read again").count == 1)
    }

    @Test func `a server that was down for days says nothing of what it reads in its first minute`() async throws {
        let world = try await World()
        let service = try #require(world.server.ledger)
        try await Self.store(Self.production, success: 0, through: 0, in: world)
        let look = try await service.histories.look(at: [Self.production], in: world.ledger, at: Self.after(90_000))
        #expect(look.late.map(\.since) == [Self.start] && look.over.isEmpty)
        try await Self.store(Self.production, success: 90_060, through: 90_060, in: world)
        let next = try await service.histories.look(at: [Self.production], in: world.ledger, at: Self.after(90_060))
        #expect(next.late.isEmpty && next.over.map(\.scope) == [Self.production])
    }
}
