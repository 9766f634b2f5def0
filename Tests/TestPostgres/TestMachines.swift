// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestProcess

/// The machines of the documentation, on which a test runs its commands: `a.example` and `b.example` with PostgreSQL,
/// and `app.example` with `quittance`. Each is a folder of this machine, and has an address of its own. They end with
/// the tests, however they end, see ``TestServer``.
package final class TestMachines: Sendable {
    package struct Failure: Error {
        package var block: String
        package var output: String
    }

    private let server: TestServer
    /// The addresses of `a.example` and `b.example`: all of 127.0.0.0/8 is this machine.
    private let addresses: [String]

    /// - Parameter program: The program `quittance`.
    package init(program: String) throws {
        let network = "127." + (0..<2).map { _ in "\(Int.random(in: 1...254))" }.joined(separator: ".")
        addresses = ["\(network).1", "\(network).2"]
        server = try TestServer(Self.script, [program] + addresses)
    }

    /// What is different on the machines of the tests: the folders, the names and the network.
    package func substituted(_ text: String, on machine: String, _ more: [String: String] = [:]) -> String {
        let folder = server.folder
        let places = [
            ("/var/lib/postgresql", "\(folder)/\(machine)"), ("/run/postgresql", "\(folder)/\(machine)/run"),
            ("/etc/quittance", "\(folder)/app/etc"), ("/backups", "\(folder)/backups"), ("10.0.0.0/24", "127.0.0.0/8"),
            ("DNS:", "IP:"), ("a.example", addresses[0]), ("b.example", addresses[1]),
        ]
        return (places + more.map { ($0, $1) }).reduce(text) { $0.replacingOccurrences(of: $1.0, with: $1.1) }
    }

    /// Runs the commands of a block, whose first line names its machine, in a shell that ends at the first error.
    ///
    /// - Parameter more: Substitutions besides.
    /// - Returns: What they print.
    @discardableResult package func run(_ block: String, _ more: [String: String] = [:]) throws -> String {
        guard let machine = block.firstMatch(of: /^# (a|b|app)\.example, as/) else {
            throw Failure(block: block, output: "Its first line names no machine")
        }
        let (folder, name) = (URL(fileURLWithPath: server.folder), String(machine.1))
        try Data(substituted(block, on: name, more).utf8).write(to: folder.appending(path: "block"))
        let isDone = (try? server.run("run_on_\(name)")) != nil
        let output = try String(contentsOf: folder.appending(path: "output"), encoding: .utf8)
        guard isDone else { throw Failure(block: block, output: output) }
        return output
    }

    /// Runs SQL on the server of a machine.
    ///
    /// - Returns: What `psql` prints: a line for each row.
    package func psql(_ sql: String, on machine: String, database: String = "postgres") throws -> String {
        let command = "psql -X -q -t -A -d \(database) <<'END'\n\(sql)\nEND"
        return try run("# \(machine).example, as postgres\n\(command)").trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The functions stand for programs: PostgreSQL's with fewer flushes and each server's socket in a folder of its
    /// own, and `scp` between folders.
    private static let script = #"""
        export folder bin program=$1 a=$2 b=$3
        mkdir -p a/run b/run app/etc backups/wal
        [ ${#as[@]} = 0 ] || chown -R postgres .
        cat >functions <<'END_OF_FILE'
        export HOME=$folder/$machine PGHOST=$folder/$machine/run PATH=$PATH:$bin
        initdb() { "$bin/initdb" --no-sync "$@"; }
        pg_basebackup() { "$bin/pg_basebackup" --no-sync "$@"; }
        pg_ctl() {
            if [ "$1" = start ] || [ "$1" = restart ]; then
                set -- "$@" -o "-c unix_socket_directories=$PGHOST -c fsync=off"
            fi
            "$bin/pg_ctl" "$@"
        }
        scp() {
            local target=${!#}
            case $target in
                "$b":*) cp "${@:1:$#-1}" "$folder/b/${target#*:}" ;;
                *) cp "${@:1:$#-1}" "${target#*:}" ;;
            esac
        }
        quittance() { "$program" "$@"; }
        cd "$HOME"
        touch .profile
        . ./.profile
        set -eu
        END_OF_FILE
        run_on() { machine=$1 "${@:2}" bash -c ". $folder/functions; . $folder/block" >"$folder/output" 2>&1; }
        run_on_a() { run_on a "${as[@]}"; }
        run_on_b() { run_on b "${as[@]}"; }
        run_on_app() { run_on app; }
        stop() {
            for data in a b; do
                as_user "$bin/pg_ctl" -D "$folder/$data/ledger" -m immediate stop || true
            done
        }
        """#
}
