// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import PurchaseServer
import TestData
import Testing

/// A ledger, a feed and a receiver for a ``DeliveryPlan``, without storage and network. Time passes in random steps.
private struct PlanWorld {
    /// An attempt that reached the receiver.
    struct Sent: Hashable {
        var event: Int64
        var isDelivered: Bool
    }

    let endpoint: WebhookEndpoint
    /// The lane of each event; the first event has the number 1.
    let lanes: [Int]
    var random: SeededRandom
    /// The probability of a failure, and the events that always fail.
    var failureRate = 0.0
    var hopeless: Set<Int64> = []
    /// The customers of events, and the ids in deletions.
    var customers: [Int64: String] = [:]
    var deletions: [Int64: [String]] = [:]

    private(set) var plan: DeliveryPlan
    private(set) var stored: WebhookProgress
    private(set) var waiting: [EventCursor: FailedDelivery] = [:]
    private(set) var setAside: [EventCursor: FailedDelivery] = [:]
    private(set) var disabled: String?
    private(set) var now = Timestamp(milliseconds: 1_700_000_000_000)
    private(set) var sent: [Sent] = []
    private(set) var attempts: [Int64: Int] = [:]
    private(set) var mostAtOnce = 0
    private(set) var mostWaiting = 0
    private(set) var crashes = 0
    /// How often an event began although none could.
    private(set) var missedRoom = 0
    private var inFlight: [DeliveryPlan.Delivery] = []

    init(seed: UInt64, events: Int, isOrdered: Bool) {
        random = SeededRandom(seed: seed)
        let generator = random
        var random = generator
        lanes = (0..<events).map { _ in Int.random(in: 0..<WebhookProgress.lanes, using: &random) }
        endpoint = WebhookEndpoint(
            id: "e", of: "com.example", url: "https://example.com", isOrdered: isOrdered, createdAt: now)
        stored = WebhookProgress(from: EventCursor(0))
        plan = DeliveryPlan(endpoint, stored, failed: [])
    }

    /// One thing that happens: a page is read, requests begin, an answer arrives, time passes, or a commit.
    mutating func step() {
        mostWaiting = max(mostWaiting, waiting.count)
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1: read()
        case 2, 3:
            let canBegin = plan.canBegin(at: now)
            let deliveries = plan.begin(at: now)
            if !deliveries.isEmpty, !canBegin { missedRoom += 1 }
            begin(deliveries)
        case 4, 5, 6: answer()
        default:
            now = now.advanced(by: .milliseconds(Int64.random(in: 1...9_000, using: &random)))
            if inFlight.isEmpty, Bool.random(using: &random) {
                now = now.advanced(by: .seconds(7200))
                for _ in 0..<DeliveryPlan.freshness { plan.passSecond() }
            }
            if Bool.random(using: &random) { commit() }
        }
    }

    private mutating func begin(_ deliveries: [DeliveryPlan.Delivery]) {
        inFlight += deliveries.map { each in
            var each = each
            each.body = nil
            return each
        }
        mostAtOnce = max(mostAtOnce, inFlight.count)
    }

    /// Reads a page, which begins at the cursor or, as a page that another endpoint has read, somewhat before it.
    private mutating func read() {
        guard let next = plan.cursorToRead?.number, next < lanes.count else { return }
        let start = max(0, next - (Bool.random(using: &random) ? 0 : Int64.random(in: 1...9, using: &random)))
        let cursor = EventCursor(start)
        let end = min(Int(start) + 100, lanes.count)
        let page = (Int(start)..<end).map { index in
            var delivery = DeliveryPlan.Delivery(EventCursor(Int64(index) + 1), lane: lanes[index], body: [])
            delivery.customer = customers[Int64(index) + 1]
            delivery.deletedIds = deletions[Int64(index) + 1] ?? []
            return delivery
        }
        plan.add(page, after: cursor, next: EventCursor(Int64(end)))
    }

    private mutating func answer() {
        guard !inFlight.isEmpty else { return }
        let delivery = inFlight.remove(at: Int.random(in: inFlight.indices, using: &random))
        let number = delivery.event.number ?? 0
        let fails = hopeless.contains(number) || Double.random(in: 0..<1, using: &random) < failureRate
        sent.append(Sent(event: number, isDelivered: !fails))
        attempts[number, default: 0] += 1
        let outcome = WebhookOutcome(
            status: fails ? 500 : 204, failure: fails ? "500" : nil, retryAfter: nil, milliseconds: 1, answer: "")
        if Bool.random(using: &random) { return plan.end(delivery, .answered(outcome), at: now) }
        begin(plan.next(after: delivery, .answered(outcome), at: now).map { [$0] } ?? [])
    }

    mutating func commit() {
        let changes = plan.takeResults()
        stored = changes.progress
        for event in changes.delivered { waiting[event] = nil }
        for failure in changes.failed {
            waiting[failure.event] = failure.dueAt == nil ? nil : failure
            if failure.dueAt == nil { setAside[failure.event] = failure }
        }
        disabled = disabled ?? changes.disable
    }

    /// The server dies, and another one begins with the stored state.
    mutating func crash() {
        crashes += 1
        inFlight = []
        plan = DeliveryPlan(endpoint, stored, failed: Array(waiting.values))
    }

    var isDone: Bool {
        inFlight.isEmpty && waiting.isEmpty && plan.newAttempts == 0
            && stored.positions.allSatisfy { $0.number == Int64(lanes.count) }
    }

    /// Runs until everything is delivered or set aside.
    mutating func run(crashingOneIn odds: Int? = nil) {
        var steps = 0
        while !isDone, steps < 2_000_000 {
            if let odds, Int.random(in: 0..<odds, using: &random) == 0 { crash() }
            step()
            steps += 1
        }
    }
}

