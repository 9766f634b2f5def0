// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestProcess
import Testing

/// `Tests/SimulatorClients/token_server.py` as a process that has PyJWT.
struct TokenServer {
    private struct Failed: Error, CustomStringConvertible {
        var description: String
    }

    private static let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "SimulatorClients/token_server.py").path

    let port: Int
    private let process: TestProcess
    private let output: URL

    /// Runs the server while `body` runs. Cancels the test with the reason if PyJWT cannot be had.
    static func run(
        _ files: [String: String], _ arguments: [String], _ body: (TokenServer) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        for (name, text) in files { try Data(text.utf8).write(to: folder.url.appending(path: name)) }
        let server = try await TokenServer(arguments, in: folder.url)
        defer { server.process.send(SIGTERM) }
        try await body(server)
    }

    private init(_ arguments: [String], in folder: URL) async throws {
        output = folder.appending(path: "output.json")
        // Output goes to a file: the program would wait if a pipe were full.
        process = try TestProcess(
            [TestPython.path(), Self.script] + arguments + ["port"], in: folder, output: .file(output),
            error: .file(output))
        let file = folder.appending(path: "port")
        while !FileManager.default.fileExists(atPath: file.path) {
            guard process.isRunning else { throw Failed(description: "The server ended.") }
            try await Task.sleep(for: .milliseconds(10))
        }
        port = Int(try String(contentsOf: file, encoding: .utf8)) ?? 0
    }

    /// What the server prints after it was stopped.
    func result() throws -> Data {
        process.wait()
        return try Data(contentsOf: output)
    }
}
