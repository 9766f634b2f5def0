// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A commitment to twelve months with monthly payments.
///
/// In the renewal info of such a subscription, the top-level members describe the next month, and `commitmentInfo`
/// describes the next commitment.
struct Commitment: Hashable, Sendable {
    /// The number of months in a commitment.
    static let months = 12

    /// Whether Apple sells commitments in a country: not in the United States and Singapore.
    static func isSold(in storefront: Storefront) -> Bool { !["USA", "SGP"].contains(storefront.country) }

    /// The newest paid month: 1 to 12.
    var month = 1
    /// The end of the commitment.
    var end: Timestamp
    /// The price of all months together, in milliunits.
    var price: Int64
    /// Whether the commitment renews at its end.
    var isRenewing = true
    /// The product of the next commitment.
    var nextProduct: String

    /// Whether the newest paid month is the last month of the commitment.
    var isLastMonth: Bool { month >= Self.months }

    /// The member `commitmentInfo` of this month's transaction.
    var transactionInfo: TransactionCommitmentInfo {
        var info = TransactionCommitmentInfo()
        info.billingPeriodNumber = month
        info.totalBillingPeriods = Self.months
        info.commitmentExpiresDate = end
        info.commitmentPrice = price
        return info
    }

    /// The member `commitmentInfo` of renewal info, which describes the next commitment.
    var renewalInfo: RenewalCommitmentInfo {
        var info = RenewalCommitmentInfo()
        info.commitmentAutoRenewProductId = nextProduct
        info.commitmentAutoRenewStatus = Open(isRenewing ? .on : .off)
        info.commitmentRenewalBillingPlanType = Open(.monthly)
        info.commitmentRenewalDate = end
        info.commitmentRenewalPrice = price
        return info
    }

    /// The commitment after the payment of the next month. After the last month a new commitment begins.
    ///
    /// - Parameters:
    ///   - delay: How late the payment is, in milliseconds, because the first charge failed. The commitment's end moves
    ///     by this time.
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
