// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import PurchaseLedger

/// The deliveries to an endpoint: which event is sent next, and what follows from the answer. A value without clock,
/// randomness or network, which ``EndpointDelivery`` feeds with pages of events and with answers.
///
/// Each lane (``WebhookProgress/lane(of:)``) sends its events one after the other. A failed event leaves its lane and
/// is sent again later. An ordered lane waits for it; other lanes go on, until too many failed events wait.
///
/// A customer who returns after a deletion is a new customer, whose events may be in another lane than the deletion. An
/// ordered lane therefore also waits until the deletion of the id in its next event is delivered.
package struct DeliveryPlan: Sendable {
    /// An event to send.
    package struct Delivery: Hashable, Sendable {
        /// The event's cursor, which is also its id.
        package var event: EventCursor
        package var lane: Int
        /// The request's body, as the feed had the event moments ago; `nil` to read the event again.
        package var body: [UInt8]?
        /// The id by which the event names its customer.
        package var customer: String?
        /// All ids of the deleted customer, if the event is a deletion.
        package var deletedIds: [String] = []
        /// The number of failed attempts so far.
        fileprivate(set) package var attempts = 0

        package init(_ event: EventCursor, lane: Int, body: [UInt8]?) {
            self.event = event
            self.lane = lane
            self.body = body
        }

        fileprivate var number: Int64 { event.number ?? 0 }
    }

    /// The outcome of an attempt.
    package enum Outcome: Sendable {
        /// The endpoint was asked.
        case answered(WebhookOutcome)
        /// The event was erased before the attempt.
        case erased
        /// The event could not be read, and no request was sent.
        case unread
        /// The event cannot be written as JSON, so that every attempt would fail.
        case unwritable
    }

    private struct Lane {
        /// The events to send, in order.
        var queue: ArraySlice<Delivery> = []
        /// The cursor up to which the lane has read the feed.
        var readTo: EventCursor
        /// The event that is being sent.
        var sending: EventCursor?
        /// The seconds since the first event of the queue was read.
        var age = 0
    }

    private let endpoint: WebhookEndpoint
    private var lanes: [Lane]
    private var progress: WebhookProgress
    /// The failed events that wait, by event.
    private var failed: [EventCursor: FailedDelivery]
    /// The failed events that are being sent.
    private var retried: Set<EventCursor> = []
    /// The cursor up to which the feed was searched for deletions, also those in lanes that wait.
    private var searchedTo: EventCursor
    /// The deletions that an ordered endpoint has not got yet, by each id of the customer.
    private var deletions: [String: [Delivery]] = [:]
    /// The time of the earliest attempt of a failed event that is not being sent; `nil` without any.
    private var nextRetry: Timestamp?
    /// The most requests at a time. It halves when the endpoint asks to slow down, and grows with each delivery.
    private var width = Self.maxWidth
    /// The lane that begins first when not all can.
    private var firstLane = 0
    /// The time before which nothing is sent, because the endpoint asked for a pause.
    private var pauseEnd: Timestamp?
    private var results: WebhookResults

    /// The most requests at a time: one for each lane, and as many for failed events, so that events which fail by a
    /// timeout delay no lane.
    static let maxWidth = WebhookProgress.lanes * 2

    /// The number of queued events from which a lane takes no further page. With the largest events, the queues of an
    /// endpoint have some megabytes.
    package static let queueLimit = 100

    /// The seconds after which queued events are read again, so that a customer erased meanwhile is not named.
    package static let freshness = 10

    /// The most results in a commit: after a crash, no more events than these are repeated.
    package static let commitLimit = 100

    /// The time without a delivery after which the endpoint is disabled.
    package static let patience = Duration.seconds(5 * 86_400)

    /// - Parameter failed: The failed deliveries that wait.
    package init(_ endpoint: WebhookEndpoint, _ progress: WebhookProgress, failed: [FailedDelivery]) {
        let progress = endpoint.mended(progress)
        let failed = failed.map(endpoint.mended)
        self.endpoint = endpoint
        self.progress = progress
        self.failed = Dictionary(failed.map { ($0.event, $0) }) { $1 }
        lanes = progress.positions.map { Lane(readTo: $0) }
        let positions = progress.positions + failed.map(\.position)
        searchedTo = positions.min { ($0.number ?? 0) < ($1.number ?? 0) } ?? EventCursor(0)
        results = WebhookResults(progress: progress)
        nextRetry = failed.compactMap(\.dueAt).min()
    }
}

