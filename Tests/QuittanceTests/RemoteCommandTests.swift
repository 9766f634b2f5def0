// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import TestData
import TestProcess
import Testing

/// Tests commands that work on a running server with a key, from a machine that has nothing else.
@Suite(.timeLimit(.minutes(60))) struct RemoteCommandTests {
    @Test(.takesLong) func `with --server a command prints what it prints on the ledger, with the rights of the key`()
        async throws
    {
        let folder = try TemporaryFolder()
        let app = #"{"bundleId": "com.example", "entitlements": ["pro"]}"#
        let file = try folder.write(
            #"{"database": "sqlite:\#(folder.url.path)/l.sqlite", "apps": [\#(app)]}"#, to: "quittance.json")
        let local = ["--config", file.path]
        let server = try await ServerProcess(local, in: folder.url)
        defer { server.kill() }
        func key(_ role: String) throws -> [String] {
            let made = try CommandLineTests.run(["keys", "create", "--name", "a", "--role", role] + local)
            let key = try folder.write(made.output, to: "\(role).key")
            return ["--server", "http://127.0.0.1:\(server.port)", "--key-file", key.path]
        }
        let remote = try key("server")
        for arguments in [
            ["grants", "make", "anna", "--entitlement", "pro", "--why", "w", "--until", "30d", "--id", "x", "--new"],
            ["customer", "set", "anna", "$email=anna@example.com", "plan=a b/c&d"],
            ["customer", "consent", "anna", "--customer-consented"],
        ] {
            let outcome = try CommandLineTests.run(arguments + remote)
            #expect(
                outcome.status == 0 && outcome.output.contains("anna") || outcome.output == "x\n", "\(outcome)")
        }
        for arguments in [
            ["grants", "list", "anna"], ["customer", "attributes", "anna"], ["customer", "find", "anna@example.com"],
            ["grants", "make", "annna", "--entitlement", "pro", "--why", "w", "--forever"], ["webhooks", "list"],
            ["customer", "entitlement", "anna", "gold"], ["purchases", "deny", "7", "--reason", "x"],
            ["grants", "end", "anna", "y"], ["grants", "list", "anna", "--json"],
        ] {
            let (here, there) = (
                try CommandLineTests.run(arguments + local), try CommandLineTests.run(arguments + remote)
            )
            #expect(here.output == there.output && here.error == there.error, "\(here) \(there)")
            #expect(here.status == there.status && here.status < 3)
        }
        let client = try CommandLineTests.run(["grants", "list", "anna"] + key("client"))
        #expect(client.status == 1 && client.error.contains("This route needs a server key"), "\(client)")
        let id = try String(contentsOf: folder.url.appending(path: "server.key"), encoding: .utf8).dropFirst(3).prefix(
            8)
        #expect(try CommandLineTests.run(["keys", "revoke", "--id", String(id)] + local).status == 0)
        var revoked = try CommandLineTests.run(["grants", "list", "anna"] + remote)
        while revoked.status == 0 { revoked = try CommandLineTests.run(["grants", "list", "anna"] + remote) }
        #expect(revoked.status == 1 && revoked.error.contains("was revoked"), "\(revoked)")
        let away = try CommandLineTests.run(
            ["grants", "list", "anna", "--server", "http://127.0.0.1:1"], environment: ["QUITTANCE_KEY": "qt_x"])
        #expect(away.status == 2 && away.error.contains("does not answer"), "\(away)")
        let none = try CommandLineTests.run(["grants", "list", "anna", "--server", "http://127.0.0.1:1"])
        #expect(none.status == 2 && none.error.contains("--key-file"), "\(none)")
    }
}
