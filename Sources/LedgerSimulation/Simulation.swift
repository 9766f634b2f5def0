// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
public import PurchaseLedger
import PurchaseLedgerTesting
import Reconciliation

/// The parameters of a simulation. Equal plans give the same course of events on every machine.
public struct SimulationPlan: Hashable, Sendable {
    /// The seed of everything random.
    public var seed: UInt64
    /// The number of simulated days.
    public var days: Int
    /// The number of customers. Every fourth customer is in the sandbox.
    public var customers: Int
    /// Whether faults happen. Notifications are lost, duplicated, delayed and reordered, storage and network fail,
    /// requests get false answers, keys and certificates change, and the server's clock jumps.
    public var isUnkind = true
    /// Whether all notifications are lost.
    public var losesAll = false
    /// Whether the server asks the App Store. Without requests, the ledger misses lost notifications, so a simulation
    /// must then fail as soon as a notification is lost.
    public var asks = true

    public init(seed: UInt64, days: Int, customers: Int) {
        self.seed = seed
        self.days = days
        self.customers = customers
    }
}

/// The counts of a simulation.
public struct SimulationReport: Hashable, Sendable, CustomStringConvertible {
    /// The number of events in the simulated App Store.
    public var occurrences = 0
    /// The number of notifications that arrived, including duplicates.
    public var deliveries = 0
    /// The number of notifications that the server acknowledged.
    public var acknowledged = 0
    /// The number of requests to the simulated App Store, including requests during an outage, but without the requests
    /// that send consumption information.
    public var requests = 0
    /// The number of requests that would have sufficed to read all notifications from the history, in pages of 20 for
    /// each environment.
    public var fewestRequests = 0
    /// The number of requests with a false answer.
    public var lies = 0
    /// The number of times that the server's work failed, because its storage failed or a document was refused.
    public var stops = 0
    /// The number of comparisons between a customer's entitlements and the sales.
    public var comparisons = 0
    /// The number of events in the ledger.
    public var events = 0
    /// The number of consumption requests of the App Store, without repetitions.
    public var consumptionRequests = 0
    /// The number of answers to consumption requests that the App Store accepted. For the other requests, consent was
    /// missing, or the server learned of them too late.
    public var consumptionAnswers = 0

    /// All counts in a line.
    public var description: String {
        "\(occurrences) occurrences, \(deliveries) deliveries, \(acknowledged) acknowledged, \(requests) requests "
            + "(\(fewestRequests) would do, \(lies) met a lie), "
            + "\(stops) stops, \(comparisons) comparisons, \(events) events, "
            + "\(consumptionAnswers) answers to \(consumptionRequests) consumption requests"
    }
}

/// A fault in a simulation. The same plan, with its seed, reproduces the fault.
public struct SimulationFailure: Error, CustomStringConvertible {
    /// The plan of the simulation.
    public var plan: SimulationPlan
    /// The day on which the fault was found. The first day is 0.
    public var day: Int
    /// The expected and the found state.
    public var sentence: String

    /// The fault, and the plan to reproduce the fault.
    public var description: String {
        "Seed \(plan.seed), \(plan.days) days, \(plan.customers) customers, day \(day): \(sentence)"
    }
}

/// Customers of a simulated App Store, a ledger, and an auditor. The ledger learns of the customers' purchases by
/// notifications and requests. The auditor compares the ledger with the App Store every day.
///
/// The whole simulation runs in one task, at the time of the simulated App Store. The storage runs each decision twice,
/// and may fail before any operation and after any commit. After such a failure, the server starts again with nothing
/// but the storage.
public struct Simulation {
    private let plan: SimulationPlan
    private let clock: SimulationClock
    private let transport: SimulatedTransport
    private let injection: FaultInjection
    /// The storage without faults.
    private let steadyStorage: any LedgerStorage
    private let storage: StoppingStorage
    private let verifier: AppStoreVerifier
    private var key: InAppPurchaseKey
    private let life: SimulatedLife
    private var random: SeededRandom
    private var acknowledged: Set<Provenance> = []
    /// The original transaction ids of the family-shared transactions presented so far.
    private var presented: Set<String> = []
    /// The numbers of the notifications that the App Store did not send at the time of their event.
    private var late: Set<Int> = []
    private var report = SimulationReport()
    private var reconcilers: [LedgerScope: Reconciler] = [:]
    /// Performs the jobs of all reconcilers, which ask the App Store, in a single worker.
    private var runner: JobRunner?

