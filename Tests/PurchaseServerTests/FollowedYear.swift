// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import NIOPosix
import PurchaseLedger
import PurchaseServer
import Synchronization
import TestData
import TestWorld
import Testing

/// A simulated time in which customers buy, upgrade and ask for refunds; their backend claims purchases, makes grants,
/// merges and deletes customers, and corrects the ledger; a follower reads the events. ``FollowerTests`` compare the
/// pages that the follower read with the answers of the API at the same time.
struct FollowedYear {
    /// Lines of JSON: pages of events, pages of customers with which the follower begins again, and tables.
    private(set) var lines: [String] = []
    /// The events, by kind.
    private(set) var kinds: [String: [JSONValue]] = [:]
    /// The number of tables.
    private(set) var tables = 0

    /// Called with the ids of all events and with each table, before the table is kept.
    var onTable: (@Sendable (_ events: Set<String>, _ table: String) async throws -> Void)?

    private var events: RandomWorld
    private var random: SeededRandom
    private let store: TestStore
    private let verifier: AppStoreVerifier
    let ledger: Ledger
    private let clock = SetClock(RandomWorld.start)
    private let application: Application<DeclaredAnswers>
    private let key: String
    private let jobs: JobRunner
    private let end: Timestamp
    private let hours: Int64
    private var cursor: String?
    private var unchecked = 0
    private var hasLostCursor = false
    private var grants = 0
    private var denied: [TransactionKey] = []
    private var aliases: [(alias: String, id: String)] = []

    private static let scope = LedgerScope(bundleId: RandomHistory.bundleId, environment: .production)

    /// The catalogue of the histories, with an entitlement for those who bought the app early.
    private static let catalogue: Catalogue = {
        var catalogue = RandomHistory.catalogue
        catalogue.appPurchase = [AppPurchaseRule(beforeVersion: AppVersion("20"), entitlements: ["pioneer"])]
        return catalogue
    }()

    /// A clock that the test sets.
    private final class SetClock: Sendable {
        private let instant: Mutex<Timestamp>
        init(_ instant: Timestamp) { self.instant = Mutex(instant) }
        var now: Timestamp {
            get { instant.withLock { $0 } }
            set { instant.withLock { $0 = newValue } }
        }
    }

    /// - Parameter steps: The number of things that customers and the App Store do.
    init(seed: UInt64, customers: Int, days: Int64, steps: Int64) async throws {
        store = try RandomHistory.store.get()
        verifier = store.verifier()
        random = SeededRandom(seed: ~seed)
        events = try RandomWorld(seed: seed, newCustomers: customers)
        end = RandomWorld.start.advanced(by: .seconds(days * 86_400))
        hours = max(1, 2 * 24 * days / steps)
        var rules = LedgerRules(catalogues: [RandomHistory.bundleId: Self.catalogue], claimPolicy: .transfer)
        rules.asksAppStore = [RandomHistory.bundleId]
        ledger = Ledger(storage: MemoryLedgerStorage(), rules: rules)
        var service = LedgerService(ledger: ledger, verifier: verifier)
        service.apps = [RandomHistory.bundleId: AppConfiguration(AppIdentity(bundleId: RandomHistory.bundleId))]
        let clock = clock
        jobs = JobRunner(ledger, [ledger.grantEnds(in: [Self.scope], now: { clock.now })], now: { clock.now })
        application = checkedApplication(
            of: ServerApplication(ledger: service, requestSeed: seed, now: { clock.now }, logger: .quiet))
        let (key, text) = APIKey.make(
            name: "follower", role: .server, bundleId: RandomHistory.bundleId, at: clock.now, using: &random)
        try await ledger.put(key)
        self.key = text
    }

    /// A time of the usual size: a year with `QUITTANCE_SOAK`.
    static func usual(seed: UInt64) async throws -> FollowedYear {
        if Seeds.isSoak { return try await FollowedYear(seed: seed, customers: 300, days: 365, steps: 6000) }
        return try await FollowedYear(seed: seed, customers: 60, days: 120, steps: 900)
    }

    /// The number of tables that a time of the usual size has at least.
    static let usualTables = 10

