// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOHTTP1
import TestData
import TestPostgres
import TestProcess
import Testing

/// The commands with a ledger in PostgreSQL: what they refuse, and how they say so.
@Suite(.enabled(if: TestPostgres.isThere, "\(TestPostgres.whyNot)")) struct DatabaseCommandTests {
    private static func uri(_ database: TestDatabase, _ parameters: String = "") -> String {
        TestPostgres.uri(database.name, at: [database.server.folder], parameters)
    }

    private static let app = ["--bundle-id", "com.example.notes"]

    @Test func `a ledger of a newer version is refused with what it is, and status 1`() async throws {
        let database = try TestPostgres.database()
        let folder = try TemporaryFolder()
        let arguments = ["--database", Self.uri(database)]
        #expect(try await ServerProcess(arguments + Self.app, in: folder.url).terminate() == 0)
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

    // MARK: - A database that is away

    /// Runs a command once a file says that the database is away. A process of its own does that: it has a minute,
    /// however busy the threads of the tests are.
    private static func whenAway(in file: URL, _ command: String, _ arguments: String...) throws -> TestProcess {
        let text = "until grep -qs 'The database is away' \"$0\"; do sleep 0.05; done; \(command)"
        return try TestProcess(["bash", "-c", text, file.path] + arguments)
    }

    @Test func `serve waits for a database that is away, says so once, and goes on`() async throws {
        let database = try TestPostgres.database()
        let folder = try TemporaryFolder()
        // The folder.url of the database's socket, later.
        let link = folder.path("s")
        let arguments = ["--database", TestPostgres.uri(database.name, at: [link])] + Self.app
        let output = folder.url.appendingPathComponent("server.txt")
        let helper = try Self.whenAway(in: output, "ln -s \"$1\" \"$2\"", database.server.folder, link)
        defer { helper.send(SIGKILL) }
        let server = try await ServerProcess(arguments, in: folder.url, environment: ["QUITTANCE_LOG_LEVEL": "info"])
        #expect(helper.wait() == 0)
        #expect(server.text.components(separatedBy: "The database is away").count == 2, "\(server.text)")
        #expect(server.text.contains("reason="), "\(server.text)")
        #expect(server.terminate() == 0)
    }

    // MARK: - A database whose writes wait

    /// Keeps a lock in a session of its own, which ``release(_:)`` ends.
    private static func hold(_ lock: String, in database: TestDatabase) async throws -> Task<Void, Never> {
        let holder = Task {
            // The end of its session is an error.
            _ = try? await aside { try database.psql("BEGIN; \(lock); SELECT pg_sleep(3600)") }
        }
        while try await aside({ try database.psql("SELECT count(*) \(sleeping)") }) == "0" {
            try await Task.sleep(for: .milliseconds(5))
        }
        return holder
    }

    private static let sleeping =
        "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"

    private static func release(_ holder: Task<Void, Never>, in database: TestDatabase) async throws {
        try database.psql("SELECT pg_terminate_backend(pid, 60000) \(sleeping)")
        await holder.value
    }

    @Test(
        .takesLong,
        arguments: [
            "SELECT FROM quittance.counter WHERE id = 1 FOR UPDATE", "LOCK TABLE quittance.records IN EXCLUSIVE MODE",
            "LOCK TABLE quittance.documents IN EXCLUSIVE MODE", "standby",
        ])
    func `a server starts and answers reads while writes wait, and check reads too`(trouble: String) async throws {
        let server = try TestPostgres()
        let database = try server.database()
        let folder = try TemporaryFolder()
        let arguments = ["--database", Self.uri(database)] + Self.app
        #expect(try await ServerProcess(arguments, in: folder.url).terminate() == 0)
        let key = try CommandLineTests.key(arguments)
        if trouble == "standby" { try server.requireStandby() }
        let holder = trouble == "standby" ? nil : try await Self.hold(trouble, in: database)
        let started = try await ServerProcess(arguments, in: folder.url)
        #expect(try await started.send(.GET, "/v1/customers", key: key).status == 200)
        let checked = try CommandLineTests.run(["check"] + arguments.prefix(2))
        #expect(checked.status == 0, "\(checked.error)")
        if let holder { try await Self.release(holder, in: database) }
        if trouble == "standby" {
            try server.psql("postgres", "ALTER SYSTEM RESET synchronous_standby_names")
            try server.psql("postgres", "SELECT pg_reload_conf()")
        }
        #expect(try CommandLineTests.key(arguments) != key)
        while try await started.send(.GET, "/health/ready").status != 200 {
            try await Task.sleep(for: .milliseconds(50))
        }
        #expect(started.terminate() == 0)
    }

    /// Waits until a file has a text.
    private static func wait(for text: String, in file: URL) async throws {
        // The file may not exist yet.
        while (try? String(contentsOf: file, encoding: .utf8))?.contains(text) != true {
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    @Test(.takesLong) func `a start and a migration that wait for a lock say who holds it, and go on`() async throws {
        let database = try TestPostgres.database()
        let folder = try TemporaryFolder()
        let arguments = ["--database", Self.uri(database)]
        // Whoever makes or upgrades the tables takes this lock first.
        let migrating = try await Self.hold("SELECT pg_advisory_xact_lock(7214370951830261735)", in: database)
        let output = folder.url.appendingPathComponent("migrate.txt")
        let migration = try TestProcess(
            [CommandLineTests.program.path, "migrate"] + arguments, output: .file(output), error: .file(output))
        try await Self.wait(for: "The command waits for the database: process", in: output)
        try await Self.release(migrating, in: database)
        #expect(try await aside { migration.wait() } == 0)

        let locking = try await Self.hold("LOCK TABLE quittance.records", in: database)
        async let started = ServerProcess(
            arguments + Self.app, in: folder.url, environment: ["QUITTANCE_LOG_LEVEL": "info"])
        try await Self.wait(for: "waitsFor=\"process", in: folder.url.appendingPathComponent("server.txt"))
        try await Self.release(locking, in: database)
        #expect(try await started.terminate() == 0)
    }

    @Test func `SIGTERM ends the wait for a database`() async throws {
        let folder = try TemporaryFolder()
        let output = folder.url.appendingPathComponent("output")
        let address = TestPostgres.uri("ledger", at: [folder.url.path])
        let process = try TestProcess(
            [CommandLineTests.program.path, "serve", "--port", "0", "--database", address] + Self.app,
            output: .file(output), error: .file(output))
        let helper = try Self.whenAway(in: output, "kill -TERM \"$1\"", "\(process.id)")
        defer { helper.send(SIGKILL) }
        try #require(await aside { process.wait() } == SIGTERM)
        #expect(helper.wait() == 0)
    }

    @Test func `serve does not wait for what no time mends, and other commands do not wait at all`() throws {
        let database = try TestPostgres.database()
        let folder = database.server.folder
        let missing = "postgresql:///missing?host=\(folder)&user=postgres"
        let unknown = "postgresql:///\(database.name)?host=\(folder)&user=nobody_knows"
        let unsafe = "postgresql://postgres@db.example/ledger?sslmode=require"
        let away = "postgresql:///ledger?host=/nowhere&user=postgres"
        for (command, address) in [
            (["serve", "--port", "0"] + Self.app, missing), (["serve", "--port", "0"] + Self.app, unknown),
            (["serve", "--port", "0"] + Self.app, unsafe), (["keys", "list"], away), (["migrate"], away),
        ] {
            let outcome = try CommandLineTests.run(command + ["--database", address])
            #expect(outcome.status == 1)
            #expect(outcome.error.contains("Cannot open the ledger in the database"), "\(outcome.error)")
            #expect(!outcome.error.contains("is away"), "\(outcome.error)")
        }
    }

    // MARK: - An owner, and a role for servers

    /// A new role, which owns nothing.
    private static func role(in database: TestDatabase) throws -> String {
        let role = "\(database.name)-Server"
        try database.psql("CREATE ROLE \"\(role)\" LOGIN")
        return role
    }

    private static func uri(_ database: TestDatabase, as role: String) -> String {
        "postgresql:///\(database.name)?host=\(database.server.folder)&user=\(role)"
    }

    @Test func `a server whose role has rights on rows alone serves what the owner has migrated`() async throws {
        let database = try TestPostgres.database()
        let folder = try TemporaryFolder()
        let role = try Self.role(in: database)
        let arguments = ["--database", Self.uri(database, as: role)] + Self.app
        let serve = ["serve", "--port", "0"] + arguments
        let early = try CommandLineTests.run(serve)
        #expect(early.status == 1)
        #expect(early.error.contains("run quittance migrate as their owner"), "\(early.error)")

        let owner = ["migrate", "--database", Self.uri(database)]
        let made = try CommandLineTests.run(owner + ["--server-role", role])
        #expect(made.status == 0, "\(made.error)")
        #expect(made.output.contains("The ledger was made, with version"), "\(made.output)")
        #expect(made.output.contains("Quarters of documents: 20"), "\(made.output)")
        let itself = try CommandLineTests.run(owner + ["--server-role", "postgres"])
        #expect(itself.status == 1 && itself.error.contains("owns the tables"), "\(itself.error)")
        let nobody = try CommandLineTests.run(owner + ["--server-role", "nobodyhere"])
        #expect(nobody.status == 1 && nobody.error.contains("role \"nobodyhere\" does not exist"), "\(nobody.error)")
        #expect(!nobody.error.contains("Cannot open"), "\(nobody.error)")
        let again = try CommandLineTests.run(owner)
        #expect(again.output.contains("nothing to do"), "\(again.output)")

        let server = try await ServerProcess(arguments, in: folder.url, environment: ["QUITTANCE_LOG_LEVEL": "info"])
        #expect(server.text.contains("role=\(role)"), "\(server.text)")
        let secret = try CommandLineTests.key(arguments)
        #expect(try await server.send(.GET, "/health/ready").status == 200)
        #expect(try await server.send(.GET, "/v1/events", key: secret).status == 200)
        #expect(try await server.send(.GET, "/v1/customers/c", key: secret).status == 200)
        #expect(server.terminate() == 0)
    }

    @Test(
        .takesLong,
        arguments: [
            (["jobs"], "SET owner = 99"), (["jobs", "retry", "--failed"], "SET owner = 99"),
            (["keys", "list"], "SET entries = '{NULL}'"), (["keys", "revoke", "--id", "k"], "SET entries = '{NULL}'"),
        ])
    func `a command that meets damaged records ends with status 1`(command: [String], damage: String) throws {
        let database = try TestPostgres.database()
        #expect(try CommandLineTests.run(["migrate", "--database", Self.uri(database)]).status == 0)
        try database.psql(
            """
            INSERT INTO quittance.records (kind, owner, home, name, version, payload)
            VALUES ('apiKey', 0, '', 'k', 1, '\\x00');
            UPDATE quittance.records \(damage) WHERE kind = 'apiKey'
            """)
        let outcome = try CommandLineTests.run(command + ["--database", Self.uri(database)])
        #expect(outcome.status == 1 && !outcome.error.contains("Cannot open"), "\(outcome)")
    }

    @Test func `migrate is for databases`() throws {
        let outcome = try CommandLineTests.run(["migrate", "--database", "sqlite:x"])
        #expect(outcome.status == 2 && outcome.error.contains("for a database"), "\(outcome.error)")
    }

    @Test func `the start reports what an operator should know, and warns of what is not safe`() async throws {
        let database = try TestPostgres.database()
        let folder = try TemporaryFolder()
        try database.psql("ALTER DATABASE \(database.name) SET synchronous_commit = off")
        let environment = ["QUITTANCE_LOG_LEVEL": "info"]
        let server = try await ServerProcess(
            ["--database", Self.uri(database)] + Self.app, in: folder.url, environment: environment)
        for fact in [
            "postgresql=", "role=postgres", "tls=none", "pooler=no", "synchronousCommit=off", "statementTimeout=9s",
            "synchronousStandbys=none", "standbys=0", "quarters=", "synchronous_commit is off",
            "fsync or full_page_writes is off",
        ] { #expect(server.text.contains(fact), "\(fact): \(server.text)") }
        #expect(server.terminate() == 0)
    }

    @Test(.enabled(if: TestBouncer.isThere, "\(TestBouncer.whyNot)"))
    func `a server behind a pooler warns if its role has no statement_timeout`() async throws {
        let database = try TestPostgres.database()
        let bouncer = try TestBouncer(before: database)
        let address = TestPostgres.uri(database.name, at: [bouncer.folder], "&prepared_statements=false")
        func text() async throws -> String {
            let folder = try TemporaryFolder()
            let server = try await ServerProcess(
                ["--database", address] + Self.app, in: folder.url, environment: ["QUITTANCE_LOG_LEVEL": "info"])
            defer { _ = server.terminate() }
            return server.text
        }
        let warning = "the role has no statement_timeout"
        #expect(try await text().contains(warning))
        try database.psql("ALTER DATABASE \(database.name) SET statement_timeout = '9s'")
        try bouncer.restart()
        #expect(try await !text().contains(warning))
    }
}
