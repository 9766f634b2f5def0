// SPDX-License-Identifier: Apache-2.0

// Adds, changes and lists the endpoints of a ledger.

public import AppStoreModel

/// The outcome of adding an endpoint.
public enum WebhookAddition: Hashable, Sendable {
    case done
    /// The app has ``WebhookEndpoint/maxCount`` endpoints already.
    case tooMany
    /// The ledger's endpoints have secrets from a different secret file.
    case otherSecretFile
}

extension Ledger {
    /// All endpoints of an app, or with `nil` of all apps, in the order of their making. Unreadable endpoints are left
    /// out.
    public func webhookEndpoints(of bundleId: String? = nil) async throws -> [WebhookEndpoint] {
        let selection = RecordSelection(WebhookEndpoint.recordKind, of: bundleId.map(RecordOwner.app))
        return try await records(selection).compactMap { WebhookEndpoint(readable: $0) }
            .sorted { ($0.createdAt, $0.id) < ($1.createdAt, $1.id) }
    }

    /// An endpoint; `nil` if the app has no endpoint with this id.
    public func webhookEndpoint(_ id: String, of bundleId: String) async throws -> WebhookEndpoint? {
        try Self.value(WebhookEndpoint.key(id, of: bundleId), in: await storage.load(.webhook(id, of: bundleId)))
    }

    /// The progress of the deliveries to an endpoint; `nil` if the app has no endpoint with this id.
    public func webhookProgress(of id: String, of bundleId: String) async throws -> WebhookProgress? {
        try Self.progress(of: id, of: bundleId, in: await storage.load(.webhook(id, of: bundleId)))
    }

    @inline(never)
    private static func progress(
        of id: String, of bundleId: String, in snapshot: LedgerSnapshot
    ) throws -> WebhookProgress? {
        let endpoint: WebhookEndpoint? = try snapshot.value(WebhookEndpoint.key(id, of: bundleId))
        let job: Job? = try snapshot.value(Job.ID(webhook: id, of: bundleId).key)
        guard let endpoint, let job else { return nil }
        return endpoint.mended(try WebhookProgress(job))
    }

    /// The fingerprint of the secret file of the ledger's endpoints; `nil` if the ledger has never had an endpoint.
    public func webhookFingerprint() async throws -> String? {
        try await webhookNote()?.text
    }

    private func webhookNote() async throws -> WebhookFingerprint? {
        let key = WebhookFingerprint.key
        return try Self.value(key, in: await storage.load(LedgerQuery([.record(key)])))
    }

    /// Adds an endpoint. The deliveries begin with the next event, or with the first event after a cursor. If the app
    /// has an endpoint with this id, it stays as it is.
    ///
    /// - Parameters:
    ///   - fingerprint: The fingerprint of the secret file. A ledger without endpoints accepts any file.
    ///   - cursor: `nil` to begin with the next event.
    /// - Throws: ``EventCursorError`` if the ledger has no events after the cursor; ``LedgerStorageError``;
    ///   ``RecordSizeError``.
    public func addWebhook(
        _ endpoint: WebhookEndpoint, fingerprint: String, from cursor: EventCursor? = nil, at now: Timestamp
    ) async throws -> WebhookAddition {
        let start = try await position(after: cursor, of: endpoint.bundleId)
        let note = LedgerQuery([.record(WebhookFingerprint.key)])
        let query = LedgerQuery.webhook(endpoint.id, of: endpoint.bundleId).union(note)
        while true {
            let additions = try await webhookNote()?.additions
            let others = try await webhookEndpoints().filter {
                $0.id != endpoint.id || $0.bundleId != endpoint.bundleId
            }
            guard others.count(where: { $0.bundleId == endpoint.bundleId }) < WebhookEndpoint.maxCount else {
                return .tooMany
            }
            let addition = try await commit(query, at: now) { draft in
                draft.add(endpoint, fingerprint, isFirst: others.isEmpty, unlessAfter: additions, from: start)
            }
            // Another endpoint was added since the endpoints were counted. Each repetition follows from such an
            // addition, and there are few.
            if let addition { return addition }
        }
    }

