// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
public import PurchaseLedger
import Reconciliation
import Synchronization

/// The parameters of a load: a number of customers who buy, and the time in which they buy.
public struct LoadProfile: Hashable, Sendable {
    /// The seed of everything random.
    public var seed: UInt64
    /// The number of customers. Their purchases are evenly spread over the duration. Every tenth customer asks for a
    /// refund. Every twentieth customer is in the sandbox, where a month takes an hour.
    public var customers: Int
    /// The duration in virtual seconds.
    public var seconds: Int
    /// The time, in virtual seconds, after which the server performs its due work again.
    public var step = 1
    /// The share of notifications that are lost, from 0 to 1.
    public var losses = 0.1

    public init(seed: UInt64, customers: Int, seconds: Int) {
        self.seed = seed
        self.customers = customers
        self.seconds = seconds
    }
}

/// The counts at the end of a load.
public struct LoadReport: Hashable, Sendable, CustomStringConvertible {
    /// The number of notifications that arrived.
    public var notifications = 0
    /// The number of requests to the App Store.
    public var requests = 0
    /// The maximum number of requests at the same time.
    public var maxInFlight = 0
    /// For each quarter of the duration, the maximum number of jobs and chains (purchases) that were still due after
    /// the server had performed its work.
    public var due = [0, 0, 0, 0]
    /// The number of consumption requests that were answered.
    public var answered = 0
    /// The number of jobs at the end. The outcomes of consumption requests, which are kept for 30 days, do not count.
    public var jobs = 0

    /// All counts in a line.
    public var description: String {
        "\(notifications) notifications, \(requests) requests, at most \(maxInFlight) at a time, \(answered) answers; "
            + "most work left over in each quarter of the time: \(due); \(jobs) jobs at the end"
    }
}

/// Customers who buy one after another, and a server that receives notifications about the purchases. The server asks
/// the App Store for the notifications that are lost.
///
/// The time is virtual, and the App Store is simulated in the same process. A load therefore does not show how fast the
/// server is, but whether its unfinished work grows.
public struct SimulatedLoad {
    private static let scopes = [AppStoreModel.Environment.production, .sandbox].map {
        LedgerScope(bundleId: "com.example", environment: $0)
    }
    private let plan: LoadProfile
    private let clock = SimulationClock(Timestamp(milliseconds: 1_769_851_800_000))
    private let transport: SimulatedTransport
    private let counter = RequestCounter()
    private let ledger: Ledger
    private let verifier: AppStoreVerifier
    private let reconcilers: [LedgerScope: Reconciler]
    private let runner: JobRunner
    private var report = LoadReport()

    /// Prepares a load on an empty storage.
    public init(_ plan: LoadProfile, on storage: any LedgerStorage) throws {
        self.plan = plan
        let world = World(seed: plan.seed, catalogue: SimulatedLife.catalogue, now: clock.now)
        let authority = try StoreAuthority.fixture()
        let key = try StoreKey(seed: plan.seed)
        let clock = clock
        var store = SimulatedStore(world, WorldSigner(authority), key, seed: plan.seed)
        store.world.sandboxSpeed = .oneHour
        store.notificationURLs = [.production: "production", .sandbox: "sandbox"]
        store.faults.losses = plan.losses
        let transport = SimulatedTransport(store, wall: { clock.now })
        self.transport = transport
        var rules = LedgerRules(catalogues: ["com.example": SimulatedLife.entitlements])
        rules.asksAppStore = ["com.example"]
        let ledger = Ledger(storage: storage, rules: rules)
        let verifier = try SimulatedLife.verifier(authority)
        let client = AppStoreClient(
            bundleId: "com.example", key: try InAppPurchaseKey(key),
            transport: CountingTransport(inner: transport, counter: counter), now: { clock.now }, sleep: { _ in },
            random: SeededRandom(seed: plan.seed))
        var reconcilers: [LedgerScope: Reconciler] = [:]
        for scope in Self.scopes {
            var reconciler = Reconciler(
                ledger: ledger, verifier: verifier, client: client, scope: scope, now: { clock.now })
            reconciler.consumptionDefaults = SimulatedLife.consumption
            reconcilers[scope] = reconciler
        }
        self.reconcilers = reconcilers
        runner = JobRunner(ledger, Reconciler.jobs(of: reconcilers), now: { clock.now })
        self.ledger = ledger
        self.verifier = verifier
    }

