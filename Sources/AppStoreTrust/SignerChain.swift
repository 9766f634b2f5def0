// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding
import SwiftASN1
@_spi(DisableValidityCheck) package import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The certificates of a signer that lead to a trusted root by Apple's rules.
///
/// Whether a chain is right does not depend on the time; from when to when it holds is kept beside it, so that one chain
/// can be judged at the signing time of many documents.
package struct SignerChain: Sendable {
    package let leaf: Certificate

    /// The bytes of leaf and intermediate, without the root's.
    var der: [[UInt8]] {
        [leaf, intermediate].map { certificate in
            var serializer = DER.Serializer()
            // Cannot fail: the certificate was read from these bytes, and keeps them.
            try? serializer.serialize(certificate)
            return serializer.serializedBytes
        }
    }

    private let intermediate: Certificate

    /// Checks the path from `leaf` over `intermediate` to one of `roots`: exactly three certificates, each signed by the
    /// next, valid as a path by RFC 5280, with Apple's marks on the first two. The root that a document brings along
    /// plays no part: only configured roots may anchor a chain.
    package static func check(
        leaf: Certificate, intermediate: Certificate, roots: TrustRoots
    ) async throws(VerificationError) -> SignerChain {
        try requireMarks(leaf: leaf, intermediate: intermediate)
        // The library builds and judges the path; the time is looked at apart, by `requireValidity`.
        var verifier = Verifier(rootCertificates: CertificateStore(roots.certificates)) {
            RFC5280Policy.withValidityCheckDisabled()
        }
        let result = await verifier.validate(leaf: leaf, intermediates: CertificateStore([intermediate]))
        return try SignerChain(result, leaf: leaf, intermediate: intermediate)
    }

    private init(
        _ result: CertificateValidationResult, leaf: Certificate, intermediate: Certificate
    ) throws(VerificationError) {
        // A chain that skips the intermediate, or is the leaf alone because a caller trusts it as a root, is none of
        // the App Store's.
        guard case .validCertificate(let chain) = result, chain.count == 3, chain[chain.startIndex + 1] == intermediate
        else {
            throw VerificationError(
                .untrustedChain,
                "The certificates of “\(leaf.commonName)”, issued by “\(intermediate.commonName)”, do not lead to a trusted root."
            )
        }
        self.leaf = leaf
        self.intermediate = intermediate
    }

    /// Checks that both certificates were valid at `instant`, to the second and including both ends (RFC 5280 section
    /// 4.1.2.5). The root is trusted by configuration, whatever its dates.
    func requireValidity(at instant: Timestamp) throws(VerificationError) {
        for certificate in [leaf, intermediate] {
            let from = Timestamp(certificate.notValidBefore)
            let until = Timestamp(certificate.notValidAfter)
            guard instant >= from, instant.milliseconds < until.milliseconds + 1000 else {
                throw VerificationError(
                    .certificateExpired,
                    """
                    The certificate “\(certificate.commonName)” is valid from \(from.iso8601) to \(until.iso8601), \
                    not at \(instant.iso8601).
                    """)
            }
        }
    }

    /// Anybody with a developer certificate from Apple has a chain to Apple's root. These two marks tell the App Store's
    /// own signers from all others.
    private static func requireMarks(leaf: Certificate, intermediate: Certificate) throws(VerificationError) {
        guard leaf.extensions[oid: .appStoreReceiptSigning] != nil else {
            throw VerificationError(
                .untrustedChain,
                "The certificate “\(leaf.commonName)” lacks the mark of App Store signers (\(ASN1ObjectIdentifier.appStoreReceiptSigning))."
            )
        }
        guard intermediate.extensions[oid: .worldwideDeveloperRelations] != nil else {
            throw VerificationError(
                .untrustedChain,
                """
                The certificate “\(intermediate.commonName)” lacks the mark of Apple Worldwide Developer Relations \
                (\(ASN1ObjectIdentifier.worldwideDeveloperRelations)).
                """)
        }
    }
}

extension ASN1ObjectIdentifier {
    /// On the App Store's signing certificates.
    static let appStoreReceiptSigning: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]
    /// On the intermediate certificates that issue them.
    static let worldwideDeveloperRelations: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 1]
}

extension Certificate {
    /// Reads a certificate from a document.
    ///
    /// - Throws: `malformed`.
    init(from der: some Collection<UInt8>, _ name: String) throws(VerificationError) {
        do {
            try self.init(derEncoded: Array(der))
        } catch {
            throw VerificationError(.malformed, "The \(name) is no X.509 certificate.", cause: error)
        }
    }

    /// The subject's common name, for people only: Apple changes it, and anybody can write it.
    var commonName: String {
        for name in subject {
            for attribute in name where attribute.type == .RDNAttributeType.commonName {
                return String(describing: attribute.value)
            }
        }
        return String(describing: subject)
    }
}

extension Timestamp {
    /// A certificate's date. ASN.1 ends with the year 9999, so it always fits; whatever else there might be is clamped.
    fileprivate init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        self.init(milliseconds: Int64(exactly: milliseconds) ?? (milliseconds < 0 ? 0 : .max - 1000))
    }
}
