// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestPostgres
import Testing

/// The commands with a ledger in PostgreSQL: what they refuse, and how they say so.
@Suite(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)")) struct DatabaseCommandTests {
    private static func uri(_ database: TestDatabase, _ parameters: String = "") -> String {
        TestPostgres.uri(database.name, at: [database.server.folder], parameters)
    }

    private static let app = ["--bundle-id", "com.example.notes"]

    @Test func `a ledger of a newer version is refused with what it is, and status 1`() async throws {
        let database = try TestPostgres.database()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let arguments = ["--database", Self.uri(database)]
        #expect(try await ServerProcess(arguments + Self.app, in: folder).terminate() == 0)
        try database.psql("UPDATE quittance.schema_version SET version = version + 40")
        for command in [["serve", "--port", "0"] + Self.app, ["keys", "list"]] {
            let outcome = try CommandLineTests.run(command + arguments)
            #expect(outcome.status == 1)
            #expect(outcome.error.contains("written by a newer version of this software"), "\(outcome.error)")
        }
    }

    @Test func `a command other than serve makes no ledger, and says what does`() throws {
        let database = try TestPostgres.database()
        let outcome = try CommandLineTests.run(["keys", "list", "--database", Self.uri(database)])
        #expect(outcome.status == 1)
        #expect(outcome.error.contains("The ledger is missing: quittance serve makes it"), "\(outcome.error)")
        #expect(try database.psql("SELECT count(*) FROM pg_tables WHERE schemaname IN ('public', 'quittance')") == "0")
    }

    @Test(arguments: [
        ("&prepared_statements=maybe", "prepared_statements takes false or true"),
        ("&load_balance_hosts=always", "load_balance_hosts takes disable or random"),
        ("&no_such_parameter=1", "is not a connection string of libpq"),
    ])
    func `a parameter of the address that cannot be is named`(parameter: String, message: String) throws {
        let address = "postgresql:///ledger?user=u" + parameter
        let outcome = try CommandLineTests.run(["serve", "--port", "0", "--database", address] + Self.app)
        #expect(outcome.status == 1)
        #expect(outcome.error.contains(message), "\(outcome.error)")
    }
}
