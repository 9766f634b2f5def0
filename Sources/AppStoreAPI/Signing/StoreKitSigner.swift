// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// Signs values that an app passes to StoreKit: promotional offers, the eligibility for introductory offers, and
/// requests of the Advanced Commerce API.
///
/// The signed values depend on the signer and the arguments alone: the caller passes the time and an unused nonce. No
/// method opens a connection.
public struct StoreKitSigner: Sendable {
    /// The key that signs.
    public let key: InAppPurchaseKey
    /// The app's bundle id.
    public let bundleId: String

    /// Creates the signer of one app.
    public init(key: InAppPurchaseKey, bundleId: String) {
        self.key = key
        self.bundleId = bundleId
    }

    /// The purpose of a token: its `aud`.
    private enum Audience: String {
        case promotionalOffer = "promotional-offer"
        case introductoryOffer = "introductory-offer-eligibility"
        case advancedCommerce = "advanced-commerce-api"
    }

    /// A token with the claims that all these tokens have, and with the claims for its audience. Apple defines no `exp`
    /// for these tokens.
    private func token(
        for audience: Audience, _ claims: [JSONValue.Member], nonce: String, at now: Timestamp
    ) throws(SigningError) -> String {
        try SigningError.require(bundleId, "bundleId")
        try SigningError.require(key.issuer, "issuerId")
        try SigningError.requireUUID(nonce, "nonce")
        let common: [JSONValue.Member] = [
            .init("iss", .string(key.issuer)), .init("iat", .number("\(now.milliseconds / 1000)")),
            .init("bid", .string(bundleId)), .init("aud", .string(audience.rawValue)),
            .init("nonce", .string(nonce)),
        ]
        do {
            return try key.token(.object(common + claims))
        } catch {
            throw SigningError(.unsigned, "The key could not sign.")
        }
    }
}

// MARK: - Offers

/// A promotional offer of a subscription, by its identifiers in App Store Connect.
public struct PromotionalOffer: Hashable, Sendable {
    /// The product of the subscription.
    public var productId: String
    /// The offer.
    public var offerIdentifier: String

    /// An offer with these identifiers.
    public init(productId: String, offerIdentifier: String) {
        self.productId = productId
        self.offerIdentifier = offerIdentifier
    }

    func requireIdentifiers() throws(SigningError) {
        try SigningError.require(productId, "productId")
        try SigningError.require(offerIdentifier, "offerIdentifier")
    }
}

extension StoreKitSigner {
    /// Signs a promotional offer in the newer form, a JWS; ``promotionalOfferV1(_:appAccountToken:nonce:at:)`` signs
    /// the original form.
    ///
    /// - Parameters:
    ///   - transactionId: Any transaction of the customer, or its `appTransactionId`. The offer is then for this
    ///     customer alone, as Apple recommends.
    ///   - nonce: A new UUID.
    /// - Returns: A compact JWS (RFC 7515 section 3.1).
    /// - Throws: ``SigningError``.
    @inline(never)
    public func promotionalOffer(
        _ offer: PromotionalOffer, transactionId: String?, nonce: String, at now: Timestamp
    ) throws(SigningError) -> String {
        try offer.requireIdentifiers()
        if let transactionId { try SigningError.require(transactionId, "transactionId") }
        let claims: [(String, String?)] = [
            ("productId", offer.productId), ("offerIdentifier", offer.offerIdentifier),
            ("transactionId", transactionId),
        ]
        return try token(
            for: .promotionalOffer,
            claims.compactMap { name, text in text.map { JSONValue.Member(name, .string($0)) } }, nonce: nonce, at: now)
    }

    /// Signs a customer's eligibility for a subscription's introductory offer. The signature overrides the App Store's
    /// own decision.
    ///
    /// - Parameters:
    ///   - productId: The product of the subscription.
    ///   - isAllowed: Whether the customer may have the offer.
    ///   - transactionId: Any transaction of the customer, or its `appTransactionId`.
    ///   - nonce: A new UUID.
    /// - Returns: A compact JWS (RFC 7515 section 3.1).
    /// - Throws: ``SigningError``.
    @inline(never)
    public func introductoryOffer(
        of productId: String, isAllowed: Bool, transactionId: String, nonce: String, at now: Timestamp
    ) throws(SigningError) -> String {
        try SigningError.require(productId, "productId")
        try SigningError.require(transactionId, "transactionId")
        let claims: [JSONValue.Member] = [
            .init("productId", .string(productId)), .init("allowIntroductoryOffer", .bool(isAllowed)),
            .init("transactionId", .string(transactionId)),
        ]
        return try token(for: .introductoryOffer, claims, nonce: nonce, at: now)
    }
}

// MARK: - Advanced Commerce

extension StoreKitSigner {
    /// Signs an Advanced Commerce request of an app.
    ///
    /// - Parameter nonce: A new UUID.
    /// - Returns: A compact JWS (RFC 7515 section 3.1). Its claim `request` is the request's JSON in base64.
    /// - Throws: ``SigningError`` if the request breaks a documented Apple rule.
    @inline(never)
    public func advancedCommerce(
        _ request: AdvancedCommerceInAppRequest, nonce: String, at now: Timestamp
    ) throws(SigningError) -> String {
        let json = try request.validJSON()
        let encoded = Base64.encode(Array(json.compactText.utf8))
        return try token(for: .advancedCommerce, [.init("request", .string(encoded))], nonce: nonce, at: now)
    }

    /// Signs a request, wraps the JWS in JSON, and encodes this JSON in base64, as StoreKit and retention messages
    /// require. See Apple's page “Sending Advanced Commerce API requests from your app”.
    ///
    /// - Throws: ``SigningError`` if the request breaks a documented Apple rule.
    public func advancedCommerceData(
        _ request: AdvancedCommerceInAppRequest, nonce: String, at now: Timestamp
    ) throws(SigningError) -> String {
        let jws = try advancedCommerce(request, nonce: nonce, at: now)
        let json = JSONValue.object([.init("signatureInfo", .object([.init("token", .string(jws))]))])
        return Base64.encode(Array(json.compactText.utf8))
    }
}
