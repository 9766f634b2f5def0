// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Testing

/// Tests commitments of twelve monthly payments (section E.7 of the fact sheet), and what is known of purchases besides
/// their status.
@Suite struct CommitmentTests {
    /// A notification about a month of a commitment, which begins on a day.
    private static func month(
        _ number: Int, of signed: SignedHistory, _ type: String, signedOn day: Double, commitmentRenews: Bool,
        _ change: (inout JWSRenewalInfoDecodedPayload) -> Void = { _ in }
    ) throws -> String {
        let start = Double(number - 1) * 30
        let transaction = try signed.transaction("\(number)", signed: day, from: start, until: start + 30) {
            var commitment = TransactionCommitmentInfo()
            (commitment.billingPeriodNumber, commitment.totalBillingPeriods) = (number, 12)
            commitment.commitmentExpiresDate = Facts.day(360)
            $0.commitmentInfo = commitment
            $0.transactionReason = Open(number == 1 ? .purchase : .renewal)
        }
        let renewal = try signed.renewal(signed: day) {
            $0.renewalDate = Facts.day(start + 30)
            var next = RenewalCommitmentInfo()
            next.commitmentAutoRenewStatus = Open(commitmentRenews ? .on : .off)
            next.commitmentAutoRenewProductId = "month"
            $0.commitmentInfo = next
            change(&$0)
        }
        return try signed.notification(type, signed: day, transaction: transaction, renewal: renewal)
    }

