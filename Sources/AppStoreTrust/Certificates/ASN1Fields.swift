// SPDX-License-Identifier: Apache-2.0

import SwiftASN1

/// Reads the fields shared by X.509 certificates and OCSP responses.
extension ASN1NodeCollection.Iterator {
    /// Reads the next field. Throws if no field is left.
    mutating func required() throws -> ASN1Node {
        guard let node = next() else { throw ASN1Error.invalidASN1Object(reason: "A field is missing.") }
        return node
    }

    /// Reads an `AlgorithmIdentifier`. Its parameters are skipped: the parameters of the accepted algorithms are absent
    /// or NULL (RFC 4055 section 5).
    mutating func algorithm() throws -> ASN1ObjectIdentifier {
        try DER.sequence(required(), identifier: .sequence) { fields in
            let algorithm = try ASN1ObjectIdentifier(derEncoded: &fields)
            _ = fields.next()
            return algorithm
        }
    }
}