    private static let start = Timestamp(milliseconds: 1_769_851_800_000)  // 2026-01-31T09:30:00Z
    private static let bundleId = "com.example"
    private static let environments: [Environment] = [.production, .sandbox]
    /// The duration of a step of the simulation in milliseconds: three hours.
    private static let step: Int64 = 10_800_000
    /// The time between two reads of the notification history, in milliseconds: 15 minutes.
    private static let interval: Int64 = 900_000

    /// Prepares a simulation.
    ///
    /// - Parameter storage: An empty storage.
    public init(_ plan: SimulationPlan, on storage: any LedgerStorage = MemoryLedgerStorage()) throws {
        self.plan = plan
        steadyStorage = storage
        random = SeededRandom(seed: plan.seed)
        var world = World(seed: plan.seed, catalogue: SimulatedLife.catalogue, now: Self.start)
        world.sandboxSpeed = .oneHour
        life = try SimulatedLife(&world, customers: plan.customers)
        var authority = try StoreAuthority.fixture()
        if plan.isUnkind { authority.turn = Self.turn }
        let storeKey = try StoreKey(seed: plan.seed)
        var store = SimulatedStore(world, WorldSigner(authority), storeKey, seed: plan.seed)
        store.notificationURLs = [.production: "production", .sandbox: "sandbox"]
        if plan.isUnkind { store.faults = Self.faults }
        if plan.losesAll { store.faults.losses = 1 }
        clock = SimulationClock(Self.start)
        let clock = clock
        transport = SimulatedTransport(store, wall: { clock.now })
        injection = FaultInjection(seed: plan.seed &+ 1)
        self.storage = StoppingStorage(around: UnsteadyStorage(around: storage), injection)
        verifier = try SimulatedLife.verifier(authority)
        key = try InAppPurchaseKey(storeKey)
    }

    /// The time for which the App Store signs with the same leaf certificate, in milliseconds: three days. Of each
    /// three signers of tokens, one has a different intermediate certificate.
    private static let turn: Int64 = 3 * 86_400_000

    /// Faults far more frequent than in ``Faults/unkind``: 15 times the losses, and about three times the duplicates,
    /// reorderings and delays.
    private static var faults: Faults {
        var faults = Faults.unkind
        faults.losses = 0.3
        faults.duplicates = 0.3
        faults.reorderings = 0.5
        faults.delays = 0.3
        return faults
    }

    /// Simulates all days.
    ///
    /// - Throws: ``SimulationFailure`` if the auditor finds a fault.
    public mutating func run() async throws -> SimulationReport {
        try await recordConsent()
        for day in 0..<plan.days {
            try await live(day)
            do {
                try await audit(day)
                if day == plan.days - 1 { try await auditDocuments() }
            } catch let sentence as Violation {
                throw SimulationFailure(plan: plan, day: day, sentence: sentence.text)
            }
        }
        report.requests = injection.requests
        report.lies = injection.lies
        report.consumptionRequests = Auditor.consumptionRequests(in: await transport.store.world).values
            .reduce(0) { $0 + $1.count }
        report.consumptionAnswers = injection.answers.values.reduce(0) { $0 + $1.count }
        let entries = await transport.store.outbox.entries
        report.fewestRequests = Self.environments.reduce(0) { sum, environment in
            sum + (entries.count { $0.environment == environment } + 19) / 20
        }
        report.occurrences = await transport.store.world.occurrenceCount
        return report
    }
}

extension InAppPurchaseKey {
    init(_ key: StoreKey) throws {
        try self.init(id: key.id, issuer: key.issuer, pem: key.pem)
    }
}

