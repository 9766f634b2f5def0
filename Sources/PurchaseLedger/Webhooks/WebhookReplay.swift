// SPDX-License-Identifier: Apache-2.0

// Delivers events to an endpoint again, and removes endpoints. Both change many records, and first take the endpoint's
// job, because no server may deliver meanwhile.

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
    /// its position.
    ///
    /// - Returns: For a replay of the events set aside, the number of events now waiting. With earlier waiting events,
    ///   there are at most ``FailedDelivery/maxWaiting``, and further events stay set aside. 0 for other replays; `nil`
    ///   if the app has no endpoint with this id.
    /// - Throws: ``EventCursorError`` if the ledger has no events after the cursor; ``LedgerStorageError``:
    ///   `unavailable` if the endpoint was changed meanwhile.
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
        try await eraseFailed(of: id, of: bundleId, while: job, at: now) { _ in true }
        let pages = WebhookAttempts.keys(of: id, of: bundleId)
        let jobKey = Job.ID(webhook: id, of: bundleId).key
        let present = try await storage.load(LedgerQuery(pages.map(LedgerKey.record))).records.keys
        let keys = [key, jobKey] + present
        try await commit(LedgerQuery(keys.map(LedgerKey.record)), while: job, at: now) { draft in
            for key in keys where draft.record(key) != nil { draft.erase(key) }
        }
        return true
    }

    /// Takes the job of an endpoint from the delivering server; `nil` if the endpoint or the job cannot be read.
    private func takenJob(_ id: String, of bundleId: String, at now: Timestamp) async throws -> Job? {
        do {
            return try await takeJob(id, of: bundleId, at: now)
        } catch let error as LedgerStorageError where error.code == .damaged {
            return nil
        }
    }

    /// Takes the job of an endpoint from the delivering server. No server gets the job for the length of a lease.
    ///
    /// - Parameter change: Changes the progress.
    /// - Returns: `nil` if the app has no endpoint with this id.
    private func takeJob(
        _ id: String, of bundleId: String, at now: Timestamp,
        _ change: @escaping @Sendable (inout WebhookProgress) -> Void = { _ in }
    ) async throws -> Job? {
        try await commit(.webhook(id, of: bundleId), at: now) { draft in
            let endpoint: WebhookEndpoint? = draft.required(WebhookEndpoint.key(id, of: bundleId))
            return endpoint.flatMap { draft.fence($0, until: draft.now.advanced(by: Job.lease), change) }
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

    /// Erases failed deliveries of an endpoint, page by page.
    ///
    /// - Parameter isErased: Called with `nil` for an unreadable record.
    private func eraseFailed(
        of id: String, of bundleId: String, while job: Job?, at now: Timestamp,
        _ isErased: (FailedDelivery?) -> Bool
    ) async throws {
        for setAside in [false, true] {
            let entry = FailedDelivery.entry(id, setAside: setAside)
            let selection = RecordSelection(FailedDelivery.recordKind, of: .app(bundleId), entry: entry)
            // All keys are read first, because an erasure during a scan may hide records from the scan.
            let keys = try await records(selection).filter { isErased(FailedDelivery(readable: $0)) }.map(\.key)
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
    private func deliver(
        to id: String, of bundleId: String, after cursor: EventCursor, at now: Timestamp
    ) async throws -> Int? {
        let first = cursor.number ?? 0
        let job = try await takeJob(id, of: bundleId, at: now) { progress in
            progress.positions = progress.positions.map { $0.number ?? .max < first ? $0 : cursor }
        }
        guard let job else { return nil }
        // The lanes deliver these events again, in their order.
        try await eraseFailed(of: id, of: bundleId, while: job, at: now) { failed in
            failed?.event.number ?? 0 > first
        }
        try await release(job, at: now)
        return 0
    }

    private func deliverSetAside(
        to id: String, of bundleId: String, at now: Timestamp
    ) async throws -> Int? {
        guard let job = try await takeJob(id, of: bundleId, at: now) else { return nil }
        let waiting = try await failedDeliveries(
            of: id, of: bundleId, setAside: false, limit: FailedDelivery.maxWaiting)
        let room = FailedDelivery.maxWaiting - waiting.count
        let aside = try await failedDeliveries(of: id, of: bundleId, setAside: true, limit: room)
        let keys = aside.map(\.key)
        try await commit(LedgerQuery(keys.map(LedgerKey.record)), while: job, at: now) { draft in
            for var failed in aside {
                failed.dueAt = draft.now
                failed.attempts = 0
                draft.put(failed)
            }
            draft.put(job.next(at: draft.now, nil))
        }
        return aside.count
    }

    /// Lets servers have a taken job again.
    private func release(_ job: Job, at now: Timestamp) async throws {
        try await replace(job, with: job.next(at: now, nil), at: now)
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
