// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreTrust
import Logging
import PurchaseLedger
import PurchaseLedgerTesting
import Synchronization
import TestWorld
import Testing

@testable import PurchaseServer

/// Tests when a clock is doubtful, and what waits until that is settled.
@Suite struct ClockJudgeTests {
    /// A machine whose wall clock is ahead of the time, or behind it.
    final class Machine: Sendable {
        /// Measures time, and is never set.
        let clock = VirtualClock()
        private let ahead = Mutex(Duration.zero)

        var time: Timestamp { TestStore.day(10).advanced(by: clock.now.offset) }
        var wall: Timestamp { time.advanced(by: ahead.withLock { $0 }) }

        func jump(_ distance: Duration) { ahead.withLock { $0 += distance } }

        func pass(_ seconds: Int64) async throws { try await clock.sleep(for: .seconds(seconds)) }

        func judge() -> ClockJudge { ClockJudge(now: { self.wall }, clock: clock) }
    }

    private static let eightHours = Duration.seconds(8 * 3600)

    static let jumps: [Duration] = [.seconds(61), eightHours, .seconds(40 * 86_400), .seconds(-61), .zero - eightHours]

    @Test(arguments: jumps) func `a clock that jumps by more than a minute is doubtful until something shows the time`(
        jump: Duration
    ) async throws {
        let machine = Machine()
        let judge = machine.judge()
        try await machine.pass(7 * 86_400)
        #expect(!judge.isDoubtful && judge.concern == nil, "time that passes is no jump, as a suspended machine's")
        machine.jump(jump)
        #expect(judge.isDoubtful && !judge.isConfirmed && judge.concern?.contains("jumped") == true)
        try await machine.pass(7 * 86_400)
        #expect(judge.isDoubtful, "silence settles nothing")
        judge.compare(aheadBy: .zero, of: .database)
        #expect(!judge.isDoubtful && judge.isConfirmed && judge.concern == nil)
        try await machine.pass(7 * 86_400)
        #expect(judge.isConfirmed)
        machine.jump(.zero - jump)
        #expect(judge.isDoubtful, "the clock was right, and jumped again")
    }

    @Test func `a clock that is set by seconds is not doubtful`() async throws {
        let machine = Machine()
        let judge = machine.judge()
        for jump in [60, -60, -60, 60] as [Int64] {
            machine.jump(.seconds(jump))
            #expect(!judge.isDoubtful)
        }
    }

    @Test func `a clock is doubtful while it is ahead of the database's or the App Store's, not behind`() async throws {
        let machine = Machine()
        machine.jump(Self.eightHours)
        let judge = machine.judge()
        #expect(!judge.isDoubtful && !judge.isConfirmed, "nothing has shown the time yet")
        judge.compare(aheadBy: Self.eightHours, of: .database)
        #expect(judge.concern?.contains("it is 28800 seconds ahead of the database's clock") == true)
        machine.jump(.zero - Self.eightHours)
        #expect(judge.isDoubtful)
        judge.appStoreSaid(machine.time)
        #expect(judge.isConfirmed)
        try await machine.pass(60)
        #expect(judge.appStoreTime == machine.time)

        let behind = machine.judge()
        machine.jump(.seconds(-50))
        behind.appStoreSaid(machine.time.advanced(by: .seconds(61)))
        #expect(!behind.isDoubtful && !behind.isConfirmed)
    }

    @Test func `after a start nothing is confirmed, until something shows the time or a day passes in silence`()
        async throws
    {
        let machine = Machine()
        let judge = machine.judge()
        #expect(!judge.isConfirmed && !judge.isDoubtful)
        try await machine.pass(86_399)
        #expect(!judge.isConfirmed)
        try await machine.pass(1)
        #expect(judge.isConfirmed)
    }

    /// - Parameter signed: How many seconds ago.
    private static func document(
        signed seconds: Int64, _ machine: Machine, in environment: AppStoreModel.Environment = .production
    ) -> Evidence {
        Evidence(
            .transaction, [1], LedgerScope(bundleId: "com.example", environment: environment),
            machine.time.advanced(by: .seconds(-seconds))
        ) { _ in ([], []) }
    }