// MARK: - Reading the feed

extension DeliveryPlan {
    /// The cursor after which to read the next page: where the lane that is furthest behind, of the lanes without
    /// events, has read to, or at an ordered endpoint where the search for deletions is. `nil` if no lane needs events.
    package var cursorToRead: EventCursor? {
        let cursors = lanes.indices.filter { lanes[$0].queue.isEmpty && lanes[$0].sending == nil && !waits($0) }
            .map { lanes[$0].readTo }
        let searched = endpoint.isOrdered && !cursors.isEmpty ? [searchedTo] : []
        return (cursors + searched).min { ($0.number ?? 0) < ($1.number ?? 0) }
    }

    /// Adds a page of the feed.
    ///
    /// - Parameters:
    ///   - cursor: The cursor after which the page begins.
    ///   - next: The cursor at its end.
    package mutating func add(_ page: [Delivery], after cursor: EventCursor, next: EventCursor) {
        searchDeletions(page, after: cursor, next: next)
        let events = Dictionary(grouping: page, by: \.lane)
        for index in lanes.indices where !waits(index) && lanes[index].queue.count < Self.queueLimit {
            // A lane that has not read up to the page would miss events, and a lane that has read the page has them.
            let readTo = lanes[index].readTo
            guard readTo.isContinued(from: cursor, to: next) else { continue }
            let new = (events[index] ?? []).filter { ($0.event.number ?? 0) > (readTo.number ?? 0) }
            if lanes[index].queue.isEmpty { lanes[index].age = 0 }
            lanes[index].queue += new
            lanes[index].readTo = next
            settle(index)
        }
    }

    /// Notes the deletions of a page that an ordered endpoint has not got.
    private mutating func searchDeletions(_ page: [Delivery], after cursor: EventCursor, next: EventCursor) {
        guard endpoint.isOrdered, searchedTo.isContinued(from: cursor, to: next) else { return }
        deletions = deletions.compactMapValues { known in
            let pending = known.filter(isPending)
            return pending.isEmpty ? nil : pending
        }
        for deletion in page where deletion.number > searchedTo.number ?? 0 && isPending(deletion) {
            for id in deletion.deletedIds { deletions[id, default: []].append(deletion) }
        }
        searchedTo = next
    }

    /// Whether an event was neither delivered nor set aside.
    private func isPending(_ delivery: Delivery) -> Bool {
        progress.positions[delivery.lane].number ?? 0 < delivery.number || failed[delivery.event] != nil
    }

    /// Whether an earlier deletion of the id in a lane's next event is to be delivered first.
    private func waitsForDeletion(_ index: Int) -> Bool {
        guard !deletions.isEmpty, let next = lanes[index].queue.first, let id = next.customer else { return false }
        return deletions[id]?.contains { $0.number < next.number && isPending($0) } ?? false
    }

    /// Notes that a second has passed on the machine's clock, by which queued events grow old.
    package mutating func passSecond() {
        for index in lanes.indices where !lanes[index].queue.isEmpty { lanes[index].age += 1 }
    }

    /// Continues at another cursor, because the ledger has no events after the cursor of some lanes: events were erased
    /// before their delivery, or the ledger was restored.
    package mutating func skip(from lost: EventCursor, to oldest: EventCursor) {
        if searchedTo == lost { searchedTo = oldest }
        for index in lanes.indices where lanes[index].readTo == lost {
            lanes[index].readTo = oldest
            settle(index)
        }
    }

