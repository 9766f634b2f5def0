// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOHTTP1
import TestData
import Testing

/// What `quittance serve` prints at its start, and its errors: each names what the operator wrote.
@Suite struct ServeCommandTests {
    /// The version, by the program.
    private static func version() throws -> String {
        String(try CommandLineTests.run(["--version"]).output.trimmingPrefix("quittance ").dropLast())
    }

    private static let log = ["QUITTANCE_LOG_LEVEL": "info"]

    @Test func `the first line of the log has the version, and variables of Kubernetes are passed over with a warning`()
        async throws
    {
        try await TemporaryFolder.with { folder in
            let ofService = ["QUITTANCE_PORT": "tcp://10.0.0.1:8080", "QUITTANCE_SERVICE_HOST": "10.0.0.1"]
            let server = try await ServerProcess([], in: folder, environment: Self.log.merging(ofService) { $1 })
            #expect(server.terminate() == 0)
            let lines = server.text.split(separator: "\n").filter { $0.hasPrefix("time=") }
            #expect(lines.first?.contains("version=\(try Self.version())") == true, "\(lines)")
            #expect(lines.dropFirst().first?.contains("level=warning") == true)
            #expect(
                lines.dropFirst().first?.contains(#"passedOver="QUITTANCE_PORT QUITTANCE_SERVICE_HOST""#) == true,
                "\(lines)")
        }
    }

