// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Leases, finishes and postpones jobs for workers.

extension Ledger {
    /// The time for which an unreadable job is left alone. A newer version of this software may have stored the job,
    /// and can still run it.
    private static let unreadablePause = Duration.seconds(86_400)

    /// Stores a job, unless a job with the same id exists.
    public func add(_ job: Job, at now: Timestamp) async throws {
        try await commit(LedgerQuery([.record(job.id.key)]), at: now) { draft in
            if draft.record(job.id.key) == nil { draft.put(job) }
        }
    }

    /// Leases the due jobs of a kind, the earliest first; see ``lease(_:until:at:)``.
    ///
    /// - Parameter limit: The maximum number of jobs to lease.
    public func lease(
        _ kind: Job.Kind, in scope: LedgerScope, until end: Timestamp, limit: Int = 1, at now: Timestamp
    ) async throws -> [Job] {
        let work = try await storage.due(in: [RecordLane(kind, of: .scope(scope))], at: now, limit: limit)
        return try await lease(work.records.map { Job.ID(kind, $0.name, in: scope) }, until: end, at: now)
    }

    /// Leases the due jobs among some jobs. Until the lease ends, no other worker gets these jobs. An unreadable job is
    /// postponed, so that it does not take the place of other jobs in a search.
    ///
    /// - Parameter end: The end of the lease. Choose a time by which the worker will surely have finished all the jobs.
    /// - Returns: The leased jobs as stored: `dueAt` is the end of the lease, and `attempts` includes this lease.
    public func lease(_ ids: [Job.ID], until end: Timestamp, at now: Timestamp) async throws -> [Job] {
        guard !ids.isEmpty else { return [] }
        return try await commit(LedgerQuery(ids.map { .record($0.key) }), at: now) { draft in
            // Another worker may have leased, finished or postponed a job meanwhile.
            ids.compactMap { id in
                guard let record = draft.record(id.key), record.isDue(at: now) else { return nil }
                return draft.lease(record, until: end, orLeaveUntil: now.advanced(by: Self.unreadablePause))
            }
        }
    }

    /// Stores a worker's progress with a job, and restarts the lease with its full length.
    ///
    /// - Throws: ``LeaseLost`` if the job is no longer stored as `job`, for example because another worker has leased
    ///   it; ``LedgerStorageError``.
    public func prolong(_ job: inout Job, payload: [UInt8], at now: Timestamp) async throws {
        var next = job
        next.dueAt = now.advanced(by: Job.lease)
        next.payload = payload
        guard next != job else { return }
        guard try await replace(job, with: next, at: now) else { throw LeaseLost() }
        job = next
    }

    /// Removes a finished job.
    ///
    /// - Parameter job: The job as it was leased or last prolonged.
    /// - Returns: False if the job is no longer stored as `job`, for example because its lease has ended and another
    ///   worker has leased or finished it. A job that is still stored then stays.
    @discardableResult public func finish(_ job: Job, at now: Timestamp) async throws -> Bool {
        try await change(job, at: now) { $0.erase(job.id.key) }
    }

    /// Ends the lease of a job, and stores the job for a later attempt.
    ///
    /// - Parameters:
    ///   - job: The job as it was leased or last prolonged.
    ///   - next: The job to store. Its id must be the same.
    /// - Returns: False if the job is no longer stored as `job`, for example because its lease has ended and another
    ///   worker has leased or finished it. A job that is still stored then stays.
    @discardableResult public func replace(_ job: Job, with next: Job, at now: Timestamp) async throws -> Bool {
        guard job.id == next.id else { return false }
        return try await change(job, at: now) { $0.put(next) }
    }

    /// A job; `nil` if no job has this id.
    ///
    /// - Throws: ``LedgerStorageError``: `damaged` if the job cannot be read.
    public func job(_ id: Job.ID) async throws -> Job? {
        try Self.job(id, in: try await storage.load(LedgerQuery([.record(id.key)])))
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func job(_ id: Job.ID, in snapshot: LedgerSnapshot) throws -> Job? { try snapshot.value(id.key) }

    /// A page of all jobs, in any order. Other records are left out. A record of an unknown kind counts as a job if it
    /// can be read as a job. An unreadable job of a known kind counts as damage.
    ///
    /// - Parameter cursor: The `next` of the last page; `nil` for the beginning.
    public func jobs(after cursor: ScanCursor? = nil, limit: Int = 500) async throws -> ScanPage<Job> {
        let page = try await storage.records(RecordSelection(), after: cursor, limit: limit)
        var jobs = ScanPage<Job>(items: [], damage: page.damage, next: page.next)
        for record in page.items where record.dueAt != nil {
            let kind = record.key.kind
            if Job.kinds.contains(kind) {
                jobs.add(record)
            } else if RecordKind.forms[kind] == nil, let job = Job(readable: record) {
                // A record of an unknown kind that cannot be read as a job is no job, rather than damage.
                jobs.items.append(job)
            }
        }
        return jobs
    }

    /// A page of the jobs of a kind, in any order; with a scope, only the jobs of this app and environment.
    ///
    /// - Parameter cursor: As in ``jobs(after:limit:)``.
    public func jobs(
        _ kind: Job.Kind, in scope: LedgerScope? = nil, after cursor: ScanCursor? = nil, limit: Int = 500
    ) async throws -> ScanPage<Job> {
        let selection = RecordSelection(kind, of: scope.map(RecordOwner.scope))
        let page = try await storage.records(selection, after: cursor, limit: limit)
        var jobs = ScanPage<Job>(items: [], damage: page.damage, next: page.next)
        for record in page.items { jobs.add(record) }
        return jobs
    }

    /// The number of an app's jobs whose last attempt failed, and whether there may be more: only the first `limit`
    /// jobs of each kind and environment are read.
    package func failedJobs(of bundleId: String, limit: Int) async throws -> (count: Int, isPartial: Bool) {
        var found = (count: 0, isPartial: false)
        for kind in Job.kinds where !Job.leases.contains(kind) {
            for environment in Environment.allCases where environment.hasAppStore {
                let page = try await jobs(
                    kind, in: LedgerScope(bundleId: bundleId, environment: environment), limit: limit)
                found.count += page.items.count { $0.failure != nil }
                found.isPartial = found.isPartial || page.next != nil
            }
        }
        return found
    }

    /// Makes a change, if a job is still stored as it was leased.
    private func change(
        _ job: Job, at now: Timestamp, _ change: @escaping @Sendable (inout LedgerDraft) -> Void
    ) async throws -> Bool {
        try await commit(LedgerQuery([.record(job.id.key)]), at: now) { draft in
            guard draft.job(job.id) == job else { return false }
            change(&draft)
            return true
        }
    }
}

extension ScanPage<Job> {
    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    fileprivate mutating func add(_ record: LedgerRecord) {
        do {
            items.append(try Job(record))
        } catch {
            damage.append(error.message)
        }
    }
}

extension LedgerDraft {
    /// Leases the job of a record.
    ///
    /// - Parameter pause: The time until which an unreadable record is left alone.
    /// - Returns: The job as it is stored during the lease; `nil` if the record cannot be read.
    fileprivate mutating func lease(_ record: LedgerRecord, until end: Timestamp, orLeaveUntil pause: Timestamp) -> Job?
    {
        guard var job = Job(readable: record) else {
            var record = record
            record.dueAt = pause
            put(record)
            return nil
        }
        job.dueAt = end
        job.attempts &+= 1
        put(job)
        return job
    }
}
