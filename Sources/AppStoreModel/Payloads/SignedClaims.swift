// SPDX-License-Identifier: Apache-2.0

// Reads the claims that a signed payload makes about its app, before the payload is decoded.

extension SignedKind {
    /// Whether documents of this kind name their app by its bundle id.
    package var namesBundle: Bool { self != .renewalInfo && self != .retentionRequest }

    /// Whether production documents of this kind always name their app by its Apple ID.
    package var namesAppleId: Bool { self == .notification || self == .appTransaction || self == .retentionRequest }
}

/// A payload's claims about its app. Each kind of payload has the claims in members of its own.
package struct SignedClaims: Hashable, Sendable {
    /// The bundle id of the app.
    package var bundleId: String?
    /// The app's Apple ID.
    package var appAppleId: Int64?
    /// The environment.
    package var environment: Open<Environment>?

    /// Claims with the given values.
    package init(bundleId: String?, appAppleId: Int64?, environment: Open<Environment>?) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environment = environment
    }

    /// Reads only members that payloads of this kind have today. If Apple ever adds `bundleId` or `appAppleId` to a
    /// kind that lacks it today, the new member may have another meaning.
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

    /// The objects of a notification that may name its app, in the order in which Apple's libraries look for them.
    package static func subjects(of notification: JSONValue) -> [(name: String, value: JSONValue)] {
        ["data", "summary", "externalPurchaseToken", "appData"].compactMap { name in
            notification[name].flatMap { $0 == .null ? nil : (name, $0) }
        }
    }

    /// The environment of a token for external purchases. The token has no environment member, but its identifier
    /// starts with `SANDBOX` in sandbox.
    private static func environment(ofExternalPurchase token: JSONValue?) -> Open<Environment>? {
        token?["externalPurchaseId"]?.string.map { Open($0.hasPrefix("SANDBOX") ? .sandbox : .production) }
    }
}
