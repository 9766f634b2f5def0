// SPDX-License-Identifier: Apache-2.0

// The strict members of signed payloads. They affect decisions, and therefore must have the form documented by Apple.
// All other members are informative: they are shown, reported and passed on.
//
// The following members are strict in every object:
//
// - The ids of purchases, owners, requests and seats, the product, the app and the environment. They decide the subject
//   and the owner of a document.
// - Dates. They decide the order of documents, and the start, end or revocation of a purchase.
// - The members named in the comment on the object's own list below.
//
// An inner object is read as a whole or not at all. If a strict member of the object is unreadable, the object is
// unreadable too. The member that contains the object then counts as a member of an unexpected type.

extension JWSTransactionDecodedPayload: LenientPayload {
    /// `type` decides which rules apply, and `inAppOwnershipType` decides whether the customer paid. `isUpgraded`, the
    /// members of a revocation and revoked seats in `multiSeatInfo` end the customer's access.
    ///
    /// `transactionReason` is lenient: old payloads lack it, and without it the dates show whether a transaction is a
    /// renewal.
    static let strictMembers: Set = [
        "transactionId", "originalTransactionId", "previousOriginalTransactionId", "webOrderLineItemId", "bundleId",
        "productId", "subscriptionGroupIdentifier", "appAccountToken", "appTransactionId", "environment",
        "purchaseDate", "originalPurchaseDate", "expiresDate", "signedDate",
        "type", "inAppOwnershipType", "isUpgraded",
        "revocationDate", "revocationReason", "revocationType", "revocationPercentage", "multiSeatInfo",
    ]
}

extension TransactionCommitmentInfo: LenientPayload {
    static let strictMembers: Set = ["commitmentExpiresDate"]
}

extension TransactionMultiSeatInfo: LenientPayload {
    /// Revoked seats end access.
    static let strictMembers: Set = ["revokedSeatQuantity"]
}

extension JWSRenewalInfoDecodedPayload: LenientPayload {
    /// The ends of periods and of the grace period decide when access ends. `autoRenewStatus`, `expirationIntent` and
    /// `isInBillingRetryPeriod` are lenient, because the ledger has a state for subscriptions whose next renewal is
    /// unknown, and the server then asks the App Store.
    static let strictMembers: Set = [
        "originalTransactionId", "productId", "autoRenewProductId", "appAccountToken", "appTransactionId",
        "environment", "gracePeriodExpiresDate", "signedDate", "recentSubscriptionStartDate", "renewalDate",
    ]
}

extension RenewalCommitmentInfo: LenientPayload {
    static let strictMembers: Set = ["commitmentAutoRenewProductId", "commitmentRenewalDate"]
}

extension RenewalMultiSeatInfo: LenientPayload {
    static let strictMembers: Set<String> = []
}

extension AppTransaction: LenientPayload {
    /// `receiptType` is the environment.
    static let strictMembers: Set = [
        "receiptType", "appAppleId", "bundleId", "appTransactionId", "receiptCreationDate", "originalPurchaseDate",
        "preorderDate", "requestDate",
    ]
}

extension ResponseBodyV2DecodedPayload: LenientPayload {
    /// The type and the listed objects decide the subject of the notification. The UUID identifies repeated deliveries.
    static let strictMembers: Set = [
        "notificationType", "notificationUUID", "signedDate", "data", "summary", "externalPurchaseToken", "appData",
    ]
}

extension NotificationData: LenientPayload {
    /// `status` is lenient, because it is only Apple's summary of the facts in the signed parts. The signed parts
    /// decide.
    static let strictMembers: Set = [
        "appAppleId", "bundleId", "environment", "signedTransactionInfo", "signedRenewalInfo",
    ]
}

extension NotificationSummary: LenientPayload {
    static let strictMembers: Set = ["environment", "appAppleId", "bundleId", "productId", "requestIdentifier"]
}

extension ExternalPurchaseToken: LenientPayload {
    /// The environment follows from `externalPurchaseId`.
    static let strictMembers: Set = [
        "externalPurchaseId", "appAppleId", "bundleId", "tokenCreationDate", "tokenExpirationDate",
    ]
}

extension NotificationAppData: LenientPayload {
    static let strictMembers: Set = ["appAppleId", "bundleId", "environment", "signedAppTransactionInfo"]
}

extension UnclaimInfo: LenientPayload {
    static let strictMembers: Set = ["unclaimSeatIds"]
}

extension DecodedRealtimeRequestBody: LenientPayload {
    /// `userLocale` is lenient, because the language only chooses among messages. Without it the default message is
    /// shown.
    static let strictMembers: Set = [
        "originalTransactionId", "appAppleId", "productId", "requestIdentifier", "environment", "signedDate",
    ]
}

// MARK: - Advanced Commerce API

// Descriptors and offers have no lenient members, because both types also occur in requests, whose members are all
// strict.

extension AdvancedCommerceTransactionInfo: LenientPayload {
    static let strictMembers: Set = ["requestReferenceId"]
}

extension AdvancedCommerceTransactionItem: LenientPayload {
    static let strictMembers: Set = ["SKU", "revocationDate"]
}

extension AdvancedCommerceRefund: LenientPayload {
    static let strictMembers: Set = ["refundDate"]
}

extension AdvancedCommerceRenewalInfo: LenientPayload {
    static let strictMembers: Set = ["requestReferenceId"]
}

extension AdvancedCommerceRenewalItem: LenientPayload {
    static let strictMembers: Set = ["SKU"]
}

extension AdvancedCommercePriceIncreaseInfo: LenientPayload {
    static let strictMembers: Set = ["dependentSKUs"]
}
