// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Tests that the events about payments have everything that a simulated App Store charged, refunded and reversed.
@Suite struct PaymentYearTests {
    @Test(arguments: Seeds.first(3, soak: 30))
    func `the payments in events are what the App Store charged and did not refund`(seed: UInt64) async throws {
        var year = try PaymentYear(seed: seed, customers: 30)
        try await year.run(steps: 400)
        try await year.expectEqualSums()
    }

    @Test(.takesLong) func `also those of 300 customers, with each kind of event`() async throws {
        var year = try PaymentYear(seed: 7, customers: 300)
        try await year.run(steps: 6000)
        let found = try await year.expectEqualSums()
        let kinds = LedgerEvent.Kind.allCases.filter(\.isAboutPayment)
        #expect(Set(found.compactMap(\.kind.known)) == Set(kinds))
        let details = found.compactMap(\.content?.details)
        #expect(details.contains { $0.repeated == true } && details.contains { $0.backfilled == true })
        #expect(details.contains { $0.isTrialConversion == true })
    }
}

/// A year with outages, in which documents arrive late, twice and in every order, and customers are merged, deleted and
/// come back. In the end the App Store was asked for everything.
private struct PaymentYear {
    private var life: RandomWorld
    private var random: SeededRandom
    private let store: TestStore
    private let verifier: AppStoreVerifier
    private let ledger: Ledger
    /// What occurred during an outage.
    private var unheard: [Occurrence] = []

    private static let scope = LedgerScope(bundleId: RandomWorld.app.bundleId, environment: .production)

    init(seed: UInt64, customers: Int) throws {
        life = try RandomWorld(seed: seed, newCustomers: customers)
        random = SeededRandom(seed: ~seed)
        store = try TestStore()
        verifier = store.verifier()
        let products = ["silver.week", "silver.month", "gold.month", "gold.year"]
        let catalogue = Catalogue(
            products: Dictionary(uniqueKeysWithValues: products.map { ($0, .init(entitlements: ["pro"])) }))
        ledger = Ledger(
            storage: MemoryLedgerStorage(),
            rules: LedgerRules(catalogues: [Self.scope.bundleId: catalogue], claimPolicy: .transfer))
    }

    private var now: Timestamp { life.world.now }

