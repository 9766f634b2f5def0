// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import TestData
import TestProcess
import Testing

@testable import quittance

/// Tests what signals do to a server.
@Suite(.timeLimit(.minutes(60))) struct SignalTests {
    /// Runs `body` with a server that has no ledger.
    private static func withServer(_ body: (ServerProcess) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        // This test may take longer than a request, or the pause before one.
        let server = try await ServerProcess(
            [], in: folder.url,
            environment: [
                "QUITTANCE_IDLE_TIMEOUT_SECONDS": "3600", "QUITTANCE_BODY_TIMEOUT_SECONDS": "3600",
                "QUITTANCE_REQUEST_TIMEOUT_SECONDS": "3600",
            ])
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

    @Test(arguments: others) func `a signal that does not ask the server to end does not end it`(
        signal: Int32
    ) async throws {
        try await Self.withServer { server in
            for _ in 0..<3 {
                server.send(signal: signal)
                let health = try await server.send(.GET, "/health/live")
                #expect(health.status == 200)
            }
            #expect(server.terminate() == 0)
        }
    }

    @Test(.takesLong, arguments: [(SIGINT, SIGINT), (SIGTERM, SIGTERM), (SIGINT, SIGTERM)])
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
            // Within half a second after the first, it counts as a repetition.
            while server.isRunning {
                server.send(signal: second)
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(server.waitForExit() == 128 + second)
            #expect(server.text.contains("Stopped at once by a second signal."))
            try? await client.close()
        }
    }

    @Test func `a signal that comes twice, as from timeout, does not end the server at once`() {
        let start = ContinuousClock.now
        var stops = StopSignals()
        let milliseconds = [0, 0, 499, 500, 501, 9999]
        let ends = milliseconds.map { stops.endsAtOnce(at: start + .milliseconds($0)) }
        #expect(ends == [false, false, false, true, true, true])
    }

    // MARK: At the start

    /// The program as a process that need not listen yet.
    private struct StartingProcess {
        let process: TestProcess
        private let output: URL

        init(_ arguments: [String], in folder: URL) throws {
            output = folder.appendingPathComponent("output.txt")
            process = try TestProcess(
                [CommandLineTests.program.path] + arguments, environment: ["PATH": "/usr/bin:/bin"],
                output: .file(output), error: .file(output))
        }

        var text: String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }

        func send(_ signal: Int32) { process.send(signal) }

        /// Whether the process ignores a signal, as the kernel says in hexadecimal.
        func ignores(_ signal: Int32) -> Bool {
            let status = (try? String(contentsOfFile: "/proc/\(process.id)/status", encoding: .utf8)) ?? ""
            let line = status.split(separator: "\n").first { $0.hasPrefix("SigIgn:") }
            let mask = line.flatMap { UInt64($0.dropFirst(7).trimmingPrefix { $0.isWhitespace }, radix: 16) } ?? 0
            return mask & 1 << (signal - 1) != 0
        }
    }

    private static let commands = [
        ["serve", "--port", "0"],
        ["simulate", "--seed", "1", "--port", "0", "--sandbox-port", "0", "--control-port", "0"],
    ]

    /// The moments are spread from the first instruction until the server listens, however long that takes.
    @Test(.takesLong, arguments: commands, [SIGTERM, SIGINT])
    func `a signal to stop is never lost, whenever it comes`(command: [String], signal: Int32) async throws {
        try await TemporaryFolder.with { folder in
            let first = try StartingProcess(command, in: folder)
            let begin = ContinuousClock.now
            while !first.text.contains("http://") { try await Task.sleep(for: .milliseconds(1)) }
            let start = ContinuousClock.now - begin
            first.send(signal)
            first.process.wait()
            let moments = Seeds.isSoak ? 40 : 10
            for step in 0..<moments {
                let process = try StartingProcess(command, in: folder)
                let moment = ContinuousClock.now + start * step / moments
                // The first start may have been much slower than this one.
                while ContinuousClock.now < moment, !process.text.contains("http://") {
                    try await Task.sleep(for: .milliseconds(1))
                }
                process.send(signal)
                // A lost signal lets the process run for ever.
                let status = process.process.wait()
                // The default action, or an orderly end.
                #expect([signal, 0].contains(status), "\(process.text)")
            }
        }
    }

    /// Signals that do not ask a server to end.
    private static let others = [SIGHUP, SIGUSR1, SIGUSR2]

    @Test(arguments: commands, others)
    func `a signal that does not ask a process to end does not end it, also before it listens`(
        command: [String], signal: Int32
    ) async throws {
        try await TemporaryFolder.with { folder in
            let process = try StartingProcess(command, in: folder)
            // Between the first instruction and the command, the signal has its usual effect. A busy machine may see
            // the process only when it listens already.
            while !process.ignores(signal), !process.text.contains("http://") {
                try #require(process.process.isRunning)
                try await Task.sleep(for: .milliseconds(1))
            }
            while process.process.isRunning, !process.text.contains("http://") {
                process.send(signal)
                try await Task.sleep(for: .milliseconds(1))
            }
            process.send(signal)
            try #require(process.process.isRunning)
            process.send(SIGTERM)
            #expect(process.process.wait() == 0)
        }
    }

    @Test func `SIGHUP does not end a simulator`() async throws {
        try await TemporaryFolder.with { folder in
            let process = try StartingProcess(Self.commands[1], in: folder)
            while !process.text.contains("http://") { try await Task.sleep(for: .milliseconds(1)) }
            while !process.text.contains("SIGHUP is ignored") {
                process.send(SIGHUP)
                try #require(process.process.isRunning)
                try await Task.sleep(for: .milliseconds(1))
            }
            process.send(SIGTERM)
            #expect(process.process.wait() == 0)
        }
    }
}