/// A fault that the auditor has found, as a sentence.
private struct Violation: Error {
    var text: String
}

// MARK: - A day

extension Simulation {
    /// Simulates a day in steps, with the day's faults.
    private mutating func live(_ day: Int) async throws {
        let isDown = plan.isUnkind && Self.outage(around: day).contains(day % 14)
        let steps = Int(86_400_000 / Self.step)
        for step in 0..<steps {
            if plan.isUnkind { try await injectFaults(day, step, isAPIDown: isDown) }
            try await pass(Self.step, acts: Int.random(in: 0...2, using: &random))
            await present()
            await work()
        }
        injection.set(storage: 0, isAPIDown: isDown)
        clock.jump(by: 0)
    }

    /// The days of a fortnight on which the App Store is unreachable: two days, and four in every third fortnight.
    private static func outage(around day: Int) -> Range<Int> { 8..<(day / 14 % 3 == 2 ? 12 : 10) }

    /// Whether a false answer hides a part of the notification history on a day. This is the day after an outage. The
    /// server then asks for a history that starts earlier than usual, and so believes the answer that the start is too
    /// long ago (``Lie/tooEarly``). The server asks for the hidden part again a day later.
    private static func isHistoryHidden(on day: Int) -> Bool { day % 14 == outage(around: day).upperBound }

    /// Sets the faults of a step.
    private mutating func injectFaults(_ day: Int, _ step: Int, isAPIDown: Bool) async throws {
        let dice = Int.random(in: 0..<16, using: &random)
        var lie = dice % 4 == 1 ? Lie.allCases.randomElement(using: &random) : nil
        if Self.isHistoryHidden(on: day), step < 2 { lie = .tooEarly }
        injection.set(storage: dice < 4 ? 0.05 : 0, refusesWrites: dice == 4, isAPIDown: isAPIDown, lie: lie)
        // For one step the App Store sends notifications up to a day late. A notification is absent from the history
        // before its first attempt.
        let delay: Int64 = dice == 5 ? 86_400 : Self.faults.longestDelay
        await transport.update { $0.faults.longestDelay = delay }
        // Half of the steps have a wrong clock: slow by up to two seconds, as a clock may be before a time server
        // corrects it, or fast by up to ten minutes.
        clock.jump(by: dice % 2 == 0 ? 0 : Int64.random(in: -2000...Self.maxJump, using: &random))
        // The operator revokes the key in App Store Connect, and gives the server the new key six hours later.
        guard day % 9 == 4, step == 2 || step == 4 else { return }
        let next = try StoreKey(seed: plan.seed &+ UInt64(day) &+ 100)
        if step == 2 { return await transport.update { $0.key = next } }
        key = try InAppPurchaseKey(next)
        for reconciler in reconcilers.values { reconciler.client.replaceKey(by: key) }
    }

    /// The longest jump of the clock forwards, in milliseconds: ten minutes.
    private static let maxJump: Int64 = 600_000

    /// The app records the consent of the consenting customers.
    private func recordConsent() async throws {
        let ledger = Ledger(storage: steadyStorage)
        let world = await transport.store.world
        for customer in life.consenting.compactMap({ world.customers[$0] }) {
            guard let account = customer.appAccountToken else { continue }
            let scope = LedgerScope(bundleId: Self.bundleId, environment: customer.environment)
            _ = try await ledger.recordConsent(true, of: account, in: scope, at: clock.now)
        }
    }

    /// The app of each customer presents the family's shared transactions, if no app has presented them yet.
    private mutating func present() async {
        let world = await transport.store.world
        for name in life.names {
            guard let account = world.customers[name]?.appAccountToken else { continue }
            for transaction in life.shared(with: name, in: world) {
                let id = transaction.originalTransactionId ?? ""
                guard !presented.contains(id) else { continue }
                do {
                    let token = try await transport.store.signer.sign(transaction, at: world.now)
                    let verified = try await verifier.verify(
                        token.utf8, as: JWSTransactionDecodedPayload.self, at: clock.now)
                    guard let evidence = Evidence(verified) else { continue }
                    _ = try await ledger.record([evidence], claimedBy: account, at: clock.now)
                    presented.insert(id)
                } catch {
                    report.stops += 1
                }
            }
        }
    }

