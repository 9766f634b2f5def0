// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto
import CryptoExtras
public import ReceiptCoding
import SwiftASN1
import X509

/// An old transaction receipt whose signature, signer and app were checked. Only ``AppStoreVerifier`` makes one.
///
/// It has no environment, since nothing that is signed names one: a sandbox receipt whose `environment` somebody took away
/// looks like a production receipt and verifies as well. Before it is worth money, look its transaction up at Apple.
public struct VerifiedTransactionReceipt: Sendable {
    /// The purchase, as verifyReceipt would answer it.
    public let payload: TransactionReceiptInfo

    /// The receipt, taken apart. What it says outside of ``payload``, nobody signed.
    public let receipt: TransactionReceipt

    /// The property list exactly as received. This is what to keep, not a re-encoding.
    public let document: [UInt8]

    /// `bid`: one of the accepted apps.
    public let bundleId: String

    /// `purchase-date-ms`: the instant at which its certificates were judged. `nil` where it does not say, and they were
    /// judged at the time that the caller gave.
    public let purchaseDate: Timestamp?
}

extension AppStoreVerifier {
    /// Verifies an old transaction receipt of version 2 or 3 (`SKPaymentTransaction.transactionReceipt`).
    ///
    /// The receipt brings its signer's certificate but not what issued it: that must be among ``intermediates``. The
    /// environments that this verifier accepts play no part; see ``VerifiedTransactionReceipt``.
    ///
    /// - Parameters:
    ///   - transactionReceipt: The property list, not its base64.
    ///   - now: The instant at which certificates are judged where the receipt does not say when it was bought.
    /// - Throws: ``VerificationError``.
    public func verify(
        transactionReceipt: some Collection<UInt8>, at now: Timestamp
    ) async throws(VerificationError) -> VerifiedTransactionReceipt {
        let receipt = try UnverifiedTransactionReceipt(Array(transactionReceipt))
        passed(.form, "a property list with a version 2 or 3 signature", found: "version \(receipt.signature.version)")
        passed(.algorithm, "RSA with SHA-1", found: "RSA-\(receipt.certificate.key.keySizeInBits) with SHA-1")
        let issuers = try await issuers(of: receipt, at: receipt.purchaseDate ?? now)
        try receipt.requireSignature()
        passed(.signature, "RSA with SHA-1 by “\(receipt.certificate.subject.commonName)”", found: "right")
        try await requireUnrevoked(receipt, issuedBy: issuers, at: now)
        return try accept(receipt, Array(transactionReceipt))
    }

    /// Asks about signer and intermediate where that is wanted. About a signer whose certificate the library does not read
    /// nobody can be asked; those of version 2 name no responder anyway.
    private func requireUnrevoked(
        _ receipt: UnverifiedTransactionReceipt, issuedBy issuers: Issuers, at now: Timestamp
    ) async throws(VerificationError) {
        let name = receipt.certificate.subject.commonName
        try await requireUnrevoked(
            [
                (try? Certificate(canonical: Array(receipt.signature.certificate))).map {
                    OCSPQuestion(about: $0, issuedBy: issuers.intermediate)
                }, OCSPQuestion(about: issuers.intermediate, issuedBy: issuers.root),
            ], "Nobody can be asked about the certificate “\(name)”.", at: now)
    }

    @inline(never)
    private func accept(
        _ genuine: UnverifiedTransactionReceipt, _ document: [UInt8]
    ) throws(VerificationError) -> VerifiedTransactionReceipt {
        let payload = try genuine.payload()
        passed(.contents, "a purchase", found: payload.productId ?? "one that names no product")
        guard let bundleId = payload.bid else { throw VerificationError(.otherApp, "The receipt names no app (bid).") }
        try requireApp(SignedClaims(bundleId: bundleId, appAppleId: nil, environment: nil), .receipt)
        return VerifiedTransactionReceipt(
            payload: payload, receipt: genuine.receipt, document: document, bundleId: bundleId,
            purchaseDate: genuine.purchaseDate)
    }

    private typealias Issuers = (intermediate: Certificate, root: Certificate)

