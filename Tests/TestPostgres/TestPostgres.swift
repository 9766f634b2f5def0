// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestProcess

/// A PostgreSQL of the tests' own: a temporary folder with its data and its socket. It ends with the tests, however
/// they end, see ``TestServer``.
package final class TestPostgres: Sendable {
    /// Whether it is installed. If it is and does not start, tests fail.
    package static let isThere = !programs.isEmpty

    /// The folder of its programs, or empty. Debian's commands of the same names are scripts in Perl, which choose a
    /// version first and take five times as long.
    static let programs: String = {
        let script = """
            initdb=$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -1)
            [ -n "$initdb" ] || initdb=$(command -v initdb)
            printf %s "${initdb%/initdb}"
            """
        return (try? TestProcess.run(["bash", "-c", script]).output) ?? ""
    }()

    /// Why tests are skipped.
    package static let whyNot = "PostgreSQL's server is missing: apt-get install postgresql"

    private static let shared = Result { try TestPostgres() }

    /// A folder of data that servers copy: `initdb` takes five times as long.
    private static let initialised = Result { try TestServer("stop() { :; }\n" + initdb) }

    private let server: TestServer

    /// A new, empty database of the server that all tests share.
    package static func database() throws -> TestDatabase {
        try shared.get().database()
    }

    /// A new, empty database.
    package func database() throws -> TestDatabase {
        let name = "test_\(UUID().uuidString.lowercased().replacingOccurrences(of: "-", with: ""))"
        try psql("postgres", "CREATE DATABASE \(name)")
        return TestDatabase(server: self, name: name)
    }

    /// The database that a standby has copied.
    package func existing(_ database: TestDatabase) -> TestDatabase { TestDatabase(server: self, name: database.name) }

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - primary: The server that it follows as a standby; `nil` for one of its own.
    ///   - isOther: Whether its system identifier differs from that of all other servers.
    ///   - library: An extension's library to load.
    ///   - name: The host of a certificate, with which the server takes connections with TLS on ``secureAddress``. Who
    ///     signed it is in `root.crt`.
    package init(
        following primary: TestPostgres? = nil, isOther: Bool = false, loading library: String = "",
        as name: String = ""
    ) throws {
        // All of 127.0.0.0/8 is this machine, and the port is that of the socket's name.
        secureAddress = "127." + (0..<3).map { _ in "\(Int.random(in: 1...254))" }.joined(separator: ".")
        let source = isOther || primary != nil ? "" : try Self.initialised.get().folder
        server = try TestServer(Self.script, [primary?.folder ?? "", library, name, secureAddress, source])
    }

    package let secureAddress: String

    private static let initdb = """
        as_user "$bin/initdb" -D data -A trust -U postgres -E UTF8 --locale=C --no-sync >initdb.log
        """

    /// `initdb` and the server refuse to run as root.
    private static let script = #"""
        if [ -n "$5" ]; then
            as_user cp -R "$5/data" data
        elif [ -z "$1" ]; then
            \#(initdb)
        else
            as_user "$bin/pg_basebackup" -d "host=$1 user=postgres application_name=standby" -D data -R -X stream \
                -c fast --no-sync
        fi
        library=$2
        tls="-c listen_addresses="
        if [ -n "$3" ]; then
            echo "subjectAltName=DNS:$3" >names
            as_user openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=root" -keyout root.key -out root.crt
            as_user openssl req -newkey rsa:2048 -nodes -subj "/CN=$3" -keyout data/host.key -out host.csr
            as_user openssl x509 -req -in host.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 \
                -extfile names -out data/host.crt
            tls="-c listen_addresses=$4 -c ssl=on -c ssl_cert_file=host.crt -c ssl_key_file=host.key"
        fi >/dev/null 2>openssl.log
        start() {
            as_user "$bin/pg_ctl" -D data -l data/log -w -t 600 \
                -o "$tls -c unix_socket_directories=$folder -c fsync=off -c max_connections=400 \
                    -c shared_preload_libraries=$library" start
        }
        stop() { as_user "$bin/pg_ctl" -D data -m immediate stop; }
        restart() { as_user "$bin/pg_ctl" -D data -m immediate -w -t 600 restart; }
        promote() { as_user "$bin/pg_ctl" -D data -w -t 600 promote; }
        # The server cannot start others meanwhile, nor notice that they end.
        destroy() {
            local server=$(head -1 data/postmaster.pid)
            kill -STOP "$server"
            kill -KILL $(cat "/proc/$server/task/$server/children") "$server"
        }
        start >/dev/null </dev/null
        """#

    package var folder: String { server.folder }

    /// The address of a database.
    package func address(_ name: String) -> String { "host=\(folder) user=postgres dbname=\(name)" }

    /// The address of a database as a URI.
    ///
    /// - Parameter folders: Where the sockets of the servers or of what is before them are.
    package static func uri(_ name: String, at folders: [String], _ parameters: String = "") -> String {
        "postgresql:///\(name)?host=\(folders.joined(separator: ","))&user=postgres\(parameters)"
    }

    /// Ends all of the server's processes as a crash would, and starts it again.
    package func restart() throws { try server.run("restart") }

    /// Ends all of the server's processes as a power failure would. It does not start again.
    package func destroy() throws { try server.run("destroy") }

    /// Makes a standby a server of its own.
    package func promote() throws { try server.run("promote") }

    /// Lets commits wait until a standby has them.
    package func requireStandby() throws {
        try psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
        try psql("postgres", "SELECT pg_reload_conf()")
    }

    /// Runs SQL with PostgreSQL's own client.
    ///
    /// - Returns: What it prints: a line for each row.
    @discardableResult package func psql(_ database: String, _ sql: String) throws -> String {
        let outcome = try TestProcess.run([
            "\(Self.programs)/psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", address(database), "-c",
            sql,
        ])
        guard outcome.status == 0 else { throw TestServer.Failure(command: sql, server: outcome.error) }
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

/// A database of the tests' own server.
package struct TestDatabase: Sendable {
    package let server: TestPostgres
    package let name: String

    @discardableResult package func psql(_ sql: String) throws -> String { try server.psql(name, sql) }

    /// Everything in the database, as the lines of `pg_dump`.
    package func dump() throws -> [Substring] {
        let outcome = try TestProcess.run(["\(TestPostgres.programs)/pg_dump", "-d", server.address(name)])
        guard outcome.status == 0 else { throw TestServer.Failure(command: "pg_dump", server: outcome.error) }
        // A dump has a random word of its own in these lines.
        return outcome.output.split(separator: "\n").filter { !$0.contains("restrict ") }
    }
}
