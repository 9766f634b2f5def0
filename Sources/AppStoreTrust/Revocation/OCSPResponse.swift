// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import SwiftASN1
import X509

/// The parts of a responder's response (RFC 6960 section 4.2.1). No part is trusted.
struct OCSPResponse {
    /// The signer claimed by the response: `ResponderID`.
    enum Responder: Hashable {
        case name(DistinguishedName)
        /// SHA-1 of the bits of the key.
        case key(ArraySlice<UInt8>)
    }

    /// The status of one certificate: `SingleResponse`.
    struct Statement {
        enum Status: Hashable {
            case good
            case revoked(at: Timestamp)
            case unknown
        }

        let certificate: OCSPCertificateID
        let status: Status
        let thisUpdate: Timestamp
        let nextUpdate: Timestamp?
    }

    /// The DER of `tbsResponseData`, covered by the signature.
    let signedBytes: ArraySlice<UInt8>
    let responder: Responder
    let statements: [Statement]
    let signatureAlgorithm: ASN1ObjectIdentifier
    let signature: ArraySlice<UInt8>
    /// The certificates in the response, possibly a delegate's. Unreadable certificates are left out.
    let certificates: [Certificate]
}

/// The reason why a response does not prove the status of a certificate.
package struct OCSPFault: Error, Equatable {
    /// The maximum number of Unicode scalars of a reason. Only a reason that quotes the error of a transport or a
    /// parser could be longer.
    private static let reasonLimit = 300

    /// The reason, a sentence.
    package let reason: String

    init(_ reason: String) {
        self.reason =
            reason.utf8.count <= Self.reasonLimit
            ? reason : "\(String(reason.unicodeScalars.prefix(Self.reasonLimit)))…"
    }
}

extension OCSPResponse {
    /// Reads the DER of an `OCSPResponse`.
    @inline(never)
    init(decoding der: [UInt8]) throws(OCSPFault) {
        do {
            self = try Self(basicResponse: Self.basicResponse(in: DER.parse(der)))
        } catch let fault as OCSPFault {
            throw fault
        } catch {
            throw OCSPFault("The answer is not an OCSP response: \(error)")
        }
    }

    private static func basicResponse(in node: ASN1Node) throws -> ASN1Node {
        try DER.sequence(node, identifier: .sequence) { nodes in
            let status = try Int(derEncoded: &nodes, withIdentifier: .enumerated)
            guard status == 0 else { throw OCSPFault("The responder answered with an error (\(name(of: status))).") }
            return try DER.explicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) { bytes in
                try DER.sequence(bytes, identifier: .sequence) { nodes in
                    guard try ASN1ObjectIdentifier(derEncoded: &nodes) == .OCSP.basicResponse else {
                        throw OCSPFault("The answer is of another type than id-pkix-ocsp-basic.")
                    }
                    return try DER.parse(ASN1OctetString(derEncoded: &nodes).bytes)
                }
            }
        }
    }

    private init(basicResponse node: ASN1Node) throws {
        self = try DER.sequence(node, identifier: .sequence) { nodes in
            let data = try nodes.required()
            let (responder, statements) = try Self.responseData(data)
            let algorithm = try nodes.algorithm()
            let signature = try ASN1BitString(derEncoded: &nodes)
            guard signature.paddingBits == 0 else { throw OCSPFault("The signature is not a whole number of bytes.") }
            return Self(
                signedBytes: data.encodedBytes, responder: responder, statements: statements,
                signatureAlgorithm: algorithm, signature: signature.bytes, certificates: try Self.certificates(&nodes))
        }
    }

    private static func responseData(_ node: ASN1Node) throws -> (Responder, [Statement]) {
        try DER.sequence(node, identifier: .sequence) { nodes in
            // DER omits the version, because the only version is the default.
            let responder = try Responder(nodes.required())
            // producedAt is ignored, because the dates of the statements count.
            _ = try Timestamp(generalizedTime: nodes.required())
            let statements = try DER.sequence(nodes.required(), identifier: .sequence) { nodes in
                var statements: [Statement] = []
                while let node = nodes.next() { statements.append(try Statement(node)) }
                return statements
            }
            try nodes.skipExtensions()
            return (responder, statements)
        }
    }

    private static func certificates(_ nodes: inout ASN1NodeCollection.Iterator) throws -> [Certificate] {
        let certificates = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) { node in
            try DER.sequence(node, identifier: .sequence) { nodes in
                var certificates: [Certificate?] = []
                // An unreadable certificate is not the signer's, and is left out.
                while let node = nodes.next() { certificates.append(try? Certificate(derEncoded: node)) }
                return certificates
            }
        }
        return certificates?.compactMap(\.self) ?? []
    }

    /// `OCSPResponseStatus`.
    private static func name(of status: Int) -> String {
        switch status {
        case 1: "malformedRequest"
        case 2: "internalError"
        case 3: "tryLater"
        case 5: "sigRequired"
        case 6: "unauthorized"
        default: "\(status)"
        }
    }
}

