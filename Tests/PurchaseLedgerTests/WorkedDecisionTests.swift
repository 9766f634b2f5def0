// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests the worked decisions of the fact sheet about signed transactions, by number. A period ends on day 30, grace on
/// day 46.
@Suite struct WorkedDecisionTests {
    typealias Status = SubscriptionState.Status

    struct Decision: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var chains: [Chain]
        var now: Timestamp
        var status: Status?
        /// The product that grants the entitlement; `nil` for none.
        var product: String?
        var until: Timestamp?
        /// Whether the subscription renews; `nil` if not tested.
        var willRenew: Bool??

        init(
            _ description: String, _ chains: [Chain], at now: Timestamp, _ status: Status?, product: String? = nil,
            until: Timestamp? = nil, willRenew: Bool?? = nil
        ) {
            testDescription = description
            self.chains = chains
            self.now = now
            self.status = status
            self.product = product
            self.until = until
            self.willRenew = willRenew
        }
    }

    private static let catalogue = Catalogue(
        products: [
            "month": .init(entitlements: ["pro"], level: 2), "low": .init(entitlements: ["pro"], level: 3),
            "high": .init(entitlements: ["pro"], level: 1), "highest": .init(entitlements: ["pro"], level: 0),
            "book": .init(entitlements: ["book"]),
        ], staleLeeway: .zero)

    private static let end = Facts.day(30)
    private static let justBeforeEnd = Timestamp(milliseconds: end.milliseconds - 1)

    private static func revoked(_ day: Double) -> (inout JWSTransactionDecodedPayload) -> Void {
        { $0.revocationDate = Facts.day(day) }
    }

    private static let renewal: @Sendable (inout JWSTransactionDecodedPayload) -> Void = {
        $0.transactionReason = Open(.renewal)
    }

    static let decisions = first + purchases + renewals

    private static let first = [
        Decision(
            "1: a period that renews", [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 0)])],
            at: justBeforeEnd, .active, product: "month", until: end),
        Decision(
            "2: a period that does not renew",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 5, renews: false)])],
            at: justBeforeEnd, .active, product: "month", until: end),
        Decision(
            "3: the end of a period that does not renew",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 5, renews: false)])], at: end, .expired),
        Decision(
            "4: the end of a period that renews, with no newer document",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 0)])], at: Facts.day(30.01), .stale),
        Decision(
            "5: billing retry with grace",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 30, retry: true, grace: 46)])],
            at: Facts.day(31), .billingGrace, product: "month", until: Facts.day(46)),
        Decision(
            "6: the end of grace",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 30, retry: true, grace: 46)])],
            at: Facts.day(46), .billingRetry),
        Decision(
            "7: billing retry without grace",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 30, retry: true)])], at: Facts.day(31),
            .billingRetry),
        Decision(
            "8: the end of billing retry",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 90, retry: false, intent: .billingError)])],
            at: Facts.day(91), .expired),
        Decision(
            "9: refunded", [Facts.chain([Facts.transaction(), Facts.transaction(signed: 20, revoked(20))])],
            at: Facts.day(25), .revoked),
        Decision(
            "10: the refund was reversed",
            [
                Facts.chain([
                    Facts.transaction(), Facts.transaction(signed: 20, revoked(20)), Facts.transaction(signed: 27),
                ])
            ], at: Facts.day(28), .active, product: "month", until: end),
        Decision(
            "11: an older transaction without the refund arrives late",
            [Facts.chain([Facts.transaction(signed: 20, revoked(20)), Facts.transaction(signed: 10)])],
            at: Facts.day(25), .revoked),
        Decision(
            "12: an upgrade",
            [
                Facts.chain([
                    Facts.transaction(product: "low", signed: 10) { $0.isUpgraded = true },
                    Facts.transaction("2", product: "high", signed: 10, from: 10, until: 40),
                ])
            ], at: Facts.day(20), .active, product: "high", until: Facts.day(40)),
        Decision(
            "13: a period that renews, a day before its end",
            [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 5)])],
            at: Facts.day(29), .active, product: "month", until: end),
        Decision(
            "14: an expired subscription beside one that the family shares",
            [
                Facts.chain([Facts.transaction()], [Facts.renewal(signed: 5, renews: false)]),
                Facts.chain(
                    [
                        Facts.transaction("9", original: "9", from: 20, until: 50) {
                            $0.inAppOwnershipType = Open(.familyShared)
                        }
                    ],
                    original: "9"),
            ], at: Facts.day(35), .expired, product: "month", until: Facts.day(50)),
        Decision(
            "15: two subscriptions, to a low plan and a high plan",
            [
                Facts.chain([Facts.transaction(product: "low", until: 60)]),
                Facts.chain(
                    [Facts.transaction("9", original: "9", product: "high", from: 20, until: 50)], original: "9"),
            ], at: Facts.day(35), .active, product: "high", until: Facts.day(50)),
        Decision(
            "16: a commitment whose monthly charge failed",
            [
                Facts.chain(
                    [
                        Facts.transaction {
                            $0.commitmentInfo = TransactionCommitmentInfo()
                            $0.commitmentInfo?.commitmentExpiresDate = Facts.day(365)
                        }
                    ], [Facts.renewal(signed: 30, retry: true)])
            ], at: Facts.day(31), .billingRetry),
        Decision(
            "17: extended by 30 days",
            [Facts.chain([Facts.transaction(), Facts.transaction(signed: 29, until: 60)])], at: Facts.day(40), .active,
            product: "month", until: Facts.day(60)),
        Decision(
            "19: renewal info of another subscription has no effect",
            [Facts.chain([Facts.transaction()], [Facts.renewal(original: "7", signed: 30, retry: true, grace: 46)])],
            at: Facts.day(31), .stale),
        Decision(
            "20: the renewal is known six hours before the end",
            [Facts.chain([Facts.transaction(), Facts.transaction("2", signed: 29.7, from: 30, until: 60)])],
            at: Facts.day(29.75), .active, product: "month", until: Facts.day(60)),
        Decision(
            "21: an older month was refunded",
            [
                Facts.chain([
                    Facts.transaction(signed: 40, revoked(40)), Facts.transaction("2", signed: 30, from: 30, until: 60),
                ])
            ], at: Facts.day(45), .active, product: "month", until: Facts.day(60)),
    ]

    /// A year of the plan `high` from day 0.
    private static func year(_ change: (inout JWSTransactionDecodedPayload) -> Void = { _ in }) -> TransactionStatement
    {
        Facts.transaction(product: "high", until: 365, change)
    }

    /// The month bought on day 100.
    private static let month = Facts.transaction("2", signed: 100, from: 100, until: 130) {
        $0.transactionReason = Open(.purchase)
    }

    /// A receipt of the year and the month, with a cancellation of the year.
    private static func receipt(cancelled day: Double) -> [TransactionStatement] {
        [
            Facts.receipt(product: "high", signed: 110, until: 365) { $0.revocationDate = Facts.day(day) },
            Facts.receipt("2", signed: 110, from: 100, until: 130),
        ]
    }

    private static let purchases = [
        Decision(
            "23: an upgrade to a shorter plan, with only the new period's transaction",
            [Facts.chain([year(), month])],
            at: Facts.day(110), .active, product: "month", until: Facts.day(130)),
        Decision(
            "24: the end of the shorter plan",
            [Facts.chain([year(), month], [Facts.renewal(signed: 130, renews: false, intent: .customerCancelled)])],
            at: Facts.day(131), .expired),
        Decision(
            "25: the refund of the shorter plan",
            [
                Facts.chain([
                    year(), month, Facts.transaction("2", signed: 105, from: 100, until: 130, revoked(105)),
                ])
            ], at: Facts.day(110), .revoked),
        Decision(
            "26: a month that was bought after the refund of a year",
            [
                Facts.chain([
                    year(),
                    year {
                        $0.revocationDate = Facts.day(50); $0.signedDate = Facts.day(50)
                    }, month,
                ])
            ],
            at: Facts.day(110), .active, product: "month", until: Facts.day(130)),
        Decision(
            "27: the grace period of that month",
            [
                Facts.chain(
                    [Facts.transaction(product: "high", signed: 50, until: 365, revoked(50)), month],
                    [Facts.renewal(signed: 130, retry: true, grace: 146)])
            ], at: Facts.day(135), .billingGrace, product: "month", until: Facts.day(146)),
        Decision(
            "28: an upgrade that is known only from a receipt", [Facts.chain(receipt(cancelled: 100))],
            at: Facts.day(110), .active, product: "month", until: Facts.day(130)),
        Decision(
            "29: a purchase after expiry, with only its transaction",
            [
                Facts.chain(
                    [Facts.transaction(), month], [Facts.renewal(signed: 30, renews: false, intent: .customerCancelled)]
                )
            ], at: Facts.day(110), .active, product: "month", until: Facts.day(130), willRenew: .some(nil)),
        Decision(
            "30: the end of that purchase, with no newer renewal info",
            [
                Facts.chain(
                    [Facts.transaction(), month], [Facts.renewal(signed: 30, renews: false, intent: .customerCancelled)]
                )
            ], at: Facts.day(130), .stale),
    ]

    private static let renewals = [
        Decision(
            "31: the end of a recovered period, with no newer renewal info than from the failure",
            [
                Facts.chain(
                    [Facts.transaction(), Facts.transaction("2", signed: 40, from: 40, until: 70)],
                    [Facts.renewal(signed: 30, retry: true, intent: .billingError)])
            ], at: Facts.day(70), .stale, willRenew: .some(nil)),
        Decision(
            "31: the recovered period, by a clock that is behind",
            [
                Facts.chain(
                    [Facts.transaction(), Facts.transaction("2", signed: 40, from: 40, until: 70, renewal)],
                    [Facts.renewal(signed: 30, retry: true, intent: .billingError)])
            ], at: Facts.day(39.9), .active, product: "month", until: Facts.day(70), willRenew: .some(nil)),
        Decision(
            "32: one period under two ids, one of them refunded",
            [
                Facts.chain([
                    Facts.transaction { $0.webOrderLineItemId = "77" },
                    Facts.transaction("2", signed: 5, from: 5) {
                        $0.webOrderLineItemId = "77"
                        $0.revocationDate = Facts.day(5)
                    },
                ])
            ], at: Facts.day(10), .revoked),
        Decision(
            "32: the same period after the refund was reversed",
            [
                Facts.chain([
                    Facts.transaction(signed: 20) { $0.webOrderLineItemId = "77" },
                    Facts.transaction("2", signed: 5, from: 5) {
                        $0.webOrderLineItemId = "77"
                        $0.revocationDate = Facts.day(5)
                    },
                    Facts.transaction("2", signed: 9, from: 5) { $0.webOrderLineItemId = "77" },
                ])
            ], at: Facts.day(10), .active, product: "month", until: end),
        Decision(
            "33: a one-time purchase under two ids, one of them refunded",
            [
                Facts.chain([
                    Facts.transaction(product: "book", until: nil, type: .nonConsumable, group: nil),
                    Facts.transaction(
                        "2", product: "book", signed: 5, from: 5, until: nil, type: .nonConsumable, group: nil,
                        revoked(5)),
                ])
            ], at: Facts.day(10), nil),
        Decision(
            "34: a downgrade that was charged in advance, before it begins", [Facts.chain([year(), downgrade])],
            at: Facts.day(364.8), .active,
            product: "high", until: Facts.day(395)),
        Decision(
            "34: the same downgrade from its start", [Facts.chain([year(), downgrade])], at: Facts.day(365), .active,
            product: "low",
            until: Facts.day(395)),
        Decision(
            "35: an extension of a period that had ended",
            [
                Facts.chain(
                    [Facts.transaction(), Facts.transaction(signed: 31, until: 40)], [Facts.renewal(signed: 0)])
            ], at: Facts.day(32), .active, product: "month", until: Facts.day(40)),
        Decision(
            "37: an upgrade after a downgrade that was charged in advance",
            [Facts.chain([year(), downgrade, upgrade])],
            at: Facts.day(366), .active, product: "highest", until: Facts.day(370)),
        Decision(
            "37: the end of that upgrade", [Facts.chain([year(), downgrade, upgrade])], at: Facts.day(371), .stale),
    ]

    private static let downgrade = Facts.transaction("2", product: "low", signed: 364.7, from: 365, until: 395) {
        $0.transactionReason = Open(.renewal)
    }

    private static let upgrade = Facts.transaction("3", product: "highest", signed: 364.9, from: 364.9, until: 370) {
        $0.transactionReason = Open(.purchase)
    }

    @Test(arguments: decisions) func `a worked decision has the expected status and entitlement`(
        _ decision: Decision
    ) throws {
        let state = decision.chains.first?.subscription(Catalogue(), at: decision.now)
        #expect(state?.status == decision.status)
        if let willRenew = decision.willRenew { #expect(state?.willRenew == willRenew) }
        let holdings = Holdings(decision.chains, catalogue: Self.catalogue, at: decision.now)
        let entitlement = holdings.entitlements.first
        #expect(entitlement?.name == decision.product.map { _ in "pro" })
        #expect(entitlement?.productId == decision.product)
        #expect(entitlement?.until == decision.until)
        // The entitlements do not change before the announced instant.
        guard let next = holdings.nextChange else { return }
        let before = Timestamp(milliseconds: next.milliseconds - 1)
        #expect(Holdings(decision.chains, catalogue: Self.catalogue, at: before).entitlements == holdings.entitlements)
    }

    @Test(
        arguments: [
            (2, RevocationType.refundProrated, 50_000, 1), (2, .refundFull, 100_000, 2),
            (1, .refundProrated, 61_500, 0),
            (3, .familyRevoke, nil, 3), (10, .refundProrated, 99_999, 9), (2, .refundProrated, -1, 0),
            (2, .refundProrated, 1_000_000, 2),
        ] as [(Int, RevocationType, Int?, Int)])
    func `22: a refund of consumables revokes whole ones`(
        quantity: Int, type: RevocationType, percentage: Int?, taken: Int
    ) {
        let chain = Facts.chain([
            Facts.transaction(product: "coins", until: nil, type: .consumable, group: nil) {
                $0.quantity = quantity
                $0.revocationDate = Facts.day(3)
                $0.revocationType = Open(type)
                $0.revocationPercentage = percentage
            }
        ])
        let holdings = Holdings([chain], catalogue: Self.catalogue, at: Facts.day(5))
        #expect(holdings.consumables.map(\.quantity) == [quantity])
        #expect(holdings.consumables.map(\.revokedQuantity) == [taken])
        #expect(holdings.entitlements.isEmpty)
        #expect(holdings.unknownProducts == ["coins"])
    }

    @Test func `a renewal that has not arrived counts during the leeway`() {
        var catalogue = Self.catalogue
        catalogue.staleLeeway = .seconds(3600)
        let chains = [Facts.chain([Facts.transaction()], [Facts.renewal(signed: 0)])]
        let within = Holdings(chains, catalogue: catalogue, at: Facts.day(30.04))
        #expect(within.entitlements.map(\.reason) == [.stale])
        #expect(within.nextChange == Timestamp(milliseconds: Self.end.milliseconds + 3_600_000))
        #expect(Holdings(chains, catalogue: catalogue, at: Facts.day(30.05)).entitlements.isEmpty)
    }

    @Test func `a non-consumable has no end, and a non-renewing subscription has the catalogue's duration`() {
        let catalogue = Catalogue(products: [
            "forever": .init(entitlements: ["book"]),
            "season": .init(entitlements: ["season"], duration: .seconds(90 * 86_400)),
        ])
        let chains = [
            Facts.chain([Facts.transaction(product: "forever", until: nil, type: .nonConsumable, group: nil)]),
            Facts.chain(
                [
                    Facts.transaction(
                        "2", original: "2", product: "season", until: nil, type: .nonRenewingSubscription, group: nil)
                ],
                original: "2"),
        ]
        func names(_ day: Double) -> [String] {
            Holdings(chains, catalogue: catalogue, at: Facts.day(day)).entitlements.map(\.name)
        }
        #expect(names(89) == ["book", "season"])
        #expect(names(90) == ["book"])
        #expect(Holdings(chains, catalogue: catalogue, at: Facts.day(1)).nextChange == Facts.day(90))
    }
}
