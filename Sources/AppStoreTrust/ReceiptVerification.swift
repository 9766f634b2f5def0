// SPDX-License-Identifier: Apache-2.0

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
    ///   - now: The instant at which certificates are judged where the receipt does not say when it was created.
    /// - Throws: ``VerificationError``.
    public func verify(
        receipt: some Collection<UInt8>, at now: Timestamp
    ) async throws(VerificationError) -> Verified<AppReceipt> {
        let document = Array(receipt)
        let unverified = try UnverifiedReceipt(document)
        let chain = try await SignerChain.check(
            leaf: unverified.leaf, intermediate: unverified.intermediate, roots: roots)
        try unverified.requireSignature(by: chain, at: now)
        return try accept(unverified, document)
    }

    @inline(never)
    private func accept(
        _ genuine: UnverifiedReceipt, _ document: [UInt8]
    ) throws(VerificationError) -> Verified<AppReceipt> {
        let receipt: AppReceipt
        do {
            receipt = try AppReceipt(decoding: genuine.container.payload)
        } catch {
            throw VerificationError(.malformed, "The receipt is genuine, but cannot be read: \(error).", cause: error)
        }
        let claims = SignedClaims(receipt)
        let environment = try requireAccepted(claims, .receipt)
        return Verified(
            receipt, .receipt, from: document, environment: environment, bundleId: claims.bundleId,
            signedDate: receipt.receiptCreationDate)
    }
}

extension SignedClaims {
    fileprivate init(_ receipt: AppReceipt) {
        self.init(.receipt, .null)
        bundleId = receipt.bundleId
        appAppleId = receipt.appItemId
        // A type that is not known stands for no environment, and so is never accepted.
        environment = receipt.receiptType.map { type in
            type.known.map { Open($0.environment) } ?? Open(rawValue: type.rawValue)
        }
    }
}

/// A receipt whose container has the form that the App Store gives it. Nothing in it is trusted.
private struct UnverifiedReceipt {
    let container: SignedReceipt
    let leaf: Certificate
    let intermediate: Certificate
    private let creationDate: Timestamp?

    @inline(never)
    init(_ document: [UInt8]) throws(VerificationError) {
        do {
            container = try SignedReceipt(decoding: document)
        } catch {
            throw VerificationError(.malformed, "Not an app receipt: \(error).", cause: error)
        }
        creationDate = AppReceipt.creationDate(in: container.payload)
        try Self.requireAlgorithms(container.signer)
        (leaf, intermediate) = try Self.chain(of: container)
    }

    /// Checks that the signer's certificates were valid when the receipt was created, and the signature itself.
    @inline(never)
    func requireSignature(by chain: SignerChain, at now: Timestamp) throws(VerificationError) {
        try chain.requireValidity(at: creationDate ?? now)
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
            throw VerificationError(.invalidSignature, "The signature is not of this payload by this signer.")
        }
    }

    /// The App Store signed receipts with SHA-1 until 2023 and uses SHA-256 since (TN3138).
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

    /// Finds the signer by issuer and serial number (RFC 5652 section 5.3), and who issued its certificate by name.
    private static func chain(
        of container: SignedReceipt
    ) throws(VerificationError) -> (leaf: Certificate, intermediate: Certificate) {
        var certificates: [Certificate] = []
        for der in container.certificates { certificates.append(try Certificate(from: der, "embedded certificate")) }
        guard let leaf = certificates.first(where: { $0.isSigner(container.signer) }) else {
            throw VerificationError(.malformed, "The receipt does not bring the certificate of its signer.")
        }
        guard leaf.subject != leaf.issuer else {
            throw VerificationError(
                .untrustedChain,
                "The signer “\(leaf.commonName)” vouches for itself: signed by Xcode, not by the App Store.")
        }
        guard let intermediate = certificates.first(where: { $0.subject == leaf.issuer }) else {
            throw VerificationError(
                .untrustedChain, "The receipt does not bring the certificate that issued “\(leaf.commonName)”.")
        }
        return (leaf, intermediate)
    }
}

extension Certificate {
    fileprivate func isSigner(_ signer: SignedReceipt.Signer) -> Bool {
        guard serialNumber.bytes.elementsEqual(signer.serialNumber) else { return false }
        var serializer = DER.Serializer()
        guard (try? serializer.serialize(issuer)) != nil else { return false }
        return serializer.serializedBytes.elementsEqual(signer.issuer)
    }
}
