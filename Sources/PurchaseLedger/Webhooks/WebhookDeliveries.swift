// SPDX-License-Identifier: Apache-2.0

// The work of a delivering server: the lease, the events, and the commits of results.

package import AppStoreModel

/// The results of some deliveries to an endpoint.
package struct WebhookResults: Sendable {
    /// The progress. The ledger itself counts ``WebhookProgress/attempts``, and ignores the number here.
    package var progress: WebhookProgress
    /// The failed deliveries, new or changed.
    package var failed: [FailedDelivery]
    /// The failed events without a further attempt, because of a success or because the event was erased.
    package var delivered: [EventCursor]
    /// The new attempts, in their order.
    package var attempts: [WebhookAttempt]
    /// The reason for disabling the endpoint, as a sentence; `nil` if it stays active.
    package var disable: String?

    package init(
        progress: WebhookProgress, failed: [FailedDelivery] = [], delivered: [EventCursor] = [],
        attempts: [WebhookAttempt] = [], disable: String? = nil
    ) {
        self.progress = progress
        self.failed = failed
        self.delivered = delivered
        self.attempts = attempts
        self.disable = disable
    }
}

/// The outcome of storing results.
package struct WebhookCommit: Sendable {
    /// The job as it is stored now.
    package let job: Job
    /// Whether a person has changed the endpoint or replayed events, so that the delivering server must begin again.
    package let isChanged: Bool
}

extension Ledger {
    /// Leases the job of an active endpoint. Until the lease ends, no other server delivers to the endpoint.
    ///
    /// - Returns: The job with the ``WebhookProgress``; `nil` while a different server has the job, and if the
    ///   endpoint is missing or not active.
    /// - Throws: ``LedgerStorageError``: `damaged` if the endpoint or its job cannot be read.
    package func leaseWebhook(
        _ id: String, of bundleId: String, until end: Timestamp, at now: Timestamp
    ) async throws -> Job? {
        try await commit(.webhook(id, of: bundleId), at: now) { $0.leaseWebhook(id, of: bundleId, until: end) }
    }

