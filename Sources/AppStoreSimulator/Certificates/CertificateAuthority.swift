// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel
import SwiftASN1
package import X509

/// A certificate authority with the structure of Apple's, for tests. Only verifiers that trust its roots accept its
/// signatures.
///
/// The authority has no key or certificate of Apple's, and the names in its certificates say so. Every instance has new
/// keys.
public struct CertificateAuthority: Sendable {
    /// The signer of tokens (compact JWS, such as signed transactions). The keys of root, intermediate and leaf are
    /// P-384, P-384 and P-256.
    package var tokens: ChainPlan
    /// The signer of app receipts. All three keys are RSA-2048.
    package var receipts: ChainPlan
    /// The signer of version 2 transaction receipts. The keys of root and intermediate are RSA-2048, and the leaf's is
    /// RSA-1024.
    package var purchases: ChainPlan

    /// Creates an authority with new keys.
    ///
    /// - Parameter from: The start of the validity of the signers' certificates, which are valid for two years. The
    ///   certificates above them (root and intermediate) are valid longer.
    public init(from: Timestamp) throws {
        let end = from.advanced(byDays: 730)
        let tokenRoot = CertificatePlan.root("Quittance Simulator Root CA - EC", .newP384(), from)
        tokens = ChainPlan(
            tokenRoot.issues("Simulated WWDR - EC", .worldwideDeveloperRelations, .newP384()),
            under: tokenRoot, signing: ("Simulated token signing", .appStoreReceiptSigning, .newP256()), from, end)
        let keys = try SigningKey.newRSA(count: 4)
        let receiptRoot = CertificatePlan.root("Quittance Simulator Root CA - RSA", keys[0], from)
        receipts = ChainPlan(
            receiptRoot.issues("Simulated WWDR - RSA", .worldwideDeveloperRelations, keys[1]),
            under: receiptRoot, signing: ("Simulated receipt signing", .appStoreReceiptSigning, keys[2]), from, end)
        purchases = ChainPlan(
            receiptRoot.issues("Simulated iTunes Store CA", .iTunesStoreAuthority, keys[3]),
            under: receiptRoot,
            signing: ("Simulated purchase receipts", .purchaseReceiptSigning, try .newRSA(bits: 1024)), from, end)
    }

    /// The roots of tokens and of receipts, as DER.
    public var roots: [[UInt8]] {
        get throws { try [tokens.root, receipts.root].map { try [UInt8](der: $0.issue()) } }
    }

    /// The intermediate certificates of version 2 and version 3 transaction receipts, as DER. A verifier must have
    /// them, because the receipts do not contain them.
    public var intermediates: [[UInt8]] {
        get throws { try [purchases.intermediate, receipts.intermediate].map { try [UInt8](der: $0.issue()) } }
    }
}

/// The three certificates of a signer's chain.
package struct ChainPlan: Sendable {
    package var root: CertificatePlan
    package var intermediate: CertificatePlan
    package var leaf: CertificatePlan

    fileprivate init(
        _ intermediate: CertificatePlan, under root: CertificatePlan,
        signing leaf: (subject: String, marker: ASN1ObjectIdentifier, key: SigningKey), _ from: Timestamp,
        _ until: Timestamp
    ) {
        self.root = root
        self.intermediate = intermediate
        self.leaf = CertificatePlan(
            subject: leaf.subject, issuer: intermediate.subject, from: from, until: until, markerOIDs: [leaf.marker],
            constraints: .notCertificateAuthority, key: leaf.key, issuerKey: intermediate.key)
    }

    /// Leaf, intermediate, root: the order of `x5c` and of receipts.
    package func issue() throws -> [Certificate] {
        try [leaf, intermediate, root].map { try $0.issue() }
    }
}

extension CertificatePlan {
    fileprivate static func root(_ subject: String, _ key: SigningKey, _ from: Timestamp) -> CertificatePlan {
        var plan = CertificatePlan(
            subject: subject, issuer: subject, from: from.advanced(byDays: -3650), until: from.advanced(byDays: 7300),
            constraints: .isCertificateAuthority(maxPathLength: nil), key: key, issuerKey: key)
        // Without a fixed serial number, the root would be different bytes each time it is issued. With it, receipts
        // contain exactly the trusted root, like the App Store's receipts.
        plan.serialNumber = Array(Certificate.SerialNumber().bytes)
        return plan
    }

    /// The plan of an intermediate under this root.
    fileprivate func issues(_ subject: String, _ marker: ASN1ObjectIdentifier, _ key: SigningKey) -> CertificatePlan {
        CertificatePlan(
            subject: subject, issuer: self.subject, from: from.advanced(byDays: 3000),
            until: until.advanced(byDays: -100), markerOIDs: [marker],
            constraints: .isCertificateAuthority(maxPathLength: 0),
            key: key, issuerKey: self.key)
    }
}

extension Timestamp {
    fileprivate func advanced(byDays days: Int64) -> Timestamp {
        Timestamp(milliseconds: milliseconds + days * 86_400_000)
    }
}
