// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import Reconciliation
import Synchronization
import Testing
import TestWorld

/// What a reconciler does with the App Store's answers, one job at a time.
@Suite struct JobTests {
    /// A shop with one subscriber, a ledger that has heard nothing, and a reconciler between them.
    struct Scene: Sendable {
        static let scope = LedgerScope(bundleId: "com.example", environment: .production)
        let time: SharedTime
        let transport: SimulatedTransport
        let ledger: Ledger
        var reconciler: Reconciler
        var scope: LedgerScope { reconciler.scope }
        var onFailure: @Sendable (Job) -> Void = { _ in }

        let requests: Counter

        init(
            trusting: Bool = true, in environment: AppStoreModel.Environment = .production,
            storage: any LedgerStorage = MemoryLedgerStorage(),
            over way: (SimulatedTransport, SharedTime) -> any AppStoreTransport = { store, _ in store }
        ) async throws {
            let start = Timestamp(milliseconds: 1_769_851_800_000)
            let store = try TestStore()
            var product = StoreProduct(
                id: "month", type: .autoRenewableSubscription, price: StorePrice(milliunits: 990))
            product.plan = SubscriptionPlan(group: "1", level: 1, period: Period(1, .month))
            var world = World(
                selling: [product], in: AppIdentity(bundleId: "com.example", appAppleId: 7), at: start)
            try world.addCustomer("anna", environment: environment)
            let key = try StoreKey(seed: 1)
            var simulated = SimulatedStore(world, store.signer, key)
            simulated.notificationURLs[environment] = "somewhere"
            simulated.faults.losses = 1
            time = SharedTime(start)
            requests = Counter()
            let time = time
            transport = SimulatedTransport(simulated, wall: { time.now })
            var rules = LedgerRules(catalogues: [
                "com.example": Catalogue(products: ["month": .init(entitlements: ["pro"])])
            ])
            rules.asksAppStore = ["com.example"]
            ledger = Ledger(storage: storage, rules: rules)
            var verifier = store.verifier(of: .only([AppIdentity(bundleId: "com.example", appAppleId: 7)]))
            if !trusting { verifier.roots = .apple }
            let client = AppStoreClient(
                bundleId: "com.example", key: try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem),
                transport: CountingTransport(inner: way(transport, time), counter: requests, time: time),
                now: { time.now }, sleep: { _ in }, random: SeededRandom(seed: 1))
            reconciler = Reconciler(
                ledger: ledger, verifier: verifier, client: client,
                scope: LedgerScope(bundleId: "com.example", environment: environment), now: { time.now })
        }

        /// Time passes in the App Store, whose notifications are all lost.
        func pass(days: Int64 = 0, seconds: Int64 = 0) async throws {
            time.now.milliseconds += days * 86_400_000 + seconds * 1000
            let now = time.now
            try await transport.update { store in
                store.world.advance(to: now)
                _ = try store.takeDeliveries()
            }
            time.now = await transport.store.world.now
        }

        func buy() async throws {
            try await transport.update { _ = try $0.world.buy("month", by: "anna") }
            try await pass(seconds: 1)
        }

        /// A subscription whose period is over without news, in an app for which Apple keeps no history.
        func makeStale() async throws {
            try await buy()
            try await work()
            await transport.update { $0.notificationURLs = [:] }
            try await pass(days: 31)
        }

        /// Lets time pass, and does all jobs that are due then.
        func work(afterDays days: Int64 = 0, afterSeconds seconds: Int64 = 0) async throws {
            if days + seconds > 0 { try await pass(days: days, seconds: seconds) }
            while try await ledger.publishDueChanges(at: time.now) > 0 {}
            if try await jobs().allSatisfy({ $0.id.kind != .notificationHistory }) { try await reconciler.start() }
            while try await workOnce() {}
        }

        /// Does one job that is due, as a server that has just started.
        func workOnce() async throws -> Bool {
            try await JobRunner(
                ledger, Reconciler.jobs(of: [scope: reconciler]), now: { [time] in time.now }, onFailure: onFailure
            ).workOnce()
        }

        func jobs() async throws -> [Job] { try await ledger.jobs().items }

        func job(_ kind: Job.Kind) async throws -> Job? { try await jobs().first { $0.id.kind == kind } }

        /// The customer's first transaction.
        var transactionId: String {
            get async { await transport.store.world.history(of: "anna")[0].transaction.transactionId ?? "" }
        }

        /// Whether the ledger has all transactions, which are two pages, and the renewal info.
        var isWhole: Bool {
            get async throws {
                let all = await transport.store.world.history(of: "anna").compactMap(\.transaction.transactionId)
                try #require(21...40 ~= all.count)
                let chain = try await ledger.chain(ChainKey(all[0], in: scope))
                return Set(chain?.purchases.map(\.transactionId) ?? []) == Set(all) && chain?.renewal != nil
            }
        }

