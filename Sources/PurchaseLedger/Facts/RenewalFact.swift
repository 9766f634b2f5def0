// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The facts in a subscription's renewal info: the fields read by rules.
public struct RenewalFact: Hashable, Sendable {
    /// The document and its signing date.
    public var provenance: Provenance
    /// The name of the subscription's chain; see ``ChainKey/name``.
    public var chainName: String
    /// The product, the price and the offer of the next period.
    public var terms = RenewalTerms()
    /// Whether renewal is on (`autoRenewStatus`); `nil` if the document does not say.
    public var willRenew: Bool?
    /// The reason why the subscription ended or will end; `nil` if the document does not say.
    public var expirationIntent: Open<ExpirationIntent>?
    /// Whether the App Store still tries to charge for a failed renewal.
    public var isInBillingRetry: Bool
    /// The end of the billing grace period; `nil` without a grace period.
    public var gracePeriodExpiresDate: Timestamp?
    /// Whether a notification says that the billing grace period runs, and its renewal info has no end of it, as Apple
    /// has signed in production.
    public var hasGraceWithoutEnd = false
    /// The `appAccountToken` of the next renewal; `nil` if the app gave none. It lasts if a newer document does not
    /// have it, as that of a transaction does (``TransactionStatement/olderMembers``).
    public var appAccountToken: String?
    /// The signing date of the document with the account token if the newest document does not have it.
    public var olderTokenDate: Timestamp?
    /// The end of the newest period at the time of the signing. The period may already have been over at that time.
    public var renewalDate: Timestamp?
    /// Whether a further commitment follows the present commitment to several monthly payments
    /// (`commitmentAutoRenewStatus`; see ``TransactionStatement/Commitment``); `nil` without a commitment.
    public var commitmentWillRenew: Bool?
    /// The product of the next commitment; `nil` without a commitment.
    public var commitmentAutoRenewProductId: String?

    /// Makes a fact without the optional fields.
    ///
    /// - Parameter chain: The name of the chain; see ``ChainKey/name``.
    public init(provenance: Provenance, chain: String) {
        self.provenance = provenance
        chainName = chain
        isInBillingRetry = false
    }

    /// Reads a fact from a payload.
    ///
    /// - Parameter chain: The name of the chain; `nil` if the name is the original transaction id. Renewal info lacks
    ///   the date of the first purchase, so a name with this date comes from the transaction that binds the renewal
    ///   info to an app.
    /// - Returns: `nil` if the payload names no subscription. Such a payload cannot be bound to an app.
    public init?(_ payload: JWSRenewalInfoDecodedPayload, provenance: Provenance, chain: String? = nil) {
        guard let originalTransactionId = payload.originalTransactionId else { return nil }
        self.init(provenance: provenance, chain: chain ?? originalTransactionId)
        terms = RenewalTerms(payload)
        willRenew = payload.autoRenewStatus.map { $0 == .on }
        expirationIntent = payload.expirationIntent
        isInBillingRetry = payload.isInBillingRetryPeriod ?? false
        gracePeriodExpiresDate = payload.gracePeriodExpiresDate
        appAccountToken = payload.appAccountToken?.normalizedAccountToken
        renewalDate = payload.renewalDate
        commitmentWillRenew = payload.commitmentInfo?.commitmentAutoRenewStatus.map { $0 == .on }
        commitmentAutoRenewProductId = payload.commitmentInfo?.commitmentAutoRenewProductId
    }

    /// The newer of the two facts. Only the account token may be that of the older one.
    public func merged(with other: RenewalFact) -> RenewalFact {
        var (newer, older) = provenance > other.provenance ? (self, other) : (other, self)
        // The same document may have arrived by itself, and in a notification that says more.
        if newer.provenance == older.provenance, older.hasGraceWithoutEnd { newer.hasGraceWithoutEnd = true }
        if let token = older.appAccountToken,
            newer.appAccountToken.map({ (newer.tokenDate, $0) < (older.tokenDate, token) }) ?? true
        {
            newer.appAccountToken = token
            newer.olderTokenDate = older.tokenDate == newer.provenance.signedDate ? nil : older.tokenDate
        }
        return newer
    }

    private var tokenDate: Timestamp { olderTokenDate ?? provenance.signedDate }
}

extension RenewalFact: StoredFields {
    @usableFromInline package static let blank = RenewalFact(provenance: .blank, chain: "")

    /// All fields except `chainName`, because the chain's key contains the name. The field names differ from the names
    /// of a chain's own fields, because both are stored in the same row.
    @inlinable
    package mutating func fields(_ coder: inout some FieldCoder) throws {
        try coder.field("renewalSignedDate", &provenance.signedDate)
        try coder.field("renewalEvidence", &provenance.digest)
        try coder.field("renewalTerms", &terms)
        try coder.field("autoRenewStatus", &willRenew)
        try coder.field("expirationIntent", &expirationIntent)
        try coder.field("isInBillingRetry", &isInBillingRetry)
        try coder.field("gracePeriodExpiresDate", &gracePeriodExpiresDate)
        try coder.field("hasGraceWithoutEnd", &hasGraceWithoutEnd)
        try coder.field("renewalAppAccountToken", &appAccountToken)
        try coder.field("olderTokenDate", &olderTokenDate)
        try coder.field("renewalDate", &renewalDate)
        try coder.field("commitmentAutoRenewStatus", &commitmentWillRenew)
        try coder.field("commitmentAutoRenewProductId", &commitmentAutoRenewProductId)
    }
}

extension RenewalFact {
    /// Whether the fact describes how `period` continues. It does if its `renewalDate` is the end of the period. It
    /// also does if, at its signing, the period had begun and the App Store had signed a document about the period. Any
    /// other fact is about an earlier period.
    func isAbout(_ period: TransactionStatement) -> Bool {
        if let renewalDate, renewalDate.second == period.end.second { return true }
        guard let knownSince = period.knownSince else { return false }
        return provenance.signedDate >= max(period.start, knownSince)
    }
}
