// SPDX-License-Identifier: Apache-2.0

// Verifies signed tokens: transactions, renewal info, notifications and the other kinds of compact JWS.

public import AppStoreModel
import Crypto
import X509

extension AppStoreVerifier {
    /// Verifies a compact JWS of the kind of `Payload`.
    ///
    /// - Parameters:
    ///   - jws: The token as received: ASCII, three parts separated by dots.
    ///   - now: The instant at which certificates must be valid if the payload has no signing date.
    /// - Throws: ``VerificationError``, with `otherKind` if the token is genuine but of another kind.
    public func verify<Payload: SignedPayload>(
        _ jws: some Collection<UInt8>, as type: Payload.Type, at now: Timestamp
    ) async throws(VerificationError) -> Verified<Payload> {
        let genuine = try await genuineToken(jws, expecting: type.signedKind, at: now)
        let payload = try accept(genuine, expecting: type.signedKind).read(as: type)
        passed(.contents, "the members of \(type.signedKind.withArticle)", found: "readable")
        return payload
    }

    /// Verifies a compact JWS of any kind, and reads its payload as plain JSON. ``Verified/read(as:)`` decodes the
    /// payload.
    ///
    /// - Parameters:
    ///   - jws: The token as received: ASCII, three parts separated by dots.
    ///   - now: The instant at which certificates must be valid if the payload has no signing date.
    /// - Throws: ``VerificationError``.
    public func verify(
        jws: some Collection<UInt8>, at now: Timestamp
    ) async throws(VerificationError) -> Verified<JSONValue> {
        try accept(try await genuineToken(jws, expecting: nil, at: now), expecting: nil)
    }

    /// Checks the signature before the payload. Until the signature has been verified, the payload is read only for its
    /// signing date, at which the certificates must be valid, and for its kind, which decides the member with that
    /// date. The early read is safe: a forger who changes the date still needs Apple's key.
    private func genuineToken(
        _ jws: some Collection<UInt8>, expecting expected: SignedKind?, at now: Timestamp
    ) async throws(VerificationError) -> GenuineToken {
        let token = try SignedToken(jws, expecting: expected)
        passed(.form, "three parts of base64url, JSON inside", found: "\(jws.count) bytes")
        let known = knownTokenSigners.signer { header, _ in header.isSame(as: token.jws.encodedHeader) }
        let chain = if let known { known } else { try await chain(behind: token) }
        if known != nil { passed(.algorithm, "ES256", found: "ES256") }
        passedChain(chain)
        try chain.requireValidity(at: token.signedDate ?? now)
        passedDates(chain, at: token.signedDate ?? now, isSigned: token.signedDate != nil)
        let digest = try token.requireSignature(by: chain)
        passedSignature(chain, "ES256")
        // The signature covers the header, so only the signer can create further headers, and thus further entries, for
        // this chain.
        if known == nil { knownTokenSigners.insert(chain, for: Array(token.jws.encodedHeader)) }
        if case .checked = revocation { try await requireUnrevoked(chain, at: now) }
        return GenuineToken(token: token, digest: digest, chain: chain)
    }

    private func chain(behind token: SignedToken) async throws(VerificationError) -> SignerChain {
        let certificates = try token.certificates()
        passed(.algorithm, "ES256", found: "ES256")
        return switch certificates {
        case .issued(let leaf, let intermediate):
            try await SignerChain.check(leaf: leaf, intermediate: intermediate, roots: roots, onPath: onPath)
        case .selfSigned(let leaf):
            try SignerChain(selfSigned: leaf, roots: roots)
        }
    }

    @inline(never)
    private func accept(
        _ genuine: GenuineToken, expecting expected: SignedKind?
    ) throws(VerificationError) -> Verified<JSONValue> {
        let token = genuine.token
        guard let kind = token.kind else {
            throw VerificationError(
                .otherKind, "The token is genuine, but of no kind that this version knows.")
        }
        guard kind == expected ?? kind else {
            throw .otherKind(expected ?? kind, found: kind)
        }
        if kind == .notification, SignedClaims.subjects(of: token.payload).count > 1 {
            throw VerificationError(.otherPurchase, "The notification is about more than one subject.")
        }
        passed(.kind, expected?.rawValue ?? "any kind that the App Store signs", found: kind.rawValue)
        let claims = SignedClaims(kind, token.payload)
        let environment = try requireAccepted(claims, kind, from: genuine.chain)
        return Verified(
            token.payload, kind, from: token.jws.text, token: (token.jws, genuine.digest), environment: environment,
            bundleId: claims.bundleId, signedDate: token.signedDate, anchor: genuine.chain.anchor)
    }
}

extension Verified<JSONValue> {
    /// Reads the payload as a type.
    ///
    /// - Throws: ``VerificationError``: `otherKind` if the payload is of another kind, `unreadable` if a member has an
    ///   unexpected form.
    @inline(never)
    public func read<Known: SignedPayload>(as type: Known.Type) throws(VerificationError) -> Verified<Known> {
        guard kind == type.signedKind else {
            throw .otherKind(type.signedKind, found: kind)
        }
        return try map { payload throws(VerificationError) in
            do {
                return try payload.decode(type)
            } catch {
                throw VerificationError(
                    .unreadable, "The payload does not fit its kind: \(sentence(error)).", cause: error
                ).from(bundleId, environment.rawValue)
            }
        }
    }

