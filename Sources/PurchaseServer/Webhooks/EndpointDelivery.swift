// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Logging
import PurchaseLedger
import Synchronization

/// Delivers to an endpoint while this server has the lease: reads the feed, sends the events that a ``DeliveryPlan``
/// chooses, and stores the progress.
///
/// If the server crashes, or loses the lease while it sends, another server sends again what was sent since the last
/// commit: at most ``DeliveryPlan/commitLimit`` events, besides those that are being sent.
struct EndpointDelivery {
    /// A reason for the delivery to go on.
    private enum Input: Sendable {
        /// A second has passed.
        case tick
        /// A sender goes on, and an event besides its own can begin.
        case room
        /// The endpoint was changed, or this server does not serve it any more.
        case end
        case feed(WebhookFeed.Part, after: EventCursor)
        /// A sender has ended.
        case sent
    }

    /// The time between two commits, unless ``DeliveryPlan/commitLimit`` attempts were made before, and between two
    /// looks at the clock.
    private static let interval = Duration.seconds(1)

    /// The length of a lease. After a crash, another server begins within this time.
    static let lease = Duration.seconds(60)

    /// The rest of a lease below which it is prolonged: more than the longest request, so that no request of this
    /// server is under way when another server may begin.
    private static let minLease = Duration.seconds(30)

    private let endpoint: WebhookEndpoint
    private let requests: EndpointRequests
    private let parts: WebhookParts
    private var job: Job
    private let plan: SharedPlan
    /// The cursors after which the feed is being read.
    private var reading: Set<EventCursor> = []
    private var sinceCommit: Interval
    /// The number of running senders, each of which sends events of a lane, one after the other.
    private var senders = 0
    /// Whether no further event is sent. The deliveries end with the last answer.
    private var isEnding = false

    /// Delivers until the endpoint is changed or disabled, the lease is lost, or the task is cancelled. Then releases
    /// the lease.
    ///
    /// - Parameter end: A stream whose end ends the deliveries. The answers to events that are being sent are awaited
    ///   and stored, so that these events do not come again.
    static func run(
        _ endpoint: WebhookEndpoint, _ job: Job, _ parts: WebhookParts, until end: AsyncStream<Never>
    ) async {
        do {
            guard var delivery = try await EndpointDelivery(endpoint, job, parts) else { return }
            try await delivery.run(until: end)
        } catch is LeaseLost {
            // A person removed the endpoint, or another server delivers: the next look at the endpoints decides.
        } catch is CancellationError {
            // The lease ends by itself.
        } catch {
            parts.logger.error("A webhook was interrupted", metadata: endpoint.metadata(["error": "\(error)"]))
        }
    }

    /// The most failed deliveries that can wait: those of the last server, and those of a replay meanwhile.
    private static let maxFailed = FailedDelivery.maxWaiting * 2

    /// - Returns: `nil` if this server refuses the endpoint's address.
    private init?(_ endpoint: WebhookEndpoint, _ job: Job, _ parts: WebhookParts) async throws {
        guard let requests = EndpointRequests(endpoint, parts) else { return nil }
        let failed = try await parts.ledger.failedDeliveries(
            of: endpoint.id, of: endpoint.bundleId, setAside: false, limit: Self.maxFailed)
        self.endpoint = endpoint
        self.requests = requests
        self.parts = parts
        self.job = job
        plan = SharedPlan(try Self.plan(endpoint, job, failed))
        sinceCommit = Interval(Self.interval, parts.clock)
        sinceCommit.begin()
        openPlan()
    }

    /// Not inlined into its asynchronous caller, because this compiler's optimizer miscompiles the result.
    @inline(never)
    private static func plan(
        _ endpoint: WebhookEndpoint, _ job: Job, _ failed: [FailedDelivery]
    ) throws -> DeliveryPlan {
        DeliveryPlan(endpoint, try WebhookProgress(job), failed: failed)
    }

    private mutating func run(until end: AsyncStream<Never>) async throws {
        let (inputs, input) = AsyncStream.makeStream(of: Input.self)
        try await withThrowingDiscardingTaskGroup { group in
            defer { group.cancelAll() }
            group.addTask { [clock = parts.clock] in
                repeat { input.yield(.tick) } while await clock.pause(for: Self.interval)
            }
            group.addTask {
                for await _ in end {}
                input.yield(.end)
            }
            for await next in inputs {
                take(next)
                if isCommitDue { try await commit() }
                if isEnding {
                    if senders == 0 { return }
                    continue
                }
                for delivery in plan.begin(at: parts.wall(), atMost: parts.sender.share) {
                    senders += 1
                    group.addTask { [plan, requests, parts] in
                        await Self.send(delivery, plan, requests, parts) { input.yield(.room) }
                        input.yield(.sent)
                    }
                }
                guard let cursor = plan.use({ $0.cursorToRead }), reading.insert(cursor).inserted else { continue }
                group.addTask { [requests] in
                    input.yield(.feed(await requests.read(after: cursor), after: cursor))
                }
            }
        }
        // The end of the lease lets the next server begin at once.
        try await store(plan.takeResults(), isLast: true)
    }

    /// Sends an event, and then the next events of its lane, until they end or results must be stored.
    ///
    /// - Parameter noteRoom: Called when an event besides those of the lane can begin.
    private static func send(
        _ first: DeliveryPlan.Delivery, _ plan: SharedPlan, _ requests: EndpointRequests, _ parts: WebhookParts,
        noteRoom: () -> Void
    ) async {
        var next: DeliveryPlan.Delivery? = first
        while let delivery = next {
            let outcome = await requests.attempt(delivery)
            let now = parts.wall()
            let share = parts.sender.share
            next = plan.next(after: delivery, outcome, at: now, atMost: share)
            if next != nil, plan.use({ $0.canBegin(at: now, atMost: share) }) { noteRoom() }
        }
    }

