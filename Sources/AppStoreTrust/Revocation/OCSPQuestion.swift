// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import SwiftASN1
package import X509

/// A request for the revocation status of one certificate, and the check of the response (RFC 6960 in the profile of
/// RFC 5019).
///
/// swift-certificates offers OCSP only as a verification policy that reports its reasons as text. That is not enough
/// for callers of a ``RevocationChecker``, who must distinguish a revoked certificate from one of unknown status.
package struct OCSPQuestion: Sendable {
    /// The certificate whose status is requested.
    package let certificate: Certificate
    /// The issuer's certificate in the verified chain.
    let issuer: Certificate

    /// Creates a request about a certificate of a verified chain.
    package init(about certificate: Certificate, issuedBy issuer: Certificate) {
        self.certificate = certificate
        self.issuer = issuer
    }

    /// The address of the first responder in the certificate (RFC 5280 section 4.2.2.1) with the scheme `http` or
    /// `https`. Other schemes are never opened.
    var responder: String? {
        guard let access = certificate.extensions.readable({ try $0.authorityInformationAccess }) else { return nil }
        for description in access where description.method == .ocspServer {
            guard case .uniformResourceIdentifier(let address) = description.location else { continue }
            let scheme = address.prefix(8).lowercased()
            if scheme.hasPrefix("http://") || scheme.hasPrefix("https://") { return address }
        }
        return nil
    }

    /// The DER of the request.
    @inline(never)
    package func request() throws -> [UInt8] {
        try OCSPCertificateID(of: certificate, issuedBy: issuer).request()
    }
}

extension OCSPQuestion {
    /// The maximum number of bytes of a response. Real responses, including a delegate's certificate, have 2 KB or
    /// less.
    static let responseLimit = 64 << 10

    /// The maximum number of certificates in a response. One certificate is needed, and each further certificate may
    /// cost a signature check.
    private static let certificateLimit = 10

    /// Checks a response and reads the status of the certificate from the response.
    ///
    /// - Parameters:
    ///   - response: The DER of an `OCSPResponse`, from an untrusted network.
    ///   - now: The instant at which the response and its signer's certificate must be valid.
    /// - Returns: An answer with the status `good` or `revoked`, valid at `now`.
    /// - Throws: Why the response proves neither status.
    @inline(never)
    package func answer(in response: [UInt8], at now: Timestamp) throws(OCSPFault) -> OCSPAnswer {
        guard response.count <= Self.responseLimit else {
            throw OCSPFault("The answer has \(response.count) bytes, real ones have less than \(Self.responseLimit).")
        }
        let response = try OCSPResponse(decoding: response)
        try requireSignature(on: response, at: now)
        // If the identifier cannot be computed, no statement matches it.
        let id = try? OCSPCertificateID(of: certificate, issuedBy: issuer)
        let statements = response.statements.filter { $0.certificate == id }
        // If there are several statements about the certificate, `revoked` prevails.
        guard let statement = statements.first(where: \.status.isRevoked) ?? statements.first else {
            throw OCSPFault("The answer is about another certificate.")
        }
        return try OCSPAnswer(statement, at: now)
    }

    /// Checks that the response is signed by the issuer, or by a delegate with a certificate from the issuer (RFC 6960
    /// section 4.2.2.2). The other responders allowed by the RFC are refused, because they would have to be configured.
    private func requireSignature(on response: OCSPResponse, at now: Timestamp) throws(OCSPFault) {
        guard let algorithm = Certificate.SignatureAlgorithm(ofResponse: response.signatureAlgorithm) else {
            throw OCSPFault(
                "The answer is signed with an unknown algorithm (\(response.signatureAlgorithm)).")
        }
        guard response.certificates.count <= Self.certificateLimit else {
            throw OCSPFault("The answer contains \(response.certificates.count) certificates, real ones contain one.")
        }
        let signers = ([issuer] + response.certificates).filter(response.responder.isHolder)
        let isSigned = signers.contains { signer in
            (signer == issuer || isDelegate(signer, at: now))
                && signer.publicKey.isValidSignature(
                    response.signature, for: response.signedBytes, signatureAlgorithm: algorithm)
        }
        guard isSigned else {
            throw OCSPFault("The answer is signed neither by the issuer nor by a responder that the issuer appointed.")
        }
    }

    /// Whether the issuer appointed the holder of this certificate to sign responses. The delegate's own certificate is
    /// not checked for revocation. The issuer is expected to limit this risk by a short validity period (section
    /// 4.2.2.2.1).
    private func isDelegate(_ certificate: Certificate, at now: Timestamp) -> Bool {
        certificate.issuer == issuer.subject && certificate.maySignResponses && certificate.validity.contains(now)
            && issuer.publicKey.isValidSignature(certificate.signature, for: certificate)
    }
}

extension Certificate {
    /// Whether the certificate is for signing OCSP responses, and has no unknown critical extension.
    fileprivate var maySignResponses: Bool {
        let known: [ASN1ObjectIdentifier] = [
            .X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage, .X509ExtensionID.extendedKeyUsage,
        ]
        guard extensions.allSatisfy({ !$0.critical || known.contains($0.oid) }),
            let purposes = extensions.readable({ try $0.extendedKeyUsage }), purposes.contains(.ocspSigning)
        else { return false }
        return extensions.permit(.signsDocuments)
    }
}

extension Certificate.SignatureAlgorithm {
    /// The algorithms used by responders. SHA-1 is excluded: an attacker may choose parts of a response, so a collision
    /// could forge a response.
    fileprivate init?(ofResponse identifier: ASN1ObjectIdentifier) {
        switch identifier {
        case [1, 2, 840, 10045, 4, 3, 2]: self = .ecdsaWithSHA256
        case [1, 2, 840, 10045, 4, 3, 3]: self = .ecdsaWithSHA384
        case [1, 2, 840, 10045, 4, 3, 4]: self = .ecdsaWithSHA512
        case .AlgorithmIdentifier.sha256WithRSAEncryption: self = .sha256WithRSAEncryption
        case .AlgorithmIdentifier.sha384WithRSAEncryption: self = .sha384WithRSAEncryption
        case .AlgorithmIdentifier.sha512WithRSAEncryption: self = .sha512WithRSAEncryption
        default: return nil
        }
    }
}
