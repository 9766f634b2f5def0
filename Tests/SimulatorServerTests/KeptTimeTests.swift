// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Logging
import PurchaseServer
import ServiceLifecycle
import SimulatorServer
import Synchronization
import Testing

/// The time of a simulator for others in its process, and the time that is kept for its next run.
@Suite(.timeLimit(.minutes(60))) struct KeptTimeTests {
    private final class Kept: Sendable {
        private let times = Mutex<[Timestamp]>([])
        var all: [Timestamp] { times.withLock(\.self) }
        @Sendable func keep(_ time: Timestamp) { times.withLock { $0.append(time) } }
    }

    /// The machine's clock, which a test turns.
    private final class Wall: Sendable {
        private let time = Mutex(Timestamp(milliseconds: 1_800_000_000_000))
        @Sendable func now() -> Timestamp { time.withLock(\.self) }
        func turn(milliseconds: Int64) {
            time.withLock { $0 = Timestamp(milliseconds: $0.milliseconds + milliseconds) }
        }
    }

    private static func host(
        speed: Double, _ kept: Kept, wall: @escaping @Sendable () -> Timestamp
    ) throws
        -> SimulatorHost
    {
        let authority = try StoreAuthority.fixture()
        let store = SimulatedStore(
            World(
                seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: RunningSimulator.start),
            WorldSigner(authority), try StoreKey(seed: 1))
        return SimulatorHost(
            Simulator(store, roots: try SimulatorRoots(authority), speed: speed, at: wall()), wall: wall,
            keepTime: kept.keep)
    }

    private static func command(_ host: SimulatorHost, _ path: String, _ body: String = "") async throws -> JSONValue {
        try JSONValue(parsing: await host.update { $0.control("POST", path, Array(body.utf8), at: $1) }.body)
    }

    @Test(arguments: [0, 1, 86_400, TurnableClock.topSpeed])
    func `no answer has a later time than was kept before it`(speed: Double) async throws {
        let (kept, wall) = (Kept(), Wall())
        let host = try Self.host(speed: speed, kept, wall: wall.now)
        _ = try await Self.command(host, "/customers", #"{"name":"anna"}"#)
        // In ten years the certificates are still valid.
        for step in 0..<100 {
            let answer =
                step % 50 == 49
                ? try await Self.command(host, "/clock/advance", #"{"days":40}"#)
                : try await Self.command(host, "/customers/anna/buy", #"{"product":"com.example.coins"}"#)
            let date = try #require(answer["date"]?.string.flatMap { Timestamp(iso8601: $0) })
            let last = try #require(kept.all.last)
            #expect(date <= last)
            #expect(await host.reachedTime() <= last)
            wall.turn(milliseconds: 100)
        }
        #expect(kept.all == kept.all.sorted())
        // 10 seconds with two turns of the clock: not one for each request, unless a year passes in a second.
        if speed <= 86_400 { #expect(kept.all.count <= 4, "\(kept.all.count)") }
    }

    @Test func `a server in the simulator's process has its time without a request`() async throws {
        let (kept, wall) = (Kept(), Wall())
        let authority = try StoreAuthority.fixture()
        let store = SimulatedStore(
            World(
                seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: RunningSimulator.start),
            WorldSigner(authority), try StoreKey(seed: 1))
        let server = SimulatorServer(
            Simulator(store, roots: try SimulatorRoots(authority), speed: 86_400, at: wall.now()), wall: wall.now,
            clock: ContinuousClock(), keepTime: kept.keep, logger: Logger(label: "test"))
        let clock = SimulatorClock("http://127.0.0.1:9000", now: server.now)
        #expect(clock.now() == RunningSimulator.start)
        wall.turn(milliseconds: 1000)
        #expect(clock.now().milliseconds == RunningSimulator.start.milliseconds + 86_400_000)
        _ = await server.host.update {
            $0.control("POST", "/clock/advance", Array(#"{"days":10}"#.utf8), at: $1)
        }
        let turned = clock.now()
        #expect(turned.milliseconds >= RunningSimulator.start.milliseconds + 11 * 86_400_000)
        // The machine's clock is set back.
        wall.turn(milliseconds: -5000)
        #expect(clock.now() == turned)
    }

    @Test func `a clock that asks nobody runs until shutdown`() async throws {
        let clock = SimulatorClock("http://127.0.0.1:9000", now: { RunningSimulator.start })
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let group = ServiceGroup(services: [clock], logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }
}
