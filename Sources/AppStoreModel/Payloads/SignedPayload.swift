// SPDX-License-Identifier: Apache-2.0

/// The kinds of documents that are signed with the App Store's keys.
public enum SignedKind: String, CaseIterable, Sendable {
    /// A PKCS#7 app receipt.
    case receipt
    /// `JWSTransaction`.
    case transaction
    /// `JWSRenewalInfo`.
    case renewalInfo
    /// `JWSAppTransaction`.
    case appTransaction
    /// The `signedPayload` of a version 2 server notification.
    case notification
    /// The `signedPayload` of a real-time retention messaging request.
    case retentionRequest
}

/// A payload that comes as a JWS of one kind.
public protocol SignedPayload: Decodable, Sendable {
    static var signedKind: SignedKind { get }
}

extension JWSTransactionDecodedPayload: SignedPayload {
    public static var signedKind: SignedKind { .transaction }
}

// MARK: Of which kind a payload is

// Apple adds members to payloads, also such as other kinds have by now. So a payload is known by several members that no
// other kind has together, and not by one.

extension SignedKind {
    /// Recognises the payload of a JWS that may be of any kind; `nil` if it is of none.
    ///
    /// If a document's place says what it should be, ask ``accepts(_:)``.
    public init?(recognizing payload: JSONValue) {
        let kinds: [SignedKind] = [.notification, .appTransaction, .retentionRequest, .transaction, .renewalInfo]
        let recognized =
            kinds.first { $0.hasCertainMembers(payload) } ?? kinds.first { $0.hasLikelyMembers(payload) }
        guard let recognized else { return nil }
        self = recognized
    }

    /// Whether a payload that stands in a place for this kind is taken for this kind, whatever members Apple has added.
    ///
    /// It is refused only if it is certainly of another kind, or has nothing by which this kind is known. A payload with all
    /// members by which this kind is certain is always accepted. One with fewer is accepted if it has none of the
    /// combinations by which another kind is certain.
    public func accepts(_ payload: JSONValue) -> Bool {
        if hasCertainMembers(payload) { return true }
        return hasLikelyMembers(payload) && !Self.allCases.contains { $0.hasCertainMembers(payload) }
    }

    private func hasCertainMembers(_ payload: JSONValue) -> Bool { certainMembers.contains { payload.has($0) } }

    private func hasLikelyMembers(_ payload: JSONValue) -> Bool {
        likelyMembers.contains { payload.has($0) } || self == .renewalInfo && Self.isRenewalInfoOnly(payload)
    }

    /// The combinations of which every genuine payload of this kind has at least one. One more member never completes a
    /// combination in a payload of another kind.
    private var certainMembers: [[String]] {
        switch self {
        case .receipt: []
        case .transaction: [["transactionId", "originalTransactionId", "bundleId"]]
        case .renewalInfo: [["autoRenewStatus", "originalTransactionId"]]
        case .appTransaction: [["receiptType", "receiptCreationDate"]]
        // Requests for the history of notifications have a type too.
        case .notification:
            [
                ["notificationType", "notificationUUID"], ["notificationType", "data"],
                ["notificationType", "summary"], ["notificationType", "externalPurchaseToken"],
                ["notificationType", "appData"], ["notificationType", "unclaimInfo"],
            ]
        case .retentionRequest: [["userLocale", "requestIdentifier"]]
        }
    }

    /// The combinations that suffice while no other kind is certain.
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

    /// Whether a payload has a date, an environment and no member that renewal info does not have. Renewal info is the one
    /// kind that names no app, so nothing else may be taken for it.
    private static func isRenewalInfoOnly(_ payload: JSONValue) -> Bool {
        payload.has(["environment", "signedDate"])
            && (try? payload.decode(JWSRenewalInfoDecodedPayload.self))?.unknownMembers.members.isEmpty == true
    }
}

extension JSONValue {
    fileprivate func has(_ members: [String]) -> Bool { members.allSatisfy { self[$0] != nil } }
}

extension SignedKind {
    /// Whether documents of this kind name their app by its bundle id.
    package var namesBundle: Bool { self != .renewalInfo && self != .retentionRequest }

    /// Whether production documents of this kind always name their app by its Apple ID.
    package var namesAppleId: Bool { self == .notification || self == .appTransaction || self == .retentionRequest }
}

/// What a payload says about the app that it belongs to, in whatever place its kind has for it.
package struct SignedClaims: Hashable, Sendable {
    package var bundleId: String?
    package var appAppleId: Int64?
    package var environment: Open<Environment>?

    package init(bundleId: String?, appAppleId: Int64?, environment: Open<Environment>?) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environment = environment
    }

    /// Reads only the members that the kind has: what Apple may add of the same name need not mean the same.
    package init(_ kind: SignedKind, _ payload: JSONValue) {
        let subject = kind == .notification ? Self.subjects(of: payload).first?.value : payload
        bundleId = kind.namesBundle ? subject?["bundleId"]?.string : nil
        appAppleId = kind.namesAppleId ? subject?["appAppleId"]?.integer : nil
        let name = subject?[kind == .appTransaction ? "receiptType" : "environment"]?.string
        environment = name.map(Open.init(rawValue:))
        if kind == .notification, Self.subjects(of: payload).first?.name == "externalPurchaseToken" {
            environment = Self.environment(ofExternalPurchase: subject)
        }
    }

    /// What a notification is about: one of these, in the order in which Apple's libraries look for them.
    package static func subjects(of notification: JSONValue) -> [(name: String, value: JSONValue)] {
        ["data", "summary", "externalPurchaseToken", "appData"].compactMap { name in
            notification[name].flatMap { $0 == .null ? nil : (name, $0) }
        }
    }

    /// A token for external purchases names no environment: its identifier starts with `SANDBOX` there.
    private static func environment(ofExternalPurchase token: JSONValue?) -> Open<Environment>? {
        token?["externalPurchaseId"]?.string.map { Open($0.hasPrefix("SANDBOX") ? .sandbox : .production) }
    }
}
