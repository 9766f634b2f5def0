// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TestProcess

/// `quittance serve` as a process, and requests to it.
final class ServerProcess: Sendable {
    struct NotListening: Error {
        var output: String
    }

    private static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        // Requests to a killed server fail immediately.
        configuration.connectionPool.retryConnectionEstablishment = false
        return HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }()

    private let process: TestProcess
    private let output: URL
    private let address: String
    let port: Int
    private let healthAddress: String?

    /// Starts the server, and waits until it listens.
    init(
        _ arguments: [String], in folder: URL, environment: [String: String] = [:], umask: String = "022"
    ) async throws {
        output = folder.appendingPathComponent("server.txt")
        let program = ["sh", "-c", "umask \(umask); exec \"$@\"", "sh", CommandLineTests.program.path]
        process = try TestProcess(
            program + ["serve", "--port", "0"] + arguments,
            environment: ["PATH": "/usr/bin:/bin", "QUITTANCE_LOG_LEVEL": "error"].merging(environment) { $1 },
            output: .file(output), error: .file(output))
        var text = ""
        for _ in 0..<360_000 {
            text = String(decoding: try Data(contentsOf: output), as: UTF8.self)
            let isComplete = environment["QUITTANCE_HEALTH_PORT"] == nil || text.contains("/health/live")
            if text.contains(/listens" address=\S+\n/), isComplete { break }
            guard process.isRunning else { throw NotListening(output: text) }
            try await Task.sleep(for: .milliseconds(10))
        }
        guard let found = text.firstMatch(of: /listens" address=(http:\/\/\S+:([0-9]+))\n/),
            let port = Int(found.2)
        else { throw NotListening(output: text) }
        address = String(found.1)
        self.port = port
        healthAddress = text.firstMatch(of: /health checks" address=(http:\S+\/health\/live)/).map { String($0.1) }
    }

    /// What it has printed so far, on standard output and standard error.
    var text: String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }

    /// Kills the process, as a power failure would.
    func kill() {
        process.send(SIGKILL)
        process.wait()
    }

    /// The value of a line in the process's /proc/PID/status, in MiB.
    func memory(_ name: String) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.id)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("\(name):") }
        return (line.flatMap { Int($0.filter(\.isNumber)) } ?? 0) / 1024
    }

    /// The processor time that the process has taken, in hundredths of a second.
    func processorTime() throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.id)/stat", encoding: .utf8)
        // The name of the program, in brackets, may have spaces.
        let fields = status.drop { $0 != ")" }.split(separator: " ")
        return [12, 13].reduce(0) { $0 + (Int(fields[$1]) ?? 0) }
    }

    /// How many sockets the process has open.
    func sockets() throws -> Int {
        let folder = "/proc/\(process.id)/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).count { name in
            // A descriptor that was just closed has no link any more.
            let link = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\(name)")
            return link?.hasPrefix("socket:[") == true
        }
    }

    /// Whether the server answers on its port for health.
    func isHealthy() async throws -> Bool {
        guard let healthAddress else { return false }
        return try await Self.client.execute(HTTPClientRequest(url: healthAddress), timeout: .hours(1)).status == .ok
    }

    /// Stops the server with SIGTERM, as an operator does, and returns its exit status.
    func terminate() -> Int32 {
        process.send(SIGTERM)
        return waitForExit()
    }

    func send(signal: Int32) { process.send(signal) }

    var isRunning: Bool { process.isRunning }

    /// Waits until the process has ended, and returns its exit status.
    func waitForExit() -> Int32 { process.wait() }

    /// Sends a request; throws if there is no response.
    func send(
        _ method: HTTPMethod, _ path: String, _ body: String? = nil, key: String? = nil, token: String? = nil,
        within timeout: TimeAmount = .hours(1)
    ) async throws -> (status: Int, json: JSONValue) {
        var request = HTTPClientRequest(url: address + path)
        request.method = method
        if let key { request.headers.add(name: "Authorization", value: "Bearer \(key)") }
        if let token { request.headers.add(name: "Quittance-Customer-Token", value: token) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await Self.client.execute(request, timeout: timeout)
        let bytes = try await response.body.collect(upTo: 16 << 20)
        return (Int(response.status.code), try JSONValue(parsing: bytes.readableBytesView))
    }
}
