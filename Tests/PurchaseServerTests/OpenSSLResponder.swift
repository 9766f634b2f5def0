// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import NIOPosix
import PurchaseServer

/// An OCSP responder as OpenSSL has one, in a process of its own.
final class OpenSSLResponder {
    static let program: String? = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
        .map { "\($0)/openssl" }.first(where: FileManager.default.isExecutableFile)

    /// What a skipped test says.
    static let whyNot = "needs the program openssl"

    let port: Int
    private let arguments: [String]
    private let request: [UInt8]
    private var process = Process()

    /// Starts a responder for the certificates of an index, and waits until it answers `request`, whatever that asks.
    init(index: URL, authority: URL, signer: URL, key: URL, request: [UInt8]) async throws {
        self.request = request
        arguments = [
            "ocsp", "-index", index.path, "-CA", authority.path, "-rsigner", signer.path, "-rkey", key.path,
            "-nmin", "60",
            // Should nobody be left to end it.
            "-nrequest", "1000",
        ]
        // Another program may take the port between its being found free and being used.
        for _ in 0..<10 {
            let port = try await Self.freePort()
            if let process = try await Self.start(arguments, port, request) {
                self.port = port
                self.process = process
                return
            }
        }
        throw CocoaError(.executableLoad)
    }

    /// Ends the process and starts it again at the same port, so that it reads its index again.
    func restart() async throws {
        stop()
        while true {
            if let process = try await Self.start(arguments, port, request) {
                self.process = process
                return
            }
            // The port is not free yet. The test's time limit ends this, if need be.
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    func stop() {
        guard process.isRunning else { return }
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    deinit { stop() }

    /// - Returns: `nil` where it ended by itself, as it does when it cannot listen.
    private static func start(_ arguments: [String], _ port: Int, _ request: [UInt8]) async throws -> Process? {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program ?? "")
        process.arguments = arguments + ["-port", "\(port)"]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        while process.isRunning {
            if await isAnswering(port, request) { return process.isRunning ? process : nil }
            try await Task.sleep(for: .milliseconds(20))
        }
        return nil
    }

    /// Asks it something: a connection without a question would keep it busy for ever.
    private static func isAnswering(_ port: Int, _ request: [UInt8]) async -> Bool {
        (try? await HTTPOCSPTransport().answer(to: request, from: "http://127.0.0.1:\(port)/")) != nil
    }

    private static func freePort() async throws -> Int {
        let listener = try await SilentListener()
        defer { listener.stop() }
        return listener.port
    }
}

/// Accepts connections and never says anything.
final class SilentListener: Sendable {
    let port: Int
    private let channel: any Channel

    init() async throws {
        channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    func stop() { try? channel.close().wait() }
}

/// A folder that is gone with the value.
final class TemporaryFolder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("ocsp-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Writes a file and returns where it is.
    func write(_ text: String, to name: String) throws -> URL {
        let file = url.appendingPathComponent(name)
        try Data(text.utf8).write(to: file)
        return file
    }
}