    private mutating func take(_ input: Input) {
        switch input {
        case .tick: plan.use { $0.passSecond() }
        case .room: break
        case .end:
            isEnding = true
            plan.close()
        case .feed(let part, let cursor):
            reading.remove(cursor)
            take(part, after: cursor)
        case .sent: senders -= 1
        }
    }

    private mutating func take(_ part: WebhookFeed.Part, after cursor: EventCursor) {
        switch part {
        case .page(let page):
            let deliveries = requests.deliveries(in: page)
            plan.use { $0.add(deliveries, after: page.start, next: page.next) }
        case .gap(let oldest):
            plan.use { $0.skip(from: cursor, to: oldest) }
            parts.logger.warning(
                "A webhook begins at a later event: the events before were erased, or the ledger was restored",
                metadata: endpoint.metadata(["after": "\(cursor.rawValue)", "oldest": "\(oldest.rawValue)"]))
        case .none: break
        }
    }
}

// MARK: - Commits

extension EndpointDelivery {
    private var isCommitDue: Bool {
        let newAttempts = plan.use { $0.newAttempts }
        if newAttempts >= DeliveryPlan.commitLimit { return true }
        if newAttempts > 0, sinceCommit.isOver { return true }
        // A lease that is longer than any was stored before the clock was set back.
        let now = parts.wall()
        return job.dueAt < now.advanced(by: Self.minLease) || now.advanced(by: Self.lease) < job.dueAt
    }

    /// Stores the results, and prolongs the lease.
    private mutating func commit() async throws {
        try await store(plan.takeResults(), isLast: false)
        sinceCommit.begin()
        if !isEnding { openPlan() }
    }

    private func openPlan() { plan.open(until: job.dueAt.advanced(by: .zero - Self.minLease)) }

    /// Stores results. While the storage cannot be reached, tries again: otherwise all events of the results would be
    /// sent again.
    ///
    /// - Parameter isLast: Whether the lease ends.
    private mutating func store(_ results: WebhookResults, isLast: Bool) async throws {
        while true {
            do {
                let now = parts.wall()
                let commit = try await parts.ledger.commitWebhook(
                    job, results, to: endpoint, until: isLast ? now : now.advanced(by: Self.lease), at: now)
                return take(commit, of: results)
            } catch let error as LedgerStorageError {
                parts.failure.log(endpoint.metadata(["error": "\(error)"]))
                guard await parts.clock.pause(for: Self.interval) else { throw CancellationError() }
            }
        }
    }

    private mutating func take(_ commit: WebhookCommit, of results: WebhookResults) {
        job = commit.job
        for failed in results.failed where failed.isSetAside {
            parts.logger.warning(
                "An event was set aside after the last attempt: see quittance webhooks show",
                metadata: endpoint.metadata(["event": "\(failed.event.rawValue)", "reason": "\(failed.reason)"]))
        }
        if commit.isChanged { isEnding = true }
        guard let reason = results.disable, !commit.isChanged else { return }
        isEnding = true
        parts.logger.error("A webhook was disabled", metadata: endpoint.metadata(["reason": .string(reason)]))
    }
}

/// The plan of a delivery, which its senders share.
///
/// While results are being stored, and towards the end of the lease, no event begins: a request under way could last
/// longer than the lease.
private final class SharedPlan: Sendable {
    private struct State {
        var plan: DeliveryPlan
        /// The time until which events may begin; `nil` if none may.
        var end: Timestamp?

        /// A time further ahead than a lease was computed before the clock was set back.
        func isOpen(at now: Timestamp) -> Bool {
            end.map { now < $0 && $0 <= now.advanced(by: EndpointDelivery.lease) } ?? false
        }
    }

    private let state: Mutex<State>

    init(_ plan: DeliveryPlan) { state = Mutex(State(plan: plan)) }

    /// Lets events begin until a time.
    func open(until end: Timestamp) { state.withLock { $0.end = end } }

    /// Lets no event begin.
    func close() { state.withLock { $0.end = nil } }

    /// Takes the results, and lets no event begin.
    func takeResults() -> WebhookResults {
        state.withLock { state in
            state.end = nil
            return state.plan.takeResults()
        }
    }

    /// Reads or changes the plan.
    func use<Result: Sendable>(_ body: (inout DeliveryPlan) -> Result) -> Result {
        state.withLock { body(&$0.plan) }
    }

    /// The events to send now.
    func begin(at now: Timestamp, atMost limit: Int) -> [DeliveryPlan.Delivery] {
        state.withLock { $0.isOpen(at: now) ? $0.plan.begin(at: now, atMost: limit) : [] }
    }

    /// Notes the outcome of an attempt, and begins the next event of the same lane; `nil` if there is none.
    func next(
        after delivery: DeliveryPlan.Delivery, _ outcome: DeliveryPlan.Outcome, at now: Timestamp, atMost limit: Int
    ) -> DeliveryPlan.Delivery? {
        state.withLock { state in
            if state.isOpen(at: now) { return state.plan.next(after: delivery, outcome, at: now, atMost: limit) }
            state.plan.end(delivery, outcome, at: now)
            return nil
        }
    }
}
