// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import TestWorld
import Testing

/// Tests that a clock that was ahead for a moment undoes itself.
@Suite struct WrongClockTests {
    /// How far clocks are ahead: hours, as after a wrong time zone, and longer than a month's subscription.
    static let jumps: [Duration] = [.seconds(8 * 3600), .seconds(40 * 86_400)]

    @Test(arguments: jumps)
    func `once the clock is right, events and answers are those of a clock that was right all the time`(
        ahead: Duration
    ) async throws {
        let scenario = try WrongClock()
        let (storage, control) = (MemoryLedgerStorage(), MemoryLedgerStorage())
        let found = try await scenario.outcome(ahead: ahead) { storage }
        let expected = try await scenario.outcome(ahead: .zero) { control }
        #expect(found.states == expected.states)
        #expect(found.holdings == expected.holdings)
        #expect(found.later == expected.later)
        #expect(found.new == 2 && expected.new == 2, "the renewal of the deleted customer was dropped")
    }

    @Test(arguments: jumps) func `what was published too early is corrected as an update, and once`(
        ahead: Duration
    ) async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero))
        let token = try signed.transaction(signed: 0, until: 1)
        _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(0))
        let wrong = Facts.day(0.9).advanced(by: ahead)
        _ = try await ledger.publishDueChanges(at: wrong)
        for second in 0..<5 {
            _ = try await ledger.publishDueChanges(at: Facts.day(0.9).advanced(by: .seconds(Int64(second))))
        }
        let events = try await ledger.events().events
        #expect(
            events.map(\.kind.known) == [
                .subscriptionStarted, .subscriptionStale, .accessEnded, .subscriptionUpdated,
            ])
        let last = try #require(events.last)
        #expect(last.content?.before?.status == .stale && last.content?.after?.status == .active)
        #expect(last.content?.after?.until == Facts.day(1) && last.content?.effectiveAt == Facts.day(0.9))
        _ = try await ledger.publishDueChanges(at: Facts.day(1))
        #expect(try await ledger.events().events.map(\.kind.known).suffix(2) == [.subscriptionStale, .accessEnded])
    }

    /// Servers' clocks differ by seconds. A chain must not change back and forth for that.
    @Test func `a server whose clock is a minute behind publishes no correction`() async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Catalogue(staleLeeway: .zero))
        let token = try signed.transaction(signed: 0, until: 1)
        _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(0))
        _ = try await ledger.publishDueChanges(at: Facts.day(1))
        let count = try await ledger.events().events.count
        _ = try await ledger.publishDueChanges(at: Facts.day(1).advanced(by: .seconds(-60)))
        #expect(try await ledger.events().events.count == count)
        _ = try await ledger.publishDueChanges(at: Facts.day(1).advanced(by: .seconds(-61)))
        #expect(try await ledger.events().events.count == count + 1)
    }

    /// How far a clock is behind the App Store's.
    static let delays: [Duration] = [.milliseconds(1), .seconds(30), .seconds(3600)]

    @Test(arguments: delays) func `by a clock that is behind, what was just charged has begun`(
        behind: Duration
    ) async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero))
        func record(_ type: String, _ day: Double, _ transaction: String, isFailed: Bool = false) async throws {
            let token = try signed.notification(
                type, signed: day, transaction: transaction, renewal: signed.renewal(signed: day, retry: isFailed))
            let now = Facts.day(day).advanced(by: .zero - behind)
            _ = try await ledger.record([signed.evidence(notification: token)], at: now)
        }
        try await record("SUBSCRIBED", 0, signed.transaction())
        _ = try await ledger.publishDueChanges(at: Facts.day(31))
        try await record("DID_FAIL_TO_RENEW", 35, signed.transaction(signed: 35), isFailed: true)
        let paid = try signed.transaction("2", signed: 40, from: 40, until: 70) {
            $0.transactionReason = Open(.renewal)
        }
        try await record("DID_RENEW", 40, paid)
        let chain = try #require(try await ledger.chain(Facts.key))
        let catalogue = Catalogue(staleLeeway: .zero)
        let state = chain.subscription(catalogue, at: Facts.day(40).advanced(by: .zero - behind))
        #expect(state?.status == .active && state?.accessUntil == Facts.day(70))
        _ = try await ledger.publishDueChanges(at: Facts.day(41))
        #expect(
            try await ledger.events().events.compactMap(\.kind.known) == [
                .subscriptionStarted, .subscriptionStale, .accessEnded, .subscriptionRetryEntered,
                .subscriptionRecovered,
            ])
    }

    @Test func `a document corrects what was published too early, before it is published itself`() async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(Catalogue(staleLeeway: .zero))
        func record(_ until: Double, signed day: Double) async throws {
            let token = try signed.notification(
                "DID_RENEW", signed: day, transaction: signed.transaction(signed: day, until: until),
                renewal: signed.renewal(signed: day, renews: false))
            _ = try await ledger.record([signed.evidence(notification: token)], at: Facts.day(day))
        }
        try await record(1, signed: 0)
        _ = try await ledger.publishDueChanges(at: Facts.day(8))
        try await record(2, signed: 0.5)
        // Nothing was paid again, so the subscription did not recover.
        #expect(
            try await ledger.events().events.map(\.kind.known).suffix(3) == [
                .subscriptionExpired, .subscriptionUpdated, .subscriptionExtended,
            ])
    }

    // MARK: - Tombstones

    private static func deleted(
        _ signed: SignedHistory, at day: Double, isTimeConfirmed: Bool
    ) async throws -> Ledger {
        let ledger = Ledger(Catalogue())
        let token = try signed.transaction(signed: 5, from: 0, until: 30)
        _ = try await ledger.record([signed.evidence(transaction: token)], claimedBy: "anna", at: Facts.day(5))
        _ = try await ledger.delete("anna", in: Facts.scope, at: Facts.day(day), isTimeConfirmed: isTimeConfirmed)
        return ledger
    }

    /// - Returns: How many documents were new, if the App Store signs one on this day.
    private static func arriving(_ day: Double, in ledger: Ledger, _ signed: SignedHistory) async throws -> Int {
        let token = try signed.transaction("2", original: "1", signed: day, from: 30, until: 60)
        return try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(day)).new
    }

    @Test(arguments: [18, 50] as [Double])
    func `by a clock that may be ahead, a deletion drops nothing that is signed after it`(day: Double) async throws {
        let signed = try SignedHistory()
        let doubted = try await Self.deleted(signed, at: day, isTimeConfirmed: false)
        #expect(try await Self.arriving(5, in: doubted, signed) == 0)
        #expect(try await Self.arriving(10.1, in: doubted, signed) == 1)
        let confirmed = try await Self.deleted(signed, at: 10, isTimeConfirmed: true)
        #expect(try await Self.arriving(9.9, in: confirmed, signed) == 0)
    }

    @Test func `by a clock that is behind, a deleted purchase is not brought back by its own documents`() async throws {
        let signed = try SignedHistory()
        let ledger = try await Self.deleted(signed, at: 1, isTimeConfirmed: true)
        let token = try signed.transaction(signed: 5, from: 0, until: 30)
        #expect(try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(6)).new == 0)
    }
}
