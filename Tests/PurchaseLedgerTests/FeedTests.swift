// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestData
import Testing

/// Tests that a consumer of events always has the state that the ledger answers, over random histories.
@Suite struct FeedTests {
    @Test func `the histories have every kind of event`() async throws {
        // The histories have no grants, corrections and settings: GrantTests, CustomerCorrectionTests,
        // PurchaseCorrectionTests, SilentChangeTests. They have neither prices, families, app transactions
        // nor restored copies: PaymentEventTests, AppPurchaseTests, EventEpochTests.
        var missing = Set(LedgerEvent.Kind.allCases).subtracting([
            .transactionCompleted, .appRecorded, .shareEnded,
            .grantMade, .grantMoved, .grantEnded, .purchaseDenied, .purchaseAllowed, .customerUnmerged, .aliasRemoved,
            .attributesChanged, .consentChanged, .environmentsChanged, .ledgerRestored,
        ])
        for seed: UInt64 in 0..<200 where !missing.isEmpty {
            var history = RandomHistory(seed)
            let ledger = history.ledger()
            for _ in 0..<60 {
                try await history.take(history.next(), ledger)
                while try await ledger.publishDueChanges(at: history.now) > 0 {}
            }
            missing.subtract(
                try await ledger.events(of: Facts.scope.bundleId, limit: 10_000).events.compactMap(\.kind.known))
        }
        #expect(missing == [])
    }

    @Test(arguments: Seeds.first(10, soak: 500))
    func `a consumer of events has the same state as the ledger's answers`(seed: UInt64) async throws {
        var history = RandomHistory(seed)
        var ledger = history.ledger()
        var consumer = Consumer()
        var cursor: EventCursor?
        for number in 0..<60 {
            let step = history.next()
            try await history.take(step, ledger)
            // In every second history the operator refuses some purchases now and then.
            if seed.isMultiple(of: 2), number % 10 == 9 {
                let refused = RandomHistory.keys.sorted().map(\.originalTransactionId).enumerated()
                    .filter { $0.offset % 3 == number / 10 % 3 }.map(\.element)
                ledger.rules.catalogues[Facts.scope.bundleId]?.refusedPurchases = Set(refused)
                _ = try await ledger.publishCatalogueChanges(at: history.now)
            }
            while try await ledger.publishDueChanges(at: history.now, limit: 2) > 0 {}
            let page = try await ledger.events(of: Facts.scope.bundleId, after: cursor, limit: 10_000)
            cursor = page.next
            var faults = page.events.compactMap { event in
                consumer.take(event, isNamed: event.customer.map { page.customerIds[$0] != nil } ?? false)
            }
            // Answers for an instant before the last publication may differ from what was published.
            if history.isLatest { faults += try await consumer.differences(from: ledger, at: history.now) }
            guard faults.isEmpty else {
                Issue.record("QUITTANCE_SEED=\(seed)\n\(history.trace)\n\(faults.joined(separator: "\n"))")
                return
            }
        }
    }
}

/// A consumer of events, and what it keeps.
private struct Consumer {
    /// The last change of each chain.
    private var changes: [String: (before: ChainState?, after: ChainState?)] = [:]
    private var recordedAt: [String: Timestamp] = [:]
    /// The purchases whose owner was deleted: the event names a customer that has no ids any more.
    private var abandoned: Set<String> = []
    private var holdings: [Customer: [String: ChainState?]] = [:]

    /// Applies an event.
    ///
    /// - Returns: What is wrong with the event; `nil` if nothing.
    mutating func take(_ event: LedgerEvent, isNamed: Bool) -> String? {
        guard let content = event.content else { return "Its body cannot be read: \(event)" }
        keep(event, content)
        guard content.effectiveAt <= event.recordedAt else {
            return "It takes effect later than it is recorded: \(event)"
        }
        guard let chain = event.originalTransactionId, event.kind.known?.isAboutPayment != true else { return nil }
        defer { recordedAt[chain] = event.recordedAt }
        if let last = recordedAt[chain], event.recordedAt < last {
            return "Recorded before the one before it: \(event)"
        }
        let known = changes[chain]
        // A chain that was erased meanwhile begins anew.
        let mayBeginAnew = abandoned.contains(chain)
        func isLast(_ state: ChainState?) -> Bool { state == known?.after || mayBeginAnew && state == nil }
        switch event.kind.known {
        case .linked:
            if mayBeginAnew, content.after == nil { changes[chain] = nil }
            return content.before == nil && isLast(content.after) ? nil : "Not as published: \(event)"
        case .unlinked:
            if !isNamed { abandoned.insert(chain) }
            return content.before == known?.after && content.after == nil ? nil : "Not as published: \(event)"
        default:
            // One change may be several events, and one for each owner.
            let isSame = known.map { $0.before == content.before && $0.after == content.after } ?? false
            changes[chain] = (content.before, content.after)
            abandoned.remove(chain)
            return isSame || isLast(content.before) ? nil : "Does not begin at \(known as Any): \(event)"
        }
    }

