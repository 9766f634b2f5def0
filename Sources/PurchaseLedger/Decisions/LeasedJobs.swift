// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Jobs as workers see them: leased, finished, postponed.

extension Ledger {
    /// Stores a job unless there is one with the same id.
    public func add(_ job: Job, at now: Timestamp) async throws {
        try await commit(LedgerQuery { $0.jobs = [job.id] }, at: now) { draft in
            if draft.job(job.id) == nil { draft.changes.jobs = [job] }
        }
    }

    /// Leases the jobs of a kind that are due, the earliest first. Until the lease ends no other worker gets them.
    ///
    /// - Parameters:
    ///   - end: When the lease ends: later than the worker needs for all of them.
    ///   - limit: The most jobs to lease.
    /// - Returns: The jobs as they are stored now: `dueAt` is the end of the lease, and `attempts` counts this one.
    public func lease(
        _ kind: Job.Kind, in scope: LedgerScope, until end: Timestamp, limit: Int = 1, at now: Timestamp
    ) async throws -> [Job] {
        let due = try await storage.dueJobs(kind, in: scope, at: now, limit: limit).map(\.id)
        guard !due.isEmpty else { return [] }
        return try await commit(LedgerQuery { $0.jobs = Set(due) }, at: now) { draft in
            // Another worker may have leased, finished or postponed some of them meanwhile.
            let jobs = due.compactMap { draft.job($0) }.filter { $0.dueAt <= now }.map { $0.leased(until: end) }
            draft.changes.jobs = jobs
            return jobs
        }
    }

    /// Removes a job that was done.
    ///
    /// - Parameter job: As it was leased.
    /// - Returns: False if the lease has ended and another worker has the job, or if it was stored anew: then it stays.
    @discardableResult public func finish(_ job: Job, at now: Timestamp) async throws -> Bool {
        try await change(job, at: now) { $0.erasedJobs = [job.id] }
    }

    /// Ends the lease of a job that is to be done later, or again.
    ///
    /// - Parameters:
    ///   - job: As it was leased.
    ///   - next: The job as it is to be stored. Its id must be the same.
    /// - Returns: False if the lease has ended and another worker has the job, or if it was stored anew: then that one
    ///   stays.
    @discardableResult public func replace(_ job: Job, with next: Job, at now: Timestamp) async throws -> Bool {
        guard job.id == next.id else { return false }
        return try await change(job, at: now) { $0.jobs = [next] }
    }

    /// A job; `nil` if there is none with this id.
    public func job(_ id: Job.ID) async throws -> Job? {
        try await storage.load(LedgerQuery { $0.jobs = [id] }).jobs[id]
    }

    /// A page of all jobs, in any order. Records among them that are no work are left out.
    ///
    /// - Parameter cursor: The `next` of the last page; `nil` for the beginning.
    public func jobs(after cursor: ScanCursor? = nil, limit: Int = 500) async throws -> ScanPage<Job> {
        var page = try await storage.scanJobs(after: cursor, limit: limit)
        page.items.removeAll(where: \.isNote)
        return page
    }

    /// Makes a change if a job is still stored as it was leased.
    private func change(
        _ job: Job, at now: Timestamp, _ fill: @escaping @Sendable (inout LedgerChanges) -> Void
    ) async throws -> Bool {
        try await commit(LedgerQuery { $0.jobs = [job.id] }, at: now) { draft in
            guard draft.job(job.id) == job else { return false }
            fill(&draft.changes)
            return true
        }
    }
}

extension Job {
    /// The job as it is stored during a lease.
    fileprivate func leased(until end: Timestamp) -> Job {
        var job = self
        (job.dueAt, job.attempts) = (end, attempts &+ 1)
        return job
    }
}
