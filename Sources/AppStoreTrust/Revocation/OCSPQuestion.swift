// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
import SwiftASN1
package import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// What is asked of a responder about one certificate, and the check of what it answers (RFC 6960, as profiled by RFC
/// 5019).
///
/// swift-certificates has this inside, but lets one have it only as a policy that looks at the wall clock and gives its
/// reasons as text, hence our own.
package struct OCSPQuestion: Sendable {
    package let certificate: Certificate
    /// The certificate of who issued it, which is known to be right.
    let issuer: Certificate

    package init(about certificate: Certificate, issuedBy issuer: Certificate) {
        self.certificate = certificate
        self.issuer = issuer
    }

    /// Where to ask: the first responder that the certificate names (RFC 5280 section 4.2.2.1) and that is reached over
    /// HTTP; other schemes lead to who knows where.
    var responder: String? {
        guard let access = try? certificate.extensions.authorityInformationAccess else { return nil }
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
    /// The most bytes of a response. Real ones, which bring a delegate's certificate along, have 2 KB or less.
    static let responseLimit = 64 << 10

    /// The most certificates in a response. One is needed; more would make us check the signatures on them.
    private static let certificateLimit = 10

    /// Checks a response and finds what it says about the certificate.
    ///
    /// - Parameters:
    ///   - response: The DER of an `OCSPResponse`, from wherever.
    ///   - now: The time, by which the response and the certificate of its signer are judged.
    /// - Returns: An answer that is `good` or `revoked`, and current.
    /// - Throws: Why the response says neither.
    @inline(never)
    package func answer(in response: [UInt8], at now: Timestamp) throws(OCSPFault) -> OCSPAnswer {
        guard response.count <= Self.responseLimit else {
            throw OCSPFault("The answer has \(response.count) bytes, real ones have less than \(Self.responseLimit).")
        }
        let response = try OCSPResponse(decoding: response)
        try requireSignature(on: response, at: now)
        let id = try? OCSPCertificateID(of: certificate, issuedBy: issuer)
        let statements = response.statements.filter { $0.certificate == id }
        // Of two about one certificate the bad one counts.
        guard let statement = statements.first(where: \.status.isRevoked) ?? statements.first else {
            throw OCSPFault("The answer is about another certificate.")
        }
        return try OCSPAnswer(statement, at: now)
    }

    /// Checks that the issuer signed the response, or a delegate that brings the issuer's word for it (RFC 6960 section
    /// 4.2.2.2). Nobody else may answer: other responders that the RFC allows would have to be configured.
    private func requireSignature(on response: OCSPResponse, at now: Timestamp) throws(OCSPFault) {
        guard let algorithm = Certificate.SignatureAlgorithm(ofResponse: response.signatureAlgorithm) else {
            throw OCSPFault(
                "The answer is signed with an algorithm that is not known (\(response.signatureAlgorithm)).")
        }
        guard response.certificates.count <= Self.certificateLimit else {
            throw OCSPFault("The answer brings \(response.certificates.count) certificates, one would do.")
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

    /// Whether the issuer itself appointed the holder of this certificate to answer for it. Whether the delegate's
    /// certificate was revoked in turn is not asked: the issuer limits that by its dates (section 4.2.2.2.1).
    private func isDelegate(_ certificate: Certificate, at now: Timestamp) -> Bool {
        certificate.issuer == issuer.subject && certificate.maySignResponses && certificate.isValid(at: now)
            && issuer.publicKey.isValidSignature(certificate.signature, for: certificate)
    }
}

extension Certificate {
    /// Whether the certificate is one for the signing of OCSP responses, and nothing in it says otherwise.
    fileprivate var maySignResponses: Bool {
        let known: [ASN1ObjectIdentifier] = [
            .X509ExtensionID.basicConstraints, .X509ExtensionID.keyUsage, .X509ExtensionID.extendedKeyUsage,
        ]
        guard extensions.allSatisfy({ !$0.critical || known.contains($0.oid) }),
            let purposes = try? extensions.extendedKeyUsage, purposes.contains(.ocspSigning)
        else { return false }
        guard extensions[oid: .X509ExtensionID.keyUsage] != nil else { return true }
        return (try? extensions.keyUsage)?.digitalSignature == true
    }

    /// To the second and including both ends (RFC 5280 section 4.1.2.5).
    fileprivate func isValid(at now: Timestamp) -> Bool {
        let now = Date(timeIntervalSince1970: Double(now.milliseconds) / 1000)
        return notValidBefore <= now && now < notValidAfter.addingTimeInterval(1)
    }
}

extension Certificate.SignatureAlgorithm {
    /// The algorithms with which responders sign. SHA-1 is not among them: what is signed here may be chosen by others, and
    /// nobody who can make collisions is to say what is revoked.
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
