// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
public import ReceiptCoding

/// Signs the documents about the events of a ``World`` with the keys and certificates of a simulated App Store.
public struct WorldSigner: Sendable {
    /// The simulated App Store's certificate authority, with the keys that sign tokens (compact JWS, such as signed
    /// transactions) and receipts. The server under test trusts its roots.
    public let authority: StoreAuthority
    /// JSON members to insert at the start of each token's header, each followed by a comma. Tests use them to make
    /// headers as long as Apple's.
    package var headerMembers = ""

    /// Creates a signer with the keys and certificates of an authority.
    public init(_ authority: StoreAuthority) {
        self.authority = authority
    }

    private func token(_ payload: some Encodable & SignedPayload, at date: Timestamp) throws -> String {
        try token(Array(JSONValue(encoding: payload).compactText.utf8), at: date)
    }

    /// Signs any bytes as the payload of a token, for tests with tokens that a real App Store never signs.
    package func token(_ payload: [UInt8], at date: Timestamp) throws -> String {
        var plan = TokenPlan(payload, by: authority.tokens(at: date))
        plan.headerMembers = headerMembers
        return try plan.signed()
    }

    /// A signed app receipt: PKCS#7 as DER.
    public func sign(_ receipt: AppReceipt, at date: Timestamp) throws -> [UInt8] {
        try ReceiptPlan(receipt.encoded, by: authority.receipts(at: date)).signed()
    }

    /// The payload of an app receipt; `nil` if none of the authority's signers has signed it.
    func payload(ofOwnReceipt document: [UInt8]) -> ArraySlice<UInt8>? {
        guard let receipt = SignedReceipt(validating: document) else { return nil }
        let chain = authority.receipts.first { $0.certificates.first?[...] == receipt.certificates.first }
        guard let chain, chain.key.isValidSignature(Array(receipt.signer.signature), of: receipt.payload) else {
            return nil
        }
        return receipt.payload
    }

    /// A signed transaction: a compact JWS.
    public func sign(_ transaction: JWSTransactionDecodedPayload, at date: Timestamp) throws -> String {
        var payload = transaction
        payload.signedDate = date
        return try token(payload, at: date)
    }

    /// Signed renewal info: a compact JWS.
    public func sign(_ renewal: JWSRenewalInfoDecodedPayload, at date: Timestamp) throws -> String {
        var payload = renewal
        payload.signedDate = date
        return try token(payload, at: date)
    }

    /// A signed app transaction: a compact JWS.
    public func sign(_ app: AppTransaction, at date: Timestamp) throws -> String {
        var payload = app
        payload.receiptCreationDate = date
        return try token(payload, at: date)
    }

    /// The version 2 notification of an occurrence: a compact JWS, with a new signature for each call.
    ///
    /// - Parameter change: Changes the payload before signing.
    public func notification(
        _ occurrence: Occurrence, from catalogue: StoreCatalogue,
        changed change: (inout ResponseBodyV2DecodedPayload) throws -> Void = { _ in }
    ) throws -> String {
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(occurrence.topic.type)
        payload.subtype = occurrence.topic.subtype.map { Open($0) }
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
        try change(&payload)
        return try token(payload, at: occurrence.date)
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
        data.consumptionRequestReason = occurrence.topic.reason.map { Open($0) }
        return data
    }
}
