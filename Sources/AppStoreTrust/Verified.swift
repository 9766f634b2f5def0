// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
package import Crypto

/// A payload whose signature, signer and app were checked. Only ``AppStoreVerifier`` makes one.
public struct Verified<Payload: Sendable>: Sendable {
    public let payload: Payload

    public let kind: SignedKind

    /// The document to keep: it verifies again. A token is exactly as received. A receipt is in canonical form, with what was
    /// verified and nothing else: payload, signature, and the certificates of the chain, whose root is the verifier's own. For
    /// receipts as the App Store writes them these are the received bytes too.
    public let document: [UInt8]

    /// One of the accepted environments.
    public let environment: Environment

    /// One of the accepted apps. `nil` for the kinds that name none, renewal info and retention requests: bind those to
    /// a verified transaction by their `originalTransactionId`.
    public let bundleId: String?

    /// When it was signed: the instant at which its certificates were judged. `nil` where the document does not say, and
    /// they were judged at the time that the caller gave.
    public let signedDate: Timestamp?

    /// Of a token: its parts, and the SHA-256 of what is signed, with which the signature was checked.
    package let token: (jws: JWS, digest: SHA256Digest)?

    init(
        _ payload: Payload, _ kind: SignedKind, from document: [UInt8], token: (jws: JWS, digest: SHA256Digest)? = nil,
        environment: Environment, bundleId: String?, signedDate: Timestamp?
    ) {
        self.payload = payload
        self.kind = kind
        self.document = document
        self.token = token
        self.environment = environment
        self.bundleId = bundleId
        self.signedDate = signedDate
    }

    /// The same document with its payload read as something else.
    func map<Other>(
        _ transform: (Payload) throws(VerificationError) -> Other
    ) throws(VerificationError) -> Verified<Other> {
        Verified<Other>(
            try transform(payload), kind, from: document, token: token, environment: environment,
            bundleId: bundleId, signedDate: signedDate)
    }
}
