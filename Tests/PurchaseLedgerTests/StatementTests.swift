// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// Tests that the documents of one request are one statement: whatever their order, the events tell the state after all
/// of them, and each change by time that was due before.
@Suite struct StatementTests {
    /// What a request with several documents tells about a purchase that the ledger may know.
    struct Story: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// The documents that were recorded before, on day 0 by a claim of anna.
        var known: @Sendable (SignedHistory) throws -> [SignedHistory.Document] = { [.transaction(try month($0, 1))] }
        /// The day of the request.
        let day: Double
        let documents: @Sendable (SignedHistory) throws -> [SignedHistory.Document]
        /// The kinds of the events of the request, of those in ``StatementTests/kinds``.
        let tells: [LedgerEvent.Kind]

        init(
            _ name: String, day: Double, knows: Bool = true, _ tells: [LedgerEvent.Kind],
            _ documents: @escaping @Sendable (SignedHistory) throws -> [SignedHistory.Document]
        ) {
            testDescription = name
            self.day = day
            self.documents = documents
            self.tells = tells
            if !knows { known = { _ in [] } }
        }
    }

    /// The kinds that tell what a purchase gives. Others may tell more of the same change.
    private static let kinds: Set<LedgerEvent.Kind> = [
        .subscriptionStarted, .subscriptionRenewed, .subscriptionRecovered, .subscriptionExtended, .subscriptionStale,
        .subscriptionExpired, .subscriptionGraceEntered, .subscriptionRetryEntered, .subscriptionRevoked,
        .subscriptionProductChanged, .subscriptionRenewalDisabled, .subscriptionRenewalEnabled, .subscriptionMigrated,
        .refunded, .refundReversed, .accessEnded,
    ]

    /// The month with a number from 1. It begins where the month before ended.
    private static func month(
        _ signed: SignedHistory, _ number: Int, original: String = "1", signed day: Double? = nil,
        _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        let start = Double(number - 1) * 30
        return try signed.transaction(
            "\(number)", original: original, signed: day ?? start, from: start, until: start + 30
        ) {
            $0.transactionReason = Open(number == 1 ? .purchase : .renewal)
            $0.appAccountToken = account
            change(&$0)
        }
    }

    /// A month that was bought on day 70, after a pause.
    private static func later(_ signed: SignedHistory, signed day: Double) throws -> String {
        try signed.transaction("9", signed: day, from: 70, until: 100) {
            ($0.transactionReason, $0.appAccountToken) = (Open(.purchase), account)
        }
    }

    private static let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"

    private static func bought(_ id: String, from day: Double, until end: Double) -> InAppPurchase {
        TestStore.purchase(id, original: "1", from: day, until: end)
    }

    static let stories: [Story] = [
        Story("periods of five months of an outage", day: 170, [.subscriptionRenewed]) { signed in
            try (2...6).map { .transaction(try month(signed, $0)) }
        },
        Story("the periods of a new customer", day: 170, knows: false, [.subscriptionStarted]) { signed in
            try (1...6).map { .transaction(try month(signed, $0)) }
        },
        Story("a renewal after grace", day: 40, [.subscriptionRenewed]) { signed in
            let failed = try signed.notification(
                "DID_FAIL_TO_RENEW", subtype: "GRACE_PERIOD", signed: 30, transaction: month(signed, 1, signed: 30),
                renewal: signed.renewal(signed: 30, retry: true, grace: 46))
            let renewed = try signed.notification(
                "DID_RENEW", subtype: "BILLING_RECOVERY", signed: 35, transaction: month(signed, 2, signed: 35),
                renewal: signed.renewal(signed: 35))
            return [
                .notification(failed), .notification(renewed), .transaction(try month(signed, 2, signed: 36)),
                .transaction(try month(signed, 1, signed: 36)),
            ]
        },
        Story("an upgrade", day: 12, [.subscriptionProductChanged]) { signed in
            let years = try [10, 10.5].map { day in
                try signed.transaction("2", product: "high", signed: day, from: 10, until: 375) {
                    $0.transactionReason = Open(.purchase)
                }
            }
            let upgrade = try signed.notification(
                "DID_CHANGE_RENEWAL_PREF", subtype: "UPGRADE", signed: 10, transaction: years[0],
                renewal: signed.renewal(signed: 10))
            return [
                .transaction(try month(signed, 1, signed: 11) { $0.isUpgraded = true }), .transaction(years[1]),
                .notification(upgrade),
            ]
        },
        Story("a refund with its reversal", day: 9, []) { signed in
            let refunded = try month(signed, 1, signed: 5) { $0.revocationDate = Facts.day(5) }
            let reversed = try month(signed, 1, signed: 8)
            return [
                .notification(try signed.notification("REFUND", signed: 5, transaction: refunded)),
                .notification(try signed.notification("REFUND_REVERSED", signed: 8, transaction: reversed)),
                .transaction(try month(signed, 1, signed: 6) { $0.revocationDate = Facts.day(5) }),
            ]
        },
        Story("a migration", day: 40, [.subscriptionMigrated, .subscriptionStarted]) { signed in
            let migrated = try month(signed, 2, original: "100", signed: 35) { $0.previousOriginalTransactionId = "1" }
            return [
                .transaction(try month(signed, 2)), .transaction(try month(signed, 2, original: "100", signed: 36)),
                .notification(
                    try signed.notification(
                        "MIGRATION", signed: 35, transaction: migrated,
                        renewal: signed.renewal(original: "100", signed: 35))),
            ]
        },
        Story("two migrations of a subscription that nobody knew", day: 40, knows: false, [.subscriptionStarted]) {
            signed in
            try [
                .transaction(month(signed, 1)),
                .transaction(
                    month(signed, 2, original: "100", signed: 31) { $0.previousOriginalTransactionId = "1" }),
                .transaction(
                    month(signed, 2, original: "101", signed: 35) { $0.previousOriginalTransactionId = "100" }),
                .transaction(month(signed, 2, original: "100", signed: 33)),
            ]
        },
        Story("a receipt with tokens", day: 65, knows: false, [.subscriptionStarted]) { signed in
            let purchases = [bought("1", from: 0, until: 30), bought("2", from: 30, until: 60)]
            return [
                .receipt(purchases, created: 59), .receipt(Array(purchases.prefix(1)), created: 29),
                .transaction(try month(signed, 1)), .transaction(try month(signed, 2)),
                .transaction(try month(signed, 3)),
            ]
        },
        Story("a resubscription", day: 75, [.subscriptionRenewed]) { signed in
            let ended = try signed.notification(
                "EXPIRED", subtype: "VOLUNTARY", signed: 30, transaction: month(signed, 1, signed: 30),
                renewal: signed.renewal(signed: 30, renews: false))
            return [
                .notification(ended), .transaction(try later(signed, signed: 71)),
                .notification(
                    try signed.notification(
                        "SUBSCRIBED", subtype: "RESUBSCRIBE", signed: 70, transaction: later(signed, signed: 70),
                        renewal: signed.renewal(signed: 70))),
            ]
        },
        Story("a transaction under two ids in turn", day: 12, [.accessEnded, .subscriptionStarted]) { signed in
            try [
                .transaction(month(signed, 1, original: "7", signed: 8)),
                .transaction(month(signed, 1, signed: 9)), .transaction(month(signed, 1, original: "7", signed: 10)),
            ]
        },
    ]

    private static func ledger(_ storage: any LedgerStorage = MemoryLedgerStorage()) -> Ledger {
        let catalogue = Catalogue(products: [
            "month": .init(entitlements: ["pro"], level: 2), "high": .init(entitlements: ["pro", "plus"], level: 1),
        ])
        return Ledger(storage: storage, rules: LedgerRules(catalogues: [Facts.scope.bundleId: catalogue]))
    }

    /// What an event tells. Customers have other numbers in other ledgers, and so have the bodies of merges.
    private static func told(_ page: EventPage) -> [String] {
        page.events.map { event in
            let body = event.kind == .customersMerged ? "" : String(decoding: event.body, as: UTF8.self)
            return "\(event.kind.rawValue) \(event.originalTransactionId ?? "-") \(page.customerId(of: event) ?? "-") "
                + "\(event.recordedAt.iso8601) \(body)"
        }
    }

    private static func permutations(of list: [Int]) -> [[Int]] {
        guard list.count > 1 else { return [list] }
        return list.flatMap { first in permutations(of: list.filter { $0 != first }).map { [first] + $0 } }
    }

    @Test(arguments: stories, [nil, "bert"])
    func `all orders of the documents of a request tell the same`(story: Story, claimant: String?) async throws {
        let signed = try SignedHistory()
        var (known, documents): ([Evidence], [Evidence]) = ([], [])
        for document in try story.known(signed) { known.append(try await signed.evidence(document)) }
        for document in try story.documents(signed) { documents.append(try await signed.evidence(document)) }
        var expected: (events: [String], result: RecordResult)?
        for order in Self.permutations(of: Array(documents.indices)) {
            let ledger = Self.ledger()
            if !known.isEmpty { _ = try await ledger.record(known, claimedBy: "anna", at: Facts.day(0)) }
            let before = try await ledger.events(of: Facts.scope.bundleId, limit: 100)
            let result = try await ledger.record(
                order.map { documents[$0] }, claimedBy: claimant, at: Facts.day(story.day))
            let page = try await ledger.events(of: Facts.scope.bundleId, after: before.next, limit: 100)
            let events = Self.told(page)
            guard let expected else {
                let kinds = page.events.compactMap(\.kind.known).filter(Self.kinds.contains)
                #expect(kinds == story.tells)
                #expect(result.new == documents.count && result.known == 0)
                expected = (events, result)
                continue
            }
            #expect(events == expected.events, "\(order)")
            #expect(result == expected.result, "\(order)")
            guard events == expected.events else { return }
        }
    }

    /// Also with claims, merges, deletions, repeated documents, and clocks that are set back.
    @Test(arguments: Seeds.first(12, soak: 500))
    func `in a random history the order of the documents of each request tells nothing`(seed: UInt64) async throws {
        var random = SeededRandom(seed: ~seed)
        var history = RandomHistory(seed, documents: 1...6)
        let (first, second) = (history.ledger(), history.ledger())
        for _ in 0..<40 {
            let step = history.next()
            try await history.take(step, first)
            try await history.take(step.shuffled(using: &random), second)
            for ledger in [first, second] {
                while try await ledger.publishDueChanges(at: history.now) > 0 {}
            }
            var told: [[String]] = []
            for ledger in [first, second] {
                told.append(Self.told(try await ledger.events(of: Facts.scope.bundleId, limit: 10_000)))
            }
            guard told[0] != told[1] else { continue }
            let index = zip(told[0], told[1]).enumerated().first { $0.element.0 != $0.element.1 }?.offset
            let differing = told.map { events in index.map { events[$0] } ?? "\(events.count) events" }
            Issue.record("QUITTANCE_SEED=\(seed)\n\(history.trace)\n\(differing.joined(separator: "\n"))")
            return
        }
    }

    @Test func `changes by time come first if they were due before the first signing, and last if after the last`()
        async throws
    {
        let signed = try SignedHistory()
        let ledger = Self.ledger()
        func record(_ documents: [SignedHistory.Document], day: Double) async throws {
            var evidence: [Evidence] = []
            for document in documents { evidence.append(try await signed.evidence(document)) }
            _ = try await ledger.record(evidence, at: Facts.day(day))
        }
        func turned(on isOn: Bool, signed day: Double) throws -> SignedHistory.Document {
            .notification(
                try signed.notification(
                    "DID_CHANGE_RENEWAL_STATUS", signed: day, transaction: Self.later(signed, signed: day),
                    renewal: signed.renewal(signed: day, renews: isOn)))
        }
        try await record([.transaction(try Self.month(signed, 1))], day: 0)
        try await record(
            [turned(on: false, signed: 72), .transaction(try Self.later(signed, signed: 70))], day: 75)
        try await record([turned(on: true, signed: 81), turned(on: false, signed: 80)], day: 110)
        let page = try await ledger.events(of: Facts.scope.bundleId, limit: 100)
        let told = page.events.filter { $0.kind.known.map(Self.kinds.contains) ?? false }
        #expect(
            told.map(\.kind.known) == [
                .subscriptionStarted, .subscriptionStale, .accessEnded, .subscriptionRenewed,
                .subscriptionRenewalDisabled, .subscriptionRenewalEnabled, .subscriptionStale, .accessEnded,
            ])
        var instants = [0, 30, 30, 72, 72, 81, 100, 100].map(Facts.day)
        for index in [2, 7] { instants[index] = instants[index].advanced(by: .seconds(3600)) }
        #expect(told.map(\.content?.effectiveAt) == instants)
    }

    /// The upgraded period grants nothing any more, and the higher one is not known yet.
    @Test func `an upgrade whose documents come in two requests, the old one first, is no recovery`() async throws {
        let signed = try SignedHistory()
        let ledger = Self.ledger()
        let documents = try [
            Self.month(signed, 1), Self.month(signed, 1, signed: 11) { $0.isUpgraded = true },
            signed.transaction("2", product: "high", signed: 10, from: 10, until: 375) {
                $0.transactionReason = Open(.purchase)
            },
        ]
        for document in documents {
            _ = try await ledger.record([signed.evidence(transaction: document)], at: Facts.day(12))
        }
        let kinds = try await ledger.events(of: Facts.scope.bundleId, limit: 100).events.compactMap(\.kind.known)
            .filter(Self.kinds.contains)
        #expect(kinds == [.subscriptionStarted, .accessEnded, .subscriptionProductChanged])
    }
}

extension RandomHistory.Step {
    /// The same step with the documents in another order.
    fileprivate func shuffled(using random: inout SeededRandom) -> Self {
        guard case .record(let numbers, let claimant) = self else { return self }
        return .record(numbers.shuffled(using: &random), claimedBy: claimant)
    }
}
