// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The progress of the deliveries to an endpoint. It is the payload of the endpoint's job (`webhook`), whose lease lets
/// a single server deliver.
public struct WebhookProgress: Hashable, Sendable {
    /// For each lane, the cursor up to which every wanted event of the lane was delivered, or is a ``FailedDelivery``.
    public var positions: [EventCursor]
    /// The time of the last delivery; `nil` before the first.
    public var deliveredAt: Timestamp?
    /// The time of the first failed attempt since the last delivery; `nil` if none has failed since.
    public var failingSince: Timestamp?
    /// The number of attempts that were kept so far, from which the place of the next ``WebhookAttempt`` follows.
    public var attempts: Int64 = 0
    /// The first cursor of the replays during the lease, after which the delivering server has no results to store;
    /// `nil` without a replay.
    var replayedAfter: EventCursor?

    /// The number of lanes of an endpoint. All events of a customer, or of a purchase without a customer, are in the
    /// same lane.
    public static let lanes = 16

    /// The progress of an endpoint whose first event is the next event after a cursor.
    public init(from cursor: EventCursor) {
        positions = Array(repeating: cursor, count: Self.lanes)
    }

    /// Sets back the lanes that are after a cursor, so that all events after it are delivered again.
    mutating func setBack(to cursor: EventCursor) {
        let first = cursor.number ?? 0
        positions = positions.map { $0.number ?? .max < first ? $0 : cursor }
    }

    /// The lane of an event.
    public static func lane(of event: LedgerEvent) -> Int {
        if let customer = event.customer { return Int(customer.number.magnitude % UInt64(lanes)) }
        return Int((event.chainName ?? "").stableHash() % UInt32(lanes))
    }
}

extension String {
    /// The FNV-1a hash of the text. Unlike Swift's own hashes, it is the same in every process.
    ///
    /// - Parameter start: The first value: FNV's offset, or a number for which the hash differs.
    package func stableHash(from start: UInt32 = 2_166_136_261) -> UInt32 {
        utf8.reduce(start) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }
}

/// An event whose delivery to an endpoint has failed.
public struct FailedDelivery: Hashable, Sendable {
    /// The endpoint.
    public let endpoint: String
    /// The app of the endpoint.
    public let bundleId: String
    /// The cursor of the event, which is also its id.
    public let event: EventCursor
    /// The lane of the event.
    public let lane: Int
    /// The cursor before the event.
    package var position: EventCursor { event.number.map { EventCursor(max(0, $0 - 1), epoch: event.epoch) } ?? event }
    /// The number of failed attempts since the first, or since the event was replayed.
    public var attempts: Int
    /// The time of the next attempt; `nil` if the event was set aside after the last attempt.
    public var dueAt: Timestamp?
    /// The time of the last failed attempt.
    public var failedAt: Timestamp
    /// The reason for the failure of the last attempt: a phrase.
    public var reason: String

    /// The maximum number of failed deliveries of an endpoint that wait for an attempt. Above it, lanes wait too.
    public static let maxWaiting = 1000

    /// The number of newest events set aside for an endpoint that are kept, for some 5 MB. At most some 300 events a
    /// day can be set aside, because at most ``maxWaiting`` wait for attempts over more than three days.
    public static let maxSetAside = 10_000

    public init(
        of event: EventCursor, to endpoint: String, of bundleId: String, lane: Int, attempts: Int, dueAt: Timestamp?,
        failedAt: Timestamp, reason: String
    ) {
        self.event = event
        self.endpoint = endpoint
        self.bundleId = bundleId
        self.lane = lane
        self.attempts = attempts
        self.dueAt = dueAt
        self.failedAt = failedAt
        self.reason = reason
    }
}

/// An attempt to deliver an event to an endpoint, kept for people.
public struct WebhookAttempt: Hashable, Sendable {
    /// The cursor of the event, which is also its id.
    public var event: EventCursor
    /// The time of the request.
    public var at: Timestamp
    /// The time until the answer or the failure, in milliseconds.
    public var milliseconds: Int
    /// The status of the answer; `nil` if there was no answer.
    public var status: Int?
    /// The reason for a failure: a phrase; `nil` after a success.
    public var failure: String?
    /// The beginning of the answer's body, at most ``answerLimit`` bytes, in which control characters are blanks.
    public var answer: String

    /// The maximum length of a kept answer in bytes.
    public static let answerLimit = 1024
    /// The number of newest attempts of an endpoint that are kept.
    public static let kept = 1000

    public init(
        of event: EventCursor, at: Timestamp, milliseconds: Int, status: Int?, failure: String?, answer: String
    ) {
        self.event = event
        self.at = at
        self.milliseconds = milliseconds
        self.status = status
        self.failure = failure
        self.answer = answer
    }
}