    /// Lets time pass in the App Store, and delivers its notifications.
    private mutating func pass(_ milliseconds: Int64, acts: Int = 0) async throws {
        let life = life
        let before = random
        let (deliveries, waiting, after) = try await transport.update { store in
            var random = before
            let end = store.world.now.milliseconds + milliseconds
            for _ in 0..<acts {
                let now = store.world.now.milliseconds
                let moment = Int64.random(in: now...max(now, end), using: &random)
                store.world.advance(to: Timestamp(milliseconds: moment))
                life.act(in: &store.world, &random)
            }
            store.world.advance(to: Timestamp(milliseconds: end))
            let deliveries = try store.takeDeliveries()
            let waiting = store.outbox.entries.filter { $0.attempts.isEmpty && $0.nextAttempt != nil }
            return (deliveries, waiting.map(\.number), random)
        }
        random = after
        late.formUnion(waiting)
        clock.set(await transport.store.world.now)
        for delivery in deliveries { await deliver(delivery) }
    }

    /// The server records a notification, or fails.
    private mutating func deliver(_ delivery: Outbox.Delivery) async {
        guard case .signed(let payload) = delivery.content else { return }
        report.deliveries += 1
        var result = SendAttemptResult.unsuccessfulHTTPResponseCode
        do {
            let verified = try await verifier.verify(notification: payload.utf8, at: clock.now)
            if let evidence = Evidence(verified) {
                _ = try await ledger.record([evidence], at: clock.now)
                acknowledged.insert(evidence.provenance)
            }
            report.acknowledged += 1
            result = .success
        } catch {
            report.stops += 1
        }
        let outcome = result
        await transport.update { $0.record(outcome, of: delivery) }
    }

    /// The ledger of the server process.
    private var ledger: Ledger {
        var rules = LedgerRules(catalogues: [Self.bundleId: SimulatedLife.entitlements])
        rules.asksAppStore = [Self.bundleId]
        return Ledger(storage: storage, rules: rules)
    }

    /// The server performs its due work until none is left or the storage stops. After a stop, a new process replaces
    /// the old one.
    private mutating func work() async {
        do {
            while try await ledger.publishDueChanges(at: clock.now) > 0 {}
            if reconcilers.isEmpty, plan.asks { try await start() }
            if let runner { for _ in 0..<Self.maxJobs where try await !runner.workOnce() { break } }
        } catch {
            report.stops += 1
            reconcilers = [:]
        }
    }

    /// The most jobs of one run. Without this bound, a run would never end if each job caused a further job.
    private static let maxJobs = 10_000

    private mutating func start() async throws {
        let clock = clock
        let key = key
        let client = AppStoreClient(
            bundleId: Self.bundleId, key: key,
            transport: InterruptedTransport(inner: transport, injection: injection, clock: clock), now: { clock.now },
            sleep: { _ in }, random: SeededRandom(seed: plan.seed &+ 2))
        for environment in Self.environments {
            let scope = LedgerScope(bundleId: Self.bundleId, environment: environment)
            var reconciler = Reconciler(
                ledger: ledger, verifier: verifier, client: client, scope: scope, now: { clock.now })
            reconciler.consumptionDefaults = SimulatedLife.consumption
            try await reconciler.start()
            reconcilers[scope] = reconciler
        }
        let runner = JobRunner(ledger, Reconciler.jobs(of: reconcilers), now: { clock.now })
        try await runner.pullBack()
        self.runner = runner
    }
}

// MARK: - The audit

