// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
public import PurchaseLedger
import PurchaseLedgerTesting
import Reconciliation

/// What to simulate. The same plan gives the same course of events, on every machine.
public struct SimulationPlan: Hashable, Sendable {
    /// Decides about everything that is random.
    public var seed: UInt64
    /// How many days the customers live.
    public var days: Int
    /// How many customers there are. Every fourth one is in the sandbox.
    public var customers: Int
    /// Whether deliveries are lost, doubled, late and in disorder, storage and network fail, somebody else answers in
    /// the App Store's place, keys and certificates change, and the clock jumps.
    public var isUnkind = true
    /// Whether no notification arrives at all.
    public var losesAll = false
    /// Whether the server asks the App Store. Without that a simulation must fail as soon as something is lost.
    public var asks = true

    public init(seed: UInt64, days: Int, customers: Int) {
        self.seed = seed
        self.days = days
        self.customers = customers
    }
}

/// What a simulation saw.
public struct SimulationReport: Hashable, Sendable, CustomStringConvertible {
    /// Events in the simulated App Store.
    public var occurrences = 0
    /// Notifications that arrived, doubled ones included.
    public var deliveries = 0
    /// Those that were acknowledged.
    public var acknowledged = 0
    /// Requests to the simulated App Store, including those that found it out of reach.
    public var requests = 0
    /// The fewest requests that would have told everything: pages of 20 notifications, in each environment.
    public var fewestRequests = 0
    /// Those that somebody else answered in the App Store's place.
    public var lies = 0
    /// How often the storage stopped.
    public var stops = 0
    /// How often a customer's entitlements were compared with what was sold.
    public var comparisons = 0
    /// Events of the ledger.
    public var events = 0
    /// Consumption requests of the App Store, without repetitions.
    public var consumptionRequests = 0
    /// The answers that it accepted. Other requests have no consent, or came or were found too late.
    public var consumptionAnswers = 0

    /// One line.
    public var description: String {
        "\(occurrences) occurrences, \(deliveries) deliveries, \(acknowledged) acknowledged, \(requests) requests "
            + "(\(fewestRequests) would do, \(lies) met a lie), "
            + "\(stops) stops, \(comparisons) comparisons, \(events) events, "
            + "\(consumptionAnswers) answers to \(consumptionRequests) consumption requests"
    }
}

/// What a simulation found: with the seed in the plan it happens again.
public struct SimulationFailure: Error, CustomStringConvertible {
    /// What was simulated.
    public var plan: SimulationPlan
    /// The day on which the fault was found; the first is 0.
    public var day: Int
    /// What was expected and what was found.
    public var sentence: String

    /// The sentence, and how to see it again.
    public var description: String {
        "Seed \(plan.seed), \(plan.days) days, \(plan.customers) customers, day \(day): \(sentence)"
    }
}

/// Customers of a simulated App Store, a ledger that hears of them by notifications and by asking, and an auditor who
/// compares the two every day.
///
/// Everything runs in one task, with the time of the simulated App Store. The storage makes each decision twice, and
/// stops between any two steps; then everything but the storage is lost and starts again.
public struct Simulation {
    private let plan: SimulationPlan
    private let clock: SimulationClock
    private let transport: SimulatedTransport
    private let injection: FaultInjection
    /// The storage that does not stop.
    private let steadyStorage: any LedgerStorage
    private let storage: StoppingStorage
    private let verifier: AppStoreVerifier
    private var key: InAppPurchaseKey
    private let life: SimulatedLife
    private var random: SeededRandom
    private var acknowledged: Set<Provenance> = []
    /// The original transaction ids of what a family shares and its members' apps presented.
    private var presented: Set<String> = []
    /// The numbers of the notifications that were not sent when they happened.
    private var late: Set<Int> = []
    private var report = SimulationReport()
    private var reconcilers: [LedgerScope: Reconciler] = [:]
    /// Does the jobs of the reconcilers, of one process.
    private var runner: JobRunner?

    private static let start = Timestamp(milliseconds: 1_769_851_800_000)  // 2026-01-31T09:30:00Z
    private static let bundleId = "com.example"
    private static let environments: [Environment] = [.production, .sandbox]
    /// A step of the simulation in milliseconds: three hours.
    private static let step: Int64 = 10_800_000
    /// How often the history is read, in milliseconds.
    private static let interval: Int64 = 900_000

    /// Prepares a simulation, in which nothing has happened yet.
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

    /// How long the App Store signs with one leaf, in milliseconds: three days. Every third one is under another
    /// intermediate.
    private static let turn: Int64 = 3 * 86_400_000

    /// Ten times as bad as a network is.
    private static var faults: Faults {
        var faults = Faults.unkind
        faults.losses = 0.3
        faults.duplicates = 0.3
        faults.reorderings = 0.5
        faults.delays = 0.3
        return faults
    }

