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

extension SignedKind {
    /// Recognises the payload of a JWS by the members that only its kind has; `nil` where it is none of them.
    public init?(recognizing payload: JSONValue) {
        if payload["notificationType"] != nil, Self.notificationMembers.contains(where: { payload[$0] != nil }) {
            self = .notification
        } else if payload["receiptType"] != nil {
            self = .appTransaction
        } else if payload["userLocale"] != nil {
            self = .retentionRequest
        } else if payload["transactionId"] != nil && payload["originalTransactionId"] != nil
            || payload["bundleId"] != nil && payload["signedDate"] != nil
        {
            self = .transaction
        } else if payload["autoRenewStatus"] != nil
            || payload["environment"] != nil && payload["signedDate"] != nil && Self.isRenewalInfoOnly(payload)
        {
            // The one kind that names no app, so nothing but renewal info may be taken for it.
            self = .renewalInfo
        } else {
            return nil
        }
    }
}

extension SignedKind {
    /// What notifications have besides their type; requests for their history have a type too.
    private static let notificationMembers = [
        "notificationUUID", "signedDate", "data", "summary", "externalPurchaseToken", "appData", "unclaimInfo",
    ]

    /// Whether a payload has no member that renewal info does not have.
    private static func isRenewalInfoOnly(_ payload: JSONValue) -> Bool {
        (try? payload.decode(JWSRenewalInfoDecodedPayload.self))?.unknownMembers.members.isEmpty == true
    }
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

    package init(_ kind: SignedKind, _ payload: JSONValue) {
        let subject = kind == .notification ? Self.subjects(of: payload).first?.value : payload
        bundleId = subject?["bundleId"]?.string
        appAppleId = subject?["appAppleId"]?.integer
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
