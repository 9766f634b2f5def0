// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import TestWorld
import Testing

@testable import PurchaseLedger

/// Tests what a newer document's silence about a member means.
@Suite struct LastingMemberTests {
    /// The members whose absence in a newer document is a statement, or that no document lacks, each with the reason.
    private static let others: Set<String> = [
        // What the statement is about, and where it comes from.
        "source", "provenance", "knownSince", "transactionId", "chainName", "otherChain", "productId", "olderMembers",
        // The App Store always sends it.
        "quantity",
        // Apple reverses a refund by a newer document without it. Of the same refund, a share stays.
        "revocation",
        // Once true, it stays true.
        "isUpgraded",
    ]

    @Test func `of each member it is known what a newer document's silence means`() {
        let members = Set(Mirror(reflecting: Facts.transaction()).children.compactMap(\.label))
        let lasting = Set(LastingMember.all.map(\.name))
        #expect(lasting.isDisjoint(with: Self.others))
        #expect(lasting.union(Self.others) == members)
    }

    /// A statement with a value in each lasting member.
    private static func whole(signed: Double, _ word: String) -> TransactionStatement {
        var statement = Facts.transaction(signed: signed) {
            $0.webOrderLineItemId = word
            $0.inAppOwnershipType = Open(.purchased)
            $0.appAccountToken = word
            $0.offerType = Open(rawValue: 4)
            $0.offerIdentifier = word
            $0.offerDiscountType = Open(.oneTime)
            $0.offerPeriod = word
            $0.transactionReason = Open(.purchase)
            $0.price = 1
            $0.currency = word
            $0.storefront = word
        }
        statement.commitment = TransactionStatement.Commitment(billingPeriodNumber: 1)
        statement.revokedSeats = 1
        statement.originalApplicationVersion = word
        statement.originalPlatform = Open(rawValue: "iOS")
        statement.receiptType = word
        return statement
    }

    @Test(arguments: LastingMember.all.map(\.name), [TransactionStatement.Source.signedTransaction, .receipt])
    func `a member that a newer document lacks stays, as the newest document with it says`(
        name: String, source: TransactionStatement.Source
    ) throws {
        let member = try #require(LastingMember.all.first { $0.name == name })
        var statements = [
            Self.whole(signed: 1, "one"), Self.whole(signed: 2, "two"), Facts.transaction(signed: 3) { _ in },
        ]
        member.copy(&statements[2], .blank)
        for index in statements.indices { statements[index].source = Open(source) }
        let expected = member.value(statements[1])
        try #require(expected != .null)
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2]] {
            let chain = Facts.chain(order.map { statements[$0] })
            let known = try #require(chain.transactions["1"]?.current)
            #expect(member.value(known) == expected, "\(order)")
            #expect(known.provenance.signedDate == Facts.day(3))
            #expect(known.olderMembers[name] == Facts.day(2))
        }
    }

    @Test func `an upgrade and the share of a refund stay, also if a newer document does not say them`() {
        let refund = { (percentage: Int?) in
            TransactionStatement.Revocation(date: Facts.day(5), percentage: percentage)
        }
        var old = Facts.transaction(signed: 6) { $0.isUpgraded = true }
        old.revocation = refund(50_000)
        var new = Facts.transaction(signed: 7) { _ in }
        new.revocation = refund(nil)
        var reversed = Facts.transaction(signed: 8) { _ in }
        reversed.revocation = nil
        for merged in [old.merged(with: new), new.merged(with: old)] {
            #expect(merged.isUpgraded && merged.revocation == refund(50_000))
            for last in [merged.merged(with: reversed), reversed.merged(with: merged)] {
                #expect(last.isUpgraded && last.revocation == nil)
            }
        }
    }

    @Test func `renewal info keeps nothing that a newer one lacks but the account`() {
        var old = Facts.renewal(signed: 1, retry: true, grace: 20, intent: .billingError)
        old.appAccountToken = "anna"
        let new = Facts.renewal(signed: 2)
        for merged in [old.merged(with: new), new.merged(with: old)] {
            #expect(merged.appAccountToken == "anna" && merged.olderTokenDate == Facts.day(1))
            #expect(!merged.isInBillingRetry && merged.gracePeriodExpiresDate == nil && merged.expirationIntent == nil)
        }
    }
}