    @Test func `a document that was signed within ten minutes settles it, unless a clock is more exact`() async throws {
        let machine = Machine()
        let judge = machine.judge()
        machine.jump(Self.eightHours)
        #expect(judge.isDoubtful)
        judge.sawDocuments([Self.document(signed: 0, machine)])
        #expect(judge.isDoubtful, "it was signed eight hours ago by this clock")
        machine.jump(.zero - Self.eightHours)
        judge.sawDocuments([Self.document(signed: 601, machine), Self.document(signed: 0, machine, in: .xcode)])
        #expect(judge.isDoubtful, "on a Mac anybody sets the clock")
        judge.sawDocuments([Self.document(signed: 600, machine)])
        #expect(judge.isConfirmed)
        machine.jump(.seconds(300))
        judge.appStoreSaid(machine.time)
        judge.sawDocuments([Self.document(signed: 0, machine)])
        #expect(judge.isDoubtful, "a clock that is five minutes ahead agrees with it too")
    }

    @Test(
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000), ("Sunday, 06-Nov-94 08:49:37 GMT", nil),
            ("Sun Nov  6 08:49:37 1994", nil), ("", nil), ("Sun, 32 Nov 1994 08:49:37 GMT", nil),
        ] as [(String, Int64?)])
    func `an answer of the App Store has the time in its field Date`(field: String, milliseconds: Int64?) {
        #expect(APIAnswer(status: 200, headers: ["date": field]).date?.milliseconds == milliseconds)
    }

    // MARK: - What waits

    /// A server with a ledger, on a machine.
    private struct Server {
        let machine = Machine()
        let storage = MemoryLedgerStorage()
        let lines = LogLines()
        let store: TestStore
        var service: LedgerService

        init() throws {
            store = try TestStore()
            service = LedgerService(ledger: Ledger(storage: storage), verifier: store.verifier())
            start()
        }

        /// Starts the server, again if it ran.
        mutating func start() {
            let catalogue = Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero)
            let rules = LedgerRules(catalogues: [TestStore.bundleId: catalogue])
            service = LedgerService(
                ledger: Ledger(storage: storage, rules: rules), verifier: store.verifier(),
                clockJudge: machine.judge())
        }

        /// One round of what the server does each second.
        func round() async throws {
            var housekeeping = Housekeeping(
                ledger: service.ledger, eventRetention: .seconds(30 * 86_400), now: { machine.wall },
                clock: VirtualClock(cancelsSleepingTasks: true), logger: Logger(label: "test") { [lines] _ in lines })
            housekeeping.judge = service.clockJudge
            let task = Task { [housekeeping] in try await housekeeping.run() }
            _ = await task.result
            _ = try await service.ledger.publishDueChanges(at: machine.wall)
        }

        /// The App Store signs a period, and it arrives after some seconds.
        func buy(_ id: String, from: Double, until: Double, after seconds: Int64 = 0) async throws -> Int {
            let payload = TestStore.transaction("\(id) \(from)", original: id, from: from, until: until) {
                $0.signedDate = machine.time
            }
            let token = try store.sign(payload)
            try await machine.pass(seconds)
            let evidence = try await service.verifier.evidence(transaction: token, at: machine.wall)
            return try await service.ledger.record([evidence], claimedBy: id, at: machine.wall).new
        }

        func delete(_ id: String) async throws {
            let scope = LedgerScope(bundleId: TestStore.bundleId, environment: .production)
            _ = try await service.ledger.delete(
                id, in: scope, at: machine.wall, isTimeConfirmed: service.clockJudge?.isConfirmed ?? true)
        }

        var events: [String] {
            get async throws {
                try await service.ledger.events(of: TestStore.bundleId, limit: 1000).events.map(\.kind.rawValue)
            }
        }
    }

    @Test(arguments: [eightHours, .seconds(40 * 86_400)], [true, false])
    func `while a clock is ahead no event is erased and no later document dropped, also over restarts`(
        ahead: Duration, isRunning: Bool
    ) async throws {
        var server = try Server()
        #expect(try await server.buy("anna", from: 10, until: 60) == 1)
        #expect(try await server.buy("bert", from: 10, until: 60) == 1)
        #expect(try await server.buy("cora", from: 10, until: 60) == 1)
        try await server.delete("cora")
        func formerIds() async throws -> Int {
            let deleted = RecordSelection(RecordKind(rawValue: "deletedCustomer"))
            return try await server.storage.records(deleted, limit: 10).count
        }
        try await server.round()
        try await server.machine.pass(86_400)
        let events = try await server.events
        #expect(!events.isEmpty)

        server.machine.jump(ahead)
        if !isRunning { server.start() }
        try await server.round()
        #expect(try await server.events.starts(with: events), "an event was erased")
        #expect(try await formerIds() == 1, "the ids of a deleted customer were erased")
        try await server.delete("bert")
        #expect(try await server.buy("bert", from: 60, until: 90, after: 5) == 1, "a document was dropped")
        try await server.round()

        server.machine.jump(.zero - ahead)
        try await server.round()
        #expect(try await server.events.starts(with: events), "an event was erased")
        #expect(server.service.concern?.contains("is doubtful") == true)
        #expect(server.lines.text.contains { $0.contains("The machine's clock is doubtful") })
        try await server.delete("anna")
        #expect(try await server.buy("anna", from: 60, until: 90, after: 5) == 1, "a document was dropped")
        #expect(server.service.concern == nil, "a document shows that the clock is right")

        // Now events are erased when they are old.
        try await server.machine.pass(100 * 86_400)
        try await server.round()
        #expect(try await server.storage.marks().erasedEvents.values.contains { $0 > 0 })
        #expect(try await formerIds() == 0)
    }

    @Test func `a document that was signed before a deletion by a right clock is dropped`() async throws {
        let server = try Server()
        #expect(try await server.buy("anna", from: 10, until: 60) == 1)
        let payload = TestStore.transaction("late", original: "anna", from: 60, until: 90, signed: 10.001)
        try await server.machine.pass(3600)
        try await server.delete("anna")
        let evidence = try await server.service.verifier.evidence(
            transaction: server.store.sign(payload), at: server.machine.wall)
        #expect(try await server.service.ledger.record([evidence], at: server.machine.wall).new == 0)
    }

    @Test func `a failed commit counts no longer for readiness because the clock was set back`() async throws {
        let readiness = Readiness(Ledger(storage: MemoryLedgerStorage()))
        readiness.committed(LedgerStorageError(.full, "a test"))
        #expect(await readiness.fault(at: TestStore.day(50)) != nil)
        #expect(await readiness.fault(at: TestStore.day(10)) == nil)
    }

    @Test func `a commit that waited too long for others does not count for readiness`() async throws {
        let readiness = Readiness(Ledger(storage: MemoryLedgerStorage()))
        readiness.committed(LedgerStorageError(.unavailable, "a test"))
        #expect(await readiness.fault(at: TestStore.day(50)) == nil)
    }

    @Test func `of two servers whose clocks differ, one corrects the other at most once a minute`() async throws {
        let machine = Machine()
        let storage = MemoryLedgerStorage()
        let store = try TestStore()
        let rules = LedgerRules(catalogues: [TestStore.bundleId: Catalogue(staleLeeway: .zero)])
        let ledger = Ledger(storage: storage, rules: rules)
        let token = try store.sign(TestStore.transaction(from: 0, until: 10.1))
        let document = try await store.verifier().evidence(transaction: token, at: machine.time)
        _ = try await ledger.record([document], at: machine.time)
        let rounds = Mutex(0)
        let (enough, done) = AsyncStream.makeStream(of: Void.self)
        let contested = ContestedStorage(inner: storage) {
            // The other server, whose clock is 8 hours ahead. It stops after six rounds, whenever this one ends.
            guard rounds.withLock({ $0 }) < 6 else { return }
            _ = try? await ledger.publishDueChanges(at: machine.time.advanced(by: Self.eightHours))
            let count = rounds.withLock { count in
                count += 1
                return count
            }
            if count == 6 { done.finish() }
        }
        let housekeeping = Housekeeping(
            ledger: Ledger(storage: contested, rules: rules), now: { machine.time }, clock: machine.clock,
            logger: Logger(label: "test") { _ in LogLines() })
        let running = Task { try await housekeeping.run() }
        for await _ in enough {}
        running.cancel()
        _ = await running.result
        let updates = try await ledger.events(of: TestStore.bundleId, limit: 1000).events.count {
            $0.kind == .subscriptionUpdated
        }
        #expect((4...7).contains(updates), "\(updates) corrections in five minutes")
        #expect(machine.clock.now.offset >= .seconds(300))
    }
}

/// A storage on which another server works before each search for corrections.
private struct ContestedStorage: ForwardingStorage {
    let inner: any LedgerStorage
    let other: @Sendable () async -> Void

    func chains(
        _ selection: ChainSelection, after cursor: ScanCursor?, limit: Int
    ) async throws -> ScanPage<ChainKey> {
        if case .ahead = selection { await other() }
        return try await inner.chains(selection, after: cursor, limit: limit)
    }
}
