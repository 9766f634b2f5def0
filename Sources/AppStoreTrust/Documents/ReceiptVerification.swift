// SPDX-License-Identifier: Apache-2.0

// Verifies app receipts: PKCS#7 containers with the signer's certificates inside.

public import AppStoreModel
import Crypto
import CryptoExtras
public import ReceiptCoding
import SwiftASN1
import X509

extension AppStoreVerifier {
    /// Verifies a PKCS#7 app receipt.
    ///
    /// - Parameters:
    ///   - receipt: The receipt's bytes, not their base64.
    ///   - now: The instant at which certificates must be valid if the receipt has no creation date.
    /// - Returns: The receipt. Its `Verified.document` is canonical: it depends only on the payload, the signature and
    ///   the verified chain, and on nothing else in the container.
    /// - Throws: ``VerificationError``.
    public func verify(
        receipt: some Collection<UInt8>, at now: Timestamp
    ) async throws(VerificationError) -> Verified<AppReceipt> {
        let document = Array(receipt)
        let unverified = try UnverifiedReceipt(document)
        passed(.form, "PKCS#7 signed data with one signer", found: "\(document.count) bytes")
        passed(.algorithm, "RSA with SHA-1 or SHA-256", found: unverified.algorithm)
        let chain = try await signer(of: unverified, at: now)
        passedSignature(chain, unverified.algorithm)
        try await requireUnrevoked(chain, at: now)
        return try accept(unverified, from: chain)
    }

    /// The chain that signed the receipt, from the cache if possible. A new chain is added to the cache.
    private func signer(
        of receipt: UnverifiedReceipt, at now: Timestamp
    ) async throws(VerificationError) -> SignerChain {
        let instant = receipt.creationDate ?? now
        if let known = knownReceiptSigners.signer(where: { $1.isNamedFirst(in: receipt.container) }),
            receipt.isSigned(by: known.chain, at: instant)
        {
            passedChain(known.chain)
            passedDates(known.chain, at: instant, isSigned: receipt.creationDate != nil)
            return known.chain
        }
        let chain = try await chain(behind: receipt, at: now)
        knownReceiptSigners.insert(
            ReceiptSigner(receipt.container.signer, chain), for: chain.presented.map { Array($0.tbsCertificateBytes) })
        return chain
    }

    /// The first possible chain that leads to a trusted root and whose signer signed the receipt. Several chains may be
    /// possible: Apple issued two intermediate certificates (WWDR) with the same name and key, and a client can add
    /// certificates to the container.
    private func chain(
        behind receipt: UnverifiedReceipt, at now: Timestamp
    ) async throws(VerificationError) -> SignerChain {
        let instant = receipt.creationDate ?? now
        var firstError: VerificationError?
        var reached: SignerChain?
        for candidate in try receipt.candidates(under: roots) {
            do {
                let chain = try await chain(candidate)
                if firstError == nil { reached = chain }
                try chain.requireValidity(at: instant)
                try receipt.requireSignature(by: chain)
                passedChain(chain)
                passedDates(chain, at: instant, isSigned: receipt.creationDate != nil)
                return chain
            } catch {
                firstError = firstError ?? error
            }
        }
        let error = firstError ?? VerificationError(.untrustedChain, "The receipt contains no chain of certificates.")
        if let reached {
            passedChain(reached)
            if error.code != .certificateExpired {
                passedDates(reached, at: instant, isSigned: receipt.creationDate != nil)
            }
        }
        throw error
    }

    private func chain(
        _ candidate: (leaf: Certificate, intermediate: Certificate?)
    ) async throws(VerificationError) -> SignerChain {
        guard let intermediate = candidate.intermediate else {
            return try SignerChain(selfSigned: candidate.leaf, roots: roots)
        }
        return try await SignerChain.check(
            leaf: candidate.leaf, intermediate: intermediate, roots: roots, onPath: onPath)
    }

    @inline(never)
    private func accept(
        _ genuine: UnverifiedReceipt, from chain: SignerChain
    ) throws(VerificationError) -> Verified<AppReceipt> {
        let document = try genuine.canonical(from: chain)
        let receipt: AppReceipt
        do {
            receipt = try AppReceipt(decoding: genuine.container.payload)
        } catch {
            throw VerificationError(.unreadable, "The receipt is genuine, but cannot be read: \(error).", cause: error)
        }
        let claims = SignedClaims(receipt)
        passed(.contents, "receipt attributes", found: "readable, purchases: \(receipt.inAppPurchases.count)")
        let environment = try requireAccepted(claims, .receipt, from: chain)
        return Verified(
            receipt, .receipt, from: document, environment: environment, bundleId: claims.bundleId,
            signedDate: genuine.creationDate, anchor: chain.anchor)
    }
}

extension SignedClaims {
    fileprivate init(_ receipt: AppReceipt) {
        // An unknown receipt type gives no environment and is never accepted, even if its text is the name of an
        // environment.
        let environment = receipt.receiptType?.known?.environment
        self.init(
            bundleId: receipt.bundleId, appAppleId: receipt.appItemId, environment: environment.map { Open($0) })
    }
}

/// A receipt whose container has the App Store's form. No part is trusted yet.
private struct UnverifiedReceipt {
    let container: SignedReceipt
    let creationDate: Timestamp?

    var algorithm: String { container.signer.digestAlgorithm == .sha1 ? "RSA with SHA-1" : "RSA with SHA-256" }

    @inline(never)
    init(_ document: [UInt8]) throws(VerificationError) {
        do {
            container = try SignedReceipt(decoding: document)
        } catch {
            throw VerificationError(.malformed, "Not an app receipt: \(error).", cause: error)
        }
        creationDate = AppReceipt.creationDate(in: container.payload)
        try Self.requireAlgorithms(container.signer)
    }

