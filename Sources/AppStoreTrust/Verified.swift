// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
package import Crypto

/// A payload with verified signature, signer, app and environment. Only ``AppStoreVerifier`` creates `Verified` values.
public struct Verified<Payload: Sendable>: Sendable {
    /// The payload signed by the App Store.
    public let payload: Payload

    /// The kind of the document.
    public let kind: SignedKind

    /// The document in the form to store, in which it passes verification again. A token is stored exactly as received.
    ///
    /// A receipt is in canonical form: payload, signature, and the certificates of the verified chain with the
    /// verifier's own root. The App Store writes its receipts in this form, so genuine receipts are stored as received.
    public let document: [UInt8]

    /// The environment: one of the accepted environments.
    public let environment: Environment

    /// The bundle id of an accepted app. `nil` for renewal info and retention requests, because they contain no bundle
    /// id: bind them to a verified transaction by their `originalTransactionId`.
    public let bundleId: String?

    /// The signing time, at which the certificates had to be valid. If the document has no date, the value is `nil`,
    /// and the certificates had to be valid at the caller's `now`.
    public let signedDate: Timestamp?

    /// The root that anchors the signer's chain; `nil` if the signer is self-signed, like Xcode's signers.
    package let anchor: TrustAnchor?

    /// Tokens only: the parts, and the SHA-256 of the signing input, so that callers need not recompute the digest.
    package let token: (jws: JWS, digest: SHA256Digest)?

    init(
        _ payload: Payload, _ kind: SignedKind, from document: [UInt8], token: (jws: JWS, digest: SHA256Digest)? = nil,
        environment: Environment, bundleId: String?, signedDate: Timestamp?, anchor: TrustAnchor?
    ) {
        self.payload = payload
        self.kind = kind
        self.document = document
        self.token = token
        self.environment = environment
        self.bundleId = bundleId
        self.signedDate = signedDate
        self.anchor = anchor
    }

    /// The same document with its payload as another type.
    func map<Other>(
        _ transform: (Payload) throws(VerificationError) -> Other
    ) throws(VerificationError) -> Verified<Other> {
        Verified<Other>(
            try transform(payload), kind, from: document, token: token, environment: environment,
            bundleId: bundleId, signedDate: signedDate, anchor: anchor)
    }
}
