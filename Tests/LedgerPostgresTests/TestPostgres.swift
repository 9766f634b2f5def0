// SPDX-License-Identifier: Apache-2.0

import Foundation
import LedgerPostgres
import Testing

/// A PostgreSQL of the tests' own: a temporary folder with its data and its socket.
///
/// A shell starts it and waits for its input to end, which happens when the tests end, however they end. Then it stops
/// the server and removes the folder.
final class TestPostgres: Sendable {
    /// Whether it could be started.
    static var isThere: Bool { shared != nil }

    private static let shared = try? TestPostgres()

    private let folder: String
    /// Keeps the shell waiting.
    private let input: FileHandle

    /// A new, empty database.
    static func database() throws -> TestDatabase {
        let server = try #require(shared)
        let name = "test_\(UUID().uuidString.lowercased().replacingOccurrences(of: "-", with: ""))"
        try server.psql("postgres", "CREATE DATABASE \(name)")
        return TestDatabase(server: server, name: name)
    }

    private init() throws {
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(filePath: "/bin/bash")
        process.arguments = ["-c", Self.script, "postgres-of-tests", FileManager.default.temporaryDirectory.path]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        let line = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        folder = line.trimmingCharacters(in: .whitespacesAndNewlines)
        self.input = input.fileHandleForWriting
        guard folder.hasPrefix("/") else { throw CocoaError(.fileNoSuchFile) }
    }

    /// `initdb` and the server refuse to run as root.
    private static let script = #"""
        set -eu
        bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
        [ -x "${bin:-}/initdb" ] || bin=$(dirname "$(command -v initdb)")
        folder=$(mktemp -d "$1/quittance-postgres.XXXXXX")
        as=()
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$folder"
            as=(runuser -u postgres --)
        fi
        cd "$folder"
        finish() {
            cd /
            "${as[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
            rm -rf "$folder"
        }
        trap finish EXIT
        "${as[@]}" "$bin/initdb" -D data -A trust -U postgres -E UTF8 --locale=C --no-sync >initdb.log
        "${as[@]}" "$bin/pg_ctl" -D data -l "$folder/data/log" -w -t 120 \
            -o "-c listen_addresses= -c unix_socket_directories=$folder -c fsync=off -c max_connections=400" \
            start >/dev/null </dev/null
        echo "$folder"
        exec >/dev/null
        cat
        """#

    /// The address of a database.
    func address(_ name: String) -> String { "host=\(folder) user=postgres dbname=\(name)" }

    /// Runs SQL with PostgreSQL's own client.
    ///
    /// - Returns: What it prints: a line for each row.
    @discardableResult func psql(_ database: String, _ sql: String) throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", address(database), "-c", sql,
        ]
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "psql failed")
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

/// A database of the tests' own server.
struct TestDatabase: Sendable {
    let server: TestPostgres
    let name: String

    /// A handle on the ledger in the database, as a server of its own would have.
    func storage(
        upgrades: Bool = true, _ change: (inout PostgresSettings) -> Void = { _ in }
    ) async throws -> PostgresLedgerStorage {
        var settings = PostgresSettings(server.address(name))
        change(&settings)
        return try await PostgresLedgerStorage(
            settings, upgrades: upgrades, clock: ContinuousClock(), random: SystemRandomNumberGenerator())
    }

    @discardableResult func psql(_ sql: String) throws -> String { try server.psql(name, sql) }
}

extension Trait where Self == ConditionTrait {
    static var needsPostgres: Self {
        .enabled(if: TestPostgres.isThere, "PostgreSQL's server is missing: apt-get install postgresql")
    }
}