    /// The document to store: payload, signature and the certificates of the verified chain. The root is the verifier's
    /// own certificate, not the container's.
    @inline(never)
    func canonical(from chain: SignerChain) throws(VerificationError) -> [UInt8] {
        let document = container.canonical(certificates: chain.encodedCertificates)
        // The root makes the document longer than the received receipt if the receipt lacked it. The document must stay
        // within the limit, because a stored document must pass verification again.
        guard document.count <= Limits.receipt else {
            throw VerificationError(
                .malformed, "With its certificates the receipt is longer than \(Limits.receipt) bytes.")
        }
        return document
    }

    /// Checks the signature: RSA with PKCS#1 v1.5 padding over the payload.
    @inline(never)
    func requireSignature(by chain: SignerChain) throws(VerificationError) {
        guard let key = _RSA.Signing.PublicKey(chain.leaf.publicKey), key.keySizeInBits >= 2048 else {
            throw VerificationError(.unsupportedAlgorithm, "The signer's key is not RSA with 2048 bits or more.")
        }
        let signature = _RSA.Signing.RSASignature(rawRepresentation: container.signer.signature)
        let isValid =
            if container.signer.digestAlgorithm == .sha1 {
                key.isValidSignature(
                    signature, for: Insecure.SHA1.hash(data: container.payload), padding: .insecurePKCS1v1_5)
            } else {
                key.isValidSignature(signature, for: SHA256.hash(data: container.payload), padding: .insecurePKCS1v1_5)
            }
        guard isValid else {
            throw VerificationError(.invalidSignature, "This signer did not sign this payload.")
        }
    }

    /// Whether a cached chain was valid and signed this receipt. If not, the caller tries the chains in the container,
    /// so that the outcome does not depend on the cache.
    @inline(never)
    func isSigned(by chain: SignerChain, at instant: Timestamp) -> Bool {
        do throws(VerificationError) {
            try chain.requireValidity(at: instant)
            try requireSignature(by: chain)
            return true
        } catch {
            return false
        }
    }

    /// The App Store signed receipts with SHA-1 until 2023, and has used SHA-256 since (TN3138).
    private static func requireAlgorithms(_ signer: SignedReceipt.Signer) throws(VerificationError) {
        guard signer.digestAlgorithm == .sha1 || signer.digestAlgorithm == .sha256 else {
            throw VerificationError(
                .unsupportedAlgorithm, "The digest is \(signer.digestAlgorithm), the App Store's are SHA-1 and SHA-256."
            )
        }
        let isRSA =
            signer.signatureAlgorithm == .rsaEncryption
            || signer.signatureAlgorithm == .sha256WithRSAEncryption && signer.digestAlgorithm == .sha256
        guard isRSA else {
            throw VerificationError(
                .unsupportedAlgorithm,
                "The signature algorithm is \(signer.signatureAlgorithm), the App Store's is RSA.")
        }
    }

    /// The possible chains. A leaf is a certificate with the signer's issuer and serial number (RFC 5652 section 5.3).
    /// Each leaf is paired with each certificate whose subject is the leaf's issuer. A self-issued leaf stands alone.
    /// All other certificates are ignored, and so are certificates in a non-canonical encoding.
    ///
    /// Chains with unusual keys, or with names or key identifiers that do not match, are left out. At most
    /// `Limits.paths` chains remain, because checking the signatures of a chain takes time. If all chains would be left
    /// out, the first remains, so that its check reports the reason.
    @inline(never)
    func candidates(
        under roots: TrustRoots
    ) throws(VerificationError) -> [(leaf: Certificate, intermediate: Certificate?)] {
        var certificates: [Certificate] = []
        // Certificates in a non-canonical encoding are ignored.
        for case let certificate? in container.certificates.map({ try? Certificate(canonical: Array($0)) })
        where !certificates.contains(certificate) {
            certificates.append(certificate)
        }
        let leaves = certificates.filter { $0.isSigner(container.signer) }
        guard let leaf = leaves.first else {
            throw VerificationError(.malformed, "The receipt does not contain the certificate of its signer.")
        }
        let candidates: [(Certificate, Certificate?)] = leaves.flatMap { leaf in
            leaf.subject == leaf.issuer
                ? [(leaf, nil)] : certificates.filter { $0.subject == leaf.issuer }.map { (leaf, $0) }
        }
        let possible = candidates.filter { leaf, intermediate in
            guard let intermediate else { return true }
            return leaf.hasUsualKey && intermediate.hasUsualKey && roots.mayAnchor(leaf, issuedBy: intermediate)
        }
        guard candidates.isEmpty else {
            return Array(possible.isEmpty ? candidates.prefix(1) : possible.prefix(Limits.paths))
        }
        throw VerificationError(
            .untrustedChain, "The receipt does not contain the certificate that issued “\(leaf.commonName)”.")
    }
}

extension Certificate {
    /// Whether a receipt names this certificate as its signer's.
    fileprivate func isSigner(_ signer: SignedReceipt.Signer) -> Bool {
        // Compare numbers, not bytes: in DER a serial number with its top bit set starts with a zero byte.
        guard serialNumber == SerialNumber(bytes: signer.serialNumber) else { return false }
        var serializer = DER.Serializer()
        // Cannot fail: a name read from DER can be written as DER.
        guard (try? serializer.serialize(issuer)) != nil else { return false }
        return serializer.serializedBytes.elementsEqual(signer.issuer)
    }
}