extension OCSPResponse.Responder {
    fileprivate init(_ node: ASN1Node) throws {
        let isName = node.identifier == ASN1Identifier(tagWithNumber: 1, tagClass: .contextSpecific)
        self = try DER.explicitlyTagged(node, tagNumber: isName ? 1 : 2, tagClass: .contextSpecific) { node in
            isName
                ? .name(try DistinguishedName(derEncoded: node)) : .key(try ASN1OctetString(derEncoded: node).bytes)
        }
    }

    /// Whether `certificate` has this name or key.
    func isHolder(of certificate: Certificate) -> Bool {
        switch self {
        case .name(let name): certificate.subject == name
        case .key(let hash): certificate.publicKey.sha1 == hash
        }
    }
}

extension OCSPResponse.Statement {
    fileprivate init(_ node: ASN1Node) throws {
        self = try DER.sequence(node, identifier: .sequence) { nodes in
            let certificate = try OCSPCertificateID(nodes.required())
            let status = try Status(nodes.required())
            let thisUpdate = try Timestamp(generalizedTime: nodes.required())
            let nextUpdate = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
                node in
                try Timestamp(generalizedTime: node)
            }
            try nodes.skipExtensions()
            return Self(certificate: certificate, status: status, thisUpdate: thisUpdate, nextUpdate: nextUpdate)
        }
    }
}

extension OCSPResponse.Statement.Status {
    fileprivate init(_ node: ASN1Node) throws {
        switch node.identifier {
        case ASN1Identifier(tagWithNumber: 0, tagClass: .contextSpecific):
            _ = try ASN1Null(derEncoded: node, withIdentifier: node.identifier)
            self = .good
        case ASN1Identifier(tagWithNumber: 2, tagClass: .contextSpecific):
            _ = try ASN1Null(derEncoded: node, withIdentifier: node.identifier)
            self = .unknown
        default:
            let revoked = ASN1Identifier(tagWithNumber: 1, tagClass: .contextSpecific)
            self = try DER.sequence(node, identifier: revoked) { nodes in
                let time = try Timestamp(generalizedTime: nodes.required())
                // The revocationReason is ignored.
                _ = nodes.next()
                return .revoked(at: time)
            }
        }
    }
}

extension ASN1NodeCollection.Iterator {
    /// Skips the extensions, because no extension is needed (RFC 6960 section 4.4). Refuses a critical extension,
    /// because all extensions are unknown here.
    fileprivate mutating func skipExtensions() throws {
        let extensions = try DER.optionalExplicitlyTagged(&self, tagNumber: 1, tagClass: .contextSpecific) { node in
            try DER.sequence(of: Certificate.Extension.self, identifier: .sequence, rootNode: node)
        }
        guard let critical = extensions?.first(where: \.critical) else { return }
        throw OCSPFault("The answer has an unknown critical extension (\(critical.oid)).")
    }
}

extension Timestamp {
    /// Reads a GeneralizedTime in the only form allowed by RFC 5280 section 4.1.2.5.2: `YYYYMMDDHHMMSSZ`.
    fileprivate init(generalizedTime node: ASN1Node) throws {
        guard node.identifier == .generalizedTime, case .primitive(let text) = node.content, text.count == 15 else {
            throw OCSPFault("The answer has an invalid time.")
        }
        var iso: [UInt8] = []
        for (position, character) in text.enumerated() {
            switch position {
            case 4, 6: iso.append(UInt8(ascii: "-"))
            case 8: iso.append(UInt8(ascii: "T"))
            case 10, 12: iso.append(UInt8(ascii: ":"))
            default: break
            }
            iso.append(character)
        }
        guard let time = Timestamp(iso8601: iso[...]) else { throw OCSPFault("The answer has an invalid time.") }
        self = time
    }
}