    @Test func `an end of a commitment is published, its months go on, and a failed charge has no grace`()
        async throws
    {
        let (ledger, signed) = (Ledger(Catalogue(staleLeeway: .zero)), try SignedHistory())
        let life = try [
            (0.0, Self.month(1, of: signed, "SUBSCRIBED", signedOn: 0, commitmentRenews: true)),
            (10, Self.month(1, of: signed, "DID_CHANGE_RENEWAL_STATUS", signedOn: 10, commitmentRenews: false)),
            (30, Self.month(2, of: signed, "DID_RENEW", signedOn: 30, commitmentRenews: false)),
            (40, Self.month(2, of: signed, "DID_CHANGE_RENEWAL_STATUS", signedOn: 40, commitmentRenews: true)),
            (
                60,
                Self.month(2, of: signed, "DID_FAIL_TO_RENEW", signedOn: 60, commitmentRenews: true) {
                    $0.isInBillingRetryPeriod = true
                }
            ),
        ]
        for (day, document) in life {
            _ = try await ledger.record([signed.evidence(notification: document)], at: Facts.day(day))
        }
        let events = try await ledger.events().events
        #expect(
            events.map(\.kind.known) == [
                .subscriptionStarted, .subscriptionCommitmentRenewalDisabled, .subscriptionRenewed,
                .subscriptionCommitmentRenewalEnabled, .subscriptionRetryEntered,
            ])
        #expect(events.map(\.content?.after?.willRenew) == [true, true, true, true, true])
        #expect(events.map(\.content?.after?.commitmentWillRenew) == [true, false, false, true, true])
        #expect(events.map(\.content?.after?.hasAccess) == [true, true, true, true, false])
        #expect(events.last?.content?.after?.until == Facts.day(60))
        let state = try await ledger.chain(Facts.key)?.subscription(Catalogue(), at: Facts.day(61))
        #expect(state?.governing.commitment?.billingPeriodNumber == 2)
        #expect(state?.governing.commitment?.expiresDate == Facts.day(360))
        #expect(state?.nextCommitmentProductId == "month")
    }

    @Test func `renewal info about an earlier month does not say whether the commitment renews`() throws {
        var renewal = Facts.renewal(signed: 0)
        (renewal.commitmentWillRenew, renewal.renewalDate) = (true, Facts.day(30))
        let chain = Facts.chain(
            [Facts.transaction(), Facts.transaction("2", signed: 29.5, from: 30, until: 60)], [renewal])
        #expect(chain.subscription(Catalogue(), at: Facts.day(10))?.commitmentWillRenew == true)
        #expect(chain.subscription(Catalogue(), at: Facts.day(31))?.commitmentWillRenew == nil)
    }

    // MARK: - Seats

    /// A transaction of a multi-seat subscription.
    private static func seats(_ quantity: Int, revoked: Int?, id: String = "1") -> TransactionStatement {
        Facts.transaction(id) {
            var seats = TransactionMultiSeatInfo()
            seats.revokedSeatQuantity = revoked
            ($0.quantity, $0.multiSeatInfo) = (quantity, seats)
        }
    }

    @Test(
        arguments: [
            ([seats(5, revoked: 2)], 3), ([seats(5, revoked: nil)], 5), ([seats(5, revoked: 7)], 0),
            ([seats(5, revoked: -1)], 5), ([Facts.transaction { $0.quantity = 5 }], nil),
            // Apple does not say how they share the revoked seats.
            ([seats(5, revoked: 2), seats(3, revoked: 0, id: "2")], nil),
        ] as [([TransactionStatement], Int?)])
    func `the seats in force are those bought without those taken back, if that is known`(
        statements: [TransactionStatement], expected: Int?
    ) {
        #expect(Facts.chain(statements).subscription(Catalogue(), at: Facts.day(1))?.seats == expected)
    }

    @Test(
        arguments: [
            (.consumable, 2, "REFUND_PRORATED", 50_000, 1), (.consumable, 3, "REFUND_PRORATED", 50_000, 1),
            (.consumable, 3, "REFUND_FULL", nil, 3), (.consumable, 3, nil, nil, 3),
            // Time is refunded, not a number.
            (.autoRenewableSubscription, 1, "REFUND_PRORATED", 50_000, nil),
            (.nonConsumable, 1, "REFUND_FULL", 100_000, nil),
        ] as [(ProductType, Int, String?, Int?, Int?)])
    func `a revoked number is known of consumables alone`(
        type: ProductType, quantity: Int, revocation: String?, percentage: Int?, expected: Int?
    ) {
        let purchase = Facts.transaction(type: type) {
            ($0.quantity, $0.revocationDate, $0.revocationPercentage) = (quantity, Facts.day(1), percentage)
            $0.revocationType = revocation.map { Open(rawValue: $0) }
        }
        #expect(purchase.revokedQuantity == expected)
    }

    @Test(arguments: [(-1, 0), (0, 0), (2, 2), (3, 3), (4, 3), (Int.max, 3), (.min, 0)])
    func `no more seats are taken back than there are, whatever the document says`(revoked: Int, expected: Int) {
        var purchase = Facts.transaction(type: .autoRenewableSubscription) { $0.quantity = 3 }
        purchase.revokedSeats = revoked
        #expect(purchase.revokedQuantity == expected)
    }

    @Test func `a receipt that is newer than a signed transaction keeps its offer, price and commitment`() throws {
        let signed = Facts.transaction {
            ($0.offerType, $0.offerIdentifier, $0.offerPeriod) = (Open(.promotional), "autumn", "P1M")
            $0.offerDiscountType = Open(.payAsYouGo)
            ($0.price, $0.currency, $0.storefront) = (9990, "EUR", "DEU")
            var commitment = TransactionCommitmentInfo()
            commitment.billingPeriodNumber = 3
            ($0.commitmentInfo, $0.multiSeatInfo) = (commitment, TransactionMultiSeatInfo())
        }
        let purchase = try #require(Facts.chain([signed, Facts.receipt(signed: 5)]).purchases.first)
        #expect(purchase.source == .receipt)
        #expect((purchase.offerIdentifier, purchase.offerPeriod) == ("autumn", "P1M"))
        #expect(purchase.offerDiscountType == Open(.payAsYouGo))
        #expect((purchase.price, purchase.currency, purchase.storefront) == (9990, "EUR", "DEU"))
        #expect((purchase.commitment?.billingPeriodNumber, purchase.revokedSeats) == (3, 0))
    }
}
