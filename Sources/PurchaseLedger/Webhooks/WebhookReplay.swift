// SPDX-License-Identifier: Apache-2.0

// Delivers events to an endpoint again, and removes endpoints.

public import AppStoreModel

/// The events of a repeated delivery.
public enum WebhookReplay: Hashable, Sendable {
    /// The events after a cursor.
    case after(EventCursor)
    /// The events recorded since a time.
    case since(Timestamp)
    /// The events set aside after their last attempt.
    case setAside
}

extension Ledger {
    /// Delivers events to an endpoint again. No event is left out: a lane before the first of the events continues at
    /// its position. Events that failed before are tried at once.
    ///
    /// The delivering server need not end its deliveries first: it stores its results, but no results of events after
    /// the cursor.
    ///
    /// - Returns: For a replay of the events set aside, the number of events now waiting. With earlier waiting events,
    ///   there are at most ``FailedDelivery/maxWaiting``, and further events stay set aside. 0 for other replays; `nil`
    ///   if the app has no endpoint with this id.
    /// - Throws: ``EventCursorError`` if the ledger has no events after the cursor; ``LedgerStorageError``:
    ///   `unavailable` if the delivering server stores results without a break.
    public func replayWebhook(
        _ id: String, of bundleId: String, _ replay: WebhookReplay, at now: Timestamp
    ) async throws -> Int? {
        switch replay {
        case .after(let cursor):
            _ = try await storage.events(of: bundleId, after: cursor, limit: 1)
            return try await deliver(to: id, of: bundleId, after: cursor, at: now)
        case .since(let time):
            let cursor = try await cursor(before: time, of: bundleId)
            return try await deliver(to: id, of: bundleId, after: cursor, at: now)
        case .setAside: return try await deliverSetAside(to: id, of: bundleId, at: now)
        }
    }

    /// Removes an endpoint with all its records.
    ///
    /// - Returns: False if the app has no endpoint with this id.
    /// - Throws: ``LedgerStorageError``: `unavailable` if the endpoint was changed meanwhile.
    public func removeWebhook(_ id: String, of bundleId: String, at now: Timestamp) async throws -> Bool {
        let key = WebhookEndpoint.key(id, of: bundleId)
        guard try await storage.load(LedgerQuery([.record(key)])).records[key] != nil else { return false }
        // An unreadable endpoint or job is removed too, because no server delivers to the endpoint.
        let job = try await takenJob(id, of: bundleId, at: now)
        try await eraseFailed(of: id, of: bundleId, while: job, at: now)
        let pages = WebhookAttempts.keys(of: id, of: bundleId)
        let jobKey = Job.ID(webhook: id, of: bundleId).key
        let present = try await storage.load(LedgerQuery(pages.map(LedgerKey.record))).records.keys
        let keys = [key, jobKey] + present
        try await commit(LedgerQuery(keys.map(LedgerKey.record)), while: job, at: now) { draft in
            for key in keys where draft.record(key) != nil { draft.erase(key) }
        }
        return true
    }

    /// Takes the job of an endpoint from the delivering server, which can store no results any more. No server gets the
    /// job for the length of a lease.
    ///
    /// - Returns: `nil` if the job cannot be read, so that no server delivers.
    private func takenJob(_ id: String, of bundleId: String, at now: Timestamp) async throws -> Job? {
        try await commit(.webhook(id, of: bundleId), at: now) { draft in
            guard var job = draft.job(Job.ID(webhook: id, of: bundleId)) else { return nil }
            job.attempts &+= 1
            job.dueAt = draft.now.advanced(by: Job.lease)
            draft.put(job)
            return job
        }
    }

    /// Makes a change while a taken job is still stored as it was taken.
    ///
    /// - Parameter job: `nil` to make the change in any case.
    /// - Throws: ``LedgerStorageError``: `unavailable` if the job was changed meanwhile.
    private func commit(
        _ query: LedgerQuery, while job: Job?, at now: Timestamp,
        _ change: @escaping @Sendable (inout LedgerDraft) -> Void
    ) async throws {
        let query = query.union(LedgerQuery([job?.id.key].compactMap(\.self).map(LedgerKey.record)))
        let isTaken = try await commit(query, at: now) { draft in
            if let job, draft.job(job.id) != job { return false }
            change(&draft)
            return true
        }
        guard isTaken else {
            throw LedgerStorageError(.unavailable, "The webhook was changed by someone else meanwhile: try again")
        }
    }

