// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import CryptoExtras
import SwiftASN1
import X509

/// The certificate of a transaction receipt's signer.
///
/// The signers of version 2 receipts have RSA keys of 1024 bits, which swift-certificates does not read. This type
/// therefore has its own reader for the few fields needed for verification (RFC 5280 section 4.1). The certificate of
/// the issuer has an ordinary key, so swift-certificates reads it and verifies its chain.
struct PurchaseCertificate {
    let issuer: DistinguishedName
    let subject: DistinguishedName
    let validity: CertificateValidity
    let key: _RSA.Signing.PublicKey
    let extensions: Certificate.Extensions

    /// The bytes signed by the issuer.
    private let signedBytes: ArraySlice<UInt8>
    private let algorithm: Certificate.SignatureAlgorithm
    private let signature: ArraySlice<UInt8>

    /// Reads a certificate from its DER.
    ///
    /// - Throws: `malformed`, or `unsupportedAlgorithm` if the certificate's key or signature is not RSA.
    @inline(never)
    init(_ der: ArraySlice<UInt8>) throws(VerificationError) {
        do {
            try self.init(parsing: der)
        } catch let error as VerificationError {
            throw error
        } catch {
            throw VerificationError(.malformed, "The signer's certificate is not an X.509 certificate.", cause: error)
        }
    }

    private init(parsing der: ArraySlice<UInt8>) throws {
        let parts = try CertificateParts(try DER.parse(der))
        let body = try TBSCertificate(parts.signed)
        issuer = body.issuer
        subject = body.subject
        validity = body.validity
        key = try Self.key(body.key)
        extensions = body.extensions
        signedBytes = parts.signed.encodedBytes
        signature = parts.signature
        guard let algorithm = Self.algorithms[body.algorithm] else {
            throw VerificationError(
                .unsupportedAlgorithm, "The signer's certificate is signed with \(body.algorithm), not with RSA.")
        }
        self.algorithm = algorithm
    }

    /// Checks that `issuer` signed this certificate, and may issue signers of purchases.
    @inline(never)
    func requireIssuer(_ issuer: Certificate, markerOIDs: MarkerOIDs) throws(VerificationError) {
        try markerOIDs.require(onIntermediate: issuer)
        guard case .isCertificateAuthority? = issuer.extensions.readable({ try $0.basicConstraints }) else {
            throw VerificationError(.untrustedChain, "The certificate “\(issuer.commonName)” may not issue others.")
        }
        try issuer.extensions.require(.signsCertificates, of: issuer.commonName)
        guard issuer.publicKey.isValidSignature(signature, for: signedBytes, signatureAlgorithm: algorithm) else {
            throw VerificationError(
                .untrustedChain, "The certificate “\(subject.commonName)” was not signed by “\(issuer.commonName)”.")
        }
    }

    /// Checks the marker OID, the key usage, and that no critical extension is unknown (RFC 5280 section 4.2).
    @inline(never)
    func requireMarker(_ markerOIDs: MarkerOIDs) throws(VerificationError) {
        try MarkerOIDs.require(markerOIDs.leaf, extensions.map(\.oid), subject.commonName, "App Store signers")
        try extensions.require(.signsDocuments, of: subject.commonName)
        let known: [ASN1ObjectIdentifier] = [.X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage]
        for unknown in extensions where unknown.critical && !known.contains(unknown.oid) {
            throw VerificationError(
                .untrustedChain,
                "The certificate “\(subject.commonName)” has an unknown critical extension (\(unknown.oid)).")
        }
    }

    private static let algorithms: [ASN1ObjectIdentifier: Certificate.SignatureAlgorithm] = [
        [1, 2, 840, 113549, 1, 1, 5]: .sha1WithRSAEncryption,
        [1, 2, 840, 113549, 1, 1, 11]: .sha256WithRSAEncryption,
    ]

    private static func key(
        _ subjectPublicKeyInfo: ArraySlice<UInt8>
    ) throws(VerificationError) -> _RSA.Signing.PublicKey {
        // 1024 bits are weak, but receipts of 2012 cannot be signed again, and no such key has been factored in public.
        // The error of the library says no more than that it does not accept the key.
        guard let key = try? _RSA.Signing.PublicKey(unsafeDERRepresentation: subjectPublicKeyInfo) else {
            throw VerificationError(.unsupportedAlgorithm, "The signer's key is not RSA with 1024 bits or more.")
        }
        if let flaw = key.flaw { throw VerificationError(.unsupportedAlgorithm, "The signer's key is RSA \(flaw).") }
        return key
    }

    /// The part signed by the issuer, field by field (RFC 5280 section 4.1.2).
    private struct TBSCertificate {
        var algorithm: ASN1ObjectIdentifier
        var issuer: DistinguishedName
        var validity: CertificateValidity
        var subject: DistinguishedName
        var key: ArraySlice<UInt8>
        var extensions: Certificate.Extensions

        init(_ node: ASN1Node) throws {
            self = try DER.sequence(node, identifier: .sequence) { fields in
                try TBSCertificate(&fields)
            }
        }

        private init(_ fields: inout ASN1NodeCollection.Iterator) throws {
            _ = try DER.optionalExplicitlyTagged(&fields, tagNumber: 0, tagClass: .contextSpecific) { version in
                try Int(derEncoded: version)
            }
            _ = fields.next()  // The serial number.
            algorithm = try fields.algorithm()
            issuer = try DistinguishedName(derEncoded: fields.required())
            validity = try DER.sequence(fields.required(), identifier: .sequence) { dates in
                try CertificateValidity(from: Self.time(&dates), until: Self.time(&dates))
            }
            subject = try DistinguishedName(derEncoded: fields.required())
            key = try fields.required().encodedBytes
            let extensions = try DER.optionalExplicitlyTagged(&fields, tagNumber: 3, tagClass: .contextSpecific) {
                try DER.sequence(of: Certificate.Extension.self, identifier: .sequence, rootNode: $0)
            }
            self.extensions = try Certificate.Extensions(extensions ?? [])
        }

        /// Reads a UTCTime, used until 2049, or a GeneralizedTime, used from 2050 on (RFC 5280 section 4.1.2.5).
        private static func time(_ fields: inout ASN1NodeCollection.Iterator) throws -> Timestamp {
            let node = try fields.required()
            let time =
                if node.identifier == .utcTime {
                    Timestamp(try UTCTime(derEncoded: node))
                } else {
                    Timestamp(try GeneralizedTime(derEncoded: node))
                }
            guard let time else {
                throw ASN1Error.invalidASN1Object(reason: "A date is not in the calendar.")
            }
            return time
        }
    }
}

extension Timestamp {
    fileprivate init?(_ time: UTCTime) {
        self.init((time.year, time.month, time.day), (time.hours, time.minutes, time.seconds))
    }

    fileprivate init?(_ time: GeneralizedTime) {
        self.init((time.year, time.month, time.day), (time.hours, time.minutes, time.seconds))
    }
}