    mutating func run() async throws {
        try await commit()
        try await changeSettings()
        while clock.now < end {
            let before = events.world.occurrences.count
            events.step(hours: hours)
            for occurrence in events.world.occurrences.dropFirst(before) { try await record(occurrence) }
            try await pass(to: events.world.now)
            if happens(oneOf: 3) { try await actAsBackend() }
            try await follow(atLeast: 100)
            if !hasLostCursor, clock.now > end.advanced(by: .seconds(-30 * 86_400)) { try await beginAgain() }
        }
        try await follow(atLeast: 1)
    }

    /// Restores the ledger as of a day after the end, and follows its events.
    mutating func restore() async throws {
        clock.now = end.advanced(by: .seconds(86_400))
        try await grant()
        try await ledger.storage.beginEpoch(at: clock.now)
        try await follow(atLeast: 1)
    }

    /// A customer commits to a year of monthly payments, cancels and changes their mind.
    private mutating func commit() async throws {
        let customer = "customer 4"
        let before = events.world.occurrences.count
        _ = try? events.world.buy("gold.year", by: customer, PurchaseOptions(isMonthly: true))
        for isCancelled in [true, false] {
            guard let id = events.world.subscriptions(of: customer).first else { return }
            events.world.advance(to: events.world.now.advanced(by: .seconds(3600)))
            if isCancelled { try? events.world.cancel(id) } else { try? events.world.resume(id) }
        }
        for occurrence in events.world.occurrences.dropFirst(before) { try await record(occurrence) }
    }

    /// What no document tells: attributes and a consent of a customer who buys nothing, and another configuration.
    private func changeSettings() async throws {
        let (id, app, now) = ("user 40", RandomHistory.bundleId, clock.now)
        try await ledger.setAttributes([.init("plan", "a"), .init("$email", nil)], of: id, in: app, at: now)
        for isGiven in [true, false] {
            _ = try await ledger.recordConsent(isGiven, of: id, in: Self.scope, at: now)
        }
        for access in ["none", "all"] {
            try await ledger.publish([SandboxSetting(access, listed: [], of: app)], at: now)
        }
    }