    /// Erases all failed deliveries of an endpoint, page by page.
    private func eraseFailed(of id: String, of bundleId: String, while job: Job?, at now: Timestamp) async throws {
        for setAside in [false, true] {
            let entry = FailedDelivery.entry(id, setAside: setAside)
            let selection = RecordSelection(FailedDelivery.recordKind, of: .app(bundleId), entry: entry)
            // All keys are read first, because an erasure during a scan may hide records from the scan.
            let keys = try await records(selection).map(\.key)
            for start in stride(from: 0, to: keys.count, by: Self.webhookPage) {
                let page = Array(keys[start..<min(keys.count, start + Self.webhookPage)])
                try await commit(LedgerQuery(page.map(LedgerKey.record)), while: job, at: now) { draft in
                    for key in page where draft.record(key) != nil { draft.erase(key) }
                }
            }
        }
    }
}

// MARK: - Replays

extension Ledger {
    /// The maximum number of decisions about a replay. The delivering server stores results a few times a second, and a
    /// decision takes some milliseconds.
    private static let replayDecisions = 20

    private func deliver(
        to id: String, of bundleId: String, after cursor: EventCursor, at now: Timestamp
    ) async throws -> Int? {
        let first = cursor.number ?? 0
        for _ in 0..<Self.replayDecisions {
            guard let job = try await job(Job.ID(webhook: id, of: bundleId)) else { return nil }
            // The lanes deliver these events again, in their order.
            let keys = try await failedDeliveries(of: id, of: bundleId, setAside: false, limit: .max)
                .filter { $0.event.number ?? 0 > first }.map(\.key)
            let query = LedgerQuery.webhook(id, of: bundleId).union(LedgerQuery(keys.map(LedgerKey.record)))
            let outcome = try await commit(query, at: now) { $0.replay(job, after: cursor, erasing: keys) }
            switch outcome {
            case .unknown: return nil
            case .otherResults: continue
            case .done:
                try await eraseSetAside(of: id, of: bundleId, after: first, at: now)
                return 0
            }
        }
        throw LedgerStorageError(.unavailable, "The webhook delivers too many events at present: try again")
    }

    /// Erases the events after a number that were set aside before a replay, page by page.
    private func eraseSetAside(
        of id: String, of bundleId: String, after first: Int64, at now: Timestamp
    ) async throws {
        let keys = try await failedDeliveries(of: id, of: bundleId, setAside: true, limit: .max)
            .filter { $0.event.number ?? 0 > first }.map(\.key)
        try await eraseSetAside(keys, at: now)
    }

    private func eraseSetAside(_ keys: [RecordKey], at now: Timestamp) async throws {
        for start in stride(from: 0, to: keys.count, by: Self.webhookPage) {
            let page = Array(keys[start..<min(keys.count, start + Self.webhookPage)])
            try await commit(LedgerQuery(page.map(LedgerKey.record)), at: now) { draft in
                // After a replay, an event may wait for its next attempt already.
                for key in page where draft.isSetAside(key) { draft.erase(key) }
            }
        }
    }

    /// Erases the oldest events set aside for an endpoint, so that the newest ``FailedDelivery/maxSetAside`` are left.
    ///
    /// - Returns: The number of erased events.
    package func eraseOldSetAside(of endpoint: WebhookEndpoint, at now: Timestamp) async throws -> Int {
        let oldest = try await failedDeliveries(
            of: endpoint.id, of: endpoint.bundleId, setAside: true, limit: .max
        ).dropLast(FailedDelivery.maxSetAside)
        try await eraseSetAside(oldest.map(\.key), at: now)
        return oldest.count
    }

    private func deliverSetAside(
        to id: String, of bundleId: String, at now: Timestamp
    ) async throws -> Int? {
        let waiting = try await failedDeliveries(
            of: id, of: bundleId, setAside: false, limit: FailedDelivery.maxWaiting)
        let room = FailedDelivery.maxWaiting - waiting.count
        let aside = try await failedDeliveries(of: id, of: bundleId, setAside: true, limit: room)
        let keys = aside.map(\.key)
        let query = LedgerQuery.webhook(id, of: bundleId).union(LedgerQuery(keys.map(LedgerKey.record)))
        return try await commit(query, at: now) { $0.replaySetAside(keys, to: id, of: bundleId) }
    }

