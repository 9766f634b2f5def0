// SPDX-License-Identifier: Apache-2.0

// The stored forms of the progress of endpoints, of failed deliveries, and of the fingerprint of the secret file.

import AppStoreModel

extension JSONValue {
    static func time(_ time: Timestamp) -> JSONValue { .number("\(time.milliseconds)") }

    /// The time in a member; `nil` if the member is missing or is no time.
    func time(_ name: String) -> Timestamp? {
        self[name]?.integer.map { Timestamp(milliseconds: $0) }
    }
}

// MARK: - Progress

extension Job.ID {
    /// The id of the job of an endpoint.
    package init(webhook endpoint: String, of bundleId: String) {
        self.init(.webhook, endpoint, in: LedgerScope(bundleId: bundleId, environment: .production))
    }
}

extension WebhookProgress {
    /// The members of the JSON object in the payload of the job. Times are milliseconds since 1970.
    private enum Member {
        static let positions = "positions"
        static let deliveredAt = "deliveredAt"
        static let failingSince = "failingSince"
        static let attempts = "attempts"
        static let replayedAfter = "replayedAfter"
    }

    /// Reads the progress in the job of an endpoint.
    ///
    /// - Throws: ``LedgerStorageError``: `damaged` if the payload has an unknown form.
    @inline(never)
    package init(_ job: Job) throws(LedgerStorageError) {
        guard let json = JSONValue(readable: job.payload),
            let positions = json[Member.positions]?.array?.compactMap(\.string), positions.count == Self.lanes,
            let attempts = json[Member.attempts]?.integer, attempts >= 0
        else { throw LedgerStorageError(unreadable: job.id.key) }
        self.positions = positions.map(EventCursor.init(rawValue:))
        self.attempts = attempts
        deliveredAt = json.time(Member.deliveredAt)
        failingSince = json.time(Member.failingSince)
        replayedAfter = json[Member.replayedAfter]?.string.map(EventCursor.init(rawValue:))
    }

    /// The payload of the job.
    package var payload: [UInt8] {
        var members: [JSONValue.Member] = [
            .init(Member.positions, .array(positions.map { .string($0.rawValue) })),
            .init(Member.attempts, .number("\(attempts)")),
        ]
        if let deliveredAt { members.append(.init(Member.deliveredAt, .time(deliveredAt))) }
        if let failingSince { members.append(.init(Member.failingSince, .time(failingSince))) }
        if let replayedAfter { members.append(.init(Member.replayedAfter, .string(replayedAfter.rawValue))) }
        return Array(JSONValue.object(members).compactText.utf8)
    }
}

// MARK: - Failed deliveries

extension FailedDelivery: RecordValue {
    /// The kind of the records of failed deliveries.
    package static let recordKind = RecordKind(rawValue: "failedDelivery")

    /// The maximum length of a stored reason in Unicode scalars. Only a reason with a received text is longer, and is
    /// cut.
    private static let reasonLimit = 1000

    /// The key of the record for an event and an endpoint. The number in the name has a fixed length, so people
    /// who sort the names of a table have the order of the events.
    package static func key(_ event: EventCursor, to endpoint: String, of bundleId: String) -> RecordKey {
        let digits = event.number.map { "\($0)" } ?? ""
        let number = String(repeating: "0", count: max(0, 19 - digits.count)) + digits
        return RecordKey(recordKind, "\(endpoint) \(number) \(event.rawValue)", of: .app(bundleId))
    }

    /// The key of the record.
    package var key: RecordKey { Self.key(event, to: endpoint, of: bundleId) }

    /// The entry of an endpoint's records: of the waiting events, or of the events set aside.
    static func entry(_ endpoint: String, setAside: Bool) -> String {
        endpoint + (setAside ? " set aside" : " waiting")
    }

    /// Whether the event was set aside after its last attempt.
    public var isSetAside: Bool { dueAt == nil }

    /// The members of the JSON object in the record. Times are milliseconds since 1970.
    private enum Member {
        static let endpoint = "endpoint"
        static let event = "event"
        static let lane = "lane"
        static let attempts = "attempts"
        static let failedAt = "failedAt"
        static let reason = "reason"
    }

    /// Reads a failed delivery.
    @inline(never)
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner, let json = JSONValue(readable: record.payload),
            let endpoint = json[Member.endpoint]?.string, let event = json[Member.event]?.string,
            let lane = json[Member.lane]?.integer.flatMap({ Int(exactly: $0) }),
            (0..<WebhookProgress.lanes).contains(lane),
            let attempts = json[Member.attempts]?.integer.flatMap({ Int(exactly: $0) }), attempts >= 0,
            let failedAt = json.time(Member.failedAt)
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(
            of: EventCursor(rawValue: event), to: endpoint, of: bundleId, lane: lane, attempts: attempts,
            dueAt: record.dueAt, failedAt: failedAt, reason: json[Member.reason]?.string ?? "")
        guard key == record.key else { throw LedgerStorageError(unreadable: record.key) }
    }

    /// The stored form. A long reason is cut.
    public var record: LedgerRecord {
        let json = JSONValue.object([
            .init(Member.endpoint, .string(endpoint)), .init(Member.event, .string(event.rawValue)),
            .init(Member.lane, .number("\(lane)")), .init(Member.attempts, .number("\(attempts)")),
            .init(Member.failedAt, .time(failedAt)),
            .init(Member.reason, .string(String(reason.unicodeScalars.prefix(Self.reasonLimit)))),
        ])
        return LedgerRecord(
            key, dueAt: dueAt, entries: [Self.entry(endpoint, setAside: isSetAside)],
            payload: Array(json.compactText.utf8))
    }
}

// MARK: - The secret file

/// The fingerprint of the file from which servers derive the secrets of all endpoints. No receiver knows the secrets of
/// a different file.
struct WebhookFingerprint: RecordValue {
    /// The fingerprint: a text without secrets.
    let text: String
    /// The number of endpoints that were ever added to the ledger. Each addition changes this record, so of two
    /// simultaneous additions the second counts the endpoints again.
    let additions: Int

    static let recordKind = RecordKind(rawValue: "webhookSecrets")

    /// The key of the ledger's only record of this kind.
    static let key = RecordKey(recordKind, "", of: .ledger)

    private enum Member {
        static let fingerprint = "fingerprint"
        static let additions = "additions"
    }

    init(_ text: String, additions: Int) {
        self.text = text
        self.additions = additions
    }

    init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard record.key == Self.key, let json = JSONValue(readable: record.payload),
            let text = json[Member.fingerprint]?.string
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(text, additions: json[Member.additions]?.integer.flatMap { Int(exactly: $0) } ?? 0)
    }

    var record: LedgerRecord {
        let json = JSONValue.object([
            .init(Member.fingerprint, .string(text)), .init(Member.additions, .number("\(additions)")),
        ])
        return LedgerRecord(Self.key, payload: Array(json.compactText.utf8))
    }
}
