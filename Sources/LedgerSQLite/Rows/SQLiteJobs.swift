// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Jobs. Few are stored at a time, so nothing here is tuned.

extension SQLiteLedgerSession {
    private static let jobs = """
        SELECT number, bundleId, environment, kind, name, dueAt, attempts, payload, failure
        FROM jobs JOIN scopes ON scopes.id = jobs.scope JOIN apps ON apps.id = scopes.app
        """

    func job(_ id: Job.ID) throws -> Job? {
        guard let scope = try scope(id.scope) else { return nil }
        return try first(
            Self.jobs + " WHERE jobs.kind = ? AND jobs.scope = ? AND jobs.name = ?",
            [.text(id.kind.rawValue), .integer(scope), .text(id.name)]
        ) { try $0.numberedJob().item }
    }

    func dueJobs(_ kind: Job.Kind, in scope: LedgerScope, at now: Timestamp, limit: Int) throws -> [Job] {
        guard let scope = try self.scope(scope) else { return [] }
        return try all(
            Self.jobs + " WHERE jobs.kind = ? AND jobs.scope = ? AND dueAt <= ? ORDER BY dueAt, jobs.name LIMIT ?",
            [.text(kind.rawValue), .integer(scope), now.stored, max(0, limit).stored]
        ) { try $0.numberedJob().item }
    }

    func scanJobs(after cursor: ScanCursor?, limit: Int) throws -> ScanPage<Job> {
        try TableScan.page(after: cursor, limit: limit) { number, limit in
            try all(Self.jobs + " WHERE number > ? ORDER BY number LIMIT ?", [.integer(number), limit.stored]) {
                try $0.numberedJob()
            }
        }
    }

    func put(_ job: Job) throws {
        try run(
            """
            INSERT INTO jobs (kind, scope, name, dueAt, attempts, payload, failure) VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (kind, scope, name) DO UPDATE SET dueAt = excluded.dueAt, attempts = excluded.attempts,
                payload = excluded.payload, failure = excluded.failure
            """,
            [
                .text(job.id.kind.rawValue), .integer(try addedScope(job.id.scope)), .text(job.id.name),
                job.dueAt.stored, job.attempts.stored, .bytes(job.payload), job.failure.stored,
            ])
    }

    func erase(_ id: Job.ID) throws {
        guard let scope = try scope(id.scope) else { return }
        try run(
            "DELETE FROM jobs WHERE kind = ? AND scope = ? AND name = ?",
            [.text(id.kind.rawValue), .integer(scope), .text(id.name)])
    }
}

extension RowReader {
    /// Reads the number of a job's row and the job.
    fileprivate mutating func numberedJob() throws -> TableScan<Job>.Row {
        let (number, scope) = (try next(Int64.self), try scope())
        let kind = Job.Kind(rawValue: try next())
        let id = Job.ID(kind, try next(), in: scope)
        return (
            number,
            Job(id, dueAt: try next(), attempts: try next(), payload: try next(), failure: try next())
        )
    }
}