    /// Lives through all days.
    ///
    /// - Throws: ``SimulationFailure`` if something is wrong.
    public mutating func run() async throws -> SimulationReport {
        try await recordConsent()
        for day in 0..<plan.days {
            try await live(day)
            do {
                try await audit(day)
                if day == plan.days - 1 { try await auditDocuments() }
            } catch let sentence as Finding {
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

/// Something that is wrong: a sentence.
private struct Finding: Error {
    var text: String
}

// MARK: - A day

extension Simulation {
    /// A day in steps, with the faults of that day.
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

    /// The days of a fortnight on which the App Store cannot be asked: two, in every third fortnight four.
    private static func outage(around day: Int) -> Range<Int> { 8..<(day / 14 % 3 == 2 ? 12 : 10) }

    /// Whether a liar hides a part of the history: on the day after an outage, when its start is longer ago than else,
    /// so that he is believed. The server asks for that part again a day later.
    private static func isHistoryHidden(on day: Int) -> Bool { day % 14 == outage(around: day).upperBound }

    /// What goes wrong in a step of a day.
    private mutating func injectFaults(_ day: Int, _ step: Int, isAPIDown: Bool) async throws {
        let dice = Int.random(in: 0..<16, using: &random)
        var lie = dice % 4 == 1 ? Lie.allCases.randomElement(using: &random) : nil
        if Self.isHistoryHidden(on: day), step < 2 { lie = .tooEarly }
        injection.set(storage: dice < 4 ? 0.05 : 0, refusesWrites: dice == 4, isAPIDown: isAPIDown, lie: lie)
        // The App Store sends late for some hours, and what it has not sent is not in the history.
        let delay: Int64 = dice == 5 ? 86_400 : Self.faults.longestDelay
        await transport.update { $0.faults.longestDelay = delay }
        // Back by a little, as a time server corrects it, or forwards, as after a pause of the machine.
        clock.jump(by: dice % 2 == 0 ? 0 : Int64.random(in: -2000...Self.maxJump, using: &random))
        // The operator revokes the key in App Store Connect, and gives the server the new one some hours later.
        guard day % 9 == 4, step == 2 || step == 4 else { return }
        let next = try StoreKey(seed: plan.seed &+ UInt64(day) &+ 100)
        if step == 2 { return await transport.update { $0.key = next } }
        key = try InAppPurchaseKey(next)
        for reconciler in reconcilers.values { reconciler.client.replaceKey(by: key) }
    }

    /// How far the clock jumps forwards at most, in milliseconds: ten minutes.
    private static let maxJump: Int64 = 600_000

    /// The app records the consent of the customers who give it.
    private func recordConsent() async throws {
        let ledger = Ledger(storage: steadyStorage)
        let world = await transport.store.world
        for customer in life.consenting.compactMap({ world.customers[$0] }) {
            guard let account = customer.appAccountToken else { continue }
            let scope = LedgerScope(bundleId: Self.bundleId, environment: customer.environment)
            _ = try await ledger.recordConsent(true, of: account, in: scope, at: clock.now)
        }
    }

    /// The app of each customer presents what the family shares, unless it has before.
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

    /// Time passes in the App Store, and its notifications are delivered.
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

    /// The server takes in a notification, or fails to.
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

    /// The ledger as a process sees it.
    private var ledger: Ledger {
        var rules = LedgerRules(catalogues: [Self.bundleId: SimulatedLife.entitlements])
        rules.asksAppStore = [Self.bundleId]
        return Ledger(storage: storage, rules: rules)
    }

    /// The server does what is due, until nothing is or its storage stops. Then a new process takes its place.
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

    /// More jobs in one go would be a loop without an end.
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
    /// Compares the ledger with what was sold. If the App Store cannot be asked, or a part of its history is hidden,
    /// the entitlements are not compared: evidence that could not be fetched may be missing.
    private mutating func audit(_ day: Int) async throws {
        let before = Auditor.entitlements(in: await transport.store.world)
        await present()
        // The history is read once in this time. The pauses after a failure are an hour at most.
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
            throw Finding(text: "\(acknowledged.subtracting(names).count) acknowledged documents are lost")
        }
        if let sentence = try await contradiction() { throw Finding(text: sentence) }
    }

    /// Derives all facts from the documents again.
    private func auditDocuments() async throws {
        let rebuilt = try await Ledger(storage: steadyStorage).rebuild(by: verifier, at: clock.now)
        for fault in rebuilt.faults { throw Finding(text: "A document does not verify again: \(fault.error)") }
        for key in rebuilt.differing {
            throw Finding(text: "\(key.originalTransactionId) has facts other than its documents'")
        }
    }

    /// Compares the answers to consumption requests with what the App Store asked.
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
        if let fault { throw Finding(text: fault) }
    }

    private mutating func compare(_ name: String, _ expected: Set<String>, in world: World) async throws {
        guard let customer = world.customers[name], let account = customer.appAccountToken else { return }
        let scope = LedgerScope(bundleId: Self.bundleId, environment: customer.environment)
        let holdings = try await ledger.holdings(of: account, in: scope, at: clock.now)
        let found = Set(holdings?.entitlements.map(\.name) ?? [])
        report.comparisons += 1
        guard found != expected else { return }
        let states = holdings?.subscriptions.map { "\($0.key) \($0.value.status)" }.sorted() ?? []
        throw Finding(
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