/// Tests which events a ``DeliveryPlan`` sends, in which order, and how often.
@Suite struct DeliveryPlanTests {
    @Test(arguments: Seeds.first(8, soak: 300), [false, true])
    func `without a crash every event is delivered exactly once`(seed: UInt64, isOrdered: Bool) {
        var world = PlanWorld(seed: seed, events: 700, isOrdered: isOrdered)
        world.failureRate = 0.2
        world.run()
        #expect(world.isDone, "seed \(seed)")
        let delivered = world.sent.filter(\.isDelivered).map(\.event)
        #expect(Set(delivered) == Set(1...700) && delivered.count == 700, "seed \(seed)")
        #expect(world.mostAtOnce <= 32, "seed \(seed): \(world.mostAtOnce)")
        #expect(world.missedRoom == 0, "seed \(seed)")
    }

    @Test(arguments: Seeds.first(8, soak: 300), [false, true])
    func `after crashes every event is delivered at least once`(seed: UInt64, isOrdered: Bool) {
        var world = PlanWorld(seed: seed, events: 700, isOrdered: isOrdered)
        world.failureRate = 0.2
        world.run(crashingOneIn: 300)
        #expect(world.isDone && world.crashes > 0, "seed \(seed)")
        #expect(Set(world.sent.filter(\.isDelivered).map(\.event)) == Set(1...700), "seed \(seed)")
    }

    /// In each lane, the first delivery of an event comes after the first delivery of every earlier event.
    @Test(arguments: Seeds.first(8, soak: 300), [nil, 300])
    func `an ordered lane delivers its events in their order`(seed: UInt64, odds: Int?) {
        var world = PlanWorld(seed: seed, events: 500, isOrdered: true)
        world.failureRate = 0.3
        world.run(crashingOneIn: odds)
        var last: [Int: Int64] = [:]
        var seen: Set<Int64> = []
        for sent in world.sent where sent.isDelivered && seen.insert(sent.event).inserted {
            let lane = world.lanes[Int(sent.event) - 1]
            #expect(last[lane, default: 0] < sent.event, "seed \(seed), lane \(lane)")
            last[lane] = sent.event
        }
        #expect(seen.count == 500, "seed \(seed)")
    }

