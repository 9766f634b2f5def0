// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A commitment of twelve months that the customer pays month by month.
///
/// The top level of renewal info is about the next month; its `commitmentInfo` is about the next commitment.
struct Commitment: Hashable, Sendable {
    /// How many months a commitment has.
    static let months = 12

    /// Whether Apple sells commitments in a country: not in the United States and Singapore.
    static func isSold(in storefront: Storefront) -> Bool { !["USA", "SGP"].contains(storefront.country) }

    /// The month that was paid last: 1 to 12.
    var month = 1
    /// The end of the commitment.
    var end: Timestamp
    /// What all of its months cost, in milliunits.
    var price: Int64
    /// Whether another commitment follows.
    var isRenewing = true
    /// The product of the next commitment.
    var nextProduct: String

    /// Whether the month that was paid last is the commitment's last one.
    var isLastMonth: Bool { month >= Self.months }

    /// What a transaction of this month says.
    var transactionInfo: TransactionCommitmentInfo {
        var info = TransactionCommitmentInfo()
        info.billingPeriodNumber = month
        info.totalBillingPeriods = Self.months
        info.commitmentExpiresDate = end
        info.commitmentPrice = price
        return info
    }

    /// What renewal info says about the next commitment.
    var renewalInfo: RenewalCommitmentInfo {
        var info = RenewalCommitmentInfo()
        info.commitmentAutoRenewProductId = nextProduct
        info.commitmentAutoRenewStatus = Open(isRenewing ? .on : .off)
        info.commitmentRenewalBillingPlanType = Open(.monthly)
        info.commitmentRenewalDate = end
        info.commitmentRenewalPrice = price
        return info
    }

    /// The commitment once the next month is paid: a new one after the last month.
    ///
    /// - Parameters:
    ///   - delay: Milliseconds by which a recovered charge came late. They move the commitment's end.
    ///   - end: The end of a commitment that begins now.
    func next(delayedBy delay: Int64, endOfNew end: Timestamp) -> Commitment {
        var next = self
        if isLastMonth {
            next.month = 1
            next.end = end
        } else {
            next.month += 1
            next.end = Timestamp(milliseconds: self.end.milliseconds + delay)
        }
        return next
    }
}
