// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import Crypto
import CryptoExtras
public import ReceiptCoding
import X509

/// An old transaction receipt with verified signature, signer and app. Only ``AppStoreVerifier`` creates such values.
///
/// The environment is not verified, because the signature does not cover it. A sandbox receipt whose `environment` has
/// been removed looks like a production receipt and passes verification. Therefore look the transaction up in the App
/// Store Server API before you deliver a purchase.
public struct VerifiedTransactionReceipt: Sendable {
    /// The purchase, as verifyReceipt would return it.
    public let payload: TransactionReceiptInfo

    /// The parts of the receipt. Only ``payload`` is signed.
    public let receipt: TransactionReceipt

    /// The property list exactly as received. Store these bytes, not a re-encoding.
    public let document: [UInt8]

    /// `bid`: the bundle id of an accepted app.
    public let bundleId: String

    /// `purchase-date-ms`, the instant at which the certificates had to be valid. If the receipt has no date, the value
    /// is `nil`, and the certificates had to be valid at the caller's `now`.
    public let purchaseDate: Timestamp?
}

extension AppStoreVerifier {
    /// Verifies an old transaction receipt of version 2 or 3 (`SKPaymentTransaction.transactionReceipt`).
    ///
    /// The receipt contains its signer's certificate, but not the issuer's certificate. The issuer must be among
    /// ``intermediates``. If the receipt names an environment, the environment must be among ``environments``. The
    /// environment is not signed; see ``VerifiedTransactionReceipt``.
    ///
    /// - Parameters:
    ///   - transactionReceipt: The property list, not its base64.
    ///   - now: The instant at which certificates must be valid if the receipt has no purchase date.
    /// - Throws: ``VerificationError``.
    public func verify(
        transactionReceipt: some Collection<UInt8>, at now: Timestamp
    ) async throws(VerificationError) -> VerifiedTransactionReceipt {
        let receipt = try UnverifiedTransactionReceipt(Array(transactionReceipt))
        passed(
            .form, "a property list with a version 2 or 3 signature",
            found: "version \(receipt.signatureParts.version)")
        passed(.algorithm, "RSA with SHA-1", found: "RSA-\(receipt.certificate.key.keySizeInBits) with SHA-1")
        let issuers = try await issuers(of: receipt, at: receipt.purchaseDate ?? now)
        try receipt.requireSignature()
        passed(.signature, "RSA with SHA-1 by “\(receipt.certificate.subject.commonName)”", found: "valid")
        try await requireUnrevoked(receipt, issuedBy: issuers, at: now)
        return try accept(receipt, Array(transactionReceipt))
    }

    /// Checks signer and intermediate for revocation, if required by the policy. The status of a version 2 signer is
    /// always unknown: swift-certificates cannot read its certificate, which names no responder anyway.
    private func requireUnrevoked(
        _ receipt: UnverifiedTransactionReceipt, issuedBy issuers: Issuers, at now: Timestamp
    ) async throws(VerificationError) {
        let name = receipt.certificate.subject.commonName
        try await requireUnrevoked(
            [
                // The status of an unreadable certificate counts as unknown.
                (try? Certificate(canonical: Array(receipt.signatureParts.certificate))).map {
                    OCSPQuestion(about: $0, issuedBy: issuers.intermediate)
                }, OCSPQuestion(about: issuers.intermediate, issuedBy: issuers.root),
            ], "The certificate “\(name)” cannot be checked for revocation.", at: now)
    }

    @inline(never)
    private func accept(
        _ genuine: UnverifiedTransactionReceipt, _ document: [UInt8]
    ) throws(VerificationError) -> VerifiedTransactionReceipt {
        let payload = try genuine.payload()
        passed(.contents, "a purchase", found: payload.productId ?? "no product id")
        guard let bundleId = payload.bid else { throw VerificationError(.otherApp, "The receipt names no app (bid).") }
        try requireApp(SignedClaims(bundleId: bundleId, appAppleId: nil, environment: nil), .receipt)
        try requireEnvironment(claimedBy: genuine.receipt)
        return VerifiedTransactionReceipt(
            payload: payload, receipt: genuine.receipt, document: document, bundleId: bundleId,
            purchaseDate: genuine.purchaseDate)
    }

    /// Refuses a receipt that names an environment outside ``environments``. The name is unsigned and proves nothing,
    /// but this check catches the sandbox receipts of honest clients.
    private func requireEnvironment(claimedBy receipt: TransactionReceipt) throws(VerificationError) {
        let accepted = environments.map(\.rawValue).sorted().joined(separator: " or ")
        guard let claim = receipt.environment else {
            return passed(.environment, "\(accepted), or none", found: "none")
        }
        guard environments.contains(where: { $0.rawValue.lowercased() == claim.lowercased() }) else {
            throw VerificationError(
                .otherEnvironment, "The receipt says that it is from \(claim), accepted is \(accepted).")
        }
        passed(.environment, "\(accepted), or none", found: "\(claim), which is not signed")
    }

    private typealias Issuers = (intermediate: Certificate, root: Certificate)

    /// The intermediate that issued the signer's certificate, and the intermediate's root. Several intermediates may
    /// have the issuer's name: Apple issued two intermediates (WWDR) with the same name and key, but with different
    /// dates.
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
                    .chain, "three certificates with Apple's marker OIDs to a trusted root",
                    found: names.joined(separator: " ← "))
                passed(.dates, "certificates valid at the time of purchase", found: instant.iso8601)
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
                receipt and not configured: name the intermediates that you know to be Apple's.
                """)
    }

    /// The root that issued an intermediate.
    private func root(of intermediate: Certificate) async throws(VerificationError) -> Certificate {
        guard case .validCertificate(let chain) = await roots.validate(intermediate, intermediates: []),
            chain.count == 2, let root = chain.last
        else {
            throw VerificationError(
                .untrustedChain, "The certificate “\(intermediate.commonName)” does not lead to a trusted root.")
        }
        try root.extensions.require(.signsCertificates, of: root.commonName)
        return root
    }
}

/// A transaction receipt whose parts have the App Store's form. No part is trusted yet.
private struct UnverifiedTransactionReceipt {
    let receipt: TransactionReceipt
    let signatureParts: TransactionReceipt.SignatureParts
    let certificate: PurchaseCertificate

    @inline(never)
    init(_ document: [UInt8]) throws(VerificationError) {
        do {
            receipt = try TransactionReceipt(decoding: document)
            signatureParts = try receipt.signatureParts()
        } catch {
            throw VerificationError(.malformed, "Not a transaction receipt: \(error).", cause: error)
        }
        certificate = try PurchaseCertificate(signatureParts.certificate)
    }

    /// The purchase date in the signed part.
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

    private var markerOIDs: MarkerOIDs { signatureParts.version == 2 ? .iTunesStore : .appStore }

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
        hash.update(data: [signatureParts.version])
        hash.update(data: receipt.purchaseInfo)
        let isValid = certificate.key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signatureParts.signature), for: hash.finalize(),
            padding: .insecurePKCS1v1_5)
        guard isValid else {
            throw VerificationError(.invalidSignature, "This signer did not sign this purchase.")
        }
    }
}
