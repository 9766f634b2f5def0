// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A server notification with its inner tokens: the signed parts of the notification. Each inner token is verified,
/// comes from the notification's environment, and is about the notification's app. Renewal info names no app, so it
/// must be about the subscription of the transaction.
public struct VerifiedNotification: Sendable {
    /// The notification itself.
    public let notification: Verified<ResponseBodyV2DecodedPayload>
    /// The purchase in `data.signedTransactionInfo`; `nil` if the notification has none.
    public let transaction: Verified<JWSTransactionDecodedPayload>?
    /// The next renewal in `data.signedRenewalInfo`. Auto-renewable subscriptions only.
    public let renewalInfo: Verified<JWSRenewalInfoDecodedPayload>?
    /// The download of the app in `appData.signedAppTransactionInfo`; `nil` if the notification has none.
    public let appTransaction: Verified<AppTransaction>?
}

extension AppStoreVerifier {
    /// Verifies a version 2 server notification and its inner tokens.
    ///
    /// Each inner token has a signature of its own, and is verified separately. It must have the notification's
    /// environment and, except for renewal info, name the notification's app. Renewal info names no app; instead it
    /// must name the transaction's subscription.
    ///
    /// - Parameters:
    ///   - signedPayload: The token as received: the value of `signedPayload`.
    ///   - now: The instant at which certificates must be valid if a payload has no signing date.
    /// - Throws: ``VerificationError``, with `otherPurchase` if the parts do not belong together.
    public func verify(
        notification signedPayload: some Collection<UInt8>, at now: Timestamp
    ) async throws(VerificationError) -> VerifiedNotification {
        try await verify(
            partsOf: verify(signedPayload, as: ResponseBodyV2DecodedPayload.self, at: now), at: now)
    }

    /// Verifies the tokens inside a verified notification; see ``verify(notification:at:)``.
    package func verify(
        partsOf notification: Verified<ResponseBodyV2DecodedPayload>, at now: Timestamp
    ) async throws(VerificationError) -> VerifiedNotification {
        let data = notification.payload.data
        let appData = notification.payload.appData
        let parts = VerifiedNotification(
            notification: notification,
            transaction: try await part(data?.signedTransactionInfo, "data.signedTransactionInfo", at: now),
            renewalInfo: try await part(data?.signedRenewalInfo, "data.signedRenewalInfo", at: now),
            appTransaction: try await part(
                appData?.signedAppTransactionInfo, "appData.signedAppTransactionInfo", at: now))
        try parts.requireOnePurchase()
        passed(.purchase, "parts about one purchase", found: "parts: \(parts.count)")
        return parts
    }

    private func part<Payload: SignedPayload>(
        _ jws: String?, _ path: String, at now: Timestamp
    ) async throws(VerificationError) -> Verified<Payload>? {
        guard let jws else { return nil }
        do {
            return try await reporting(on: path).verify(jws.utf8, as: Payload.self, at: now)
        } catch {
            var outer = VerificationError(error.code, "In \(path): \(error.message)", cause: error.cause)
            outer.origin = error.origin
            throw outer
        }
    }
}

extension VerifiedNotification {
    fileprivate var count: Int {
        (transaction == nil ? 0 : 1) + (renewalInfo == nil ? 0 : 1) + (appTransaction == nil ? 0 : 1)
    }

    @inline(never)
    fileprivate func requireOnePurchase() throws(VerificationError) {
        try requireSame(transaction?.environment, transaction?.bundleId)
        try requireSame(renewalInfo?.environment, nil)
        try requireSame(appTransaction?.environment, appTransaction?.bundleId)
        // Renewal info names no app: only its subscription binds the renewal info to the notification.
        guard let renewalInfo else { return }
        let found = renewalInfo.payload.originalTransactionId
        let expected = transaction?.payload.originalTransactionId
        guard let found, found == expected else {
            throw VerificationError(
                .otherPurchase,
                "Renewal info of the subscription \(found ?? "(none)") beside a transaction of \(expected ?? "(none)")."
            )
        }
    }

    /// Checks that a part has the notification's environment and app. A value is not compared if it is `nil`.
    private func requireSame(_ environment: Environment?, _ bundleId: String?) throws(VerificationError) {
        if let environment, environment != notification.environment {
            throw VerificationError(
                .otherPurchase,
                "A token from \(environment.rawValue) in a notification from \(notification.environment.rawValue).")
        }
        if let bundleId, !bundleId.isSameText(as: notification.bundleId) {
            throw VerificationError(
                .otherPurchase, "A token for \(bundleId) in a notification for \(notification.bundleId ?? "no app").")
        }
    }
}
