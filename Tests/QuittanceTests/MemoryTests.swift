// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import LedgerSQLite
import NIOCore
import NIOHTTP1
import NIOPosix
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests the memory of a server under attack.
@Suite struct MemoryTests {
    /// The limit in ARCHITECTURE.md.
    private static let mebibytes = 512
    /// All connections except one, which is left for a request.
    private static let connections = 999
    /// The most long bodies that leave room for one more in the budget.
    private static let longBodies = 80
    /// No timeout ends a connection during a test, however slow the machine is.
    private static let environment = [
        "QUITTANCE_HEALTH_PORT": "0", "QUITTANCE_BODY_TIMEOUT_SECONDS": "3600",
        "QUITTANCE_IDLE_TIMEOUT_SECONDS": "3600", "QUITTANCE_REQUEST_TIMEOUT_SECONDS": "3600",
        "QUITTANCE_WRITE_TIMEOUT_SECONDS": "3600",
    ]

    @Test(
        .takesLong, .timeLimit(.minutes(60)), .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/status")))
    func `a server with all connections and the whole budget in use stays below the documented memory`()
        async throws
    {
        let folder = try TemporaryFolder()
        let server = try await ServerProcess([], in: folder.url, environment: Self.environment)
        defer { server.kill() }
        try allowOpenFiles()
        var channels: [any Channel] = []
        for index in 0..<Self.connections {
            // Each connection sends as much as it may have in memory, and never the end of its body.
            let count = index < Self.longBodies ? 3_145_727 : 64 << 10
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: server.port).get()
            channel.writeAndFlush(
                ByteBuffer(
                    string: "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: 3145728\r\n\r\n"
                        + String(repeating: " ", count: count)), promise: nil)
            channels.append(channel)
        }
        // Waits until the server has the long bodies and some bytes of the others.
        while try server.memory("VmRSS") < 3 * Self.longBodies + 32 { try await Task.sleep(for: .milliseconds(100)) }
        // A complete body that takes much memory to parse.
        let values = #"{"x":["# + String(repeating: "[0],", count: 190_000) + "0]}"
        let worst = values + String(repeating: " ", count: 3_145_728 - values.utf8.count)
        #expect(
            try await server.send(.POST, "/verifyReceipt", worst, within: .hours(1)).json["status"]?.integer == 21002)
        #expect(try await server.isHealthy())
        let peak = try server.memory("VmHWM")
        #expect(peak < Self.mebibytes)
        for channel in channels { channel.close(promise: nil) }
        #expect(try Project.text("ARCHITECTURE.md").contains("\(Self.mebibytes) MiB"))
    }

    /// A tester of the sandbox has thousands of periods after some months.
    @Test(
        .takesLong,
        .timeLimit(.minutes(60)), .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/status")),
        arguments: [12, 3000])
    func `clients that never read their answers about a long history stay below the documented memory`(
        periods: Int
    ) async throws {
        let folder = try TemporaryFolder()
        let (store, path) = (try TestStore(), "\(folder.url.path)/ledger.sqlite")
        let scope = LedgerScope(bundleId: TestStore.bundleId, environment: .production)
        let storage = try SQLiteLedgerStorage(path: path)
        try await LongHistory.put(LongHistory.chain(periods: periods, in: scope), into: storage)
        try storage.close()
        var arguments = ["--database", "sqlite:\(path)", "--bundle-id", TestStore.bundleId]
        arguments += try store.writeRoots(to: folder.url).flatMap { ["--root", $0] }
        let server = try await ServerProcess(arguments, in: folder.url, environment: Self.environment)
        defer { server.kill() }
        try allowOpenFiles()
        let body = #"{"receipt-data":"\#(Base64.encode(try store.sign(LongHistory.receipt())))"}"#
        let request = "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
        #expect(try await server.send(.POST, "/verifyReceipt", body).json["status"]?.integer == 0)
        var clients: [SilentClient] = []
        for _ in 0..<Self.silentClients { clients.append(try await SilentClient(port: server.port, sending: request)) }
        // All requests are answered or refused once the server is idle.
        var (work, rounds) = (try server.processorTime(), 0)
        while rounds < 20 {
            try await Task.sleep(for: .milliseconds(100))
            let now = try server.processorTime()
            (work, rounds) = (now, now <= work + 1 ? rounds + 1 : 0)
        }
        let peak = try server.memory("VmHWM")
        #expect(peak < Self.mebibytes)
        #expect(try await server.isHealthy())
        var statuses: [String: Int] = [:]
        for client in clients { statuses[await client.status(), default: 0] += 1 }
        print("\(Self.silentClients) silent clients, \(periods) periods: \(peak) MiB, \(statuses)")
        #expect(Set(statuses.keys).isSubset(of: ["200", "503"]) && statuses["200", default: 0] > 10)
    }

    /// All connections except a few, which are left for requests.
    private static let silentClients = 990

    /// A connection that sends a request, and reads nothing until it is asked for the status.
    private final class SilentClient: Sendable {
        private let channel: any Channel
        private let first: EventLoopFuture<ByteBuffer>

        init(port: Int, sending request: String) async throws {
            let promise = MultiThreadedEventLoopGroup.singleton.any().makePromise(of: ByteBuffer.self)
            first = promise.futureResult
            channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.autoRead, value: false)
                .channelOption(.socketOption(.so_rcvbuf), value: 4096)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(FirstBytes(promise))
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
            try await channel.writeAndFlush(ByteBuffer(string: request))
        }

        /// The status of the answer; the connection is closed.
        func status() async -> String {
            channel.read()
            let bytes = try? await first.get()
            try? await channel.close()
            return bytes.map { String(String(buffer: $0).dropFirst("HTTP/1.1 ".count).prefix(3)) } ?? "none"
        }
    }

    private final class FirstBytes: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        private let promise: EventLoopPromise<ByteBuffer>

        init(_ promise: EventLoopPromise<ByteBuffer>) { self.promise = promise }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { promise.succeed(unwrapInboundIn(data)) }
        func channelInactive(context: ChannelHandlerContext) { promise.fail(ChannelError.eof) }
    }

    private func allowOpenFiles() throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        try #require(limit.rlim_cur > Self.connections + 100)
    }
}