    private mutating func keep(_ event: LedgerEvent, _ content: EventContent) {
        guard let customer = event.customer, event.kind.known?.isAboutPayment != true else { return }
        guard let chain = event.originalTransactionId else { return }
        holdings[customer, default: [:]][chain] = event.kind == .unlinked ? nil : .some(content.after)
    }

    /// The differences between the consumer's state and the ledger's answers.
    func differences(from ledger: Ledger, at now: Timestamp) async throws -> [String] {
        var faults: [String] = []
        let chains = try await ledger.chains(RandomHistory.keys)
        var states: [String: ChainState] = [:]
        for (key, chain) in chains where !chain.transactions.isEmpty {
            let id = key.originalTransactionId
            let catalogue = ledger.rules.catalogues[Facts.scope.bundleId] ?? Catalogue()
            states[id] = ChainState(answering: chain, catalogue, at: now)
            if changes[id]?.after != states[id] {
                faults.append("\(id) is \(states[id] as Any), and published as \(changes[id]?.after as Any)")
            }
        }
        let snapshot = try await ledger.snapshot(RandomHistory.customers.map(LedgerKey.customerID))
        for id in RandomHistory.customers {
            guard let answer = try await ledger.customer(id.id, in: Facts.scope, at: now),
                let customer = snapshot.ids[id]
            else { continue }
            let owned = Set(answer.purchases.map(\.originalTransactionId))
            let expected = states.filter { owned.contains($0.key) }
            let found = (holdings[customer] ?? [:]).compactMapValues { $0 }
            if found != expected { faults.append("\(id.id) has \(expected), by events \(found)") }
        }
        return faults
    }
}

extension ChainState {
    /// The ledger's answer about a chain.
    fileprivate init(answering chain: Chain, _ catalogue: Catalogue, at now: Timestamp) {
        if let state = chain.subscription(catalogue, at: now) {
            self.init(
                status: state.status, productId: state.governing.productId,
                transactionId: state.lastPaid.transactionId, hasAccess: state.hasAccess, until: state.accessUntil,
                willRenew: state.willRenew, commitmentWillRenew: state.commitmentWillRenew, renewal: state.renewal)
            return
        }
        let isRefused = catalogue.refuses(chain)
        let standing = Set(chain.purchases.lazy.filter { $0.revocation == nil && !isRefused }.map(\.type))
        let entitlements = Holdings([chain], catalogue: catalogue, at: now).entitlements
        let isActive = !entitlements.isEmpty || standing.contains(Open(.consumable))
        let ends = chain.ends(isRefused: isRefused).filter {
            ($0.isStanding && $0.end.map { now < $0 } ?? true) == isActive
        }
        self.init(
            status: isActive ? .active : standing.contains(Open(.nonRenewingSubscription)) ? .expired : .revoked,
            productId: chain.purchases.last?.productId, transactionId: chain.purchases.last?.transactionId,
            hasAccess: isActive,
            until: ends.contains { $0.end == nil } ? nil : ends.compactMap(\.end).max())
    }
}

extension Chain {
    /// When each one-time purchase ends or ended, as the table in docs/api.md says, and whether it was neither refunded
    /// nor refused.
    fileprivate func ends(isRefused: Bool) -> [(isStanding: Bool, end: Timestamp?)] {
        // All books of the chain are one purchase, also those of which only residue is left.
        let books = (purchases + residue.filter { transactions[$0.key] == nil }.values.compactMap(\.current))
            .filter { $0.type == .nonConsumable }
        let refund = books.compactMap(\.revocation?.date).min()
        return purchases.map { purchase in
            let date = purchase.purchaseDate ?? Timestamp(milliseconds: 0)
            if isRefused { return (false, date) }
            if purchase.type == .nonConsumable {
                let first = books.compactMap(\.purchaseDate).min() ?? date
                return (refund == nil, refund.map { max(first, $0) })
            }
            // A season lasts 12 days.
            let end = purchase.type == .consumable ? nil : date.advanced(by: .seconds(12 * 86_400))
            guard let refund = purchase.revocation?.date else { return (true, end) }
            return (false, max(date, min(refund, end ?? refund)))
        }
    }
}
