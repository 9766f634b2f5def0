// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import ReceiptCoding

/// Signs what happened in a world, under a certificate authority of its own.
public struct WorldSigner: Sendable {
    private let tokens: TokenPlan
    private let receipts: ReceiptPlan

    /// Creates a signer whose chain is issued once, so that all its documents have the same certificates.
    public init(_ authority: CertificateAuthority) throws {
        tokens = try TokenPlan("", by: authority.tokens)
        receipts = try ReceiptPlan([], by: authority.receipts)
    }

    private func sign(_ payload: some Encodable & SignedPayload) throws -> String {
        var plan = tokens
        plan.payload = Array(try JSONValue(encoding: payload).compactText.utf8)
        return try plan.signed()
    }

    /// A signed transaction: a compact JWS.
    public func sign(_ transaction: JWSTransactionDecodedPayload, at date: Timestamp) throws -> String {
        var payload = transaction
        payload.signedDate = date
        return try sign(payload)
    }

    /// Signed renewal info: a compact JWS.
    public func sign(_ renewal: JWSRenewalInfoDecodedPayload, at date: Timestamp) throws -> String {
        var payload = renewal
        payload.signedDate = date
        return try sign(payload)
    }

    /// A signed app transaction: a compact JWS.
    public func sign(_ app: AppTransaction, at date: Timestamp) throws -> String {
        var payload = app
        payload.receiptCreationDate = date
        return try sign(payload)
    }

    /// The version 2 notification of an occurrence: a compact JWS, with a new signature each time.
    ///
    /// - Parameter change: Changes the payload before it is signed.
    public func notification(
        _ occurrence: Occurrence, from catalogue: StoreCatalogue,
        changed change: (inout ResponseBodyV2DecodedPayload) -> Void = { _ in }
    ) throws -> String {
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(occurrence.notice.type)
        payload.subtype = occurrence.notice.subtype.map { Open($0) }
        payload.notificationUUID = occurrence.id
        payload.version = "2.0"
        payload.signedDate = occurrence.date
        switch occurrence.subject {
        case .purchase, .subscription, .nothing: payload.data = try data(of: occurrence, from: catalogue)
        case .summary(let summary): payload.summary = summary
        case .externalPurchase(let token): payload.externalPurchaseToken = token
        case .app(let app):
            var data = NotificationAppData()
            data.appAppleId = app.appAppleId
            data.bundleId = app.bundleId
            data.environment = Open(occurrence.environment)
            data.signedAppTransactionInfo = try sign(app, at: occurrence.date)
            payload.appData = data
        }
        change(&payload)
        return try sign(payload)
    }

    private func data(of occurrence: Occurrence, from catalogue: StoreCatalogue) throws -> NotificationData {
        var data = NotificationData()
        // Apple's page says that the app's Apple ID is absent in the sandbox.
        if occurrence.environment == .production { data.appAppleId = catalogue.appAppleId }
        data.bundleId = catalogue.bundleId
        data.bundleVersion = catalogue.appVersion
        data.environment = Open(occurrence.environment)
        data.signedTransactionInfo = try occurrence.transaction.map { try sign($0, at: occurrence.date) }
        data.signedRenewalInfo = try occurrence.renewal.map { try sign($0, at: occurrence.date) }
        data.status = occurrence.status.map { Open($0) }
        data.consumptionRequestReason = occurrence.notice.reason.map { Open($0) }
        return data
    }
}
