// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreSimulator
package import AppStoreTrust
package import PurchaseLedger

/// A year with outages, in which documents arrive late, twice and in every order, and customers are merged, deleted and
/// come back. In the end the App Store was asked for everything.
package struct RandomYear {
    private var life: RandomWorld
    private var random: SeededRandom
    package let store: TestStore
    package let verifier: AppStoreVerifier
    package let ledger: Ledger
    /// What occurred during an outage.
    private var unheard: [Occurrence] = []

    package static let scope = LedgerScope(bundleId: RandomWorld.app.bundleId, environment: .production)

    package init(seed: UInt64, customers: Int) throws {
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

    package var now: Timestamp { life.world.now }

    package mutating func happens(oneOf count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    /// Of each sixty days, twelve have an outage.
    private var isDown: Bool {
        (now.milliseconds - RandomWorld.start.milliseconds) / 86_400_000 % 60 >= 48
    }

    /// - Parameter act: Acts after each step.
    package mutating func run(
        steps: Int64, _ act: (inout RandomYear) async throws -> Void = { _ in }
    ) async throws {
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
            if happens(oneOf: 3) { try await self.act() }
            try await act(&self)
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

    /// All transactions that the App Store has signed about a customer.
    package func transactions(of name: String) -> [JWSTransactionDecodedPayload] {
        life.world.history(of: name).map(\.transaction)
    }

    package var names: [String] { life.world.customers.values.map(\.name).sorted() }

    package mutating func user() -> String { "user \(Int.random(in: 0..<names.count, using: &random))" }

    package mutating func account() -> String {
        life.world.customers.values.compactMap(\.appAccountToken).sorted().randomElement(using: &random) ?? ""
    }

    private mutating func act() async throws {
        let name = names.randomElement(using: &random) ?? ""
        let payload = transactions(of: name).randomElement(using: &random)
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
        try await record(transactions(of: name), isBackfill: true)
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
}
