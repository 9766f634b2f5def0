// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import AppStoreTrust
package import PurchaseLedger

/// A ledger whose clock is ahead for a while, and a ledger with the same documents and changes whose clock is right.
///
/// The customers' purchases are of all kinds, and time alone changes most of them within hours or days.
package struct WrongClock {
    /// What a follower of the events knows, and what is answered.
    package struct Outcome: Hashable, Sendable {
        /// The last published state of each purchase, by the name of its chain.
        package var states: [String: ChainState?] = [:]
        /// What each customer has.
        package var holdings: [String: Holdings] = [:]
        /// Which changes were published after the clock was right again, in their order for each purchase.
        package var later: [String: [String]] = [:]
        /// How many documents of the last notification were new.
        package var new = 0
    }

    /// When the clock jumps.
    package static let start = TestStore.day(10)

    private static let scope = LedgerScope(bundleId: TestStore.bundleId, environment: .production)

    private static let catalogue = Catalogue(
        products: [
            "month": .init(entitlements: ["pro"], level: 2), "high": .init(entitlements: ["pro"], level: 1),
            "low": .init(entitlements: ["basic"], level: 3), "once": .init(entitlements: ["once"]),
            "pass": .init(entitlements: ["pass"], duration: .seconds(10 * 86_400 + 6 * 3600)),
        ], staleLeeway: .seconds(3600))

    private let store: TestStore

    package init() throws {
        store = try TestStore()
    }

    /// Lets the clock of a ledger be ahead for a moment, and then be right for fifty days.
    ///
    /// - Parameters:
    ///   - ahead: How far the clock is ahead; zero for a clock that is right.
    ///   - open: Opens the ledger, which starts three times: once before the jump, once while the clock is ahead, and
    ///     once when it is right.
    package func outcome(
        ahead: Duration, _ open: () async throws -> any LedgerStorage
    ) async throws -> Outcome {
        func ledger() async throws -> Ledger {
            Ledger(
                storage: try await open(),
                rules: LedgerRules(catalogues: [Self.scope.bundleId: Self.catalogue]))
        }
        var (outcome, current) = (Outcome(), try await ledger())
        for (customer, documents) in Self.purchases {
            for (day, document) in documents {
                try await record(document, by: customer, at: TestStore.day(day), current)
            }
        }
        try await publish(current, at: Self.start)

        current = try await ledger()
        let wrong = Self.start.advanced(by: ahead)
        try await publish(current, at: wrong)
        try await record(.bought("bought meanwhile", until: Self.hours(2), signed: 10), by: "late", at: wrong, current)
        _ = try await current.delete("deleted", in: Self.scope, at: wrong, isTimeConfirmed: ahead == .zero)
        try await publish(current, at: wrong)

        current = try await ledger()
        let right = Self.start.advanced(by: .seconds(120))
        try await publish(current, at: right)
        let renewal = Document.bought("deleted", until: 40, signed: Self.hours(0.02))
        outcome.new = try await record(renewal, by: nil, at: right, current)
        let known = try await events(current)
        for event in known where event.kind.known?.isAboutPayment != true {
            if let chain = event.chainName { outcome.states[chain] = event.content?.after }
        }
        for customer in Self.purchases.map(\.customer) + ["late"] {
            outcome.holdings[customer] = try await current.holdings(of: customer, in: Self.scope, at: right)
        }
        for day in 11...60 { try await publish(current, at: TestStore.day(Double(day))) }
        for event in try await events(current).dropFirst(known.count) {
            let words = "\(event.kind.rawValue) \(event.content?.effectiveAt.iso8601 ?? "")"
            outcome.later[event.chainName ?? "", default: []].append(words)
        }
        return outcome
    }

    private func publish(_ ledger: Ledger, at now: Timestamp) async throws {
        while try await ledger.publishDueChanges(at: now, limit: 3) >= 3 {}
    }

    private func events(_ ledger: Ledger) async throws -> [LedgerEvent] {
        try await ledger.events(of: Self.scope.bundleId, limit: 10_000).events
    }
}

