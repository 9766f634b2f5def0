// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import ReceiptCoding
import TestData
import TestWorld
import Testing

/// Tests which period governs, by the events that are published. The cases are those of the worked decisions 23 to 37,
/// which `Tests/RuleBook/worked.py` has as a table.
@Suite struct GoverningPeriodTests {
    struct Life: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// The expected kinds of events, with the day on which each was recorded.
        var events: [String]
        /// The documents to record, by day.
        var documents: @Sendable (SignedHistory) throws -> [(Double, SignedHistory.Document)]

        init(
            _ description: String, _ events: [String],
            _ documents: @escaping @Sendable (SignedHistory) throws -> [(Double, SignedHistory.Document)]
        ) {
            testDescription = description
            self.events = events
            self.documents = documents
        }
    }

    static let lives = signedLives + cancellations

    private static let signedLives = [
        Life(
            "after an upgrade to a shorter plan, the subscription ends with that plan",
            [
                "0 subscription.started 1", "100 subscription.productChanged 2", "130 subscription.expired 2",
                "130 subscription.renewalDisabled 2",
            ]
        ) { signed in
            try [
                (0, bought(signed, "high", until: 365)),
                (100, changed(signed)),
                (
                    130,
                    notification(
                        signed, "EXPIRED", 130, month(signed, 130),
                        signed.renewal(signed: 130, renews: false) { $0.expirationIntent = Open(.customerCancelled) })
                ),
            ]
        },
        Life(
            "a refund of the shorter plan does not restore the longer one",
            [
                "0 subscription.started 1", "100 subscription.productChanged 2", "105 purchase.refunded 2",
                "105 subscription.revoked 2",
            ]
        ) { signed in
            try [
                (0, bought(signed, "high", until: 365)),
                (100, changed(signed)),
                (
                    105,
                    notification(
                        signed, "REFUND", 105, month(signed, 105) { $0.revocationDate = Facts.day(105) }, nil)
                ),
            ]
        },
        Life(
            "a month that is bought after the refund of a year recovers the subscription",
            [
                "0 subscription.started 1", "50 purchase.refunded 1", "50 subscription.revoked 1",
                "100 subscription.recovered 2", "100 subscription.productChanged 2", "130 subscription.stale 2",
                "130 purchase.accessEnded 2",
            ]
        ) { signed in
            try [
                (0, bought(signed, "high", until: 365)),
                (
                    50,
                    notification(
                        signed, "REFUND", 50,
                        signed.transaction(product: "high", signed: 50, until: 365) {
                            $0.revocationDate = Facts.day(50)
                        },
                        nil)
                ),
                (100, changed(signed)),
            ]
        },
        Life(
            "a refund under one of a period's two ids ends the period",
            ["0 subscription.started 1", "5 purchase.refunded 2", "5 subscription.revoked 1"]
        ) { signed in
            try [
                (0, .transaction(signed.transaction { $0.webOrderLineItemId = "77" })),
                (
                    5,
                    .transaction(
                        signed.transaction("2", signed: 5, from: 5) {
                            $0.webOrderLineItemId = "77"
                            $0.revocationDate = Facts.day(5)
                        })
                ),
            ]
        },
        Life(
            "an extension is published even if the period was over",
            [
                "0 subscription.started 1", "30 subscription.stale 1", "30 purchase.accessEnded 1",
                "32 subscription.extended 1", "40 subscription.stale 1", "40 purchase.accessEnded 1",
            ]
        ) { signed in
            try [
                (0, bought(signed, "month", until: 30)),
                (32, notification(signed, "RENEWAL_EXTENDED", 32, signed.transaction(signed: 32, until: 40), nil)),
            ]
        },
        Life(
            "a renewal that is charged in advance is published once, when it becomes known",
            // On day 30 the second period begins. No renewal info about it has arrived, so `willRenew` becomes unknown:
            // `subscription.updated`.
            [
                "0 subscription.started 1", "29 subscription.renewed 2", "30 subscription.updated 2",
                "60 subscription.stale 2", "60 purchase.accessEnded 2",
            ]
        ) { signed in
            try [
                (0, bought(signed, "month", until: 30)),
                (29, .transaction(signed.transaction("2", signed: 29, from: 30, until: 60))),
            ]
        },
        Life(
            "a downgrade that is charged in advance is published when it begins",
            [
                "0 subscription.started 1", "365 subscription.productChanged 2", "395 subscription.stale 2",
                "395 purchase.accessEnded 2",
            ]
        ) { signed in
            try [
                (0, bought(signed, "high", until: 365)),
                (
                    364,
                    .transaction(
                        signed.transaction("2", product: "low", signed: 364, from: 365, until: 395) {
                            $0.transactionReason = Open(.renewal)
                        })
                ),
            ]
        },
    ]

    private static let cancellations = [
        ("the very time of an upgrade is no refund", 100.0), ("another time is a refund", 99),
    ].map { words, cancelled in
        let refund = cancelled == 99 ? ["110 purchase.refunded 1"] : []
        return Life(
            "a receipt's cancellation at \(words)",
            ["110 subscription.started 2"] + refund + ["130 subscription.stale 2", "130 purchase.accessEnded 2"]
        ) { _ in
            let year = purchase("1", "high", 0, 365, cancelled: cancelled)
            return [(110, .receipt([year, purchase("2", "month", 100, 130)], created: 110))]
        }
    }

    @Test(arguments: lives) func `the events of a subscription's life are published in order, each on its day`(
        _ life: Life
    ) async throws {
        let signed = try SignedHistory()
        let catalogue = Catalogue(staleLeeway: .zero)
        let ledger = Ledger(catalogue)
        let documents = try life.documents(signed)
        for day in 0...400 {
            let now = Facts.day(Double(day))
            for (arrival, document) in documents where Int(arrival) == day {
                _ = try await ledger.record([signed.evidence(document)], at: now)
            }
            while try await ledger.publishDueChanges(at: now) == 500 {}
        }
        let found = try await ledger.events().events
        let words = found.map { event in
            let day = (event.recordedAt.milliseconds - Facts.day(0).milliseconds) / 86_400_000
            return "\(day) \(event.kind.rawValue) \(event.content?.transactionId ?? "")"
        }
        #expect(words == life.events)
    }

    // MARK: - Periods that have not begun

    struct Begun: Sendable {
        var periods: [(id: Int, from: Double, until: Double)]
        var reason = TransactionReason.renewal
        var day: Double
        var id: String
        var status: SubscriptionState.Status
    }

    /// E.3 (5): a renewal that has not begun is no candidate while another period runs; if none has begun, the first
    /// counts. A purchase has begun as soon as it is known.
    @Test(arguments: [
        Begun(periods: [(1, 1, 31)], day: 0, id: "1", status: .active),
        Begun(periods: [(1, 1, 31), (2, 31, 61)], day: 0, id: "1", status: .active),
        Begun(periods: [(1, 0, 30), (2, 30, 60)], day: 29, id: "1", status: .active),
        Begun(periods: [(1, 0, 30), (2, 40, 70)], day: 35, id: "1", status: .stale),
        Begun(periods: [(1, 0, 30), (2, 40, 70)], day: 40, id: "2", status: .active),
        Begun(periods: [(1, 1, 31)], day: 31, id: "1", status: .stale),
        Begun(periods: [(1, 1, 31)], reason: .purchase, day: 0, id: "1", status: .active),
        Begun(periods: [(1, 0, 30), (2, 40, 70)], reason: .purchase, day: 35, id: "2", status: .active),
        Begun(periods: [(1, 0, 30), (2, 40, 70)], reason: .purchase, day: 40, id: "2", status: .active),
        Begun(periods: [(1, 1, 31)], reason: .purchase, day: 31, id: "1", status: .stale),
    ])
    func `a renewal that has not begun counts as running only if none has begun, and a purchase always`(_ row: Begun) {
        let (day, id, status) = (row.day, row.id, row.status)
        let chain = Facts.chain(
            row.periods.map { period in
                Facts.transaction("\(period.id)", from: period.from, until: period.until) {
                    $0.transactionReason = Open(row.reason)
                }
            })
        let state = chain.subscription(Catalogue(), at: Facts.day(day))
        #expect(state?.governing.transactionId == id && state?.status == status)
        let catalogue = Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero)
        let entitlements = Holdings([chain], catalogue: catalogue, at: Facts.day(day)).entitlements
        #expect(entitlements.map(\.transactionId) == (status == .active ? [id] : []))
    }

    /// Days in milliseconds: 86,400,000 each. The first period ends in the second in which the third one begins.
    @Test func `a purchase in the second of another period's end is no renewal, if both dates are exact`() {
        let second = 1.0 / 86_400
        let chain = Facts.chain([
            Facts.transaction("1", from: 0, until: 30 + 0.7 * second),
            Facts.transaction("2", product: "other month", from: 20, until: 50),
            Facts.transaction("3", product: "third month", from: 30 + 0.3 * second, until: 60),
        ])
        let state = chain.subscription(Catalogue(), at: Facts.day(31))
        #expect(state?.governing.transactionId == "3")
    }

    /// A receipt does not say which of its periods are renewals. The third one begins during the second, and less than
    /// an hour after the end of the first, so it may be one.
    @Test(arguments: [(30.00, "2"), (30.01, "2"), (30.02, "3")])
    func `a purchase that waits for its date like a renewal supersedes nothing before`(day: Double, id: String) {
        let chain = Facts.chain([
            Facts.transaction("1", from: 0, until: 30), Facts.transaction("2", from: 30, until: 60),
            Facts.transaction("3", product: "other month", from: 30.02, until: 60.02),
        ])
        let state = chain.subscription(Catalogue(), at: Facts.day(day))
        #expect(state?.governing.transactionId == id && state?.status == .active)
        #expect(state?.nextChange == (id == "2" ? Facts.day(30.02) : Facts.day(60.02)))
    }

    // MARK: - Periods that overlap

    /// Two periods of one product, of which neither supersedes the other: the second one was refunded, or ended first.
    @Test(
        arguments: [(40, 12, .revoked), (20, nil, .stale), (20, 12, .revoked)]
            as [(Double, Double?, SubscriptionState.Status)])
    func `an earlier period that still runs governs, so that the status says what is granted`(
        until: Double, revoked: Double?, status: SubscriptionState.Status
    ) {
        let chain = Facts.chain([
            Facts.transaction(until: 30),
            Facts.transaction("2", signed: 12, from: 10, until: until) { $0.revocationDate = revoked.map(Facts.day) },
        ])
        let catalogue = Catalogue(products: ["month": .init(entitlements: ["pro"])], staleLeeway: .zero)
        let state = chain.subscription(catalogue, at: Facts.day(25))
        #expect(state?.status == .active && state?.governing.transactionId == "1")
        #expect(state?.accessUntil == Facts.day(30) && state?.nextChange == Facts.day(30))
        let entitlements = Holdings([chain], catalogue: catalogue, at: Facts.day(25)).entitlements
        #expect(entitlements.map(\.transactionId) == ["1"])
        #expect(chain.subscription(catalogue, at: Facts.day(45))?.status == status)
        #expect(Holdings([chain], catalogue: catalogue, at: Facts.day(45)).entitlements == [])
    }

    // MARK: - A genuine receipt

    /// Instants on 2019-12-26, with the plan that governs then and the end of its period.
    static let genuine = [
        ("00:10:30", "lite", "00:15:12"), ("00:11:18", "optimum", "00:16:18"), ("00:14:54", "pro", "00:19:54"),
        ("15:43:00", "optimum", "15:47:59"),
        // “optimum” had already been charged for its next period, from 15:47:59. The upgrade at 15:47:18 ends that
        // period.
        ("15:47:18", "pro", "15:52:18"), ("15:50:00", "pro", "15:52:18"), ("15:52:30", "pro", "15:57:18"),
    ]

    @Test(.enabled(if: TestData.isThere, Comment(rawValue: TestData.whyNot)), arguments: genuine)
    func `in a genuine receipt with four upgrades the plan bought last governs`(
        time: String, product: String, end: String
    ) throws {
        let signed = try SignedReceipt(decoding: TestData.receipt("receipts/sandbox-2020-sha1-187-purchases.b64"))
        let receipt = try AppReceipt(decoding: signed.payload)
        var chain = Chain(ChainKey("1000000603177571", in: Facts.scope))
        let now = try #require(Timestamp(iso8601: "2019-12-26T\(time)Z"))
        // Only what was known then: purchases that were made, and renewals that were charged up to a minute ahead.
        let ends = Set(receipt.inAppPurchases.compactMap(\.expiresDate))
        for purchase in receipt.modern().value.transactions {
            let date = try #require(purchase.purchaseDate)
            guard date <= now || ends.contains(date) && date < now.advanced(by: .seconds(60)) else { continue }
            let provenance = Provenance(signedDate: now, digest: Facts.digest(""))
            chain.merge(
                try #require(TransactionStatement(purchase, source: .receipt, provenance: provenance, in: .production)))
        }
        let state = chain.subscription(Catalogue(), at: now)
        #expect(state?.governing.productId == "com.nutcallalert.inapp.\(product)")
        #expect(state?.governing.expiresDate == Timestamp(iso8601: "2019-12-26T\(end)Z"))
        #expect(state?.status == .active)
    }

    // MARK: - Documents

    private static func notification(
        _ signed: SignedHistory, _ type: String, _ day: Double, _ transaction: String, _ renewal: String?
    ) throws -> SignedHistory.Document {
        .notification(try signed.notification(type, signed: day, transaction: transaction, renewal: renewal))
    }

    private static func bought(
        _ signed: SignedHistory, _ product: String, until end: Double
    ) throws -> SignedHistory.Document {
        try notification(
            signed, "SUBSCRIBED", 0, signed.transaction(product: product, until: end), signed.renewal(signed: 0))
    }

    /// The month bought on day 100, signed on `day`.
    private static func month(
        _ signed: SignedHistory, _ day: Double, _ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        try signed.transaction("2", signed: day, from: 100, until: 130) {
            $0.transactionReason = Open(.purchase)
            change(&$0)
        }
    }

    private static func changed(_ signed: SignedHistory) throws -> SignedHistory.Document {
        try notification(signed, "DID_CHANGE_RENEWAL_PREF", 100, month(signed, 100), signed.renewal(signed: 100))
    }

    private static func purchase(
        _ id: String, _ product: String, _ from: Double, _ until: Double, cancelled: Double? = nil
    ) -> InAppPurchase {
        TestStore.purchase(id, original: "1", product: product, from: from, until: until, cancelled: cancelled)
    }
}
