// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import TestProcess
import Testing

/// `quittance simulate` as a process, and commands to it.
final class SimulatorProcess: Sendable {
    struct NotListening: Error {
        var output: String
    }

    private let process: TestProcess
    /// The members of simulator.json.
    let facts: JSONValue

    /// Starts it on free ports, and waits until it listens.
    init(_ arguments: [String], in folder: URL) async throws {
        let out = folder.appendingPathComponent("simulator")
        let output = folder.appendingPathComponent("simulator.txt")
        let ports = ["--port", "0", "--sandbox-port", "0", "--control-port", "0"]
        // That of an earlier run in the folder.
        try? FileManager.default.removeItem(at: out.appendingPathComponent("simulator.env"))
        process = try TestProcess(
            [CommandLineTests.program.path, "simulate", "--out", out.path] + ports + arguments, output: .file(output),
            error: .file(output))
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
        let (isDone, json) = try await attempt(path, body)
        #expect(isDone, "\(json.compactText)")
        return json
    }

    /// Sends a command that may be impossible. Returns whether it was done, and the answer.
    func attempt(_ path: String, _ body: String = "{}") async throws -> (isDone: Bool, answer: JSONValue) {
        var request = HTTPClientRequest(url: fact("control") + path)
        request.method = .POST
        request.body = .bytes(ByteBuffer(string: body))
        return try await Self.answer(to: request)
    }

    /// What a command that only shows something answers.
    func get(_ path: String) async throws -> JSONValue {
        try await Self.answer(to: HTTPClientRequest(url: fact("control") + path)).answer
    }

    private static func answer(to request: HTTPClientRequest) async throws -> (isDone: Bool, answer: JSONValue) {
        let response = try await HTTPClient.shared.execute(request, timeout: .hours(1))
        let body = try await response.body.collect(upTo: 16 << 20)
        return (response.status == .ok, try JSONValue(parsing: body.readableBytesView))
    }

    /// Kills the process, as a power failure would.
    func kill() {
        process.send(SIGKILL)
        process.wait()
    }

    func terminate() -> Int32 {
        process.send(SIGTERM)
        return process.wait()
    }
}
