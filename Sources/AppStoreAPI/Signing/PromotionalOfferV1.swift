// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto

// The original form of a promotional offer's signature: ECDSA over seven texts.

extension StoreKitSigner {
    /// The separator of the signed texts: U+2063, the invisible separator.
    private static let separator: Unicode.Scalar = "\u{2063}"

    /// Signs a promotional offer in the original form, for StoreKit 1 and for apps without support for the newer form.
    ///
    /// The App Store accepts the signature for 24 hours from `now`.
    ///
    /// - Parameters:
    ///   - appAccountToken: The account that the app passes with the purchase, in lower case: a UUID, or the
    ///     `applicationUsername` of StoreKit 1. `nil` if the app passes none.
    ///   - nonce: A new UUID, in lower case.
    /// - Returns: The values that the app passes to StoreKit. `encodedSignature` is the signature in DER, as base64.
    /// - Throws: ``SigningError``.
    @inline(never)
    public func promotionalOfferV1(
        _ offer: PromotionalOffer, appAccountToken: String?, nonce: String, at now: Timestamp
    ) throws(SigningError) -> RealtimeResponseBody.PromotionalOfferSignatureV1 {
        try offer.requireIdentifiers()
        try SigningError.require(bundleId, "bundleId")
        try SigningError.requireLowerCaseUUID(nonce, "nonce")
        if let appAccountToken { try Self.requireLowerCase(appAccountToken) }
        let text = try Self.joined([
            ("bundleId", bundleId), ("keyId", key.id), ("productId", offer.productId),
            ("offerIdentifier", offer.offerIdentifier), ("appAccountToken", appAccountToken ?? ""), ("nonce", nonce),
            ("timestamp", "\(now.milliseconds)"),
        ])
        var signed = RealtimeResponseBody.PromotionalOfferSignatureV1()
        signed.encodedSignature = try encodedSignature(of: text)
        signed.productId = offer.productId
        signed.offerIdentifier = offer.offerIdentifier
        signed.nonce = nonce
        signed.timestamp = now
        signed.keyId = key.id
        signed.appAccountToken = appAccountToken
        return signed
    }

    private static func requireLowerCase(_ account: String) throws(SigningError) {
        try SigningError.require(account, "appAccountToken")
        guard account == account.lowercased() else {
            throw SigningError(.invalid, "appAccountToken", "The value is not in lower case.")
        }
    }

    /// Joins the texts. A text with the separator is refused, because the joined text could then be split in a second
    /// way. The signature would also be valid for this second offer, which the caller did not mean to sign.
    private static func joined(_ parts: [(member: String, text: String)]) throws(SigningError) -> String {
        for (member, text) in parts where text.unicodeScalars.contains(separator) {
            throw SigningError(.invalid, member, "The value contains U+2063, the separator of the signed values.")
        }
        return parts.map(\.text).joined(separator: String(separator))
    }

    private func encodedSignature(of text: String) throws(SigningError) -> String {
        do {
            let der = try key.signature(of: Array(text.utf8)).derRepresentation
            return Base64.encode(Array(der))
        } catch {
            throw SigningError(.unsigned, "The key could not sign.")
        }
    }
}
