// SPDX-License-Identifier: Apache-2.0

// Recognises the kind of a payload. Apple adds members to payloads, including members that other kinds have already.
// Therefore a combination of members identifies a kind with certainty. Fewer members only make a kind likely.

extension SignedKind {
    /// Recognises the payload of a JWS that may be of any kind; `nil` if it is of none.
    ///
    /// If the kind is known from where the document was found, use ``accepts(_:)`` instead.
    public init?(recognizing payload: JSONValue) {
        // Renewal info is last, so that no other payload becomes renewal info if Apple adds `autoRenewStatus` to it.
        let kinds: [SignedKind] = [.notification, .appTransaction, .retentionRequest, .transaction, .renewalInfo]
        let recognized =
            kinds.first { $0.hasCertainMembers(payload) } ?? kinds.first { $0.hasLikelyMembers(payload) }
        guard let recognized else { return nil }
        self = recognized
    }

    /// Whether to accept a payload where this kind is expected, whatever members Apple has added.
    ///
    /// A payload with a combination of members that makes this kind certain is always accepted. One with fewer members
    /// is accepted if they make this kind likely, and no combination makes another kind certain.
    public func accepts(_ payload: JSONValue) -> Bool {
        if hasCertainMembers(payload) { return true }
        return hasLikelyMembers(payload) && !Self.allCases.contains { $0.hasCertainMembers(payload) }
    }

    private func hasCertainMembers(_ payload: JSONValue) -> Bool { certainMembers.contains { payload.has($0) } }

    private func hasLikelyMembers(_ payload: JSONValue) -> Bool {
        likelyMembers.contains { payload.has($0) } || self == .renewalInfo && Self.isRenewalInfoOnly(payload)
    }

    /// The combinations that make this kind certain. Every genuine payload of this kind has at least one of them, and
    /// no genuine payload of another kind has any.
    private var certainMembers: [[String]] {
        switch self {
        case .receipt: []
        case .transaction: [["transactionId", "originalTransactionId", "bundleId"]]
        case .renewalInfo: [["autoRenewStatus", "originalTransactionId"]]
        case .appTransaction: [["receiptType", "receiptCreationDate"]]
        // A type alone is not enough: requests for the history of notifications have one too.
        case .notification:
            [
                ["notificationType", "notificationUUID"], ["notificationType", "data"],
                ["notificationType", "summary"], ["notificationType", "externalPurchaseToken"],
                ["notificationType", "appData"], ["notificationType", "unclaimInfo"],
            ]
        case .retentionRequest: [["userLocale", "requestIdentifier"]]
        }
    }

    /// The combinations that make this kind likely. They suffice if no kind is certain.
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

    /// Whether a payload has a date, an environment and only members of renewal info. The rule is this strict because
    /// renewal info names no app: a payload of another kind would pass without a check of its app.
    private static func isRenewalInfoOnly(_ payload: JSONValue) -> Bool {
        // A payload that cannot be decoded as renewal info is of another kind.
        payload.has(["environment", "signedDate"])
            && (try? payload.decode(JWSRenewalInfoDecodedPayload.self))?.unknownMembers.members.isEmpty == true
    }
}

extension JSONValue {
    fileprivate func has(_ members: [String]) -> Bool { members.allSatisfy { self[$0] != nil } }
}