    /// Notes a lane's position, if everything that it has read is done.
    private mutating func settle(_ index: Int) {
        guard lanes[index].queue.isEmpty, lanes[index].sending == nil else { return }
        note(lanes[index].readTo, of: index)
    }

    private mutating func note(_ position: EventCursor, of index: Int) { progress.positions[index] = position }

    /// Whether a lane waits for failed events.
    private func waits(_ index: Int) -> Bool {
        guard !failed.isEmpty else { return false }
        // Each lane may be sending an event that is about to fail.
        if failed.count > FailedDelivery.maxWaiting - WebhookProgress.lanes { return true }
        return endpoint.isOrdered && failed.values.contains { $0.lane == index }
    }
}

// MARK: - Sending

extension DeliveryPlan {
    /// The events to send now. They count as being sent until ``end(_:_:at:)``.
    ///
    /// If there is not room for all, due failed events have half of it, and the lanes take turns.
    ///
    /// - Parameter limit: The maximum number of requests at a time.
    package mutating func begin(at now: Timestamp, atMost limit: Int = .max) -> [Delivery] {
        let room = room(at: now, atMost: limit)
        var deliveries = retries(upTo: (room + 1) / 2, at: now)
        let start = firstLane
        for offset in lanes.indices where deliveries.count < room {
            let index = (start + offset) % lanes.count
            guard let next = begin(lane: index) else { continue }
            deliveries.append(next)
            firstLane = (index + 1) % lanes.count
        }
        return deliveries + retries(upTo: room - deliveries.count, at: now)
    }

    /// Whether ``begin(at:atMost:)`` would find an event to send, unless it must be read again.
    package func canBegin(at now: Timestamp, atMost limit: Int = .max) -> Bool {
        guard room(at: now, atMost: limit) > 0 else { return false }
        if let nextRetry, isDue(nextRetry, at: now), retried.count < WebhookProgress.lanes { return true }
        return lanes.indices.contains {
            lanes[$0].sending == nil && !lanes[$0].queue.isEmpty && !waitsForDeletion($0)
        }
    }

    /// Notes the outcome of an attempt, and begins the next event of the same lane.
    ///
    /// - Parameter limit: The maximum number of requests at a time.
    /// - Returns: `nil` if the lane has no event to send now, after a failed event's further attempt, and if the
    ///   results are to be stored first.
    package mutating func next(
        after delivery: Delivery, _ outcome: Outcome, at now: Timestamp, atMost limit: Int = .max
    ) -> Delivery? {
        let isRetry = retried.contains(delivery.event)
        end(delivery, outcome, at: now)
        guard !isRetry, newAttempts < Self.commitLimit, room(at: now, atMost: limit) > 0 else { return nil }
        return begin(lane: delivery.lane)
    }

    /// The number of further requests that can begin: none until the endpoint is disabled, if it is to be.
    private func room(at now: Timestamp, atMost limit: Int) -> Int {
        guard results.disable == nil else { return 0 }
        if let pauseEnd, now < pauseEnd, pauseEnd <= now.advanced(by: Self.maxPause) { return 0 }
        return max(0, min(width, limit) - retried.count - lanes.count { $0.sending != nil })
    }

    private mutating func begin(lane index: Int) -> Delivery? {
        guard lanes[index].sending == nil, !waits(index), !waitsForDeletion(index), let next = fresh(index) else {
            return nil
        }
        lanes[index].sending = next.event
        return next
    }

    /// The first event of a lane's queue. Events that were read long ago are dropped, to be read again.
    private mutating func fresh(_ index: Int) -> Delivery? {
        guard !lanes[index].queue.isEmpty else { return nil }
        if lanes[index].age < Self.freshness { return lanes[index].queue.popFirst() }
        reread(index)
        return nil
    }

