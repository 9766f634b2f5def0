// SPDX-License-Identifier: Apache-2.0

// The members of signed payloads that decide something, and therefore must have the form that Apple documents. All
// other members only inform: they are shown, reported and passed on.
//
// Strict in every object are
//
// - ids, products, the app and the environment: they decide the subject of a document and its owner;
// - dates: they decide the order of documents, and when a purchase begins, ends or was taken back;
// - the members that its comment names.
//
// An object inside a payload is read as a whole or not at all. If one of its strict members is unreadable, so is the
// object, and the member that holds it counts as one of another form.

extension JWSTransactionDecodedPayload: LenientPayload {
    /// `type` decides which rules apply, and `inAppOwnershipType` whether the customer paid. `isUpgraded` and the
    /// members of a revocation take the purchase away, as revoked seats in `multiSeatInfo` do.
    ///
    /// `transactionReason` is lenient: without it, as in old payloads, the dates tell a renewal.
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
    /// The ends of periods and of the grace period decide when access ends. Without `autoRenewStatus`,
    /// `expirationIntent` or `isInBillingRetryPeriod` it is unknown what follows, which is a state of its own: the App
    /// Store is asked.
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
    /// The type and the objects decide what the notification is about. By its UUID it is known again.
    static let strictMembers: Set = [
        "notificationType", "notificationUUID", "signedDate", "data", "summary", "externalPurchaseToken", "appData",
    ]
}

extension NotificationData: LenientPayload {
    /// `status` is Apple's own view of the facts in the signed parts, which decide.
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
    /// The language only chooses among messages: without it the default message is shown.
    static let strictMembers: Set = [
        "originalTransactionId", "appAppleId", "productId", "requestIdentifier", "environment", "signedDate",
    ]
}

// MARK: - Advanced Commerce API

// Descriptors and offers are not lenient inside, since requests to the API have them too.

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
