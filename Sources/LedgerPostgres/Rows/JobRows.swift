// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Jobs.

extension LoadPlan {
    mutating func load(_ id: Job.ID) {
        add(
            """
            SELECT version, due_at, attempts, payload, failure FROM quittance.jobs
            WHERE home = $1 AND scope = $2 AND kind = $3
            """, [.text(id.name), .integer(scopes.scope(id.scope)), .text(id.kind.rawValue)]
        ) { rows, loaded in
            loaded.jobs[id] = try rows.map { row in
                StoredJob(version: try row.next(), job: try row.job(id))
            }.first
        }
    }
}

extension PostgresRow {
    fileprivate mutating func job(_ id: Job.ID) throws -> Job {
        Job(id, dueAt: try next(), attempts: try next(), payload: try next(), failure: try next())
    }
}

extension CommitPlan {
    private static let insert = """
        INSERT INTO quittance.jobs (home, scope, kind, version, due_at, attempts, payload, failure)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        """

    private static let update = """
        WITH changed AS (
            UPDATE quittance.jobs SET version = $4, due_at = $5, attempts = $6, payload = $7, failure = $8
            WHERE home = $1 AND scope = $2 AND kind = $3 AND version = $9 RETURNING 1)
        \(Conflict.unlessAny("changed"))
        """

    private static let delete = """
        WITH gone AS (
            DELETE FROM quittance.jobs WHERE home = $1 AND scope = $2 AND kind = $3 AND version = $4 RETURNING 1)
        \(Conflict.unlessAny("gone"))
        """

    private static let check = """
        WITH kept AS (
            SELECT 1 FROM quittance.jobs WHERE home = $1 AND scope = $2 AND kind = $3 AND version = $4 FOR SHARE)
        \(Conflict.unlessAny("kept"))
        """

    private static let (take, giveBack) = (
        """
        INSERT INTO quittance.jobs (home, scope, kind, version, due_at, attempts, payload)
        VALUES ($1, $2, $3, 0, 0, 0, ''::bytea)
        """,
        "DELETE FROM quittance.jobs WHERE home = $1 AND scope = $2 AND kind = $3"
    )

    mutating func putJobs(_ changes: LedgerChanges, _ footprint: Footprint) {
        let new = Dictionary(changes.jobs.map { ($0.id, $0) }) { $1 }
        let ids = footprint.jobs.union(new.keys).union(changes.erasedJobs)
        for id in ids.sorted(by: { $0.place.lexicographicallyPrecedes($1.place) }) {
            let name: [PostgresValue] = [
                .text(id.name), .integer(scopes.scope(id.scope)), .text(id.kind.rawValue),
            ]
            let version = loaded.jobs[id].map { PostgresValue.integer($0.version) }
            if let job = new[id] {
                let values: [PostgresValue] = [
                    .integer(stamp), job.dueAt.parameter, job.attempts.parameter, .bytes(job.payload),
                    job.failure.parameter,
                ]
                add(version == nil ? Self.insert : Self.update, name + values + (version.map { [$0] } ?? []))
            } else if let version {
                add(changes.erasedJobs.contains(id) ? Self.delete : Self.check, name + [version])
            } else {
                add(Self.take, name)
                add(Self.giveBack, name)
            }
        }
    }
}

extension Job.ID {
    /// What jobs are ordered by.
    fileprivate var place: [String] { [name, scope.bundleId, scope.environment.rawValue, kind.rawValue] }
}

/// Jobs found by other things than their ids.
enum JobSearch {
    private static let columns = """
        SELECT home, kind, bundle_id, environment, scope, due_at, attempts, payload, failure
        FROM quittance.jobs JOIN quittance.scopes ON scopes.id = scope JOIN quittance.apps ON apps.id = app
        """

    /// Those of one instant come in any order, see ``ChainSearch/due(at:limit:)``.
    static func due(_ kind: Job.Kind, in scope: Int64, at now: Timestamp, limit: Int) -> PostgresStatement {
        PostgresStatement(
            columns + " WHERE kind = $1 AND scope = $2 AND due_at <= $3 ORDER BY due_at LIMIT $4",
            [.text(kind.rawValue), .integer(scope), now.parameter, max(0, limit).parameter])
    }

    /// The jobs after a cursor: the number of a scope, the length of a kind, the kind and the name.
    static func scan(after cursor: ScanCursor?, limit: Int) -> PostgresStatement {
        let words = (cursor?.rawValue ?? "").split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        var (name, scope, kind) = ("", Int64(-1), "")
        if words.count == 3, let length = Int(words[1]), length >= 0 {
            let text = words[2].unicodeScalars
            (scope, kind) = (Int64(words[0]) ?? -1, String(text.prefix(length)))
            name = String(text.dropFirst(length))
        }
        return PostgresStatement(
            columns + " WHERE (home, scope, kind) > ($1, $2, $3) ORDER BY home, scope, kind LIMIT $4",
            [.text(name), .integer(scope), .text(kind), .integer(Int64(max(1, limit)))])
    }

    static func found(_ rows: PostgresRows) throws -> [(job: Job, cursor: ScanCursor)] {
        try rows.map { row in
            let (name, kind) = (try row.next(String.self), try row.next(String.self))
            let (scope, number) = (try row.scope(), try row.next(Int64.self))
            let cursor = ScanCursor(rawValue: "\(number) \(kind.unicodeScalars.count) \(kind)\(name)")
            return (try row.job(Job.ID(Job.Kind(rawValue: kind), name, in: scope)), cursor)
        }
    }
}
