// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Synchronization

/// Does the jobs of a ledger as they fall due. A table lists the kinds of jobs with the functions that do them.
///
/// A single search finds the due jobs of all kinds, apps and environments. A job is leased before it is done. Any
/// number of servers can therefore share the jobs, and no job is lost in a crash. Jobs of kinds outside the table are
/// left alone, and so are jobs of other apps and environments than the table names.
///
/// A runner has no clock, threads or timers of its own. The caller calls ``begin(atMost:)`` when time has passed or a
/// record was stored, and ``perform(_:)`` for each job that has begun.
public final class JobRunner: Sendable {
    private let ledger: Ledger
    private let kinds: [JobKind]
    private let now: @Sendable () -> Timestamp
    private let onFailure: @Sendable (Job) -> Void
    private let queue: Mutex<JobQueue>

    /// - Parameters:
    ///   - kinds: The table, with a row for each kind. Of two rows for the same kind, the first counts.
    ///   - now: Returns the time.
    ///   - onFailure: Called with each job that is stored again with a failure and a due time in the future.
    public init(
        _ ledger: Ledger, _ kinds: [JobKind], now: @escaping @Sendable () -> Timestamp,
        onFailure: @escaping @Sendable (Job) -> Void = { _ in }
    ) {
        self.ledger = ledger
        let kinds = kinds.reduce(into: [JobKind]()) { rows, kind in
            if !rows.contains(where: { $0.kind == kind.kind }) { rows.append(kind) }
        }
        self.kinds = kinds
        self.now = now
        self.onFailure = onFailure
        queue = Mutex(JobQueue(kinds))
    }

    /// The jobs that begin, with the result of a search.
    public struct Beginning: Sendable {
        /// The jobs that the caller passes to ``perform(_:)``, concurrently or in turn.
        public var jobs: [Job] = []
        /// Whether changes of purchases are due, see ``Ledger/publishDueChanges(at:limit:)``; false without a search.
        public var hasDueChains = false
        /// Whether to call ``JobRunner/begin(atMost:)`` again at once, because none of the found jobs is still there to
        /// lease. For example, other workers have leased them.
        public var isOutdated = false
        /// The reason why due jobs could not be leased; `nil` if they could.
        public var failure: (any Error)?
    }

    /// Makes the next ``begin(atMost:)`` search for all due jobs. Call this method each second, and after commits that
    /// leave due records.
    public func search() { queue.withLock { $0.wantsSearch = true } }

    /// Searches if necessary, and leases due jobs.
    ///
    /// - Throws: ``LedgerStorageError``.
    public func begin(atMost limit: Int = .max) async throws -> Beginning {
        let now = now()
        var beginning = Beginning()
        let (isSearch, lanes) = queue.withLock { ($0.wantsSearch, $0.lanesToSearch(at: now)) }
        if isSearch || !lanes.isEmpty {
            let work = try await ledger.storage.due(in: lanes, at: now, limit: JobQueue.maxFound)
            beginning.hasDueChains = work.hasDueChains
            queue.withLock { $0.add(work.records, in: lanes) }
        }
        let ids = queue.withLock { $0.take(atMost: limit, at: now) }
        guard !ids.isEmpty else { return beginning }
        do {
            beginning.jobs = try await ledger.lease(ids, until: now.advanced(by: Job.lease), at: now)
        } catch {
            beginning.failure = error
            beginning.jobs = await leaseOneByOne(ids, after: error, at: now)
        }
        let leased = Set(beginning.jobs.map(\.id))
        release(ids.filter { !leased.contains($0) })
        beginning.isOutdated = leased.isEmpty && beginning.failure == nil
        return beginning
    }

    /// Leases jobs one by one, so that a damaged job does not keep other jobs from being done.
    private func leaseOneByOne(_ ids: [Job.ID], after error: any Error, at now: Timestamp) async -> [Job] {
        guard (error as? LedgerStorageError)?.code == .damaged else { return [] }
        var jobs: [Job] = []
        for id in ids {
            // Only the first error is reported.
            jobs += (try? await ledger.lease([id], until: now.advanced(by: Job.lease), at: now)) ?? []
        }
        return jobs
    }

    private func release(_ ids: [Job.ID]) {
        queue.withLock { queue in
            for id in ids {
                queue.pauses.end(id, isAnswered: false)
                queue.end(id)
            }
        }
    }

