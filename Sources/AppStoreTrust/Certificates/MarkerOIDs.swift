// SPDX-License-Identifier: Apache-2.0

import SwiftASN1
import X509

/// The extensions by which Apple tells the App Store's own signers from all others: anybody with a developer certificate
/// from Apple has a chain to Apple's root.
struct MarkerOIDs: Sendable {
    let leaf: ASN1ObjectIdentifier
    let intermediate: ASN1ObjectIdentifier

    /// Of tokens, app receipts and version 3 transaction receipts.
    static let appStore = MarkerOIDs(
        leaf: [1, 2, 840, 113635, 100, 6, 11, 1], intermediate: [1, 2, 840, 113635, 100, 6, 2, 1])

    /// Of version 2 transaction receipts, under Apple's iTunes Store authority.
    static let iTunesStore = MarkerOIDs(
        leaf: [1, 2, 840, 113635, 100, 6, 5, 1], intermediate: [1, 2, 840, 113635, 100, 6, 2, 2])

    func require(onLeaf leaf: Certificate, onIntermediate intermediate: Certificate) throws(VerificationError) {
        try Self.require(self.leaf, leaf.extensions.map(\.oid), leaf.commonName, "App Store signers")
        try require(onIntermediate: intermediate)
    }

    func require(onIntermediate intermediate: Certificate) throws(VerificationError) {
        try Self.require(
            self.intermediate, intermediate.extensions.map(\.oid), intermediate.commonName,
            "Apple's intermediates that issue App Store signers")
    }

    static func require(
        _ marker: ASN1ObjectIdentifier, _ found: [ASN1ObjectIdentifier], _ name: String, _ holders: String
    ) throws(VerificationError) {
        guard found.contains(marker) else {
            throw VerificationError(
                .untrustedChain, "The certificate “\(name)” lacks the mark of \(holders) (\(marker)).")
        }
    }
}
