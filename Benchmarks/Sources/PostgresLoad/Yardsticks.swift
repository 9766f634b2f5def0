// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The scripts that `pgbench` runs beside the storage.
struct Yardsticks {
    let database: FilledDatabase

    /// What the scripts insert: `pgbench` sends it each time, as a parameter. An intake's documents are as long as
    /// `content`, and each as long as `document`.
    static let variables = [
        "content": String(repeating: "0123456789A", count: 300),
        "document": String(repeating: "0123456789A", count: 100),
    ]

    /// A row as large as an intake's documents, inserted and committed by itself.
    var insert: String { "INSERT INTO plain (content) VALUES (:content);" }

    /// A row by its primary key.
    var select: String {
        """
        \\set n random(0, \(database.customers - 1))
        SELECT version, next_change FROM quittance.chains WHERE home = (3000000000000 + :n)::text AND scope = 1;
        """
    }

    /// The statements of an intake in two round trips, much as the storage sends them, from a client that decides
    /// nothing and sends no chain back. It shows how much of an intake's time is PostgreSQL's.
    var scriptedIntake: String {
        let chain = "(3000000000000 + :n)::text"
        let time = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        let documents = (0..<3).map {
            "(\(time), int8send(:t) || int8send(\($0)), \(chain), 1, \(chain), 'transaction', 1, :document)"
        }
        return """
            \\set n random(0, \(database.customers - 1))
            \\set t random(1, 9000000000000000)
            SELECT home, version, state FROM quittance.chains WHERE scope = 1 AND home = \(chain);
            \\startpipeline
            BEGIN;
            INSERT INTO quittance.chains AS c (home, scope, version, state) VALUES (\(chain), 1, 1, '') \
            ON CONFLICT (home, scope) DO UPDATE SET version = c.version + 1, state = c.state;
            INSERT INTO quittance.transactions (home, scope, chain) VALUES (:t::text, 1, \(chain)) ON CONFLICT DO NOTHING;
            INSERT INTO quittance.documents (signed_date, digest, home, scope, chain, kind, received_at, content) \
            VALUES \(documents.joined(separator: ", "));
            INSERT INTO quittance.outbox (recorded_at, home, source, scope, version, place, kind, body) \
            VALUES (:t, \(chain), 0, 1, 1, 0, 'renewed', '{}');
            COMMIT;
            \\endpipeline
            """
    }

    /// An intake as one would write it: a round trip for each statement, the documents one by one.
    var literalIntake: String {
        let documents = (0..<3).map { "\\set d\($0) random(1, 9000000000000000)" }
        let looks = (0..<3).map {
            "SELECT 1 FROM quittance.documents WHERE signed_date = :d\($0) AND digest = '\\x01';"
        }
        let inserts = (0..<3).map {
            """
            INSERT INTO quittance.documents (signed_date, digest, home, scope, chain, kind, received_at, content) \
            VALUES (:d\($0), '\\x01', :n::text, 1, :n::text, 'transaction', 1, :document);
            """
        }
        let others = [
            """
            UPDATE quittance.chains SET version = version + 1, state = state \
            WHERE home = (3000000000000 + :n)::text AND scope = 1;
            """,
            "INSERT INTO quittance.transactions (home, scope, chain) VALUES (:t::text, 1, :n::text) ON CONFLICT DO NOTHING;",
        ]
        let event = """
            INSERT INTO quittance.outbox (recorded_at, home, source, scope, version, place, kind, body) \
            VALUES (:t, :n::text, 0, 1, 1, 0, 'renewed', '{}');
            """
        return
            (["\\set n random(0, \(database.customers - 1))", "\\set t random(1, 9000000000000000)"] + documents
            + ["SELECT version, state FROM quittance.chains WHERE home = (3000000000000 + :n)::text AND scope = 1;"]
            + looks
            + ["BEGIN;"] + others + inserts + [event, "COMMIT;"]).joined(separator: "\n")
    }
}
