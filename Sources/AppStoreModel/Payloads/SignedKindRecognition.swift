// SPDX-License-Identifier: Apache-2.0

// Recognises the kind of a payload. Apple adds members to payloads, including members already used by other kinds.
// Therefore only a combination of members identifies a kind with certainty. Fewer members only make a kind likely.

extension SignedKind {
    /// Recognises the payload of a JWS of any kind, or returns `nil` if the payload has no known kind.
    ///
    /// If the source of the document implies its kind, use ``accepts(_:)`` instead.
    public init?(recognizing payload: JSONValue) {
        // Renewal info is last. If Apple ever adds `autoRenewStatus` to another kind of payload, such a payload is then
        // still recognised as its own kind.
        let kinds: [SignedKind] = [.notification, .appTransaction, .retentionRequest, .transaction, .renewalInfo]
        let recognized =
            kinds.first { $0.hasCertainMembers(payload) } ?? kinds.first { $0.hasLikelyMembers(payload) }
        guard let recognized else { return nil }
        self = recognized
    }

    /// Whether to accept a payload as a payload of this kind, whatever members Apple has added.
    ///
    /// A payload is accepted if its members make this kind certain. It is also accepted if its members make this kind
    /// likely, and make no other kind certain.
    public func accepts(_ payload: JSONValue) -> Bool {
        if hasCertainMembers(payload) { return true }
        return hasLikelyMembers(payload) && !Self.allCases.contains { $0.hasCertainMembers(payload) }
    }

    private func hasCertainMembers(_ payload: JSONValue) -> Bool { certainMembers.contains { payload.has($0) } }

    private func hasLikelyMembers(_ payload: JSONValue) -> Bool {
        likelyMembers.contains { payload.has($0) } || self == .renewalInfo && Self.isRenewalInfoOnly(payload)
    }

    /// The combinations of members that make this kind certain. Every genuine payload of this kind has at least one of
    /// the combinations, and no genuine payload of a different kind has any.
    private var certainMembers: [[String]] {
        switch self {
        case .receipt: []
        case .transaction: [["transactionId", "originalTransactionId", "bundleId"]]
        case .renewalInfo: [["autoRenewStatus", "originalTransactionId"]]
        case .appTransaction: [["receiptType", "receiptCreationDate"]]
        // `notificationType` alone is not enough, because requests for the notification history have it too.
        case .notification:
            [
                ["notificationType", "notificationUUID"], ["notificationType", "data"],
                ["notificationType", "summary"], ["notificationType", "externalPurchaseToken"],
                ["notificationType", "appData"], ["notificationType", "unclaimInfo"],
            ]
        case .retentionRequest: [["userLocale", "requestIdentifier"]]
        }
    }

    /// The combinations of members that make this kind likely. They suffice if no kind is certain.
    private var likelyMembers: [[String]] {
        switch self {
        case .receipt: []
        case .transaction: [["transactionId", "originalTransactionId"], ["bundleId", "signedDate"]]
        case .renewalInfo: [["autoRenewStatus"]]
        case .appTransaction: [["receiptType"]]
        case .notification: [["notificationType", "signedDate"]]
        case .retentionRequest: [["userLocale"]]
        }
    }

    /// Whether a payload has a date, an environment and only members of renewal info. The rule is strict because
    /// renewal info names no app: a payload of a different kind, taken for renewal info, would pass without a check of
    /// its app.
    private static func isRenewalInfoOnly(_ payload: JSONValue) -> Bool {
        // If decoding as renewal info fails, the payload is of a different kind.
        payload.has(["environment", "signedDate"])
            && (try? payload.decode(JWSRenewalInfoDecodedPayload.self))?.unknownMembers.members.isEmpty == true
    }
}

extension JSONValue {
    fileprivate func has(_ members: [String]) -> Bool { members.allSatisfy { self[$0] != nil } }
}
