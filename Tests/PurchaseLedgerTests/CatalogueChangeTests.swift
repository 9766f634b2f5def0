// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests what a ledger publishes after its catalogue has changed.
@Suite struct CatalogueChangeTests {
    private static func rules(days: Int, leeway: Duration = .zero) -> LedgerRules {
        let pass = Catalogue.Product(entitlements: ["pass"], duration: .seconds(86_400 * days))
        let catalogue = Catalogue(
            products: ["pass": pass, "month": .init(entitlements: ["pro"])], staleLeeway: leeway)
        return LedgerRules(catalogues: [Facts.scope.bundleId: catalogue])
    }

    @Test func `an earlier end because of a new duration is published once`() async throws {
        let (storage, signed) = (MemoryLedgerStorage(), try SignedHistory())
        var ledger = Ledger(storage: storage, rules: Self.rules(days: 90))
        #expect(try await ledger.publishCatalogueChanges(at: Facts.day(0)) == 0)
        let pass = try signed.transaction(product: "pass", signed: 0) {
            $0.type = Open(.nonRenewingSubscription)
            $0.expiresDate = nil
        }
        _ = try await ledger.record([signed.evidence(transaction: pass)], claimedBy: "a", at: Facts.day(0))
        ledger.rules = Self.rules(days: 10)
        #expect(try await ledger.publishCatalogueChanges(at: Facts.day(5)) == 1)
        // Within a day each start evaluates the purchases again, and publishes nothing new.
        #expect(try await ledger.publishCatalogueChanges(at: Facts.day(5.5)) == 1)
        #expect(try await ledger.publishCatalogueChanges(at: Facts.day(6.5)) == 0)
        #expect(try await ledger.publishDueChanges(at: Facts.day(11)) == 1)
        let events = try await ledger.events().events
        #expect(events.map(\.kind.known) == [.linked, .purchased, .purchaseUpdated, .accessEnded])
        #expect(events[2].content?.before?.until == Facts.day(90) && events[2].content?.after?.until == Facts.day(10))
        #expect(events[3].content?.effectiveAt == Facts.day(10) && events[3].recordedAt == Facts.day(11))
        #expect(events[3].content?.after?.status == .expired)
    }

    @Test func `the end of access because of a shorter leeway is published`() async throws {
        let (storage, signed) = (MemoryLedgerStorage(), try SignedHistory())
        var ledger = Ledger(storage: storage, rules: Self.rules(days: 1, leeway: .seconds(86_400 * 9)))
        _ = try await ledger.publishCatalogueChanges(at: Facts.day(0))
        _ = try await ledger.record([signed.evidence(transaction: try signed.transaction(signed: 0))], at: Facts.day(0))
        while try await ledger.publishDueChanges(at: Facts.day(31)) > 0 {}
        ledger.rules = Self.rules(days: 1)
        _ = try await ledger.publishCatalogueChanges(at: Facts.day(32))
        let events = try await ledger.events().events
        #expect(events.map(\.kind.known) == [.subscriptionStarted, .subscriptionStale, .accessEnded])
    }

    @Test func `in a rolling restart, what a server with the former catalogue published is published anew`()
        async throws
    {
        let (storage, signed) = (MemoryLedgerStorage(), try SignedHistory())
        var first = Ledger(storage: storage, rules: Self.rules(days: 90))
        var second = first
        _ = try await first.publishCatalogueChanges(at: Facts.day(0))
        first.rules = Self.rules(days: 10)
        _ = try await first.publishCatalogueChanges(at: Facts.day(5))
        let pass = try signed.transaction(product: "pass", signed: 0) {
            $0.type = Open(.nonRenewingSubscription)
            $0.expiresDate = nil
        }
        _ = try await second.record([signed.evidence(transaction: pass)], claimedBy: "a", at: Facts.day(5))
        second.rules = first.rules
        _ = try await second.publishCatalogueChanges(at: Facts.day(5))
        let events = try await first.events().events
        #expect(events.map { $0.content?.after?.until }.suffix(2) == [Facts.day(90), Facts.day(10)])
    }
}