    /// Customers are deleted twice by one of two ids, and return as new customers, whose lane is another one.
    @Test(arguments: Seeds.first(8, soak: 300), [nil, 300])
    func `an ordered endpoint gets the deletion of an id before the events of a customer who returns with it`(
        seed: UInt64, odds: Int?
    ) {
        var world = PlanWorld(seed: seed, events: 500, isOrdered: true)
        world.failureRate = 0.3
        // A deletion that is never delivered holds nothing back once it is set aside.
        world.hopeless = [7]
        var random = SeededRandom(seed: ~seed)
        var returns: [Int64: Int64] = [:]
        for number in 0..<24 {
            let deletion = number == 0 ? 7 : Int64.random(in: 1...400, using: &random)
            guard world.customers[deletion] == nil, world.deletions[deletion] == nil else { continue }
            let ids = ["\(number % 12)", "alias of \(number % 12)"]
            world.deletions[deletion] = ids
            for event in (deletion + 1)...(deletion + 40) where world.deletions[event] == nil {
                guard Int.random(in: 0..<8, using: &random) == 0, world.customers[event] == nil else { continue }
                world.customers[event] = ids.randomElement(using: &random)
                returns[event] = deletion
            }
        }
        world.run(crashingOneIn: odds)
        #expect(world.isDone && world.missedRoom == 0 && !returns.isEmpty, "seed \(seed)")
        var seen: Set<Int64> = []
        for sent in world.sent where sent.isDelivered && seen.insert(sent.event).inserted {
            guard let deletion = returns[sent.event], deletion != 7 else { continue }
            #expect(seen.contains(deletion), "seed \(seed): \(sent.event) before \(deletion)")
        }
        #expect(seen.count == 499, "seed \(seed)")
    }

    @Test(arguments: Seeds.first(4, soak: 50), [false, true])
    func `an event that always fails is set aside after ten attempts, and no other`(seed: UInt64, isOrdered: Bool) {
        var world = PlanWorld(seed: seed, events: 300, isOrdered: isOrdered)
        world.hopeless = [7, 150]
        world.run()
        #expect(Set(world.setAside.keys) == [EventCursor(7), EventCursor(150)], "seed \(seed)")
        #expect(world.attempts[7] == 10 && world.attempts[150] == 10, "seed \(seed)")
        #expect(Set(world.sent.filter(\.isDelivered).map(\.event)).count == 298, "seed \(seed)")
    }

    @Test(arguments: [false, true])
    func `a dead receiver gets no more than the failed events may be`(isOrdered: Bool) {
        var world = PlanWorld(seed: 1, events: 5000, isOrdered: isOrdered)
        world.failureRate = 1
        let limit = isOrdered ? WebhookProgress.lanes : FailedDelivery.maxWaiting
        var steps = 0
        while world.mostWaiting < limit * 9 / 10, steps < 60_000 {
            world.step()
            steps += 1
        }
        // By then a plan without a limit would have exceeded it.
        for _ in 0..<steps / 3 { world.step() }
        #expect(world.mostWaiting <= limit && world.mostWaiting > limit * 9 / 10, "\(world.mostWaiting)")
    }

    @Test func `after five days without a delivery the endpoint is disabled`() {
        var world = PlanWorld(seed: 3, events: 50, isOrdered: true)
        world.failureRate = 1
        let start = world.now
        for _ in 0..<200_000 where world.disabled == nil { world.step() }
        #expect(world.disabled?.contains("500") == true)
        #expect(world.now > start.advanced(by: .seconds(5 * 86_400)))
    }

    @Test func `after more than two days without any attempt, the days without a delivery begin anew`() throws {
        var now = Timestamp(milliseconds: 1_700_000_000_000)
        let endpoint = WebhookEndpoint(id: "e", of: "a", url: "https://example.com", createdAt: now)
        var plan = Self.plan(events: 1)
        var disabled: Timestamp?
        plan.end(plan.begin(at: now)[0], Self.outcome(500), at: now)
        let results = plan.takeResults()
        now = now.advanced(by: .seconds(6 * 86_400))
        let restart = now
        plan = DeliveryPlan(endpoint, results.progress, failed: results.failed)
        var next: Int64 = 2
        while disabled == nil, now < restart.advanced(by: .seconds(20 * 86_400)) {
            // An event an hour, so that there is always one that waits.
            let event = DeliveryPlan.Delivery(EventCursor(next), lane: 0, body: [])
            plan.add([event], after: EventCursor(next - 1), next: EventCursor(next))
            next += 1
            for delivery in plan.begin(at: now) { plan.end(delivery, Self.outcome(500), at: now) }
            if plan.takeResults().disable != nil { disabled = now }
            now = now.advanced(by: .seconds(3600))
        }
        #expect(disabled == restart.advanced(by: DeliveryPlan.patience))
    }

