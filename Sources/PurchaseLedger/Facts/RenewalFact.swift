// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// What a subscription's renewal info says, as far as it decides anything.
public struct RenewalFact: Hashable, Sendable {
    public var provenance: Provenance
    public var originalTransactionId: String
    public var productId: String?
    public var autoRenewProductId: String?
    public var willRenew: Bool?
    public var expirationIntent: Open<ExpirationIntent>?
    public var isInBillingRetry: Bool
    public var gracePeriodExpiresDate: Timestamp?
    public var priceIncreaseStatus: Open<PriceIncreaseStatus>?
    public var appAccountToken: String?
    /// The end of the newest period at the time of signing, even if that is past.
    public var renewalDate: Timestamp?

    /// Makes a fact without optional members, for storages.
    public init(provenance: Provenance, originalTransactionId: String) {
        self.provenance = provenance
        self.originalTransactionId = originalTransactionId
        isInBillingRetry = false
    }

    /// Reads a payload; `nil` if it names no subscription, so that nothing binds it to an app.
    public init?(_ payload: JWSRenewalInfoDecodedPayload, provenance: Provenance) {
        guard let originalTransactionId = payload.originalTransactionId else { return nil }
        self.init(provenance: provenance, originalTransactionId: originalTransactionId)
        productId = payload.productId
        autoRenewProductId = payload.autoRenewProductId
        willRenew = payload.autoRenewStatus.map { $0 == .on }
        expirationIntent = payload.expirationIntent
        isInBillingRetry = payload.isInBillingRetryPeriod ?? false
        gracePeriodExpiresDate = payload.gracePeriodExpiresDate
        priceIncreaseStatus = payload.priceIncreaseStatus
        appAccountToken = payload.appAccountToken?.normalizedAccountToken
        renewalDate = payload.renewalDate
    }

    /// The newer of two.
    public func merged(with other: RenewalFact) -> RenewalFact {
        provenance > other.provenance ? self : other
    }
}

extension RenewalFact {
    /// Whether this is about the end of a period: it names that end, or it was signed after the period had begun and
    /// was known. Otherwise it is about an earlier period.
    func isAbout(_ period: TransactionStatement) -> Bool {
        if let renewalDate, renewalDate.second == period.end.second { return true }
        guard let known = period.knownSince else { return false }
        return provenance.signedDate >= max(period.start, known)
    }
}
