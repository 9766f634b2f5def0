// SPDX-License-Identifier: Apache-2.0

import SwiftASN1
import X509

/// The certificate extensions that mark the App Store's own signers.
///
/// The chain alone does not prove that the App Store signed: every developer certificate leads to Apple's root too.
struct MarkerOIDs: Sendable {
    let leaf: ASN1ObjectIdentifier
    let intermediate: ASN1ObjectIdentifier

    /// Signers of tokens, app receipts and version 3 transaction receipts.
    static let appStore = MarkerOIDs(
        leaf: [1, 2, 840, 113635, 100, 6, 11, 1], intermediate: [1, 2, 840, 113635, 100, 6, 2, 1])

    /// Marks all certificates of an App Store simulator. Apple did not assign this OID.
    static let simulator: ASN1ObjectIdentifier = [2, 25, 3_294_784_015_283_160_907]

    /// Signers of version 2 transaction receipts, issued by Apple's iTunes Store authority.
    static let iTunesStore = MarkerOIDs(
        leaf: [1, 2, 840, 113635, 100, 6, 5, 1], intermediate: [1, 2, 840, 113635, 100, 6, 2, 2])

    /// Checks the marker OIDs of both certificates.
    func require(onLeaf leaf: Certificate, onIntermediate intermediate: Certificate) throws(VerificationError) {
        try Self.require(self.leaf, leaf.extensions.map(\.oid), leaf.commonName, "App Store signers")
        try require(onIntermediate: intermediate)
    }

    /// Checks the marker OID of an intermediate certificate.
    func require(onIntermediate intermediate: Certificate) throws(VerificationError) {
        try Self.require(
            self.intermediate, intermediate.extensions.map(\.oid), intermediate.commonName,
            "Apple's intermediates that issue App Store signers")
    }

    /// Checks that `marker` is among the extensions `found` of the certificate called `name`.
    static func require(
        _ marker: ASN1ObjectIdentifier, _ found: [ASN1ObjectIdentifier], _ name: String, _ holders: String
    ) throws(VerificationError) {
        guard found.contains(marker) else {
            throw VerificationError(
                .untrustedChain, "The certificate “\(name)” lacks the marker OID of \(holders) (\(marker)).")
        }
    }
}