    /// The last event that failed was erased, for example, so that none waits.
    @Test func `days in which no failed event waited do not count as days without a delivery`() {
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        let endpoint = WebhookEndpoint(id: "e", of: "a", url: "https://example.com", createdAt: now)
        var progress = WebhookProgress(from: EventCursor(0))
        progress.failingSince = now.advanced(by: .seconds(-9 * 86_400))
        var plan = DeliveryPlan(endpoint, progress, failed: [])
        plan.add(
            [DeliveryPlan.Delivery(EventCursor(1), lane: 0, body: [])], after: EventCursor(0), next: EventCursor(1))
        plan.end(plan.begin(at: now)[0], Self.outcome(500), at: now)
        let results = plan.takeResults()
        #expect(results.disable == nil && results.progress.failingSince == now)
    }

    @Test(arguments: [(-1.0, [2]), (-0.9, [2, 1]), (0.0, [2, 1]), (0.5, [2, 1]), (1.5, [2])])
    func `for a day after a rotation both secrets sign, unless a clock that was ahead noted it`(
        days: Double, expected: [Int]
    ) {
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        var endpoint = WebhookEndpoint(id: "e", of: "a", url: "https://example.com", createdAt: now)
        endpoint.generation = 2
        endpoint.rotatedAt = now.advanced(by: .seconds(days * 86_400))
        #expect(endpoint.generations(at: now) == expected)
    }

    /// A plan with events 1 to `count`, in the lanes in turn.
    private static func plan(events count: Int64) -> DeliveryPlan {
        let endpoint = WebhookEndpoint(
            id: "e", of: "a", url: "https://example.com", createdAt: Timestamp(milliseconds: 0))
        var plan = DeliveryPlan(endpoint, WebhookProgress(from: EventCursor(0)), failed: [])
        let page = (1...count).map {
            DeliveryPlan.Delivery(EventCursor($0), lane: Int($0) % WebhookProgress.lanes, body: [])
        }
        plan.add(page, after: EventCursor(0), next: EventCursor(count))
        return plan
    }

    private static func outcome(_ status: Int) -> DeliveryPlan.Outcome {
        .answered(WebhookOutcome(status: status, failure: status < 300 ? nil : "\(status)", milliseconds: 1))
    }

    @Test func `with room for two requests all lanes have their turn, and failed events too`() {
        var plan = Self.plan(events: 80)
        var now = Timestamp(milliseconds: 1_700_000_000_000)
        var lanes: Set<Int> = []
        for _ in 0..<8 {
            let deliveries = plan.begin(at: now, atMost: 2)
            #expect(deliveries.count == 2)
            lanes.formUnion(deliveries.map(\.lane))
            for delivery in deliveries { plan.end(delivery, Self.outcome(500), at: now) }
        }
        #expect(lanes.count == WebhookProgress.lanes)
        now = now.advanced(by: .seconds(6))
        let attempts = plan.begin(at: now, atMost: 2).map(\.attempts)
        #expect(attempts == [1, 0])
    }

    @Test func `once the endpoint is to be disabled, nothing begins until that is stored`() {
        var plan = Self.plan(events: 80)
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        let sent = plan.begin(at: now)
        plan.end(sent[0], Self.outcome(410), at: now)
        #expect(plan.next(after: sent[1], Self.outcome(204), at: now) == nil)
        #expect(plan.begin(at: now).isEmpty && !plan.canBegin(at: now))
        #expect(plan.takeResults().disable != nil)
        #expect(!plan.begin(at: now).isEmpty)
    }

    @Test func `of a page of two epochs, a lane takes nothing after a lost cursor`() {
        let cursor = EventCursor.init(rawValue:)
        let endpoint = WebhookEndpoint(
            id: "e", of: "a", url: "https://example.com", createdAt: Timestamp(milliseconds: 0))
        var progress = WebhookProgress(from: cursor("45.a"))
        progress.positions[1] = cursor("50.a")
        var plan = DeliveryPlan(endpoint, progress, failed: [])
        plan.skip(from: cursor("45.a"), to: cursor("40.a"))
        let page = (41...60).map { DeliveryPlan.Delivery(cursor("\($0).b"), lane: 1, body: []) }
        plan.add(page, after: cursor("40.a"), next: cursor("60.b"))
        #expect(plan.cursorToRead == cursor("50.a"))
        #expect(plan.begin(at: Timestamp(milliseconds: 0)).isEmpty)
    }