    /// The intermediate that issued the signer's certificate, and its root. There may be more than one of its name: Apple
    /// issued two WWDR certificates with one name and key, for different times.
    private func issuers(
        of receipt: UnverifiedTransactionReceipt, at instant: Timestamp
    ) async throws(VerificationError) -> Issuers {
        try receipt.requireMarker()
        let candidates = intermediates.certificates.filter { $0.subject == receipt.certificate.issuer }
        var firstError: VerificationError?
        for candidate in candidates {
            do {
                try receipt.requireIssuer(candidate)
                let root = try await root(of: candidate)
                try receipt.requireValidity(under: candidate, at: instant)
                let names = [receipt.certificate.subject, candidate.subject, root.subject].map { "“\($0.commonName)”" }
                passed(
                    .chain, "three certificates with Apple's marks to a trusted root",
                    found: names.joined(separator: " ← "))
                passed(.dates, "certificates valid when it was bought", found: instant.iso8601)
                return (candidate, root)
            } catch {
                firstError = firstError ?? error
            }
        }
        throw firstError
            ?? VerificationError(
                .untrustedChain,
                """
                The certificate “\(receipt.certificate.issuer.commonName)”, which issued the signer's, is not in the \
                receipt and was not given: name the intermediates that are trusted to be Apple's.
                """)
    }

    private func root(of intermediate: Certificate) async throws(VerificationError) -> Certificate {
        guard case .validCertificate(let chain) = await roots.validate(intermediate, intermediates: []),
            chain.count == 2, let root = chain.last
        else {
            throw VerificationError(
                .untrustedChain, "The certificate “\(intermediate.commonName)” does not lead to a trusted root.")
        }
        return root
    }
}

/// A transaction receipt whose parts have their form. Nothing in it is trusted.
private struct UnverifiedTransactionReceipt {
    let receipt: TransactionReceipt
    let signature: TransactionReceipt.Signature
    let certificate: PurchaseCertificate

    @inline(never)
    init(_ document: [UInt8]) throws(VerificationError) {
        do {
            receipt = try TransactionReceipt(decoding: document)
            signature = try receipt.signatureParts()
        } catch {
            throw VerificationError(.malformed, "Not a transaction receipt: \(error).", cause: error)
        }
        certificate = try PurchaseCertificate(signature.certificate)
    }

    /// When it was bought, as the signed part says.
    var purchaseDate: Timestamp? {
        let text = receipt.purchase["purchase-date-ms"] ?? receipt.purchase["purchase_date_ms"]
        return text.flatMap { Int64($0) }.map(Timestamp.init(milliseconds:))
    }

    func payload() throws(VerificationError) -> TransactionReceiptInfo {
        do {
            return try receipt.info()
        } catch {
            throw VerificationError(
                .unreadable, "The receipt is genuine, but cannot be read: \(error.sentence).", cause: error)
        }
    }

    private var markerOIDs: MarkerOIDs { signature.version == 2 ? .iTunesStore : .appStore }

    @inline(never)
    func requireMarker() throws(VerificationError) { try certificate.requireMarker(markerOIDs) }

    @inline(never)
    func requireIssuer(_ issuer: Certificate) throws(VerificationError) {
        try certificate.requireIssuer(issuer, markerOIDs: markerOIDs)
    }

    @inline(never)
    func requireValidity(under issuer: Certificate, at instant: Timestamp) throws(VerificationError) {
        try certificate.validity.require(instant, of: certificate.subject.commonName)
        try issuer.validity.require(instant, of: issuer.commonName)
    }

    /// Checks the signature: RSA with PKCS#1 v1.5 padding and SHA-1 over the version and the purchase info.
    @inline(never)
    func requireSignature() throws(VerificationError) {
        var hash = Insecure.SHA1()
        hash.update(data: [signature.version])
        hash.update(data: receipt.purchaseInfo)
        let isValid = certificate.key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature.signature), for: hash.finalize(),
            padding: .insecurePKCS1v1_5)
        guard isValid else {
            throw VerificationError(.invalidSignature, "The signature is not of this purchase by this signer.")
        }
    }
}
