// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
package import Crypto

/// A payload whose signature, signer, app and environment were verified. Only ``AppStoreVerifier`` creates one.
public struct Verified<Payload: Sendable>: Sendable {
    /// What the App Store signed.
    public let payload: Payload

    /// What kind of document it is.
    public let kind: SignedKind

    /// The document to store: it passes verification again. A token is exactly as received.
    ///
    /// A receipt is in canonical form: payload, signature, and the certificates of the verified chain with the
    /// verifier's own root. The App Store writes its receipts in this form, so that they are stored as received.
    public let document: [UInt8]

    /// One of the accepted environments.
    public let environment: Environment

    /// One of the accepted apps. `nil` for renewal info and retention requests, which name no app: bind them to a
    /// verified transaction by their `originalTransactionId`.
    public let bundleId: String?

    /// When it was signed: the instant at which its certificates had to be valid. If this is `nil`, the document has no
    /// date, and the instant was the caller's `now`.
    public let signedDate: Timestamp?

    /// The root that anchors the signer's chain; `nil` if the signer is self-signed, as Xcode's are.
    package let anchor: TrustAnchor?

    /// Tokens only: the parts, and the SHA-256 of the signing input, so that callers need not compute it again.
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