    @Test func `410 disables, and Retry-After is heeded`() throws {
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        func plan() -> (DeliveryPlan, DeliveryPlan.Delivery) {
            let endpoint = WebhookEndpoint(id: "e", of: "a", url: "https://example.com", createdAt: now)
            var plan = DeliveryPlan(endpoint, WebhookProgress(from: EventCursor(0)), failed: [])
            let event = DeliveryPlan.Delivery(EventCursor(1), lane: 3, body: [])
            let other = DeliveryPlan.Delivery(EventCursor(2), lane: 4, body: [])
            plan.add([event, other], after: EventCursor(0), next: EventCursor(2))
            let first = plan.begin(at: now)[0]
            return (plan, first)
        }
        var (gone, first) = plan()
        gone.end(
            first, .answered(WebhookOutcome(status: 410, failure: "410", retryAfter: nil, milliseconds: 1, answer: "")),
            at: now)
        #expect(gone.takeResults().disable != nil)

        var (busy, second) = plan()
        let pause = WebhookOutcome(
            status: 429, failure: "429", retryAfter: .seconds(1000), milliseconds: 1, answer: "")
        busy.end(second, .answered(pause), at: now)
        #expect(busy.begin(at: now.advanced(by: .seconds(999))).isEmpty)
        let failed = try #require(busy.takeResults().failed.first)
        #expect(failed.dueAt == now.advanced(by: .seconds(1000)))
        let sent = busy.begin(at: now.advanced(by: .seconds(1001)))
        #expect(sent.map(\.event) == [EventCursor(1)])
    }

    @Test(arguments: [false, true]) func `an event that cannot be written is set aside at once, and holds back none`(
        isRetry: Bool
    ) throws {
        let now = Timestamp(milliseconds: 1_700_000_000_000)
        let endpoint = WebhookEndpoint(
            id: "e", of: "a", url: "https://example.com", isOrdered: true, createdAt: now)
        let waiting = FailedDelivery(
            of: EventCursor(1), to: "e", of: "a", lane: 3, attempts: 2, dueAt: now, failedAt: now, reason: "500")
        var plan = DeliveryPlan(
            endpoint, WebhookProgress(from: EventCursor(isRetry ? 1 : 0)), failed: isRetry ? [waiting] : [])
        var number = Int64(isRetry ? 1 : 0)
        func read() {
            let event = DeliveryPlan.Delivery(EventCursor(number + 1), lane: 3, body: nil)
            plan.add([event], after: EventCursor(number), next: EventCursor(number + 1))
            number += 1
        }
        if !isRetry { read() }
        let first = try #require(plan.begin(at: now).first)
        #expect(first.event == EventCursor(1) && plan.newAttempts == 0)
        plan.end(first, .unwritable, at: now)
        #expect(plan.newAttempts > 0)
        read()
        #expect(plan.begin(at: now).map(\.event) == [EventCursor(2)])
        let results = plan.takeResults()
        #expect(results.failed.map(\.event) == [EventCursor(1)] && results.failed[0].isSetAside)
        #expect(results.failed[0].reason == "the event cannot be written as JSON" && results.delivered.isEmpty)
        #expect(results.progress.positions[3] == EventCursor(1) && results.progress.failingSince == nil)
    }

    @Test func `an endpoint with few events is not disabled by the days between them`() {
        var now = Timestamp(milliseconds: 1_700_000_000_000)
        let endpoint = WebhookEndpoint(id: "e", of: "a", url: "https://example.com", createdAt: now)
        var plan = DeliveryPlan(endpoint, WebhookProgress(from: EventCursor(0)), failed: [])
        let failure = WebhookOutcome(status: 500, failure: "500", milliseconds: 1)
        for number in 1...2 as ClosedRange<Int64> {
            let event = DeliveryPlan.Delivery(EventCursor(number), lane: 0, body: [])
            plan.add([event], after: EventCursor(number - 1), next: EventCursor(number))
            for attempt in 1...10 {
                var next = plan.begin(at: now)
                while next.isEmpty {
                    now = now.advanced(by: .seconds(600))
                    next = plan.begin(at: now)
                }
                plan.end(next[0], .answered(failure), at: now)
                let changes = plan.takeResults()
                #expect(changes.disable == nil && (changes.failed.first?.isSetAside == true) == (attempt == 10))
            }
            now = now.advanced(by: .seconds(20 * 86_400))
        }
    }
}