    /// Does a leased job, and stores its outcome.
    ///
    /// - Throws: ``LedgerStorageError``. The job is done again after its lease has ended.
    public func perform(_ leased: Job) async throws {
        defer { queue.withLock { $0.end(leased.id) } }
        let lease = LeasedJob(leased)
        let outcome: JobOutcome
        do {
            guard let kind = kind(of: leased) else { return }
            outcome = try await kind.perform(lease)
            queue.withLock { $0.pauses.end(leased.id, isAnswered: lease.isAnswered) }
        } catch let failure as JobFailure {
            outcome = .later(postponed(lease, failure))
        } catch {
            queue.withLock { $0.pauses.end(leased.id, isAnswered: lease.isAnswered) }
            // The server is stopping. The job is released, so that the next worker need not wait for the end of the
            // lease. After any other error, a different worker has the lease, or the lease ends by itself.
            guard error is CancellationError else { return try Self.rethrow(error) }
            outcome = .later(lease.job.next(at: now(), leased.failure))
        }
        switch outcome {
        case .done: try await ledger.finish(lease.job, at: now())
        case .later(let next):
            if next.failure != nil, next.dueAt > now() { onFailure(next) }
            try await ledger.replace(lease.job, with: next, at: now())
        }
    }

    private func kind(of job: Job) -> JobKind? { kinds.first { $0.kind == job.id.kind } }

    private static func rethrow(_ error: any Error) throws {
        if !(error is LeaseLost) { throw error }
    }

    /// The failed job with the due time of its next attempt. Also begins a pause if the failure requires one.
    private func postponed(_ lease: LeasedJob, _ failure: JobFailure) -> Job {
        let job = lease.job
        let now = now()
        let longest = kind(of: job)?.maxRetry ?? JobPauses.longest
        var next = job.retry(at: now, because: failure.reason, within: longest)
        if failure.extent == .job {
            queue.withLock { $0.pauses.end(job.id, isAnswered: lease.isAnswered) }
        } else {
            let end = queue.withLock { $0.pauses.fail(job.id, failure, at: now) } ?? now
            // Unless the failure surely concerns all jobs, it may be the job's own. The job then waits longer after
            // each failure.
            let own = failure.extent == .all ? now : min(next.dueAt, now.advanced(by: Self.maxOutageRetry))
            next.dueAt = max(end, own, now.advanced(by: .seconds(1)))
        }
        if let pause = failure.pause { next.dueAt = max(next.dueAt, now.advanced(by: pause)) }
        if let payload = failure.payload { next.payload = payload }
        if let latest = failure.latest { next.dueAt = min(next.dueAt, latest) }
        return next
    }

    /// The maximum delay of a job after an unanswered request. After an outage, every job is tried again within this
    /// time.
    private static let maxOutageRetry = Duration.seconds(900)

    /// Does a due job, unless no job is due or a pause prevents it.
    ///
    /// - Returns: False if no job can be done now.
    /// - Throws: As ``perform(_:)``.
    public func workOnce() async throws -> Bool {
        var beginning: Beginning
        repeat {
            search()
            beginning = try await begin(atMost: 1)
            if let failure = beginning.failure, beginning.jobs.isEmpty { throw failure }
        } while beginning.isOutdated
        guard let job = beginning.jobs.first else { return false }
        try await perform(job)
        return true
    }

    /// Makes jobs due now if their due time is implausibly far ahead: more than twice the longest wait of their kind.
    /// Only a wrong clock can have set such a time.
    ///
    /// - Returns: The number of jobs made due.
    /// - Throws: ``LedgerStorageError``.
    @discardableResult public func pullBack() async throws -> Int {
        var count = 0
        for kind in kinds { count += try await pullBack(kind) }
        return count
    }

    private func pullBack(_ kind: JobKind) async throws -> Int {
        var cursor: ScanCursor?
        var count = 0
        repeat {
            let page = try await ledger.jobs(kind.kind, after: cursor)
            for job in page.items where kind.scopes.contains(job.id.scope) {
                guard now().advanced(by: kind.maxWait(job) * 2) < job.dueAt else { continue }
                if try await ledger.replace(job, with: job.next(at: now(), job.failure), at: now()) { count += 1 }
            }
            cursor = page.next
        } while cursor != nil
        return count
    }
}
