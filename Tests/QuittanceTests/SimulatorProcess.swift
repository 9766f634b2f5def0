// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Testing

/// `quittance simulate` as a process, and commands to it.
final class SimulatorProcess: Sendable {
    struct NotListening: Error {
        var output: String
    }

    private let process: Process
    /// The members of simulator.json.
    let facts: JSONValue

    /// Starts it on free ports, and waits until it listens.
    init(_ arguments: [String], in folder: URL) async throws {
        let out = folder.appendingPathComponent("simulator")
        let output = folder.appendingPathComponent("simulator.txt")
        try Data().write(to: output)
        let file = try FileHandle(forWritingTo: output)
        process = Process()
        process.executableURL = CommandLineTests.program
        process.arguments =
            ["simulate", "--port", "0", "--sandbox-port", "0", "--control-port", "0", "--out", out.path] + arguments
        process.standardOutput = file
        process.standardError = file
        process.standardInput = FileHandle.nullDevice
        try process.run()
        while !FileManager.default.fileExists(atPath: out.appendingPathComponent("simulator.env").path) {
            guard process.isRunning else {
                throw NotListening(output: String(decoding: try Data(contentsOf: output), as: UTF8.self))
            }
            try await Task.sleep(for: .milliseconds(10))
        }
        facts = try JSONValue(parsing: Data(contentsOf: out.appendingPathComponent("simulator.json")))
    }

    func fact(_ name: String) -> String { facts[name]?.string ?? "" }

    @discardableResult
    func command(_ path: String, _ body: String = "{}") async throws -> JSONValue {
        var request = HTTPClientRequest(url: fact("control") + path)
        request.method = .POST
        request.body = .bytes(ByteBuffer(string: body))
        let response = try await HTTPClient.shared.execute(request, timeout: .hours(1))
        let json = try JSONValue(parsing: try await response.body.collect(upTo: 1 << 20).readableBytesView)
        #expect(response.status == .ok, "\(json.compactText)")
        return json
    }

    func terminate() -> Int32 {
        process.terminate()
        process.waitUntilExit()
        return process.terminationStatus
    }
}