    /// Makes a lane read again what it has not sent.
    private mutating func reread(_ index: Int) {
        lanes[index].queue = []
        lanes[index].readTo = progress.positions[index]
    }

    private mutating func retries(upTo room: Int, at now: Timestamp) -> [Delivery] {
        guard room > 0, let nextRetry, isDue(nextRetry, at: now), retried.count < WebhookProgress.lanes else {
            return []
        }
        let due = failed.values.filter { !retried.contains($0.event) && $0.dueAt.map { isDue($0, at: now) } ?? false }
            .map { (time: $0.dueAt ?? now, number: $0.event.number ?? 0, failed: $0) }
            .sorted { ($0.time, $0.number) < ($1.time, $1.number) }
            .prefix(min(room, WebhookProgress.lanes - retried.count)).map(\.failed)
        for delivery in due { retried.insert(delivery.event) }
        updateNextRetry()
        return due.map { each in
            var delivery = Delivery(each.event, lane: each.lane, body: nil)
            delivery.attempts = each.attempts
            return delivery
        }
    }

    /// Whether the time of an attempt has come. A time further ahead than any step was set by a clock that was ahead.
    private func isDue(_ time: Timestamp, at now: Timestamp) -> Bool {
        time <= now || now.advanced(by: RetrySteps.longest) < time
    }

    private mutating func updateNextRetry() {
        nextRetry = failed.values.filter { !retried.contains($0.event) }.compactMap(\.dueAt).min()
    }

    /// The longest pause that an endpoint may ask for. After a pause, each event still has its own time.
    private static let maxPause = Duration.seconds(3600)
}

// MARK: - Answers

extension DeliveryPlan {
    /// Notes the outcome of an attempt.
    package mutating func end(_ delivery: Delivery, _ outcome: Outcome, at now: Timestamp) {
        let isRetry = retried.remove(delivery.event) != nil
        if !isRetry { lanes[delivery.lane].sending = nil }
        switch outcome {
        case .answered(let answer): noteAttempt(delivery, answer, at: now)
        case .erased: removeFailed(delivery.event)
        case .unread: return postpone(delivery, isRetry, at: now)
        case .unwritable:
            note(
                FailedDelivery(
                    of: delivery.event, to: endpoint.id, of: endpoint.bundleId, lane: delivery.lane,
                    attempts: delivery.attempts, dueAt: nil, failedAt: now,
                    reason: "the event cannot be written as JSON"))
        }
        if !isRetry { note(delivery.event, of: delivery.lane) }
        settle(delivery.lane)
        if isRetry { updateNextRetry() }
        if waits(delivery.lane) { reread(delivery.lane) }
    }

    /// Tries a failed event again soon, and makes a lane read its event again.
    private mutating func postpone(_ delivery: Delivery, _ isRetry: Bool, at now: Timestamp) {
        guard isRetry else { return reread(delivery.lane) }
        failed[delivery.event]?.dueAt = now.advanced(by: Self.unreadPause)
        updateNextRetry()
    }

    /// The pause after an event could not be read, long enough for a database that restarts.
    private static let unreadPause = Duration.seconds(5)

    private mutating func noteAttempt(_ delivery: Delivery, _ answer: WebhookOutcome, at now: Timestamp) {
        results.attempts.append(
            WebhookAttempt(
                of: delivery.event, at: now, milliseconds: answer.milliseconds, status: answer.status,
                failure: answer.failure, answer: answer.answer))
        guard let failure = answer.failure else {
            progress.deliveredAt = now
            progress.failingSince = nil
            width = min(Self.maxWidth, width + 1)
            return removeFailed(delivery.event)
        }
        noteFailure(delivery, answer, failure, at: now)
    }

    private mutating func removeFailed(_ event: EventCursor) {
        guard failed.removeValue(forKey: event) != nil else { return }
        results.failed.removeAll { $0.event == event }
        results.delivered.append(event)
    }