    /// Ends the leases of all endpoints. Only for the server that has its ledger alone, at its start: the servers that
    /// took them have ended. An endpoint that cannot be read keeps its lease, which also ends by itself.
    ///
    /// - Throws: The last error, once the other leases are ended.
    package func endWebhookLeases(at now: Timestamp) async throws {
        var failure: (any Error)?
        for endpoint in try await webhookEndpoints() {
            do {
                try await commit(.webhook(endpoint.id, of: endpoint.bundleId), at: now) { draft in
                    let id = Job.ID(webhook: endpoint.id, of: endpoint.bundleId)
                    guard var job = draft.job(id), job.dueAt > now else { return }
                    job.dueAt = now
                    draft.put(job)
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }

    /// Commits the results of deliveries, and prolongs the lease. Each changed record is written once, in a single
    /// transaction.
    ///
    /// Results are also stored after a person changed the endpoint. After a replay, no event later than the replay's
    /// cursor counts as delivered. A changed endpoint is not disabled.
    ///
    /// - Parameters:
    ///   - job: The job as it was leased or last committed.
    ///   - endpoint: The endpoint to which the events were delivered.
    ///   - end: The new end of the lease. The present time, or an earlier time, ends the lease.
    /// - Throws: ``LeaseLost`` if a different server has leased the job, or the endpoint was removed. No result was
    ///   stored then. ``LedgerStorageError``.
    package func commitWebhook(
        _ job: Job, _ results: WebhookResults, to endpoint: WebhookEndpoint, until end: Timestamp, at now: Timestamp
    ) async throws -> WebhookCommit {
        let results = try NumberedResults(of: job, to: endpoint, results)
        guard let next = try await commit(results.query, at: now, { $0.commit(results, until: end) }) else {
            throw LeaseLost()
        }
        return next
    }

    /// A page of events after a position of a lane. If events after the position are missing, because they were erased
    /// or the ledger lost its last commits, the page begins after them.
    package func webhookEvents(
        of bundleId: String, after position: EventCursor, limit: Int, at now: Timestamp
    ) async throws -> EventPage {
        do {
            return try await events(of: bundleId, after: position, limit: limit, at: now)
        } catch let error as EventCursorError {
            return try await events(of: bundleId, after: error.oldest, limit: limit, at: now)
        }
    }

    /// A single event, in a page with the names of its customers; `nil` if the event was erased.
    package func webhookEvent(
        _ event: EventCursor, of bundleId: String, at now: Timestamp
    ) async throws -> EventPage? {
        guard let number = event.number, number > 0 else { return nil }
        do {
            let before = EventCursor(number - 1, epoch: event.epoch)
            let page = try await events(of: bundleId, after: before, limit: 1, at: now)
            return page.events.first?.cursor == event ? page : nil
        } catch is EventCursorError {
            return nil
        }
    }

    /// The failed deliveries of an endpoint: the first `limit` in the order of the events. Unreadable records are left
    /// out.
    ///
    /// - Parameter setAside: Whether to return the events set aside, rather than the events with a further attempt.
    public func failedDeliveries(
        of id: String, of bundleId: String, setAside: Bool, limit: Int
    ) async throws -> [FailedDelivery] {
        let entry = FailedDelivery.entry(id, setAside: setAside)
        let selection = RecordSelection(FailedDelivery.recordKind, of: .app(bundleId), entry: entry)
        guard limit > 0 else { return [] }
        // All records are read, because a storage may list them in a different order than that of the events.
        let all = try await records(selection).compactMap { FailedDelivery(readable: $0) }
            .sorted { ($0.event.number ?? 0, $0.event.rawValue) < ($1.event.number ?? 0, $1.event.rawValue) }
        return Array(all.prefix(limit))
    }

    /// The newest attempts of an endpoint, the newest first, at most `limit` and ``WebhookAttempt/kept``.
    public func webhookAttempts(of id: String, of bundleId: String, limit: Int) async throws -> [WebhookAttempt] {
        guard limit > 0, let count = try await webhookProgress(of: id, of: bundleId)?.attempts else { return [] }
        let numbers = max(0, count - Int64(min(limit, WebhookAttempt.kept)))..<count
        let keys = WebhookAttempts.keys(numbers, of: id, of: bundleId)
        let records = try await storage.load(LedgerQuery(keys.map(LedgerKey.record))).records.values
        return records.compactMap { WebhookAttempts(readable: $0) }.flatMap(\.numbered)
            .filter { numbers.contains($0.number) }.sorted { $0.number > $1.number }.map(\.attempt)
    }

    /// The time of the first event still needed by an active endpoint; `nil` if no event is needed. Events before this
    /// time can be erased. An endpoint needs no event if its progress is unreadable, or if no server has served it for
    /// ``WebhookEndpoint/maxUnserved``.
    ///
    /// - Parameter now: `nil` to take all endpoints for served.
    package func webhooksNeedEvents(at now: Timestamp?) async throws -> Timestamp? {
        var first: Timestamp?
        for endpoint in try await webhookEndpoints() where endpoint.state == .active {
            if let time = try await firstEvent(neededBy: endpoint, at: now) { first = min(first ?? time, time) }
        }
        return first
    }

    /// Whether an endpoint waits for events from a time whose ids are gone: the ids that were deleted or taken off then
    /// (``DeletedCustomer/lifetime``).
    ///
    /// - Parameters:
    ///   - now: The time of the ledger.
    ///   - wall: The time of the machine.
    package func webhookLacksIds(
        _ endpoint: WebhookEndpoint, at now: Timestamp, wall: Timestamp
    ) async throws -> Bool {
        let lifetime = DeletedCustomer.lifetime
        // In a simulator's time, the events of a new endpoint may be months old.
        guard endpoint.createdAt.advanced(by: lifetime) <= wall else { return false }
        return try await firstEvent(neededBy: endpoint, at: nil).map { $0.advanced(by: lifetime) <= now } ?? false
    }

    private func firstEvent(neededBy endpoint: WebhookEndpoint, at now: Timestamp?) async throws -> Timestamp? {
        var first: Timestamp?
        for position in try await neededPositions(of: endpoint, at: now) {
            let page = try await webhookEvents(of: endpoint.bundleId, after: position, limit: 1, at: .distantPast)
            if let time = page.events.first?.recordedAt { first = min(first ?? time, time) }
        }
        return first
    }

    /// Positions after which an endpoint needs events: the first of each epoch (``EventEpoch``).
    private func neededPositions(of endpoint: WebhookEndpoint, at now: Timestamp?) async throws -> [EventCursor] {
        let id = Job.ID(webhook: endpoint.id, of: endpoint.bundleId)
        let snapshot = try await storage.load(LedgerQuery([.record(id.key)]))
        guard var positions = Self.positions(snapshot.records[id.key], of: endpoint, at: now) else { return [] }
        let waiting = try await failedDeliveries(
            of: endpoint.id, of: endpoint.bundleId, setAside: false, limit: .max)
        positions += waiting.map(\.position)
        let epochs = Dictionary(grouping: positions.filter { $0.number != nil }, by: \.epoch)
        return epochs.values.compactMap { $0.min { ($0.number ?? 0) < ($1.number ?? 0) } }
    }

    /// - Returns: `nil` if the progress cannot be read, or no server serves the endpoint.
    @inline(never)
    private static func positions(
        _ job: LedgerRecord?, of endpoint: WebhookEndpoint, at now: Timestamp?
    ) -> [EventCursor]? {
        guard let job = Job(readable: job) else { return nil }
        // A server that delivers prolongs its lease at least once in a minute. A resumed endpoint needs a server first.
        let served = max(job.dueAt, endpoint.mendedAt ?? job.dueAt)
        if let now, served.advanced(by: WebhookEndpoint.maxUnserved) <= now { return nil }
        do {
            return try WebhookProgress(job).positions
        } catch {
            return nil
        }
    }
}

extension EventCursorError {
    /// The position at which a reader continues without its table of earlier events; `nil` for the beginning.
    package var oldest: EventCursor? {
        switch self {
        case .invalid: nil
        case .expired(let oldest), .lost(let oldest): oldest
        }
    }
}

// MARK: - Decisions

/// The results of deliveries, with the numbers of the attempts.
private struct NumberedResults: Sendable {
    let job: Job
    let endpoint: WebhookEndpoint
    let results: WebhookResults
    /// The numbers of the new attempts to keep.
    let numbers: Range<Int64>
    /// The progress to store.
    let progress: WebhookProgress

    @inline(never)
    init(of job: Job, to endpoint: WebhookEndpoint, _ results: WebhookResults) throws {
        self.job = job
        self.endpoint = endpoint
        self.results = results
        var progress = results.progress
        let first = try WebhookProgress(job).attempts
        progress.attempts = first &+ Int64(results.attempts.count)
        numbers = max(first, progress.attempts - Int64(WebhookAttempt.kept))..<max(first, progress.attempts)
        self.progress = progress
    }

    var id: String { job.id.name }
    var bundleId: String { job.id.scope.bundleId }

    var query: LedgerQuery {
        var keys = WebhookAttempts.keys(numbers, of: id, of: bundleId)
        keys.formUnion([job.id.key, WebhookEndpoint.key(id, of: bundleId)])
        keys.formUnion(results.failed.map(\.key))
        keys.formUnion(results.delivered.map { FailedDelivery.key($0, to: id, of: bundleId) })
        return LedgerQuery(keys.map(LedgerKey.record))
    }
}

extension LedgerDraft {
    mutating func leaseWebhook(_ id: String, of bundleId: String, until end: Timestamp) -> Job? {
        let endpoint: WebhookEndpoint? = required(WebhookEndpoint.key(id, of: bundleId))
        let stored: Job? = required(Job.ID(webhook: id, of: bundleId).key)
        guard endpoint?.state == .active, var job = stored, var progress = progress(job) else { return nil }
        // Only a wrong clock can have set such a distant end of a lease.
        guard job.dueAt <= now || job.dueAt > now.advanced(by: Job.lease * 2) else { return nil }
        job.attempts &+= 1
        job.dueAt = end
        progress.replayedAfter = nil
        job.payload = progress.payload
        put(job)
        return job
    }

    /// - Returns: `nil` if a different server has leased the job, or the endpoint was removed.
    fileprivate mutating func commit(_ numbered: NumberedResults, until end: Timestamp) -> WebhookCommit? {
        let stored: WebhookEndpoint? = required(WebhookEndpoint.key(numbered.id, of: numbered.bundleId))
        // Each lease has its own number of `attempts`. The rest of the job is changed by the lease's server, and by
        // replays.
        guard let endpoint = stored, var job = job(numbered.job.id), job.attempts == numbered.job.attempts,
            let before = progress(job)
        else { return nil }
        var progress = numbered.progress
        let replay = before.replayedAfter
        progress.replayedAfter = replay
        if let replay { progress.setBack(to: replay) }
        job.dueAt = end
        job.payload = progress.payload
        put(job)
        store(numbered, upTo: replay?.number ?? .max)
        // A commit with a lost answer is repeated, and finds its own attempts.
        if before.attempts != progress.attempts { append(numbered) }
        let isChanged = endpoint != numbered.endpoint
        if let reason = numbered.results.disable, !isChanged {
            var endpoint = endpoint
            endpoint.state = .disabled(reason: reason, at: now)
            put(endpoint)
        }
        return WebhookCommit(job: job, isChanged: isChanged)
    }

    /// Stores the failed deliveries up to an event. Later events are delivered again by their lanes.
    private mutating func store(_ numbered: NumberedResults, upTo last: Int64) {
        for event in numbered.results.delivered {
            let key = FailedDelivery.key(event, to: numbered.id, of: numbered.bundleId)
            if record(key) != nil { erase(key) }
        }
        for failed in numbered.results.failed where failed.event.number ?? 0 <= last { put(failed) }
    }

    /// Adds the new attempts to the ring.
    private mutating func append(_ numbered: NumberedResults) {
        var page: WebhookAttempts?
        for (number, attempt) in zip(numbered.numbers, numbered.results.attempts.suffix(numbered.numbers.count)) {
            if page?.isNext(number) != true {
                if let page { put(page) }
                // An unreadable page is replaced.
                let stored = WebhookAttempts(
                    readable: record(WebhookAttempts.key(number, of: numbered.id, of: numbered.bundleId)))
                let next = stored?.isNext(number) == true ? stored : nil
                page = next ?? WebhookAttempts(of: numbered.id, of: numbered.bundleId, first: number)
            }
            page?.append(attempt)
        }
        if let page { put(page) }
    }
}