// MARK: - Documents

extension WrongClock {
    fileprivate struct Document: Sendable {
        var transaction: JWSTransactionDecodedPayload
        var renewal: JWSRenewalInfoDecodedPayload?

        static func bought(
            _ id: String, _ product: String = "month", from: Double = 0, until: Double?, signed: Double = 0,
            renews: Bool? = true, retry: Bool? = nil, grace: Double? = nil,
            _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
        ) -> Document {
            let transaction = TestStore.transaction(
                "\(id) \(from)", original: id, product: product, from: from, until: until, signed: signed
            ) {
                $0.subscriptionGroupIdentifier = "group"
                change(&$0)
            }
            let renewal = renews.map {
                TestStore.renewal(original: id, signed: signed, renews: $0, retry: retry, grace: grace)
            }
            return Document(transaction: transaction, renewal: renewal)
        }

        static func once(_ id: String, _ product: String, _ type: ProductType) -> Document {
            Document(transaction: TestStore.transaction(id, product: product, type: type, until: nil))
        }
    }

    /// Hours after the jump, in days.
    private static func hours(_ hours: Double) -> Double { 10 + hours / 24 }

    /// The customers, each with the documents of one purchase and the days of their arrival.
    private static let purchases: [(customer: String, documents: [(Double, Document)])] = [
        ("active", [(0, .bought("active", until: hours(4)))]),
        ("active for long", [(0, .bought("active for long", until: 30))]),
        ("cancelled", [(0, .bought("cancelled", until: hours(4), renews: false))]),
        ("in grace", [(9, .bought("in grace", until: 9, signed: 9, retry: true, grace: hours(5)))]),
        ("in retry", [(9, .bought("in retry", until: 9, signed: 9, retry: true))]),
        ("expired", [(0, .bought("expired", until: 5, renews: false))]),
        ("without renewal info", [(0, .bought("without renewal info", until: hours(-0.5), renews: nil))]),
        ("non-renewing", [(0, .once("non-renewing", "pass", .nonRenewingSubscription))]),
        ("non-consumable", [(0, .once("non-consumable", "once", .nonConsumable))]),
        ("consumable", [(0, .once("consumable", "coins", .consumable))]),
        (
            "refunded",
            [(8, .bought("refunded", until: hours(4), signed: 8) { $0.revocationDate = TestStore.day(8) })]
        ),
        (
            "upgraded",
            [
                (0, .bought("upgraded", until: 30)),
                (5, .bought("upgraded", "high", from: 5, until: hours(3), signed: 5)),
            ]
        ),
        (
            "downgraded ahead",
            [
                (0, .bought("downgraded ahead", "high", until: hours(2))),
                (
                    9,
                    .bought("downgraded ahead", "low", from: hours(2), until: 40, signed: 9) {
                        $0.transactionReason = Open(.renewal)
                    }
                ),
            ]
        ),
        ("deleted", [(0, .bought("deleted", until: hours(4)))]),
    ]

    @discardableResult
    private func record(
        _ document: Document, by customer: String?, at now: Timestamp, _ ledger: Ledger
    ) async throws -> Int {
        let signed = document.transaction.signedDate ?? now
        let verifier = store.verifier()
        let token = try store.sign(document.transaction)
        let transaction = try await verifier.verify(token.utf8, as: JWSTransactionDecodedPayload.self, at: signed)
        var evidence = [Evidence(transaction)].compactMap(\.self)
        if let renewal = document.renewal {
            let token = try store.sign(renewal)
            let verified = try await verifier.verify(token.utf8, as: JWSRenewalInfoDecodedPayload.self, at: signed)
            evidence += [Evidence(verified, boundBy: transaction)].compactMap(\.self)
        }
        return try await ledger.record(evidence, claimedBy: customer, at: now).new
    }
}