        var entitlements: Set<String> {
            get async throws {
                let account = await transport.store.world.customers["anna"]?.appAccountToken ?? ""
                let holdings = try await ledger.holdings(of: account, in: scope, at: time.now)
                return Set(holdings?.entitlements.map(\.name) ?? [])
            }
        }
    }

    /// An answer in the App Store's place; `nil` if the request reaches it.
    typealias Answer = @Sendable (APIRequest) throws -> APIAnswer?

    /// What was sent to the App Store.
    final class Counter: Sendable {
        private let sent = Mutex<[APIRequest]>([])
        private let milliseconds = Mutex<Int64>(0)
        /// How long each answer takes.
        var delay: Int64 {
            get { milliseconds.withLock { $0 } }
            set { milliseconds.withLock { $0 = newValue } }
        }
        /// In a structure: a function that a generic type stores by itself is wrapped again by each access.
        private struct Lie { var answer: Answer? }
        private let lie = Mutex(Lie())
        /// What somebody else answers in the App Store's place.
        var answer: Answer? {
            get { lie.withLock(\.answer) }
            set { lie.withLock { $0.answer = newValue } }
        }
        var requests: [APIRequest] { sent.withLock { $0 } }
        var count: Int { requests.count }
        func add(_ request: APIRequest) { sent.withLock { $0.append(request) } }
    }

    struct CountingTransport: AppStoreTransport {
        let inner: any AppStoreTransport
        let counter: Counter
        /// Passes while the App Store answers.
        let time: SharedTime

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> APIAnswer {
            counter.add(request)
            time.now.milliseconds += counter.delay
            do {
                if let answer = try counter.answer?(request) { return answer }
            } catch {
                // It is silence.
                time.now.milliseconds += timeout.components.seconds * 1000
                throw error
            }
            return try await inner.answer(to: request, in: environment, within: timeout)
        }
    }

    final class SharedTime: Sendable {
        private let time: Mutex<Timestamp>
        init(_ start: Timestamp) { time = Mutex(start) }
        var now: Timestamp {
            get { time.withLock { $0 } }
            set { time.withLock { $0 = newValue } }
        }
    }

    @Test func `a purchase whose notification was lost is found in the history, once`() async throws {
        let scene = try await Scene()
        try await scene.buy()
        try await scene.work()
        #expect(try await scene.entitlements == ["pro"])
        let events = try await scene.ledger.events(of: "com.example", limit: 100).events.count
        try await scene.work(afterSeconds: 1000)
        #expect(try await scene.ledger.events(of: "com.example", limit: 100).events.count == events)
    }

    @Test func `the first reading of a quiet half year takes a dozen requests, and each later one takes one`()
        async throws
    {
        let scene = try await Scene()
        try await scene.buy()
        try await scene.work()
        #expect(scene.requests.count <= 12)
        let before = scene.requests.count
        try await scene.work(afterSeconds: 1000)
        #expect(scene.requests.count == before + 1)
    }

    @Test func `a reading ends although time passes while the App Store answers`() async throws {
        let scene = try await Scene()
        try await scene.buy()
        scene.requests.delay = 7
        try await scene.work()
        #expect(scene.requests.count <= 12)
        #expect(try await scene.entitlements == ["pro"])
        try await scene.pass(seconds: 1000)
        let before = scene.requests.count
        try await scene.work()
        #expect(scene.requests.count == before + 1)
    }

    @Test func `a server that starts reads the history at once, unless another one is at it`() async throws {
        let scene = try await Scene()
        try await scene.work()
        let before = scene.requests.count
        try await scene.reconciler.start()
        try await scene.work()
        #expect(scene.requests.count == before + 1)
        try await scene.pass(seconds: 1000)
        let lease = scene.time.now.advanced(by: .seconds(120))
        let leased = try await scene.ledger.lease(
            .notificationHistory, in: scene.scope, until: lease, at: scene.time.now)
        try await scene.reconciler.start()
        #expect(try await scene.jobs().contains(leased[0]))
    }

    @Test func `a document that is not valid does not hold up the others in an answer about subscriptions`()
        async throws
    {
        let scene = try await Scene()
        try await scene.makeStale()
        let id = await scene.transport.store.world.subscriptions(of: "anna")[0]
        let key = await scene.transport.store.key
        let client = AppStoreClient(
            bundleId: "com.example", key: try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem),
            transport: SpoilingTransport(inner: scene.transport), now: { scene.time.now }, sleep: { _ in },
            random: SeededRandom(seed: 1))
        let reconciler = Reconciler(
            ledger: scene.ledger, verifier: scene.reconciler.verifier, client: client, scope: scene.scope,
            now: { scene.time.now })
        #expect(await reconciler.refresh([ChainKey(id, in: scene.scope)], within: .seconds(60)))
        #expect(try await scene.entitlements == ["pro"])
    }

    /// Puts a subscription with a token that nobody signed before the others.
    private struct SpoilingTransport: AppStoreTransport {
        let inner: SimulatedTransport

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> APIAnswer {
            var answer = try await inner.answer(to: request, in: environment, within: timeout)
            let text = String(decoding: answer.body, as: UTF8.self)
            let forged =
                #""lastTransactions":[{"status":1,"originalTransactionId":"1","signedTransactionInfo":"a.b.c"},"#
            answer.body = Array(text.replacing(#""lastTransactions":["#, with: forged).utf8)
            return answer
        }
    }

    @Test func `without a history a stale subscription is asked about, and not before its minute is over`() async throws
    {
        let scene = try await Scene()
        try await scene.makeStale()
        try await scene.work()
        try await scene.work(afterSeconds: 61)
        #expect(try await scene.entitlements == ["pro"])
        #expect(try await scene.job(.subscriptionStatus) == nil)
    }

    @Test func `an account that the App Store does not find ends no subscription`() async throws {
        let scene = try await Scene()
        try await scene.makeStale()
        await scene.transport.update { $0.faults.failNext[.statuses] = [.accountNotFound] }
        let id = await scene.transport.store.world.subscriptions(of: "anna")[0]
        try await scene.work()
        try await scene.work(afterSeconds: 61)
        let job = try #require(try await scene.job(.subscriptionStatus))
        #expect(job.failure?.contains("4040001") == true)
        let chain = try await scene.ledger.chain(ChainKey(id, in: Scene.scope))
        #expect(chain?.subscription(Catalogue(), at: scene.time.now)?.status == .stale)
        try await scene.work(afterDays: 1)
        #expect(try await scene.entitlements == ["pro"])
    }

    @Test func `a read of a stale customer asks at once, and many reads ask once`() async throws {
        let scene = try await Scene()
        try await scene.makeStale()
        let id = await scene.transport.store.world.subscriptions(of: "anna")[0]
        let key = ChainKey(id, in: Scene.scope)
        #expect(await scene.reconciler.refresh([key], within: .seconds(1)))
        #expect(await !scene.reconciler.refresh([key], within: .seconds(1)))
        #expect(try await scene.ledger.chain(key)?.subscription(Catalogue(), at: scene.time.now)?.status == .active)
    }

    @Test func `while the App Store fails the question is postponed with the reason, and nothing is lost`() async throws
    {
        let scene = try await Scene()
        try await scene.buy()
        await scene.transport.update { $0.faults.internalErrors = 1 }
        try await scene.work()
        let job = try #require(try await scene.job(.notificationHistory))
        #expect(job.failure?.contains("unavailable") == true)
        #expect(job.dueAt > scene.time.now)
        await scene.transport.update { $0.faults.internalErrors = 0 }
        try await scene.work(afterSeconds: 120)
        #expect(try await scene.entitlements == ["pro"])
        #expect(try await scene.jobs().allSatisfy { $0.failure == nil })
    }

    @Test func `the cursor says when the history was last read to its end, and keeps it while the App Store fails`()
        async throws
    {
        let scene = try await Scene()
        try await scene.reconciler.start()
        #expect(try await scene.jobs().compactMap(HistoryCursor.init).isEmpty)
        try await scene.work()
        let end = scene.time.now
        await scene.transport.update { $0.faults.internalErrors = 1 }
        try await scene.work(afterSeconds: 1000)
        let cursor = try #require(try await scene.jobs().compactMap(HistoryCursor.init).first)
        #expect(cursor.succeededAt == end)
        #expect(cursor.through == end)
    }

    @Test func `a document that cannot be verified is parked with the reason and does not hold up the cursor`()
        async throws
    {
        var scene = try await Scene(trusting: false)
        try await scene.buy()
        try await scene.work()
        let parked = try #require(try await scene.job(.parkedDocument))
        #expect(parked.failure?.hasPrefix("untrustedChain") == true)
        let history = try #require(try await scene.job(.notificationHistory))
        #expect(history.failure == nil)
        // Once the root is trusted, the document is taken in.
        let trusting = try await Scene()
        var reconciler = Reconciler(
            ledger: scene.ledger, verifier: trusting.reconciler.verifier, client: scene.reconciler.client,
            scope: Scene.scope, now: { [time = scene.time] in time.now })
        reconciler.historyInterval = .seconds(1_000_000_000)
        try await scene.pass(days: 2)
        scene.reconciler = reconciler
        while try await scene.workOnce() {}
        #expect(try await scene.job(.parkedDocument) == nil)
        #expect(try await scene.entitlements == ["pro"])
    }
}
