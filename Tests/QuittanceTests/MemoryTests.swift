// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import Testing

/// Tests the memory of a server under attack.
@Suite struct MemoryTests {
    /// The limit in ARCHITECTURE.md.
    private static let mebibytes = 512
    /// All connections except one, which is left for a request.
    private static let connections = 999
    /// The most long bodies that leave room for one more in the budget.
    private static let longBodies = 80

    @Test(.timeLimit(.minutes(60)), .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/status")))
    func `a server with all connections and the whole budget in use stays below the documented memory`()
        async throws
    {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // No timeout ends a connection during the test, however slow the machine is.
        let server = try await ServerProcess(
            [], in: folder,
            environment: [
                "QUITTANCE_HEALTH_PORT": "0", "QUITTANCE_BODY_TIMEOUT_SECONDS": "3600",
                "QUITTANCE_IDLE_TIMEOUT_SECONDS": "3600", "QUITTANCE_REQUEST_TIMEOUT_SECONDS": "3600",
            ])
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
        let text = try String(
            contentsOf: URL(fileURLWithPath: #filePath + "/../../../ARCHITECTURE.md").standardized, encoding: .utf8)
        #expect(text.contains("\(Self.mebibytes) MiB"))
    }

    private func allowOpenFiles() throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        try #require(limit.rlim_cur > Self.connections + 100)
    }
}
