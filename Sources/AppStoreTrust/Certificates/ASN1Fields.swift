// SPDX-License-Identifier: Apache-2.0

import SwiftASN1

/// The fields that X.509 and OCSP have in common.
extension ASN1NodeCollection.Iterator {
    /// The next field.
    mutating func required() throws -> ASN1Node {
        guard let node = next() else { throw ASN1Error.invalidASN1Object(reason: "A field is missing.") }
        return node
    }

    /// Reads an `AlgorithmIdentifier`. The algorithms that are used here have no parameters, or NULL (RFC 4055 section 5).
    mutating func algorithm() throws -> ASN1ObjectIdentifier {
        try DER.sequence(required(), identifier: .sequence) { fields in
            let algorithm = try ASN1ObjectIdentifier(derEncoded: &fields)
            _ = fields.next()
            return algorithm
        }
    }
}