    /// Changes an endpoint. The delivering server stores its results, and begins again with the changed endpoint.
    ///
    /// - Parameter change: Must have no side effects, because the closure may run several times.
    /// - Returns: The changed endpoint; `nil` if the app has no endpoint with this id.
    public func changeWebhook(
        _ id: String, of bundleId: String, at now: Timestamp,
        _ change: @escaping @Sendable (inout WebhookEndpoint) -> Void
    ) async throws -> WebhookEndpoint? {
        try await commit(.webhook(id, of: bundleId), at: now) { $0.changeWebhook(id, of: bundleId, change) }
    }

    /// The position after a cursor, or with `nil` at the end of the events.
    private func position(after cursor: EventCursor?, of bundleId: String) async throws -> EventCursor {
        guard let cursor else { return try await storage.endOfEvents(of: bundleId) }
        _ = try await storage.events(of: bundleId, after: cursor, limit: 1)
        return cursor
    }
}

extension LedgerQuery {
    /// Queries an endpoint and its job.
    static func webhook(_ id: String, of bundleId: String) -> LedgerQuery {
        LedgerQuery([.record(WebhookEndpoint.key(id, of: bundleId)), .record(Job.ID(webhook: id, of: bundleId).key)])
    }
}

extension Ledger {
    /// The value of a loaded record. Not inlined into asynchronous callers, because this compiler's optimizer
    /// miscompiles the result.
    @inline(never)
    static func value<Value: RecordValue>(_ key: RecordKey, in snapshot: LedgerSnapshot) throws -> Value? {
        try snapshot.value(key)
    }

    /// The records of a selection, in the order of the storage.
    func records(_ selection: RecordSelection) async throws -> [LedgerRecord] {
        var records: [LedgerRecord] = []
        var cursor: ScanCursor?
        repeat {
            let page = try await storage.records(selection, after: cursor, limit: Self.webhookPage)
            records += page.items
            cursor = page.next
        } while cursor != nil
        return records
    }

    /// The maximum number of records of a load and of an erasing commit, so that neither takes long.
    static let webhookPage = 500
}

// MARK: - Decisions

extension LedgerDraft {
    /// The value in a record; `nil` if there is none. If the record cannot be read, the decision is refused.
    mutating func required<Value: RecordValue>(_ key: RecordKey, as _: Value.Type = Value.self) -> Value? {
        do {
            return try value(key)
        } catch {
            refusal = error
            return nil
        }
    }

    /// The progress in the job of an endpoint. If it cannot be read, the decision is refused.
    mutating func progress(_ job: Job) -> WebhookProgress? {
        do {
            return try WebhookProgress(job)
        } catch {
            refusal = error
            return nil
        }
    }

    /// - Parameters:
    ///   - isFirst: Whether the ledger has no other endpoint.
    ///   - additions: The number of additions before the endpoints were counted.
    /// - Returns: `nil` if an endpoint was added since the endpoints were counted.
    mutating func add(
        _ endpoint: WebhookEndpoint, _ fingerprint: String, isFirst: Bool, unlessAfter additions: Int?,
        from start: EventCursor
    ) -> WebhookAddition? {
        let note: WebhookFingerprint? = required(WebhookFingerprint.key)
        guard note?.additions == additions else { return nil }
        guard isFirst || note.map({ $0.text == fingerprint }) ?? true else { return .otherSecretFile }
        guard record(endpoint.record.key) == nil else { return .done }
        put(WebhookFingerprint(fingerprint, additions: (additions ?? 0) &+ 1))
        put(endpoint)
        let id = Job.ID(webhook: endpoint.id, of: endpoint.bundleId)
        put(Job(id, dueAt: now, payload: WebhookProgress(from: start).payload))
        return .done
    }

    mutating func changeWebhook(
        _ id: String, of bundleId: String, _ change: (inout WebhookEndpoint) -> Void
    ) -> WebhookEndpoint? {
        let stored: WebhookEndpoint? = required(WebhookEndpoint.key(id, of: bundleId))
        guard let stored else { return nil }
        var endpoint = stored
        change(&endpoint)
        guard endpoint != stored else { return stored }
        endpoint.revision = stored.revision &+ 1
        put(endpoint)
        return endpoint
    }
}