    @Test(arguments: ["trace", "debug", "info", "warning"])
    func `no level of the log has a secret of the configuration, nor a customer's id`(level: String) async throws {
        let secret = "hunter2-hunter2-hunter2-hunter2-hunter2"
        try await TemporaryFolder.with { folder in
            let (key, config) = (folder.appending(path: "secret"), folder.appending(path: "quittance.json"))
            try Data("webhook-\(secret)".utf8).write(to: key)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
            try Data(
                """
                {"database": "sqlite:\(folder.appending(path: "ledger.sqlite").path)", "logLevel": "\(level)",
                 "webhookSecretFile": "\(key.path)", "apps": [
                  {"bundleId": "com.example", "appAppleId": 7, "sharedSecret": "shared-\(secret)",
                   "customerProof": {"secret": "proof-\(secret)"},
                   "sandboxAccess": "listed", "sandboxCustomers": ["anna-\(secret)"]}]}
                """.utf8
            ).write(to: config)
            let server = try await ServerProcess(
                ["--config", config.path], in: folder, environment: ["QUITTANCE_LOG_LEVEL": level])
            _ = try await server.send(.POST, "/verifyReceipt", #"{"receipt-data": "AAAA", "password": "\#(secret)"}"#)
            _ = try await server.send(.POST, "/notifications/v2", #"{"signedPayload": "\#(secret)"}"#)
            _ = try await server.send(.GET, "/v1/customers/anna", key: "qt_\(secret)")
            #expect(try await server.send(.GET, "/health/ready").status == 200)
            #expect(server.terminate() == 0)
            #expect(!server.text.contains(secret), "\(server.text)")
            #expect(level != "debug" || server.text.contains("Housekeeping"), "the log names the services")
        }
    }

    @Test func `an IPv6 address is printed in brackets, and answers there`() async throws {
        try await TemporaryFolder.with { folder in
            let server: ServerProcess
            do {
                server = try await ServerProcess(["--hostname", "::1"], in: folder, environment: Self.log)
            } catch let error as ServerProcess.NotListening {
                // A machine without IPv6.
                #expect(error.output.contains("[::1]:0 cannot be listened on: "), "\(error.output)")
                return
            }
            #expect(server.text.contains("address=http://[::1]:\(server.port)\n"), "\(server.text)")
            #expect(!server.text.replacing("[::1]", with: "").contains("::1"), "\(server.text)")
            #expect(try await server.send(.GET, "/health/live").status == 200)
            #expect(server.terminate() == 0)
        }
    }

    @Test func `an address in use is named with the setting as the operator wrote it`() async throws {
        try await TemporaryFolder.with { folder in
            let server = try await ServerProcess([], in: folder)
            let file = folder.appendingPathComponent("quittance.json")
            try Data("{\n\"port\": \(server.port)}".utf8).write(to: file)
            let (port, config) = ("\(server.port)", ["--config", file.path])
            let wrong: [([String], [String: String], String)] = [
                (["--port", port], [:], "--port"), ([], ["QUITTANCE_PORT": port], "QUITTANCE_PORT"),
                (config, [:], "\(file.path) line 2: port"), (config + ["--port", port], [:], "--port"),
                (["--port", "0"] + config, ["QUITTANCE_HEALTH_PORT": port], "QUITTANCE_HEALTH_PORT"),
            ]
            for (arguments, environment, name) in wrong {
                let outcome = try CommandLineTests.run(["serve"] + arguments, environment: environment)
                // A service manager tries again: the port may be free later.
                #expect(outcome.status == 1)
                #expect(outcome.error.contains("quittance: \(name): 127.0.0.1:\(port) is in use."), "\(outcome.error)")
                #expect(!outcome.error.contains("Usage") && !outcome.error.contains("level=error"), "\(outcome.error)")
            }
            #expect(server.terminate() == 0)
        }
    }

    @Test(
        arguments: [
            (["--hostname", "nowhere.invalid"], [:], "--hostname"),
            ([], ["QUITTANCE_HOSTNAME": "nowhere.invalid"], "QUITTANCE_HOSTNAME"),
        ] as [([String], [String: String], String)])
    func `a hostname without an address is named as the operator wrote it`(
        arguments: [String], environment: [String: String], name: String
    ) throws {
        let outcome = try CommandLineTests.run(["serve", "--port", "0"] + arguments, environment: environment)
        #expect(outcome.status == 1)
        #expect(outcome.error.contains(" \(name): nowhere.invalid:0 cannot be listened on: "), "\(outcome.error)")
    }

    @Test(arguments: [["serve", "--hostname"], ["simulate", "--host"]])
    func `an IPv6 address in brackets is refused with what to write`(arguments: [String]) throws {
        let outcome = try CommandLineTests.run(arguments + ["[::1]"])
        #expect(outcome.status == 2)
        #expect(
            outcome.error.contains("\(arguments[1]) takes an address or a name, an IPv6 address without brackets"),
            "\(outcome.error)")
    }

    @Test(arguments: ["foo", "xcode"])
    func `an environment that the command does not take is refused with those that it takes`(name: String) throws {
        let serve = try CommandLineTests.run(["serve", "--environment", name])
        #expect(serve.status == 2)
        #expect(serve.error.contains("--environment takes production or sandbox, not \(name)."), "\(serve.error)")
        #expect(!serve.error.contains("localTesting"))
        let verify = try CommandLineTests.run(["verify", "-", "--bundle-id", "x", "--environment", "foo"])
        #expect(verify.error.contains("takes production, sandbox, xcode or localTesting, not foo."), "\(verify.error)")
    }

    @Test func `a root that cannot be read is named with the setting as the operator wrote it`() async throws {
        try await TemporaryFolder.with { folder in
            let file = folder.appendingPathComponent("quittance.json")
            let text = """
                {"apps": [{"bundleId": "roots"}], "database": "sqlite:x",
                 "roots": "/nowhere"}
                """
            try Data(text.utf8).write(to: file)
            let config = ["--config", file.path]
            let wrong: [([String], [String: String], String)] = [
                (config, [:], "\(file.path) line 2: roots"),
                (config, ["QUITTANCE_ROOTS": "/nowhere"], "QUITTANCE_ROOTS"),
                (config + ["--root", "/nowhere"], [:], "--root"),
            ]
            for (arguments, environment, name) in wrong {
                let outcome = try CommandLineTests.run(["serve"] + arguments, environment: environment)
                #expect(outcome.status == 2)
                #expect(outcome.error.contains("quittance: \(name) /nowhere: "), "\(outcome.error)")
            }
        }
    }

    @Test(arguments: [
        ["serve", "--port", "70000"], ["serve", "--nope"], ["verify"], ["keys", "create", "--role", "y"],
    ])
    func `an error of usage is followed by how to get help, and not by all options`(arguments: [String]) throws {
        let outcome = try CommandLineTests.run(arguments)
        #expect(outcome.status == 2)
        #expect(!outcome.error.contains("Usage:") && !outcome.error.contains("--config"), "\(outcome.error)")
        #expect(outcome.error.contains("--help' for more information."), "\(outcome.error)")
    }

    @Test(arguments: [
        [], ["inspect"], ["verify"], ["convert"], ["serve"], ["keys"], ["keys", "create"], ["keys", "list"],
        ["keys", "revoke"], ["keys", "customer-token"], ["backup"], ["check"], ["rebuild"],
    ])
    func `each command prints the version, also without its other arguments`(command: [String]) throws {
        let outcome = try CommandLineTests.run(command + ["--version"])
        #expect(outcome.status == 0 && outcome.error.isEmpty)
        #expect(outcome.output.wholeMatch(of: /quittance [0-9]+\.[0-9]+\.[0-9]+\n/) != nil, "\(outcome.output)")
    }
}