    /// The maximum number of pages in the search for the first event since a time.
    private static let replayPages = 20

    /// The cursor after which all events recorded since a time follow. Events may be a few minutes out of order,
    /// because several servers record them. The first events after the cursor may then be older than the time.
    ///
    /// - Throws: ``EventCursorError`` if events are erased at the same instant; ``LedgerStorageError``.
    private func cursor(before time: Timestamp, of bundleId: String) async throws -> EventCursor {
        let marks = try await storage.marks()
        let epochs = marks.epochs[bundleId] ?? EventEpochs()
        let end = try await storage.endOfEvents(of: bundleId)
        let early = time.advanced(by: .zero - Self.replayTolerance)
        // All events up to `low` are earlier than `early`, or erased; no event after `high` is.
        var low = marks.erasedEvents[bundleId] ?? 0
        var high = end.number ?? 0
        while low < high {
            let middle = low + (high - low) / 2
            let page = try await storage.events(of: bundleId, after: epochs.cursor(middle), limit: 1)
            if let event = page.events.first, event.recordedAt < early, let number = event.cursor?.number {
                low = number
            } else {
                high = middle
            }
        }
        let start = low < end.number ?? 0 ? epochs.cursor(low) : end
        return try await position(before: time, from: start, of: bundleId)
    }

    /// The tolerated difference between the clocks of servers.
    private static let replayTolerance = ChainReport.clockTolerance * 5

    /// The position of the last event before the first event recorded since a time, from a position on.
    private func position(
        before time: Timestamp, from start: EventCursor, of bundleId: String
    ) async throws -> EventCursor {
        var position = start
        for _ in 0..<Self.replayPages {
            let events = try await storage.events(of: bundleId, after: position, limit: Self.webhookPage).events
            for event in events {
                guard event.recordedAt < time, let cursor = event.cursor else { return position }
                position = cursor
            }
            guard events.count == Self.webhookPage else { break }
        }
        return position
    }
}

// MARK: - Decisions

/// The outcome of the decision about a replay.
private enum ReplayOutcome: Sendable {
    case done
    /// The app has no such endpoint.
    case unknown
    /// The delivering server has stored results since the failed deliveries were read.
    case otherResults
}

extension LedgerDraft {
    /// Sets lanes back to a cursor.
    ///
    /// - Parameters:
    ///   - job: The job before the waiting failed deliveries were read.
    ///   - keys: The waiting failed deliveries of events after the cursor.
    fileprivate mutating func replay(
        _ job: Job, after cursor: EventCursor, erasing keys: [RecordKey]
    ) -> ReplayOutcome {
        let stored: WebhookEndpoint? = required(WebhookEndpoint.key(job.id.name, of: job.id.scope.bundleId))
        guard let endpoint = stored else { return .unknown }
        guard self.job(job.id) == job, var progress = progress(job) else { return .otherResults }
        progress.setBack(to: cursor)
        let earlier = progress.replayedAfter.map { $0.number ?? 0 <= cursor.number ?? 0 } ?? false
        if !earlier { progress.replayedAfter = cursor }
        var job = job
        job.payload = progress.payload
        put(job)
        for key in keys where record(key) != nil { erase(key) }
        putMended(endpoint)
        return .done
    }

    /// Lets events that were set aside wait for an attempt.
    ///
    /// - Returns: The number of events; `nil` if the app has no such endpoint.
    fileprivate mutating func replaySetAside(_ keys: [RecordKey], to id: String, of bundleId: String) -> Int? {
        let stored: WebhookEndpoint? = required(WebhookEndpoint.key(id, of: bundleId))
        guard let endpoint = stored else { return nil }
        var count = 0
        for key in keys {
            guard var failed = FailedDelivery(readable: record(key)), failed.isSetAside else { continue }
            failed.dueAt = now
            failed.attempts = 0
            put(failed)
            count += 1
        }
        putMended(endpoint)
        return count
    }

    /// Stores an endpoint whose receiver works again, as a person says by a replay.
    private mutating func putMended(_ endpoint: WebhookEndpoint) {
        var endpoint = endpoint
        endpoint.mendedAt = now
        endpoint.revision &+= 1
        put(endpoint)
    }

    fileprivate mutating func isSetAside(_ key: RecordKey) -> Bool {
        FailedDelivery(readable: record(key))?.isSetAside == true
    }
}
