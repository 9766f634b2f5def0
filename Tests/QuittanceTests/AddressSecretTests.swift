// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestData
import TestPostgres
import Testing

/// Tests that no message repeats a password of an address, also of an address that is not understood.
@Suite struct AddressSecretTests {
    private static let secret = "Zwetschge4711"

    /// Addresses with `secret` in them, as people mistype them.
    private static let addresses = [
        " postgre://u:secret@h/l", "postgre://u:secret@h/l", "host=h user=u password=secret", "u:secret@h/l",
        "sqlite:postgresql://u:secret@h/l", "sqlite://u:secret@h/l", "sqlite:host=h password=secret",
        "mysql://u:secret@h/l", "postgresql:/u:secret@h/l", "jdbc:postgresql://u:secret@h/l", "://u:secret@h",
        "postgresql://u:secret", "postgresql://u:secret/l", "postgresql://u:secret/x@h/l",
        "postgresql://u:p@secret@h/l",
        "postgresql://u:p/secret@h/l", "postgresql://u:1/secret@h/l", "postgresql://u:secret@[/l",
        "postgresql://u:secret%zz@h/l", "postgresql://u:secret@h:port/l", "postgresql://u:secret@h:99999/l",
        "postgresql://u:secret@h/l?sslmode=maybe", "postgresql:///l?sslmode=secret&host=/nowhere",
        "postgresql:///l?host=/nowhere&gssencmode=secret", "postgresql://u:secret@h/l?secret",
        "postgresql://u:1/l?secret=x@h/l", "postgresql://u:secret@127.0.0.1:1/l?prepared_statements=secret",
    ].map { $0.replacing("secret", with: secret) }

    /// Addresses of databases that are away.
    private static let away = [
        "postgresql:///l?host=/nowhere&password=secret", "postgresql://u:secret@127.0.0.1:1/l\n",
    ].map { $0.replacing("secret", with: secret) }

    @Test(.takesLong, arguments: addresses + away) func `no message repeats a password`(address: String) throws {
        let folder = try TemporaryFolder()
        let file = folder.path("quittance.json")
        try JSONSerialization.data(withJSONObject: ["database": address]).write(to: URL(filePath: file))
        let name = folder.path("name.json")
        try JSONSerialization.data(withJSONObject: [address: "database"]).write(to: URL(filePath: name))
        let app = ["--bundle-id", "com.example.notes"]
        let commands: [([String], [String: String])] = [
            (["serve", "--port", "0"] + app + ["--database", address], [:]),
            (["serve", "--port", "0"] + app + ["--databse=\(address)"], [:]),
            (["serve", "--port", "0"] + app + [address], [:]),
            (["serve", "--port", "0"] + app, ["QUITTANCE_DATABASE": address]),
            (["keys", "list", "--config", file], [:]), (["keys", "list", "--config", address], [:]),
            (["check", "--database=\(address)"], [:]), (["verify", address] + app, [:]),
            (["restore", address, "--database", "sqlite:\(folder.url.path)/l"], [:]),
            (["copy", "--database", "sqlite:\(folder.url.path)/l", "--to", address], [:]),
            (["migrate", "--database", address], [:]), (["check", "--config", name], [:]),
        ]
        // Each address with some of the commands, each command with some of the addresses; with QUITTANCE_SOAK all.
        let place = (Self.addresses + Self.away).firstIndex(of: address) ?? 0
        for (number, (arguments, variables)) in commands.enumerated()
        where Seeds.isSoak || number % 4 == place % 4 {
            // The server waits for these.
            if arguments[0] == "serve", Self.away.contains(address) { continue }
            let outcome = try CommandLineTests.run(arguments, environment: variables)
            #expect(outcome.status != 0, "\(arguments)")
            #expect(!(outcome.error + outcome.output).contains(Self.secret), "\(arguments): \(outcome.error)")
            #expect(!outcome.error.isEmpty)
        }
    }

    @Test(arguments: [
        ("postgre://u:p@h/l", "another scheme"), ("host=h password=p", "with host=…, is not taken"),
        ("ledger", "neither sqlite: nor postgresql://"), ("postgresql://u:p@x@h/l", "@ is written %40"),
        ("postgresql://u:p/x@h/l", "/ %2F"), ("postgresql://u:p/l", "A port is not a number"),
    ])
    func `what is not taken is said, with the form that is`(address: String, reason: String) throws {
        let outcome = try CommandLineTests.run(["check", "--database", address])
        #expect(outcome.error.contains(reason), "\(outcome.error)")
    }
}
