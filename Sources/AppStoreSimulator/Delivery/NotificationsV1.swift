// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Version 1 notifications: unsigned JSON with the customer's newest receipt. Apple has deprecated them.

/// The format of notifications. A developer chooses a format for each URL.
public enum NotificationVersion: Int, CaseIterable, Sendable {
    /// Unsigned JSON with the newest receipt.
    case one = 1
    /// A signed payload.
    case two = 2
}

extension World {
    /// The version 1 notifications about an occurrence, in the order of sending: at most two.
    ///
    /// `unified_receipt` is the customer's receipt at the world's present time, and must be the receipt at the time of
    /// the event. The caller must therefore call this function before the next event. The member `deprecation` is
    /// absent, because Apple's pages do not document the format of its date.
    ///
    /// - Parameter password: The app's shared secret.
    public func notificationsV1(
        of occurrence: Occurrence, password: String? = nil, signer: WorldSigner
    ) -> [ResponseBodyV1] {
        guard let name = occurrence.customer, let transaction = occurrence.transaction else { return [] }
        return typesV1(of: occurrence).map { type in
            var body = ResponseBodyV1()
            body.notificationType = Open(type)
            body.password = password
            body.environment = Open(occurrence.environment == .production ? .production : .sandbox)
            body.bid = catalogue.bundleId
            body.bvrs = catalogue.appVersion
            body.originalTransactionId = transaction.originalTransactionId
            if let renewal = occurrence.renewal { describe(renewal, in: &body) }
            body.unifiedReceipt = unifiedReceipt(of: name, in: occurrence.environment, signer)
            return body
        }
    }

    /// Sets the members about subscriptions.
    private func describe(_ renewal: JWSRenewalInfoDecodedPayload, in body: inout ResponseBodyV1) {
        body.autoRenewProductId = renewal.autoRenewProductId
        body.autoRenewAdamId = renewal.autoRenewProductId.flatMap { catalogue.appleId(of: $0) }.map { "\($0)" }
        body.autoRenewStatus = renewal.autoRenewStatus == .on
        let chain = renewal.originalTransactionId.flatMap { subscriptions[$0] }
        body.autoRenewStatusChangeDate = chain?.renewalSwitched?.inWholeSeconds
        body.expirationIntent = renewal.expirationIntent
    }

    /// The most transactions in `unified_receipt`: Apple's number.
    private static let newestTransactions = 100

    private func unifiedReceipt(
        of name: String, in environment: Environment, _ signer: WorldSigner
    ) -> UnifiedReceipt {
        var receipt = UnifiedReceipt()
        receipt.environment = Open(environment)
        receipt.latestReceipt = latestReceipt(of: name, signer).map { Base64.encode($0) }
        receipt.latestReceiptInfo = Array(rows(of: name, latestOnly: false).prefix(Self.newestTransactions))
        let renewals = pendingRenewals(of: name)
        receipt.pendingRenewalInfo = renewals.isEmpty ? nil : renewals
        receipt.status = Open(.valid)
        return receipt
    }
}
