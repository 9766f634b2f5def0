// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
package import PurchaseLedger
import ReceiptCoding

/// Fills a ledger with every kind of record that a server writes.
package struct FilledLedger {
    package static let scope = LedgerScope(bundleId: RandomWorld.app.bundleId, environment: .production)
    private static let other = LedgerScope(bundleId: "com.example.other", environment: .sandbox)
    package static let rules = LedgerRules(
        catalogues: [scope.bundleId: Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero)],
        claimPolicy: .share)

    private let ledger: Ledger
    private let store: TestStore
    /// When the last thing happened.
    private var now = RandomWorld.start

    /// Fills a ledger.
    ///
    /// - Parameter days: How long customers live. What happens to them is the same for the same number.
    /// - Returns: When the last thing happened.
    @discardableResult
    package static func fill(
        _ storage: any LedgerStorage, of store: TestStore, days: Int64 = 60
    ) async throws -> Timestamp {
        var filling = FilledLedger(ledger: Ledger(storage: storage, rules: rules), store: store)
        try await filling.live(days)
        try await filling.migrate()
        try await filling.presentReceipt()
        try await filling.restoreWithRenewal()
        try await filling.presentAppTransactions()
        try await filling.erase()
        try await filling.addRest()
        return filling.now
    }

    private init(ledger: Ledger, store: TestStore) {
        (self.ledger, self.store) = (ledger, store)
    }

    private mutating func wait(days: Double = 1) {
        now = Timestamp(milliseconds: now.milliseconds + Int64(days * 86_400_000))
    }

    /// Families, refunds, offers, and notifications about all of it, of which the customers claim what is theirs.
    private mutating func live(_ days: Int64) async throws {
        _ = try await ledger.publishCatalogueChanges(at: now)
        var life = try RandomWorld(seed: 11, newCustomers: 5)
        life.world.sendTestNotification(in: .production)
        try life.world.rescindConsent(of: "customer 1")
        try life.world.buy("coins", by: "customer 0")
        try life.world.buy("gold.month", by: "customer 0")
        for _ in 0..<40 { life.step(hours: 2 * 24 * days / 40) }
        for occurrence in life.world.occurrences {
            now = max(now, occurrence.date)
            try await record(notification: store.signer.notification(occurrence, from: life.world.catalogue))
            _ = try await ledger.publishDueChanges(at: now)
            guard let id = occurrence.transaction?.transactionId, let owner = occurrence.customer else { continue }
            let token = try life.world.transaction(id).map { try store.signer.sign($0, at: now) } ?? ""
            if occurrence.environment == .production { try await record(token, claimedBy: "user \(owner)") }
        }
        for name in ["customer 0", "customer 1"] {
            guard let receipt = life.world.receipt(of: name) else { continue }
            let document = try store.signer.sign(receipt, at: now)
            try await record(receipt: document, claimedBy: "user \(name)")
        }
        _ = try await ledger.addAlias("the first", to: "user customer 0", in: Self.scope, at: now)
        _ = try await ledger.addAlias("the second", to: "the first", in: Self.scope, at: now)
    }

    /// The App Store gives a subscription another id.
    private mutating func migrate() async throws {
        try await record(token("300"), claimedBy: "moving")
        try await record(token("301", original: "310") { $0.previousOriginalTransactionId = "300" })
    }

    /// One receipt with the purchases of two customers.
    private mutating func presentReceipt() async throws {
        let purchases = ["320", "321"].map { TestStore.purchase($0) }
        let receipt = try store.signer.sign(TestStore.receipt(purchases, created: 3), at: now)
        try await record(receipt: receipt, claimedBy: "reader")
    }

    /// Renewal info that arrived beside a transaction, as in an answer of the App Store Server API.
    private mutating func restoreWithRenewal() async throws {
        let verifier = store.verifier()
        let transaction = try await verifier.verify(
            Array(token("330").utf8), as: JWSTransactionDecodedPayload.self, at: now)
        let renewal = try await verifier.verify(
            Array(store.signer.sign(TestStore.renewal(original: "330"), at: now).utf8),
            as: JWSRenewalInfoDecodedPayload.self, at: now)
        let documents = [Evidence(transaction), Evidence(renewal, boundBy: transaction)].compactMap(\.self)
        _ = try await ledger.record(documents, claimedBy: "restored", at: now)
    }

    /// Purchases of the app itself, of which one is erased.
    private mutating func presentAppTransactions() async throws {
        for (id, customer) in [("700", "restored"), ("701", "guest")] {
            let token = try store.signer.sign(TestStore.appTransaction(id), at: now)
            let document = try await store.verifier().evidence(appTransaction: token, at: now)
            _ = try await ledger.record([document], claimedBy: customer, at: now)
        }
        wait()
        _ = try await ledger.delete("guest", in: Self.scope, at: now)
    }

    /// Customers of whose purchases facts without names stay.
    private mutating func erase() async throws {
        try await record(token("340") { $0.revocationDate = TestStore.day(5) }, claimedBy: "refunded")
        try await record(token("341"), claimedBy: "gone")
        try await record(token("342"), claimedBy: "back")
        wait()
        for id in ["refunded", "gone", "back"] {
            _ = try await ledger.delete(id, in: Self.scope, at: now)
        }
        try await record(token("342"), claimedBy: "back again")
    }

    /// Keys, jobs, consent, grants, another app, and the erasure of the oldest events.
    private mutating func addRest() async throws {
        var random = SeededRandom(seed: 7)
        for name in ["one", "two", "three"] {
            let key = APIKey.make(name: name, role: .server, bundleId: Self.scope.bundleId, at: now, using: &random)
            try await ledger.put(key.key)
            if name == "one" {
                var revoked = key.key
                revoked.revokedAt = now
                try await ledger.put(revoked)
            }
        }
        let kind = Job.Kind(rawValue: "consumption")
        let parked = Job(
            Job.ID(kind, "a name", in: Self.scope), dueAt: Timestamp(milliseconds: .max), attempts: 9,
            payload: [0, 1, 255], failure: "It was refused.")
        try await ledger.add(parked, at: now)
        try await ledger.add(Job(Job.ID(kind, "leased", in: Self.other), dueAt: now), at: now)
        let end = Timestamp(milliseconds: now.milliseconds + 60_000)
        _ = try await ledger.lease(kind, in: Self.other, until: end, at: now)
        _ = try await ledger.recordConsent(true, of: "moving", in: Self.scope, at: now)
        for (id, days) in [("endless", nil), ("ended", nil), ("ending", 30)] as [(String, Int64?)] {
            let until = days.map { now.advanced(by: .seconds($0 * 86_400)) }
            let request = GrantRequest(id: id, entitlement: "pro", until: until, why: "a test")
            _ = try await ledger.make(request, forCustomer: "moving", of: Self.scope.bundleId, at: now)
        }
        _ = try await ledger.endGrant(
            "ended", ofCustomer: "moving", of: Self.scope.bundleId, by: CustomerGrant.Author(name: "anna"), at: now)
        try await ledger.setAttributes(
            [.init("$email", "moving@example.com"), .init("plan", "é"), .init("gone", nil)], of: "moving",
            in: Self.scope.bundleId, at: now)
        try await addWebhook()
        try await record(
            token("350") { payload in
                (payload.bundleId, payload.environment) = (Self.other.bundleId, Open(.sandbox))
            }, claimedBy: "elsewhere")
        let oldest = try await ledger.events(of: Self.scope.bundleId, limit: 100).events
        guard oldest.count > 20 else { throw TooFewEvents() }
        _ = try await ledger.eraseEvents(before: oldest[10].recordedAt, limit: 5000)
    }

    /// A webhook with an event that waits for an attempt, one that was set aside, and some attempts.
    private func addWebhook() async throws {
        let app = Self.scope.bundleId
        let endpoint = WebhookEndpoint(
            id: "hook", of: app, url: "https://example.com/é", kinds: ["purchase.made"], environment: .production,
            isOrdered: true, isAsymmetric: true, createdAt: now)
        _ = try await ledger.addWebhook(endpoint, fingerprint: "print", at: now)
        let end = now.advanced(by: Job.lease)
        guard let job = try await ledger.leaseWebhook("hook", of: app, until: end, at: now),
            let progress = try await ledger.webhookProgress(of: "hook", of: app)
        else { throw NoWebhook() }
        let events = try await ledger.events(of: app, limit: 100).events.suffix(2).compactMap(\.cursor)
        let failed = events.enumerated().map { index, event in
            FailedDelivery(
                of: event, to: "hook", of: app, lane: index, attempts: index + 1, dueAt: index == 0 ? end : nil,
                failedAt: now, reason: "The answer was 500.")
        }
        let attempts = events.map {
            WebhookAttempt(of: $0, at: now, milliseconds: 3, status: 500, failure: "500", answer: "“no”")
        }
        let results = WebhookResults(progress: progress, failed: failed, attempts: attempts)
        _ = try await ledger.commitWebhook(job, results, to: endpoint, until: end, at: now)
    }

    private struct NoWebhook: Error {}

    private struct TooFewEvents: Error {}

    // MARK: Documents

    private func token(
        _ id: String, original: String? = nil, _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        try store.signer.sign(TestStore.transaction(id, original: original, change), at: now)
    }

    private func record(_ token: String, claimedBy claimant: String? = nil) async throws {
        let document = try await store.verifier().evidence(transaction: token, at: now)
        _ = try await ledger.record([document], claimedBy: claimant, at: now)
    }

    private func record(notification token: String) async throws {
        let document = try await store.verifier().evidence(notification: token, at: now)
        _ = try await ledger.record([document], at: now)
    }

    private func record(receipt: [UInt8], claimedBy claimant: String) async throws {
        let document = try await store.verifier().evidence(receipt: receipt, at: now)
        _ = try await ledger.record([document], claimedBy: claimant, at: now)
    }
}

