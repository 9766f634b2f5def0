// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOCore
import NIOPosix
import PurchaseServer
import TestProcess

/// OpenSSL's OCSP responder, as a process.
final class OpenSSLResponder {
    static let program: String? = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
        .map { "\($0)/openssl" }.first(where: FileManager.default.isExecutableFile)

    /// Why a test is skipped.
    static let whyNot = "needs the program openssl"

    /// A transport with a timeout for machines of any speed. It lives as long as the process, as its client does.
    static let transport = HTTPOCSPTransport(timeout: .seconds(3600))

    let port: Int
    private let process: TestProcess

    /// Starts a responder for the certificates of an index at a port that the system chooses, and waits until it
    /// listens.
    init(index: URL, authority: URL, signer: URL, key: URL) async throws {
        let command = [
            Self.program ?? "", "ocsp", "-index", index.path, "-CA", authority.path, "-rsigner", signer.path, "-rkey",
            key.path,
            "-nmin", "60", "-port", "0",
            // The responder ends after 1,000 requests, even if no test stops it.
            "-nrequest", "1000",
        ]
        process = try TestProcess(command, output: .pipe)
        // The responder prints a line such as “ACCEPT [::]:36553 PID=14700” when it listens.
        let line = await TestLines.first(of: process.output)
        guard line.hasPrefix("ACCEPT "),
            let port = line.split(separator: " ").dropFirst().first?.split(separator: ":").last.flatMap({ Int($0) })
        else {
            throw CocoaError(.executableLoad)
        }
        self.port = port
    }

    /// Makes the responder read a replaced index. It checks for a new index before it waits for a request, so it
    /// answers this request from the old index, and the next from the new one.
    func readIndexAgain(asking request: [UInt8]) async throws {
        _ = try await Self.transport.answer(to: request, from: "http://127.0.0.1:\(port)/")
    }

    func stop() {
        process.send(SIGKILL)
        process.wait()
    }

    deinit { stop() }
}

/// Accepts connections and never answers.
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
