// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOCore
import NIOPosix
import PurchaseServer
import Synchronization
import Testing

/// Long bodies: their budget of memory, and their order.
@Suite(.timeLimit(.minutes(60))) struct LongBodyTests {
    /// Sends a body of spaces, and returns the response.
    private static func post(_ path: String, length: Int, port: Int) async throws -> String {
        let client = try await RawClient(port: port)
        await client.post(path, length: length, sent: length)
        return await client.answer(endingWith: "}")
    }

    @Test func `long bodies beyond the budget are answered 503, and short ones do not count`() async throws {
        var bounds = ServerBounds()
        bounds.bodyBytesInFlight = 1 << 20
        // One client holds its body as long as the test takes, on any machine.
        (bounds.bodyTimeout, bounds.requestTimeout) = (.seconds(3600), .seconds(3600))
        let log = LogLines()
        let world = try await LedgerRoutesTests.World()
        try await withServer(bounds, ledger: world.server.ledger, log: log) { running in
            let holder = try await RawClient(port: running.port)
            await holder.post("/verifyReceipt", length: 3 << 20, sent: 1 << 20)
            while running.server.bodyBytesInFlight < 1 << 20 - 64 << 10 { try await pause() }
            let answer = try await Self.post("/verifyReceipt", length: 200_000, port: running.port)
            #expect(answer.hasPrefix("HTTP/1.1 503"))
            #expect(answer.contains("\r\nRetry-After: 5\r\n"))
            #expect(answer.hasSuffix(#"{"status":21005}"#))
            let ours = try await Self.post("/notifications/v1", length: 200_000, port: running.port)
            #expect(ours.hasPrefix("HTTP/1.1 503"))
            #expect(ours.contains("\r\nRetry-After: 5\r\n"))
            #expect(ours.contains(#""code":"overloaded""#) && ours.contains(#""retryable":true"#))
            let short = try await Self.post("/verifyReceipt", length: 64 << 10, port: running.port)
            #expect(short.hasSuffix(#"{"status":21000}"#))
            await holder.close()
            while running.server.bodyBytesInFlight > 0 { try await pause() }
            #expect(
                try await Self.post("/verifyReceipt", length: 200_000, port: running.port).hasPrefix("HTTP/1.1 200"))
        }
        #expect(log.text.filter { $0.hasPrefix("Long bodies or answers were refused") }.count == 1, "\(log.text)")
    }

    @Test func `one client can use at most a quarter of the budget`() async throws {
        var bounds = ServerBounds()
        bounds.bodyBytesInFlight = 4 << 20
        (bounds.bodyTimeout, bounds.requestTimeout) = (.seconds(3600), .seconds(3600))
        bounds.trustsLoopback = false
        try await withServer(bounds) { running in
            let holder = try await RawClient(port: running.port)
            await holder.post("/verifyReceipt", length: 3 << 20, sent: 1 << 20)
            while running.server.bodyBytesInFlight < 1 << 20 - 64 << 10 { try await pause() }
            #expect(
                try await Self.post("/verifyReceipt", length: 200_000, port: running.port).hasPrefix("HTTP/1.1 503"))
            let other = try await RawClient(port: running.port, from: "127.0.0.2")
            await other.post("/verifyReceipt", length: 200_000, sent: 200_000)
            #expect(await other.answer(endingWith: "}").hasSuffix(#"{"status":21000}"#))
        }
    }

    struct Arrival: Sendable {
        var name: String
        var client: String?
        var size: Int
        init(_ name: String, _ client: String?, _ size: Int) {
            (self.name, self.client, self.size) = (name, client, size)
        }
    }

    /// Lets bodies arrive while another one is handled. Returns the handled ones in order, and the refused ones.
    ///
    /// - Parameter later: One more body, which arrives after `count` of the others have begun.
    private static func order(
        _ arrivals: [Arrival], later: (count: Int, arrival: Arrival)? = nil, limit: Int = 100
    ) async throws -> (handled: [String], refused: Set<String>) {
        let queue = LongBodyQueue(threads: 1, limit: limit)
        let (gate, opened) = AsyncStream.makeStream(of: Void.self)
        let (handled, refused) = (Names(), Names())
        try await withThrowingTaskGroup(of: Void.self) { group in
            var arrived = 0
            func arrive(_ arrival: Arrival) async throws {
                group.addTask {
                    do {
                        try await queue.run(arrival.size, for: arrival.client.flatMap { IPAddress($0) }) {
                            handled.add(arrival.name)
                            for await _ in gate { break }
                        }
                    } catch {
                        refused.add(arrival.name)
                    }
                }
                arrived += 1
                while queue.count + handled.all.count + refused.all.count < arrived { try await pause() }
            }
            try await arrive(Arrival("first", nil, 1))
            for arrival in arrivals { try await arrive(arrival) }
            if let later {
                while handled.all.count <= later.count {
                    let count = handled.all.count
                    opened.yield()
                    while handled.all.count == count { try await pause() }
                }
                try await arrive(later.arrival)
            }
            opened.finish()
            try await group.waitForAll()
        }
        return (Array(handled.all.dropFirst()), Set(refused.all))
    }

    private final class Names: Sendable {
        private let names = Mutex<[String]>([])
        var all: [String] { names.withLock { $0 } }
        func add(_ name: String) { names.withLock { $0.append(name) } }
    }

    /// The long bodies come from one client, from a client each, or from a proxy that names no client.
    @Test(arguments: ["192.0.2.2", "192.0.2.", nil] as [String?], [0, 1, 8, 31])
    func `a receipt is handled before the longer bodies that wait, whenever it arrives`(
        client: String?, count: Int
    ) async throws {
        let attack = (0..<32).map { index in
            Arrival("attack \(index)", client.map { $0.hasSuffix(".") ? $0 + "\(100 + index)" : $0 }, 3 << 20)
        }
        let receipt = Arrival("receipt", client.map { _ in "192.0.2.1" }, 105_000)
        let handled = try await Self.order(attack, later: (count, receipt)).handled
        let place = try #require(handled.firstIndex(of: "receipt"))
        #expect(place <= count + 2, "\(handled)")
        #expect(handled.filter { $0 != "receipt" } == attack.map(\.name))
    }

    @Test func `clients take turns, and no body waits forever`() async throws {
        let three = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3"]
        let bodies = three.enumerated().map { Arrival("\($1.last ?? " ")\($0)", $1, 100_000) }
        #expect(try await Self.order(bodies).handled == ["10", "23", "35", "11", "24", "12"])
        let long = [Arrival("long", "192.0.2.1", 300_000)]
        let short = (0..<5).map { Arrival("short \($0)", "192.0.2.2", 100_000) }
        #expect(try await Self.order(long + short).handled.firstIndex(of: "long") == 2)
    }

    @Test(arguments: [false, true])
    func `a body whose client has disconnected leaves the queue, and is not handled`(isTaskCancelled: Bool) async throws
    {
        let queue = LongBodyQueue(threads: 1)
        let closed = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: Void.self)
        defer { closed.succeed() }
        let (gate, opened) = AsyncStream.makeStream(of: Void.self)
        let handled = Names()
        let first = Task {
            try await queue.run(1, for: nil) {
                handled.add("first")
                for await _ in gate {}
            }
        }
        while handled.all.isEmpty { try await pause() }
        let gone = Task {
            try await queue.run(1, for: nil, until: closed.futureResult) { handled.add("gone") }
        }
        while queue.count == 0 { try await pause() }
        if isTaskCancelled { gone.cancel() } else { closed.succeed() }
        await #expect(throws: CancellationError.self) { try await gone.value }
        #expect(queue.count == 0)
        // A body whose client has already disconnected does not wait at all.
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await queue.run(1, for: nil) { handled.add("late") }
        }
        await #expect(throws: CancellationError.self) { try await late.value }
        opened.finish()
        try await first.value
        try await queue.run(1, for: nil) { handled.add("last") }
        #expect(handled.all == ["first", "last"])
    }

    @Test func `if a client disconnects while its body waits, the bytes return to the budget`() async throws {
        try await withServer(ServerBounds()) { running in
            let (gate, opened) = AsyncStream.makeStream(of: Void.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                // All threads are busy until this stream ends.
                for _ in 0..<System.coreCount {
                    group.addTask { try await running.server.bodies.queue.run(1, for: nil) { for await _ in gate {} } }
                }
                let count = System.coreCount - max(1, System.coreCount - 1)
                while running.server.bodies.queue.count < count { try await pause() }
                let client = try await RawClient(port: running.port)
                await client.post("/verifyReceipt", length: 200_000, sent: 200_000)
                while running.server.bodies.queue.count == count { try await pause() }
                #expect(running.server.bodyBytesInFlight > 0)
                try await client.reset()
                while running.server.bodyBytesInFlight > 0 { try await pause() }
                #expect(running.server.bodies.queue.count == count)
                opened.finish()
                try await group.waitForAll()
            }
        }
    }

    @Test func `if too many bodies wait, the last ones in the order of handling are refused`() async throws {
        let attack = (0..<3).map { Arrival("attack \($0)", "192.0.2.1", 3 << 20) }
        let honest = (0..<2).map { Arrival("honest \($0)", "192.0.2.2", 105_000) }
        let (handled, refused) = try await Self.order(attack + honest, limit: 3)
        #expect(handled == ["honest 0", "honest 1", "attack 0"])
        #expect(refused == ["attack 1", "attack 2"])
    }
}