    private mutating func happens(oneOf count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    // MARK: - What happens

    private func pass(to instant: Timestamp) async throws {
        clock.now = instant
        while try await ledger.publishDueChanges(at: instant) >= 500 {}
        while try await jobs.workOnce() {}
    }

    /// Records most notifications. Of some purchases only the receipt arrives, and of others nothing.
    private mutating func record(_ occurrence: Occurrence) async throws {
        try await pass(to: occurrence.date)
        if happens(oneOf: 12) {
            if happens(oneOf: 2) { try await recordReceipt(at: occurrence.date, claimedBy: nil) }
            return
        }
        let token = try store.signer.notification(occurrence, from: events.world.catalogue)
        let verified = try await verifier.verify(notification: token.utf8, at: occurrence.date)
        guard let evidence = Evidence(verified) else { return }
        _ = try await ledger.record([evidence], at: occurrence.date)
    }

    /// The id of a customer in the backend.
    private mutating func user() -> String { "user \(Int.random(in: 0..<40, using: &random))" }

    private mutating func account() -> String {
        events.world.customers.values.compactMap(\.appAccountToken).sorted().randomElement(using: &random) ?? ""
    }

    private mutating func actAsBackend() async throws {
        switch Int.random(in: 0..<22, using: &random) {
        case 12..<15: try await grant()
        case 15: try await endGrant()
        case 16..<18: try await presentApp(by: user())
        case 18..<22: try await correct()
        case 0..<6: try await claim(by: user())
        case 10: try await recordReceipt(at: clock.now, claimedBy: user())
        case 11: try await migrate()
        case 6: try await addAlias(user(), to: user())
        case 7: try await addAlias(account(), to: user())
        case 8: _ = try await ledger.delete(user(), in: Self.scope, at: clock.now)
        default: _ = try await ledger.delete(account(), in: Self.scope, at: clock.now)
        }
    }

    private mutating func addAlias(_ alias: String, to id: String) async throws {
        if try await ledger.addAlias(alias, to: id, in: Self.scope, at: clock.now) { aliases.append((alias, id)) }
    }

    private mutating func claim(by user: String) async throws {
        guard let payload = payload() else { return }
        let token = try store.signer.sign(payload, at: clock.now)
        let evidence = try await verifier.evidence(transaction: token, at: clock.now)
        _ = try await ledger.record([evidence], claimedBy: user, at: clock.now)
    }

    private mutating func grant() async throws {
        grants += 1
        let days = [1, 10, 40, nil].randomElement(using: &random) ?? nil
        let name = ["pro", "plus", "book", "friend"].randomElement(using: &random) ?? ""
        let request = GrantRequest(
            id: "grant-\(grants)", entitlement: name,
            until: days.map { clock.now.advanced(by: .seconds($0 * 86_400)) }, why: "a present")
        _ = try await ledger.make(request, forCustomer: user(), of: RandomHistory.bundleId, at: clock.now)
    }

    private mutating func endGrant() async throws {
        let user = user()
        let known = try await ledger.grants(ofCustomer: user, of: RandomHistory.bundleId)
        guard let grant = known.randomElement(using: &random) else { return }
        _ = try await ledger.endGrant(
            grant.id, ofCustomer: user, of: RandomHistory.bundleId, by: CustomerGrant.Author(name: "anna"),
            at: clock.now)
    }

    private mutating func presentApp(by user: String) async throws {
        let number = Int.random(in: 1...60, using: &random)
        let token = try store.signer.sign(
            TestStore.appTransaction("\(7000 + number)", version: "\(number)"), at: clock.now)
        let evidence = try await verifier.evidence(appTransaction: token, at: clock.now)
        _ = try await ledger.record([evidence], claimedBy: user, at: clock.now)
    }

    private mutating func correct() async throws {
        guard let correction = Correction(by: "backend", reason: "a mistake") else { return }
        let transaction = TransactionKey(payload()?.transactionId ?? "", in: Self.scope)
        switch Int.random(in: 0..<6, using: &random) {
        case 0: _ = try await ledger.move(transaction, to: [user()], correction, at: clock.now)
        case 1: _ = try await ledger.move(transaction, to: [user(), account()], correction, at: clock.now)
        case 2:
            denied.append(transaction)
            _ = try await ledger.deny(transaction, correction, at: clock.now)
        case 3:
            guard !denied.isEmpty else { return }
            _ = try await ledger.allow(denied.removeFirst(), correction, at: clock.now)
        case 4:
            guard let alias = aliases.randomElement(using: &random)?.alias else { return }
            _ = try await ledger.undoMerge(of: alias, in: Self.scope, correction, at: clock.now)
        default:
            guard let (alias, id) = aliases.randomElement(using: &random) else { return }
            _ = try await ledger.removeAlias(alias, from: id, in: Self.scope, correction, at: clock.now)
        }
    }

    private mutating func payload() -> JWSTransactionDecodedPayload? {
        let name = events.world.customers.values.map(\.name).sorted().randomElement(using: &random) ?? ""
        return events.world.history(of: name).randomElement(using: &random)?.transaction
    }

    private mutating func recordReceipt(at date: Timestamp, claimedBy user: String?) async throws {
        let name = events.world.customers.values.map(\.name).sorted().randomElement(using: &random) ?? ""
        guard let receipt = events.world.receipt(of: name) else { return }
        let evidence = try await verifier.evidence(receipt: store.signer.sign(receipt, at: date), at: date)
        _ = try await ledger.record([evidence], claimedBy: user, at: date)
    }

    /// Records that the App Store gave a subscription a new original transaction id.
    private mutating func migrate() async throws {
        guard var payload = payload(), payload.type == .autoRenewableSubscription else { return }
        payload.previousOriginalTransactionId = payload.originalTransactionId
        payload.originalTransactionId = payload.transactionId
        let token = try store.signer.sign(payload, at: clock.now)
        _ = try await ledger.record([verifier.evidence(transaction: token, at: clock.now)], at: clock.now)
    }

    // MARK: - What the follower reads

    /// Reads the events that the follower has not read. Once there were enough of them, also writes the table.
    private mutating func follow(atLeast count: Int) async throws {
        repeat {
            let path = "/v1/events?limit=500" + (cursor.map { "&after=\($0)" } ?? "")
            let page = try await get(path)
            cursor = page["nextCursor"]?.string
            let items = page["items"]?.array ?? []
            unchecked += items.count
            for item in items { kinds[item["kind"]?.string ?? "", default: []].append(item) }
            lines.append(page.compactText)
            guard items.count == 500 else { break }
        } while true
        guard unchecked >= count else { return }
        unchecked = 0
        tables += 1
        let table = try await table().compactText
        try await onTable?(Set(kinds.values.joined().compactMap { $0["id"]?.string }), table)
        lines.append(table)
    }

    /// A service that delivers the events to an endpoint.
    ///
    /// - Parameter now: The time of the deliveries. That of the customers jumps over days in which nothing is tried.
    func webhooks(
        to endpoint: WebhookEndpoint, now: @escaping @Sendable () -> Timestamp
    ) async throws -> WebhookService {
        var service = LedgerService(ledger: ledger, verifier: verifier)
        service.apps = [RandomHistory.bundleId: AppConfiguration(AppIdentity(bundleId: RandomHistory.bundleId))]
        service.webhookNetworks = try [#require(IPNetwork("127.0.0.0/8"))]
        let secrets = try WebhookSecrets(file: Array(repeating: 7, count: 32))
        service.webhookSecrets = secrets
        _ = try await ledger.addWebhook(endpoint, fingerprint: secrets.fingerprint, at: clock.now)
        // Decisions in memory take long on this loop, and would keep the senders of other tests from their time limits.
        let sender = WebhookSender(
            networks: service.webhookNetworks, clock: ContinuousClock(), limit: .seconds(3600), on: Self.loop)
        let parts = WebhookParts(
            service, sender: sender, gathering: .zero, wall: now, clock: QuickClock(), logger: .quiet)
        return WebhookService(parts, of: service, interval: .milliseconds(20))
    }

    /// A clock whose second is a twentieth of a second: deliveries are stored, and failed ones noticed, once a second.
    private struct QuickClock: Clock {
        private static let speed = 20
        private static let start = ContinuousClock.now

        var now: ContinuousClock.Instant { Self.start + (ContinuousClock.now - Self.start) * Self.speed }
        var minimumResolution: Duration { ContinuousClock().minimumResolution }

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            try await ContinuousClock().sleep(for: (deadline - now) / Self.speed)
        }
    }

    private static let loop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()

    /// The entitlements of all customers, by the first id and the name.
    private func table() async throws -> JSONValue {
        var customers: [JSONValue.Member] = []
        for customer in try await customerPages().flatMap({ $0["items"]?.array ?? [] }) {
            let entitlements = (customer["entitlements"]?.array ?? []).map { entitlement in
                JSONValue.Member(entitlement["name"]?.string ?? "", entitlement["until"] ?? .null)
            }
            let id = customer["ids"]?.array?.first?.string ?? ""
            if !entitlements.isEmpty { customers.append(.init(id, .object(entitlements))) }
        }
        return .object([
            .init("now", .number("\(clock.now.milliseconds)")), .init("table", .object(customers)),
        ])
    }

    private func customerPages() async throws -> [JSONValue] {
        var pages = [try await get("/v1/customers")]
        while let next = pages.last?["nextCursor"]?.string {
            pages.append(try await get("/v1/customers?after=\(next)"))
        }
        return pages
    }

    /// Loses the cursor after some events that the follower does not read, and begins again with the customers. Further
    /// events occur between the pages of customers and the first page of events.
    private mutating func beginAgain() async throws {
        hasLostCursor = true
        for _ in 0..<20 {
            events.step(hours: hours)
            try await pass(to: max(clock.now, events.world.now))
            try await actAsBackend()
        }
        let pages = try await customerPages()
        lines.append(JSONValue.object([.init("begin", .array(pages))]).compactText)
        cursor = pages.first?["eventsCursor"]?.string
        for _ in 0..<5 { try await actAsBackend() }
    }

    private func get(_ path: String) async throws -> JSONValue {
        try await application.test(.router) { client in
            let response = try await client.execute(
                uri: path, method: .get, headers: [.authorization: "Bearer \(key)"])
            return try JSONValue(parsing: response.body.readableBytesView)
        }
    }
}