    private mutating func happens(oneOf count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    /// Of each sixty days, twelve have an outage.
    private var isDown: Bool {
        (now.milliseconds - RandomWorld.start.milliseconds) / 86_400_000 % 60 >= 48
    }

    mutating func run(steps: Int64) async throws {
        for _ in 0..<steps {
            let before = life.world.occurrences.count
            // Half of it on average.
            life.step(hours: 2 * 24 * 365 / steps)
            let new = life.world.occurrences.dropFirst(before)
            if isDown {
                unheard += new
            } else {
                for occurrence in unheard where happens(oneOf: 2) { try await hear(occurrence) }
                unheard = []
                for occurrence in new { try await hear(occurrence) }
            }
            while try await ledger.publishDueChanges(at: now) >= 500 {}
            if happens(oneOf: 3) { try await act() }
        }
        // Whatever the App Store signs now, it signs after the last deletion.
        life.world.advance(to: now.advanced(by: .seconds(1)))
        for name in names { try await backfill(name) }
    }

    private func hear(_ occurrence: Occurrence) async throws {
        let token = try store.signer.notification(occurrence, from: life.world.catalogue)
        let verified = try await verifier.verify(notification: token.utf8, at: occurrence.date)
        guard let evidence = Evidence(verified) else { return }
        _ = try await ledger.record([evidence], at: now)
    }

    // MARK: - What else happens

    private var names: [String] { life.world.customers.values.map(\.name).sorted() }

    private mutating func user() -> String { "user \(Int.random(in: 0..<names.count, using: &random))" }

    private mutating func account() -> String {
        life.world.customers.values.compactMap(\.appAccountToken).sorted().randomElement(using: &random) ?? ""
    }

    private mutating func act() async throws {
        let name = names.randomElement(using: &random) ?? ""
        let payload = life.world.history(of: name).randomElement(using: &random)?.transaction
        switch Int.random(in: 0..<9, using: &random) {
        case 0: try await present(receiptOf: name, by: nil)
        case 1: try await present(receiptOf: name, by: user())
        case 2: if let payload { try await record([payload], claimedBy: user()) }
        case 3: _ = try await ledger.addAlias(user(), to: user(), in: Self.scope, at: now)
        case 4: _ = try await ledger.addAlias(account(), to: user(), in: Self.scope, at: now)
        case 5: _ = try await ledger.delete(user(), in: Self.scope, at: now)
        case 6: _ = try await ledger.delete(account(), in: Self.scope, at: now)
        case 7: try await backfill(name)
        default: if let payload { try await migrate(payload) }
        }
    }

    private func present(receiptOf name: String, by user: String?) async throws {
        guard let receipt = life.world.receipt(of: name) else { return }
        let evidence = try await verifier.evidence(receipt: store.signer.sign(receipt, at: now), at: now)
        _ = try await ledger.record([evidence], claimedBy: user, at: now)
    }

    private func backfill(_ name: String) async throws {
        try await record(life.world.history(of: name).map(\.transaction), isBackfill: true)
    }

    private func migrate(_ payload: JWSTransactionDecodedPayload) async throws {
        guard payload.type == .autoRenewableSubscription else { return }
        var payload = payload
        payload.previousOriginalTransactionId = payload.originalTransactionId
        payload.originalTransactionId = payload.transactionId
        try await record([payload])
    }

    private func record(
        _ payloads: [JWSTransactionDecodedPayload], claimedBy user: String? = nil, isBackfill: Bool = false
    ) async throws {
        var documents: [Evidence] = []
        for payload in payloads {
            let token = try store.signer.sign(payload, at: now)
            documents.append(try await verifier.evidence(transaction: token, at: now))
        }
        _ = try await ledger.record(documents, claimedBy: user, isBackfill: isBackfill, at: now)
    }

    // MARK: - Sums

    /// What was paid and what was refunded, in thousandths, by environment and currency.
    private struct Sums: Equatable {
        var paid: [String: Int64] = [:]
        var refunded: [String: Int64] = [:]

        mutating func add(_ price: Int64, _ key: String, refunded percentage: Int?) {
            paid[key, default: 0] += price
            refunded[key, default: 0] += price * Int64(percentage ?? 0) / 100_000
        }
    }

    /// The last that events say of a payment.
    private struct Payment {
        var price: Int64
        var key: String
        var refunded: Int?
    }

    /// Expects that the events have the sums of the App Store, and each of its transactions once.
    ///
    /// - Returns: The events about payments.
    @discardableResult
    func expectEqualSums() async throws -> [LedgerEvent] {
        var expected = Sums()
        var ids: Set<String> = []
        for transaction in names.flatMap({ life.world.history(of: $0) }).map(\.transaction) {
            ids.insert("\(transaction.environment?.rawValue ?? "") \(transaction.transactionId ?? "")")
            guard let price = transaction.price, let currency = transaction.currency else { continue }
            let refunded = transaction.revocationDate.map { _ in transaction.revocationPercentage ?? 100_000 }
            expected.add(price, "\(transaction.environment?.rawValue ?? "") \(currency)", refunded: refunded)
        }
        let events = try await payments()
        var found = Sums()
        for payment in Self.payments(events).values {
            found.add(payment.price, payment.key, refunded: payment.refunded)
        }
        #expect(found == expected && !expected.paid.isEmpty)
        let recorded = events.filter { $0.kind == .transactionRecorded && $0.content?.details?.repeated != true }
            .map { "\($0.scope.environment.rawValue) \($0.content?.transactionId ?? "")" }
        #expect(recorded.count == Set(recorded).count && Set(recorded) == ids)
        return events
    }

    private func payments() async throws -> [LedgerEvent] {
        var found: [LedgerEvent] = []
        var cursor: EventCursor?
        while true {
            let page = try await ledger.events(of: Self.scope.bundleId, after: cursor, limit: 10_000)
            guard !page.events.isEmpty else { return found }
            found += page.events.filter { $0.kind.known?.isAboutPayment == true }
            cursor = page.next
        }
    }

    /// The payments as docs/events.md says how to count them: of each transaction the last event counts, and an event
    /// without a price leaves the price as it is.
    private static func payments(_ events: [LedgerEvent]) -> [String: Payment] {
        var payments: [String: Payment] = [:]
        for event in events {
            guard let content = event.content, let id = content.transactionId, let details = content.details else {
                continue
            }
            let environment = event.scope.environment.rawValue
            let known = payments["\(environment) \(id)"]
            guard let price = details.price ?? known?.price,
                let key = details.currency.map({ "\(environment) \($0)" }) ?? known?.key
            else { continue }
            let isRefunded = details.revocationDate != nil && details.inAppOwnershipType != .familyShared
            payments["\(environment) \(id)"] = Payment(
                price: price, key: key, refunded: isRefunded ? details.revocationPercentage ?? 100_000 : nil)
        }
        return payments
    }
}