    private func sentence(_ error: any Error) -> String {
        guard let error = error as? DecodingError else { return "\(error)" }
        return error.sentence
    }
}

extension VerificationError {
    fileprivate static func otherKind(_ expected: SignedKind, found: SignedKind) -> VerificationError {
        VerificationError(.otherKind, "Expected \(expected.withArticle), found \(found.withArticle).")
    }
}

/// A token signed by a signer of the App Store.
private struct GenuineToken {
    let token: SignedToken
    /// The SHA-256 of the signing input.
    let digest: SHA256Digest
    let chain: SignerChain
}

/// A token whose parts have the App Store's form. No part is trusted yet.
private struct SignedToken {
    let jws: JWS
    let payload: JSONValue
    /// The expected kind if the payload may be of this kind, otherwise the kind suggested by the payload's members;
    /// `nil` if they suggest none.
    let kind: SignedKind?
    let signedDate: Timestamp?

    @inline(never)
    init(_ text: some Collection<UInt8>, expecting expected: SignedKind?) throws(VerificationError) {
        do {
            jws = try JWS(text)
        } catch {
            throw VerificationError(.malformed, error.description)
        }
        do {
            payload = try JSONValue(parsing: jws.payload, atMost: Limits.tokenValues)
        } catch {
            throw VerificationError(.malformed, "The payload is not JSON: \(error).")
        }
        let payload = payload
        kind = expected.flatMap { $0.accepts(payload) ? $0 : nil } ?? SignedKind(recognizing: payload)
        signedDate = Self.signedDate(of: payload, kind)
    }

    /// The certificates in the header, the leaf (the signer's own certificate) first (RFC 7515 section 4.1.6). The
    /// third certificate is the root claimed by the signer, and is ignored.
    @inline(never)
    func certificates() throws(VerificationError) -> Certificates {
        let header: JWS.Header
        do {
            header = try jws.header()
        } catch {
            throw VerificationError(.malformed, error.description)
        }
        guard header.alg == "ES256" else {
            throw VerificationError(.unsupportedAlgorithm, "The algorithm is \(header.alg), the App Store's is ES256.")
        }
        guard !header.x5c.isEmpty else {
            throw VerificationError(.malformed, "The header contains no certificates (x5c).")
        }
        guard header.x5c.count == 1 || header.x5c.count == 3 else {
            throw VerificationError(
                .untrustedChain,
                "The header contains \(header.x5c.count) certificates (x5c), the App Store's contain 3.")
        }
        let leaf = try Self.certificate(header.x5c[0], "leaf certificate (x5c[0])")
        guard header.x5c.count == 3 else { return .selfSigned(leaf) }
        return .issued(leaf, by: try Self.certificate(header.x5c[1], "intermediate certificate (x5c[1])"))
    }

    /// The signer's certificates in a header.
    enum Certificates {
        /// Leaf and intermediate, as from the App Store.
        case issued(Certificate, by: Certificate)
        /// The leaf alone, as from Xcode.
        case selfSigned(Certificate)
    }

    /// Checks the signature.
    ///
    /// - Returns: The SHA-256 of the signed bytes: the header and the payload.
    @inline(never)
    func requireSignature(by chain: SignerChain) throws(VerificationError) -> SHA256Digest {
        guard let key = P256.Signing.PublicKey(chain.leaf.publicKey) else {
            throw VerificationError(
                .unsupportedAlgorithm, "The signer's key is not on the curve P-256, as ES256 needs.")
        }
        // Only a signature of the wrong length is refused here.
        guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: jws.signature) else {
            throw VerificationError(.invalidSignature, "The signature has \(jws.signature.count) bytes, ES256 has 64.")
        }
        let digest = SHA256.hash(data: jws.signingInput)
        guard key.isValidSignature(signature, for: digest) else {
            throw VerificationError(
                .invalidSignature, "This signer did not sign this header and payload.")
        }
        return digest
    }

    /// The date in `signedDate`. In an app transaction, the date in `receiptCreationDate` comes first.
    private static func signedDate(of payload: JSONValue, _ kind: SignedKind?) -> Timestamp? {
        let name = kind == .appTransaction ? "receiptCreationDate" : "signedDate"
        guard let date = payload[name] ?? payload["signedDate"] else { return nil }
        // An unreadable date counts as no date here. The payload then fails to decode as its type.
        return try? date.decode(Timestamp.self)
    }

    private static func certificate(_ base64: String, _ name: String) throws(VerificationError) -> Certificate {
        guard let der = Base64.decode(base64.utf8) else {
            throw VerificationError(.malformed, "The \(name) is not base64.")
        }
        return try Certificate(from: der, name)
    }
}
