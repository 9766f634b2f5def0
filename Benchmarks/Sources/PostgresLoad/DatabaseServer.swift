// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A PostgreSQL of the benchmark's own, with its data on the project's disk and its socket in a temporary folder.
///
/// A shell starts it and waits for its input to end, which happens when the benchmark ends, however it ends. Then it
/// stops the server and removes the data.
final class DatabaseServer {
    /// The folder of the socket.
    let folder: String
    private let bin: String
    private let input: FileHandle

    init() throws {
        let data = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent(".build/postgres-load").path
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-c", Self.script, "postgres-load", data]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        let words = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).split(separator: " ")
        guard words.count == 2 else { throw LoadFailure("PostgreSQL does not start: apt-get install postgresql") }
        (folder, bin) = (String(words[0]), words[1].trimmingCharacters(in: .whitespacesAndNewlines))
        self.input = input.fileHandleForWriting
    }

    /// `initdb` and the server refuse to run as root. Everything that makes commits durable is on, as by default.
    private static let script = #"""
        set -eu
        bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
        [ -x "${bin:-}/initdb" ] || bin=$(dirname "$(command -v initdb)")
        socket=$(mktemp -d /tmp/postgres-load.XXXXXX)
        rm -rf "$1"
        mkdir -p "$1"
        as=()
        if [ "$(id -u)" = 0 ]; then
            chown postgres "$socket" "$1"
            as=(runuser -u postgres --)
        fi
        cd "$1"
        # A quarter of the machine's memory, as PostgreSQL's manual advises.
        memory=$(awk '/^MemTotal/ { print int($2 / 4096) }' /proc/meminfo)MB
        finish() {
            cd /
            "${as[@]}" "$bin/pg_ctl" -D "$1/data" -m immediate stop >/dev/null 2>&1 || true
            rm -rf "$socket" "$1"
        }
        trap 'finish "$1"' EXIT
        "${as[@]}" "$bin/initdb" -D data -A trust -U postgres -E UTF8 --locale=C >initdb.log
        "${as[@]}" "$bin/pg_ctl" -D data -l "$1/data/log" -w -t 120 \
            -o "-c listen_addresses= -c unix_socket_directories=$socket -c max_connections=200 \
                -c shared_buffers=$memory -c min_wal_size=8GB -c max_wal_size=32GB \
                -c checkpoint_timeout=30min" start >/dev/null </dev/null
        echo "$socket $bin"
        exec >/dev/null
        cat
        """#

    /// The address of a database.
    ///
    /// - Parameter folder: That of another socket, which leads to the same server.
    func address(_ database: String, folder: String? = nil) -> String {
        "host=\(folder ?? self.folder) user=postgres dbname=\(database)"
    }

    /// Uses all of the server's memory once, and as much of its log, as a server has that did not just start. Otherwise
    /// pages that the system must find first, and files that it must make, would be part of what is measured.
    func warmUp() throws {
        try psql("postgres", "CREATE TABLE warm (content text); ALTER TABLE warm ALTER content SET STORAGE PLAIN")
        let pages = try psql("postgres", "SELECT setting FROM pg_settings WHERE name = 'shared_buffers'")
        try psql("postgres", "INSERT INTO warm SELECT repeat('x', 8000) FROM generate_series(1, \(pages))")
        try psql("postgres", "DROP TABLE warm; CHECKPOINT")
    }

    /// Makes each flush of the log wait before it writes, without using a core, as a slower disk would.
    func delayFlushes(by delay: Duration) throws {
        try psql("postgres", "ALTER SYSTEM SET commit_delay = \(Int(delay / .microseconds(1)))")
        // Also if no other transaction is open.
        try psql("postgres", "ALTER SYSTEM SET commit_siblings = 0")
        try psql("postgres", "SELECT pg_reload_conf()")
    }

    /// Runs SQL with PostgreSQL's own client.
    ///
    /// - Returns: What it prints: a line for each row.
    @discardableResult func psql(_ database: String, _ sql: String) throws -> String {
        try output(of: "psql", ["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", address(database), "-c", sql])
    }

    /// The transactions a second that `pgbench` reaches with a script of prepared statements.
    ///
    /// - Parameter count: How many to run. `pgbench` cannot stop after a time: this process blocks its alarm.
    func pgbench(
        _ database: String, _ script: String, clients: Int, count: Int, folder: String? = nil
    ) throws -> Double {
        let file = self.folder + "/script.sql"
        try Data(script.utf8).write(to: URL(fileURLWithPath: file))
        let text = try output(
            of: "pgbench",
            [
                "-n", "-M", "prepared", "-c", "\(clients)", "-j", "2", "-t", "\(max(1, count / clients))", "-f", file,
                "-h", folder ?? self.folder, "-U", "postgres",
            ] + Yardsticks.variables.flatMap { ["-D", "\($0)=\($1)"] } + [database])
        let line = text.split(separator: "\n").first { $0.hasPrefix("tps") } ?? ""
        guard let rate = line.split(separator: " ").dropFirst(2).first.flatMap({ Double($0) }) else {
            throw LoadFailure("pgbench says: \(text)")
        }
        return rate
    }

    private func output(of program: String, _ arguments: [String]) throws -> String {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "\(bin)/\(program)")
        process.arguments = arguments
        (process.standardOutput, process.standardError) = (output, FileHandle.nullDevice)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw LoadFailure("\(program) failed: \(text)") }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