    /// A time without an attempt, while a failed event waits, after which no server can have served the endpoint: twice
    /// the longest pause, so that a late attempt does not count as such a silence.
    private static let longestSilence = RetrySteps.longest * 2

    private mutating func noteFailure(
        _ delivery: Delivery, _ answer: WebhookOutcome, _ reason: String, at now: Timestamp
    ) {
        let attempts = delivery.attempts + 1
        let step = RetrySteps.pause(afterFailures: attempts, of: "\(endpoint.id)/\(delivery.event.rawValue)")
        let pause = step.map { max($0, answer.retryAfter ?? .zero) }
        let failure = FailedDelivery(
            of: delivery.event, to: endpoint.id, of: endpoint.bundleId, lane: delivery.lane, attempts: attempts,
            dueAt: pause.map { now.advanced(by: $0) }, failedAt: now, reason: reason)
        let lastFailure = failed.values.map(\.failedAt).max()
        note(failure)
        slowDown(answer, at: now)
        // After a long silence, no server has served the endpoint for days, and these days do not count either.
        let beginsAnew = lastFailure.map { $0.advanced(by: Self.longestSilence) < now } ?? true
        let since = beginsAnew ? now : min(progress.failingSince ?? now, now)
        // Without a waiting event there are no attempts until the next event, and the days until then do not count.
        progress.failingSince = failed.isEmpty ? nil : since
        if answer.status == 410 {
            results.disable = "The endpoint answered 410 Gone."
        } else if since.advanced(by: Self.patience) <= now {
            results.disable = "Every request has failed since \(since.iso8601). The last: \(reason)."
        }
    }

    private mutating func note(_ failure: FailedDelivery) {
        failed[failure.event] = failure.isSetAside ? nil : failure
        results.failed.removeAll { $0.event == failure.event }
        results.failed.append(failure)
        results.delivered.removeAll { $0 == failure.event }
        updateNextRetry()
    }

    /// Sends less if the endpoint, or a proxy before it, is overloaded.
    private mutating func slowDown(_ answer: WebhookOutcome, at now: Timestamp) {
        guard let status = answer.status, [429, 502, 503, 504].contains(status) else { return }
        width = max(1, width / 2)
        guard let pause = answer.retryAfter else { return }
        pauseEnd = max(pauseEnd ?? now, now.advanced(by: min(pause, Self.maxPause)))
    }
}

// MARK: - Commits

extension DeliveryPlan {
    /// The number of results that the next commit stores. Without results a commit can wait: the positions alone
    /// spare a successor only the reading of events that nobody wants.
    package var newAttempts: Int { max(results.attempts.count, results.failed.count) + results.delivered.count }

    /// The results since the last commit. If their commit fails, the plan is useless: begin again from what is stored.
    package mutating func takeResults() -> WebhookResults {
        results.progress = progress
        defer { results = WebhookResults(progress: progress) }
        return results
    }
}

/// The times of the attempts to deliver an event, as in the example of Standard Webhooks 1.0.
enum RetrySteps {
    /// The pauses after each failed attempt, in seconds. The tenth attempt is the last.
    private static let pauses: [Double] = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]

    /// The part of a pause by which jitter prolongs it at most, so that the events of an outage do not come all at
    /// once.
    private static let jitter = 0.1

    /// The longest pause: the last step with jitter, or what an endpoint may ask for.
    static let longest = Duration.seconds(86_400 * (1 + jitter))

    /// The pause after some failures; `nil` after the last attempt.
    ///
    /// - Parameter name: A text from whose hash the jitter follows.
    static func pause(afterFailures count: Int, of name: String) -> Duration? {
        guard count > 0, count <= pauses.count else { return nil }
        let hash = name.stableHash(from: UInt32(count))
        return .seconds(pauses[count - 1] * (1 + jitter * Double(hash % 1000) / 1000))
    }
}
