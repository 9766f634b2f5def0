// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests that events report every change, in an order in which it can have happened.
@Suite struct EventStoryTests {
    private static func ledger(leewayDays: Int = 0) -> Ledger {
        let catalogue = Catalogue(
            products: ["month": .init(entitlements: ["pro"])], staleLeeway: .seconds(86_400 * leewayDays))
        return Ledger(
            storage: MemoryLedgerStorage(), rules: LedgerRules(catalogues: [Facts.scope.bundleId: catalogue]))
    }

    private static func events(_ ledger: Ledger) async throws -> [LedgerEvent] {
        try await ledger.events().events
    }

    @Test func `changes that time alone causes during a downtime are published later, each with its instant`()
        async throws
    {
        let (ledger, signed) = (Self.ledger(leewayDays: 2), try SignedHistory())
        _ = try await ledger.record([signed.evidence(transaction: try signed.transaction(signed: 0))], at: Facts.day(0))
        while try await ledger.publishDueChanges(at: Facts.day(50)) > 0 {}
        let events = try await Self.events(ledger)
        #expect(events.map(\.kind.known) == [.subscriptionStarted, .subscriptionStale, .accessEnded])
        #expect(events.map(\.content?.effectiveAt) == [Facts.day(0), Facts.day(30), Facts.day(32)])
        #expect(events.map(\.recordedAt) == [Facts.day(0), Facts.day(50), Facts.day(50)])
    }

    @Test func `a refund is published after the start of its subscription`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let refunded = try signed.transaction(signed: 5) { $0.revocationDate = Facts.day(5) }
        _ = try await ledger.record([signed.evidence(transaction: refunded)], at: Facts.day(6))
        #expect(
            try await Self.events(ledger).map(\.kind.known) == [.subscriptionStarted, .refunded, .subscriptionRevoked])
    }

    @Test func `the event of a product change has the states before and after the change`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let tokens = [
            try signed.transaction("1", signed: 0),
            try signed.transaction("2", product: "year", signed: 10, from: 10, until: 375) {
                $0.transactionReason = Open(.purchase)
            },
        ]
        for token in tokens { _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(10)) }
        let change = try #require(try await Self.events(ledger).last)
        #expect(change.kind == .subscriptionProductChanged)
        let states = [("month", "1", 30.0), ("year", "2", 375)].map { product, id, end in
            ChainState(
                status: .active, productId: product, transactionId: id, hasAccess: true, until: Facts.day(end))
        }
        #expect(change.content?.before == states[0] && change.content?.after == states[1])
    }

    @Test func `if the first renewal info says that renewal is off, the ledger publishes it`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        let bought = try signed.transaction(signed: 0)
        _ = try await ledger.record([signed.evidence(transaction: bought)], at: Facts.day(0))
        let off = try signed.notification(
            "DID_CHANGE_RENEWAL_STATUS", subtype: "AUTO_RENEW_DISABLED", signed: 3,
            transaction: signed.transaction(signed: 3),
            renewal: signed.renewal(signed: 3, renews: false))
        _ = try await ledger.record([signed.evidence(notification: off)], at: Facts.day(3))
        let last = try #require(try await Self.events(ledger).last)
        #expect(last.kind == .subscriptionRenewalDisabled)
        #expect(last.content?.before?.willRenew == nil && last.content?.after?.willRenew == false)
    }

    @Test func `the events of a chain stay in order of time even if the clock is set back`() async throws {
        let (ledger, signed) = (Self.ledger(), try SignedHistory())
        _ = try await ledger.record([signed.evidence(transaction: try signed.transaction(signed: 0))], at: Facts.day(3))
        let renewed = try signed.transaction("2", signed: 2, from: 30, until: 60)
        _ = try await ledger.record([signed.evidence(transaction: renewed)], at: Facts.day(2))
        let times = try await Self.events(ledger).map(\.recordedAt)
        #expect(times == times.sorted() && times.count == 2)
    }
}
