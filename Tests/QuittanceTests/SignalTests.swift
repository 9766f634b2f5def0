// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing

/// Tests what signals do to a server.
@Suite(.timeLimit(.minutes(60))) struct SignalTests {
    /// Runs `body` with a server that has no ledger.
    private static func withServer(_ body: (ServerProcess) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // A request may take longer than this test.
        let server = try await ServerProcess(
            [], in: folder,
            environment: ["QUITTANCE_BODY_TIMEOUT_SECONDS": "3600", "QUITTANCE_REQUEST_TIMEOUT_SECONDS": "3600"])
        defer { server.kill() }
        try await body(server)
    }

    private static func connect(to port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port).get()
    }

    /// Waits until the server accepts no more connections.
    private static func waitUntilClosed(_ port: Int) async throws {
        while let channel = try? await connect(to: port) {
            try? await channel.close()
            try Task.checkCancellation()
        }
    }

    @Test func `SIGHUP does not end the server`() async throws {
        try await Self.withServer { server in
            for _ in 0..<3 {
                server.send(signal: SIGHUP)
                let health = try await server.send(.GET, "/health/live")
                #expect(health.status == 200)
            }
            #expect(server.terminate() == 0)
        }
    }

    @Test(arguments: [(SIGINT, SIGINT), (SIGTERM, SIGTERM), (SIGINT, SIGTERM)])
    func `a second signal immediately ends a server that still waits for a request`(
        first: Int32, second: Int32
    ) async throws {
        try await Self.withServer { server in
            let client = try await Self.connect(to: server.port)
            let head = "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
            try await client.writeAndFlush(ByteBuffer(string: head))
            // Sent after the incomplete request, so the server has begun to handle that one when it answers.
            #expect(try await server.send(.GET, "/health/live").status == 200)
            server.send(signal: first)
            try await Self.waitUntilClosed(server.port)
            #expect(server.isRunning)
            server.send(signal: second)
            #expect(server.waitForExit() == 128 + second)
            try? await client.close()
        }
    }
}