/// Everything in a ledger that its answers depend on, read without the code that copies it.
package struct LedgerContent: Hashable {
    package var customers: Set<CustomerRecord> = []
    package var chains: [ChainKey: ChainRecord] = [:]
    package var evidence: [ChainKey: Set<DocumentReference>] = [:]
    package var documents: Set<StoredDocument> = []
    package var records: Set<LedgerRecord> = []
    package var events: [String: [LedgerEvent]] = [:]
    package var erasedEvents: [String: Int64] = [:]

    package init(of storage: any LedgerStorage) async throws {
        customers = Set(try await storage.customers(after: nil, limit: 100_000).items)
        let keys = Set(try await storage.chains(.all, limit: 100_000))
        let snapshot = try await storage.load(LedgerQuery(keys.flatMap { [.chain($0), .evidence($0)] }))
        (chains, evidence) = (snapshot.chains, snapshot.evidence.mapValues { Set($0) }.filter { !$0.value.isEmpty })
        documents = Set(try await storage.documents(.all, limit: 100_000))
        records = Set(try await storage.records(RecordSelection(), limit: 100_000))
        let apps = Set(customers.map(\.customer.bundleId) + keys.map(\.scope.bundleId))
        for app in apps { events[app] = try await storage.events(of: app, after: nil, limit: 100_000).events }
        erasedEvents = try await storage.marks().erasedEvents
    }

    /// The records that are jobs.
    package var jobs: [Job] { records.compactMap { try? Job($0) } }

    /// The records that are API keys.
    package var apiKeys: [APIKey] { records.compactMap { try? APIKey($0) }.sorted { $0.createdAt < $1.createdAt } }
}
