// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A PgBouncer of the tests' own before a PostgreSQL of theirs: a transaction has a server connection to itself, a
/// client has not.
package final class TestBouncer: Sendable {
    /// Whether it is installed.
    package static let isThere = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"]
        .contains { FileManager.default.isExecutableFile(atPath: $0) }

    /// Why tests are skipped.
    package static let whyNot = "PgBouncer is missing: apt-get install pgbouncer"

    private let server: TestServer

    /// Starts it before the server of a database.
    package init(before database: TestDatabase) throws {
        server = try TestServer(Self.script, [database.server.folder])
    }

    /// Few server connections, so that clients share them.
    private static let script = #"""
        PATH=$PATH:/usr/sbin
        cat >bouncer.ini <<END_OF_FILE
        [databases]
        * = host=$1 user=postgres
        [pgbouncer]
        listen_port = 5432
        unix_socket_dir = $folder
        auth_type = any
        pool_mode = transaction
        default_pool_size = 6
        max_client_conn = 200
        pidfile = $folder/bouncer.pid
        logfile = $folder/bouncer.log
        END_OF_FILE
        chmod a+r bouncer.ini
        start() {
            rm -f bouncer.pid .s.PGSQL.5432
            as_user pgbouncer -q -d bouncer.ini
            # The socket is there before it listens.
            until pg_isready -q -h "$folder"; do sleep 0.01; done
        }
        stop() { kill -KILL "$(cat bouncer.pid)"; }
        restart() { stop && start; }
        start >/dev/null 2>&1 </dev/null
        """#

    package var folder: String { server.folder }

    /// Kills it, and starts it again.
    package func restart() throws { try server.run("restart") }
}