extension Simulation {
    /// Compares the ledger with the sales. During an outage, and while a part of the history is hidden, neither
    /// entitlements nor answers are compared: the ledger may lack evidence.
    private mutating func audit(_ day: Int) async throws {
        let before = Auditor.entitlements(in: await transport.store.world)
        await present()
        // The server reads the history once in each interval. After a failure it waits up to an hour before it retries,
        // so five intervals of 15 minutes include a retry.
        for _ in 0..<(plan.isUnkind ? 5 : 1) {
            try await pass(Self.interval)
            await work()
        }
        let world = await transport.store.world
        if !injection.isAPIDown, !(plan.isUnkind && Self.isHistoryHidden(on: day)) {
            let unheard = Auditor.unheard(in: await transport.store.outbox, late, at: world.now)
            for (name, expected) in Auditor.entitlements(in: world) where before[name] == expected {
                if !unheard.contains(name) { try await compare(name, expected, in: world) }
            }
            try await compareAnswers(in: world, unheard)
        }
        let names = try await steadyStorage.load(LedgerQuery(acknowledged.map(LedgerKey.document))).names
        guard names == acknowledged else {
            throw Violation(text: "\(acknowledged.subtracting(names).count) acknowledged documents are lost")
        }
        if let sentence = try await contradiction() { throw Violation(text: sentence) }
    }

    /// Derives all facts anew from the documents, and compares them with the stored facts.
    private func auditDocuments() async throws {
        let rebuilt = try await Ledger(storage: steadyStorage).rebuild(by: verifier, at: clock.now)
        for fault in rebuilt.faults { throw Violation(text: "A document does not verify again: \(fault.error)") }
        for key in rebuilt.differing {
            throw Violation(text: "\(key.originalTransactionId) has facts other than its documents'")
        }
    }

    /// Compares the answers to consumption requests with the App Store's requests.
    private func compareAnswers(in world: World, _ unheard: Set<String>) async throws {
        var questions: [String: ConsumptionQuestion] = [:]
        var cursor: ScanCursor?
        repeat {
            let page = try await Ledger(storage: steadyStorage).jobs(after: cursor, limit: 10_000)
            for job in page.items { if let question = ConsumptionQuestion(job) { questions[job.id.name] = question } }
            cursor = page.next
        } while cursor != nil
        let fault = Auditor.fault(
            in: questions, injection.answers, refused: injection.refused, consenting: Set(life.consenting),
            unheard: unheard, isExact: !plan.isUnkind && plan.asks, in: world)
        if let fault { throw Violation(text: fault) }
    }

    private mutating func compare(_ name: String, _ expected: Set<String>, in world: World) async throws {
        guard let customer = world.customers[name], let account = customer.appAccountToken else { return }
        let scope = LedgerScope(bundleId: Self.bundleId, environment: customer.environment)
        let holdings = try await ledger.holdings(of: account, in: scope, at: clock.now)
        let found = Set(holdings?.entitlements.map(\.name) ?? [])
        report.comparisons += 1
        guard found != expected else { return }
        let states = holdings?.subscriptions.map { "\($0.key) \($0.value.status)" }.sorted() ?? []
        throw Violation(
            text: "\(name) at \(world.now.iso8601) is entitled to \(expected.sorted()), the ledger says "
                + "\(found.sorted()): \(states)")
    }

    /// A contradiction between the events and the state; `nil` if there is none.
    private mutating func contradiction() async throws -> String? {
        var events: [LedgerEvent] = []
        var cursor: EventCursor?
        while true {
            let page = try await steadyStorage.events(of: Self.bundleId, after: cursor, limit: 10_000)
            events += page.events
            cursor = page.next
            if page.events.isEmpty { break }
        }
        report.events = events.count
        var chains: [ChainKey] = []
        var chainCursor: ScanCursor?
        repeat {
            let page = try await steadyStorage.chains(.all, after: chainCursor, limit: 10_000)
            chains += page.items
            chainCursor = page.next
        } while chainCursor != nil
        let keys = Set(chains)
        return Auditor.contradiction(
            in: events, try await steadyStorage.load(LedgerQuery(keys.map(LedgerKey.chain))).chains)
    }
}