    /// Lets all customers buy.
    public mutating func run() async throws -> LoadReport {
        for reconciler in reconcilers.values { try await reconciler.start() }
        for second in stride(from: 0, to: plan.seconds, by: plan.step) {
            let first = plan.customers * second / plan.seconds
            let last = plan.customers * min(plan.seconds, second + plan.step) / plan.seconds
            try await sell(first..<last)
            try await work()
            let quarter = second * report.due.count / plan.seconds
            report.due[quarter] = max(report.due[quarter], try await due())
        }
        (report.requests, report.maxInFlight) = counter.state.withLock { ($0.requests, $0.maxInFlight) }
        try await countJobs()
        return report
    }

    /// Lets customers buy, and delivers their notifications except the lost ones.
    private mutating func sell(_ numbers: Range<Int>) async throws {
        let step = Duration.seconds(plan.step)
        let (deliveries, buyers, now) = try await transport.update { store in
            store.world.advance(to: store.world.now.advanced(by: step))
            var buyers: [(account: String, scope: LedgerScope)] = []
            for number in numbers {
                let environment: AppStoreModel.Environment = number % 20 == 7 ? .sandbox : .production
                let customer = try store.world.addCustomer("customer \(number)", environment: environment)
                try store.world.buy("gold.month", by: customer.name)
                guard number % 10 == 3 else { continue }
                let id = store.world.history(of: customer.name).last?.transaction.transactionId ?? ""
                try store.world.requestRefund(id)
                let scope = LedgerScope(bundleId: "com.example", environment: environment)
                buyers.append((customer.appAccountToken ?? "", scope))
            }
            let deliveries = try store.takeDeliveries()
            store.world.forgetOccurrences(keeping: 0)
            return (deliveries, buyers, store.world.now)
        }
        clock.set(now)
        for buyer in buyers {
            _ = try await ledger.recordConsent(true, of: buyer.account, in: buyer.scope, at: now)
        }
        for delivery in deliveries { try await deliver(delivery) }
    }

    private mutating func deliver(_ delivery: Outbox.Delivery) async throws {
        guard case .signed(let payload) = delivery.content else { return }
        let verified = try await verifier.verify(notification: payload.utf8, at: clock.now)
        if let evidence = Evidence(verified) { _ = try await ledger.record([evidence], at: clock.now) }
        report.notifications += 1
        await transport.update { $0.record(.success, of: delivery) }
    }

    /// Performs all due work.
    private func work() async throws {
        while try await ledger.publishDueChanges(at: clock.now) > 0 {}
        try await withThrowingTaskGroup(of: Void.self) { group in
            repeat {
                runner.search()
                for job in try await runner.begin().jobs { group.addTask { [runner] in try await runner.perform(job) } }
            } while try await group.next() != nil
        }
    }

    /// The number of jobs and chains (purchases) that are due now. At most 1,000 chains are counted, and at most 1,000
    /// jobs of each kind in each environment.
    private func due() async throws -> Int {
        var count = try await ledger.storage.chains(.due(at: clock.now), limit: 1000).count
        for scope in Self.scopes {
            for kind in [Job.Kind.consumption, .notificationHistory, .subscriptionStatus, .parkedDocument] {
                let jobs = RecordSelection(kind, of: .scope(scope), dueAt: clock.now)
                count += try await ledger.storage.records(jobs, limit: 1000).count
            }
        }
        return count
    }

    private mutating func countJobs() async throws {
        var cursor: ScanCursor?
        repeat {
            let page = try await ledger.jobs(after: cursor)
            for job in page.items {
                let state = ConsumptionQuestion(job)?.state
                if state == .answered { report.answered += 1 }
                if state == nil || state == .waiting { report.jobs += 1 }
            }
            cursor = page.next
        } while cursor != nil
    }
}

/// Counts the requests, and how many are in flight at once.
private final class RequestCounter: Sendable {
    struct State {
        var requests = 0
        var inFlight = 0
        var maxInFlight = 0
    }

    let state = Mutex(State())
}

private struct CountingTransport: AppStoreTransport {
    let inner: SimulatedTransport
    let counter: RequestCounter

    func answer(
        to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
    ) async throws -> APIAnswer {
        counter.state.withLock { state in
            state.requests += 1
            state.inFlight += 1
            state.maxInFlight = max(state.maxInFlight, state.inFlight)
        }
        defer { counter.state.withLock { $0.inFlight -= 1 } }
        return try await inner.answer(to: request, in: environment, within: timeout)
    }
}
