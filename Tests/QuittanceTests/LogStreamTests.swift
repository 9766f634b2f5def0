// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import TestProcess
import Testing

/// Tests what a server and a simulator print into pipes, and on a terminal.
@Suite(.timeLimit(.minutes(60))) struct LogStreamTests {
    private static let health = ["QUITTANCE_HEALTH_PORT": "0"]

    @Test(
        .takesLong,
        arguments: [
            (["serve", "--port", "0"], health),
            (["serve", "--port", "0", "--bundle-id", "com.example", "--database", "sqlite:"], health),
            (["simulate", "--port", "0", "--sandbox-port", "0", "--control-port", "0", "--out", ""], [:]),
        ])
    func `all that goes into a pipe is JSON if the log is, and says where the listeners are`(
        arguments: [String], environment: [String: String]
    ) throws {
        let folder = try TemporaryFolder()
        let places = ["sqlite:": "sqlite:\(folder.url.path)/ledger.sqlite", "": folder.path("out")]
        let process = try TestProcess(
            [CommandLineTests.program.path] + arguments.map { places[$0] ?? $0 },
            environment: ["PATH": "/usr/bin:/bin", "QUITTANCE_LOG_FORMAT": "json", "QUITTANCE_LOG_LEVEL": "error"]
                .merging(environment) { $1 },
            output: .pipe, error: .pipe)
        let output = try #require(process.output)
        var text = ""
        func listens() -> Bool {
            environment.isEmpty
                ? text.contains("\"control\":\"http://127.0.0.1:")
                : text.contains("listens\"") && text.contains("/health/live\"")
        }
        while !listens() || !text.hasSuffix("\n") {
            let data = output.availableData
            try #require(!data.isEmpty, "it ended: \(text)")
            text += String(decoding: data, as: UTF8.self)
        }
        process.send(SIGTERM)
        text += String(decoding: try output.readToEnd() ?? Data(), as: UTF8.self)
        #expect(process.wait() == 0)
        for line in text.split(separator: "\n") {
            let json = JSONValue(readable: line.utf8)
            #expect(json?["message"]?.string != nil, "\(line)")
        }
    }

    @Test func `without a terminal, standard output stays empty`() async throws {
        let folder = try TemporaryFolder()
        let (output, error) = (folder.url.appendingPathComponent("output"), folder.url.appendingPathComponent("error"))
        let process = try TestProcess(
            [CommandLineTests.program.path, "serve", "--port", "0"], output: .file(output), error: .file(error))
        while try !String(contentsOf: error, encoding: .utf8).contains("The server listens") {
            try #require(process.isRunning)
            try await Task.sleep(for: .milliseconds(10))
        }
        process.send(SIGTERM)
        #expect(process.wait() == 0)
        #expect(try Data(contentsOf: output).isEmpty)
    }

    @Test(arguments: [
        (["serve", "--port", "0"], "Quittance listens on http://127.0.0.1:"),
        (["simulate", "--port", "0", "--sandbox-port", "0", "--control-port", "0"], "/clock/advance -d"),
    ])
    func `a person at a terminal gets the address and a first request`(arguments: [String], welcome: String) throws {
        let text = try PseudoTerminal.watch([CommandLineTests.program.path] + arguments, until: welcome)
        #expect(text.contains("curl ") && !text.contains("message="), "\(text)")
    }

    @Test func `an unknown format of a simulator's log is wrong usage`() throws {
        let outcome = try CommandLineTests.run(["simulate"], environment: ["QUITTANCE_LOG_FORMAT": "xml"])
        #expect(outcome.status == 2 && outcome.error.contains("QUITTANCE_LOG_FORMAT takes text or json"), "\(outcome)")
    }
}
