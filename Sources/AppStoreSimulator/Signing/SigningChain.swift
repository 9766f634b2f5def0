// SPDX-License-Identifier: Apache-2.0

import ReceiptCoding
import SwiftASN1
package import X509

/// A certificate that signs documents (the leaf), with its private key and the certificates above it.
package struct SigningChain: Sendable {
    /// Leaf, intermediate, root, each as DER.
    package let certificates: [[UInt8]]
    /// Issuer and serial number of the leaf, as DER (RFC 5652 section 10.2.4).
    let signer: [UInt8]
    /// The key of the leaf.
    package let key: SigningKey

    /// Issues the certificates of a plan.
    ///
    /// - Parameter above: The last certificates of the chain, if already issued. They are not issued again, because
    ///   clients compare a root byte by byte with their trusted root.
    init(_ plan: ChainPlan, under above: ArraySlice<[UInt8]> = []) throws {
        let issued = try plan.issue()
        certificates = try issued.dropLast(above.count).map { try [UInt8](der: $0) } + above
        signer = try Self.issuerAndSerialNumber(of: issued[0])
        key = plan.leaf.key
    }

    /// A chain of certificates that are already issued.
    ///
    /// - Throws: If the first element is not a certificate.
    init(certificates: [[UInt8]], key: SigningKey) throws {
        self.certificates = certificates
        signer = try Self.issuerAndSerialNumber(of: Certificate(derEncoded: certificates.first ?? []))
        self.key = key
    }

    /// `IssuerAndSerialNumber` (RFC 5652 section 10.2.4).
    package static func issuerAndSerialNumber(of certificate: Certificate) throws -> [UInt8] {
        let serialNumber = Array(certificate.serialNumber.bytes)
        let positive = serialNumber.first.map { $0 >= 0x80 } == true ? [0] + serialNumber : serialNumber
        return try DEREncoding.sequence(certificate.issuer.der, DEREncoding.element(0x02, positive))
    }
}

extension DistinguishedName {
    fileprivate var der: [UInt8] {
        get throws {
            var serializer = DER.Serializer()
            try serializer.serialize(self)
            return serializer.serializedBytes
        }
    }
}
