// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
@_spi(DisableValidityCheck) package import X509

/// The certificates of a signer that lead to a trusted root by Apple's rules.
///
/// The validity of a chain does not include its dates, which are checked separately for the signing time of each
/// document. The type is a class because a certificate holds a dozen references: each copy of a struct would retain all
/// of them, for every document.
package final class SignerChain: Sendable {
    /// The signer's own certificate.
    package let leaf: Certificate

    /// The intermediate and the root; empty if the leaf is self-signed.
    let issuers: [Certificate]

    /// The root that anchors the chain; `nil` if the leaf is self-signed. Computed once for all documents of this
    /// signer.
    let anchor: TrustAnchor?

    /// The validity periods of `presented`, in the same order. Read once for all documents of this signer.
    private let validity: [CertificateValidity]

    /// All certificates as DER, the leaf first. Encoded once for all documents of this signer.
    let encodedCertificates: [[UInt8]]

    /// The certificates that come from the document and must be valid at signing time, including a self-signed leaf.
    /// The root is excluded, because the caller trusts it regardless of its dates.
    var presented: [Certificate] { [leaf] + issuers.dropLast() }

    /// Whether the signer is self-signed, like Xcode's signers.
    var isSelfSigned: Bool { issuers.isEmpty }

    /// Checks the path from `leaf` through `intermediate` to one of `roots`: exactly three certificates, each signed by
    /// the next. The path must be valid by RFC 5280, including the key usage but not the dates. The first two
    /// certificates must have Apple's marker OIDs. The root in the document is ignored: only the caller's configured
    /// roots may anchor a chain.
    ///
    /// - Parameter onPath: Called before the signatures are checked. Not called if the chain is refused without a
    ///   signature check.
    package static func check(
        leaf: Certificate, intermediate: Certificate, roots: TrustRoots, onPath: (@Sendable () -> Void)? = nil
    ) async throws(VerificationError) -> SignerChain {
        try MarkerOIDs.appStore.require(onLeaf: leaf, onIntermediate: intermediate)
        try leaf.requireUsualKey()
        try intermediate.requireUsualKey()
        guard roots.mayAnchor(leaf, issuedBy: intermediate) else { throw .noPath(from: leaf, over: intermediate) }
        onPath?()
        let result = await roots.validate(leaf, intermediates: [intermediate])
        return try SignerChain(result, leaf: leaf, intermediate: intermediate)
    }

    private init(
        _ result: CertificateValidationResult, leaf: Certificate, intermediate: Certificate
    ) throws(VerificationError) {
        // swift-certificates also accepts shorter paths: a root that issued the leaf itself, or a leaf that is among
        // the roots. Neither is an App Store chain.
        guard case .validCertificate(let chain) = result, chain.count == 3, chain[chain.startIndex + 1] == intermediate,
            let root = chain.last
        else {
            throw .noPath(from: leaf, over: intermediate)
        }
        try leaf.extensions.require(.signsDocuments, of: leaf.commonName)
        for issuer in [intermediate, root] {
            try issuer.extensions.require(.signsCertificates, of: issuer.commonName)
        }
        self.leaf = leaf
        issuers = [intermediate, root]
        anchor = TrustAnchor(root)
        encodedCertificates = [leaf, intermediate, root].map(\.der)
        validity = [leaf.validity, intermediate.validity]
    }

    /// Creates the chain of a self-signed signer, like Xcode's: valid only if the caller configured this exact
    /// certificate as a root.
    init(selfSigned leaf: Certificate, roots: TrustRoots) throws(VerificationError) {
        guard roots.signers.contains(leaf) else {
            throw VerificationError(
                .untrustedChain,
                """
                The signer “\(leaf.commonName)” is self-signed and not a trusted root: signed by Xcode, not by the \
                App Store.
                """
            )
        }
        self.leaf = leaf
        issuers = []
        anchor = nil
        encodedCertificates = [leaf.der]
        validity = [leaf.validity]
    }

    /// Checks that all certificates but the root were valid at `instant`.
    func requireValidity(at instant: Timestamp) throws(VerificationError) {
        for (certificate, validity) in zip(presented, validity) {
            try validity.require(instant, of: certificate.commonName)
        }
    }

    /// Checks that the signer may sign for `environment`. A self-signed signer may sign only for Xcode and
    /// LocalTesting. Its signature proves no purchase, because the developer who configured Xcode's certificate as a
    /// root also has its key.
    func requireAuthority(over environment: Environment) throws(VerificationError) {
        guard isSelfSigned, environment != .xcode, environment != .localTesting else { return }
        throw VerificationError(
            .otherEnvironment,
            """
            The signer “\(leaf.commonName)” is self-signed, which is enough for Xcode and LocalTesting, not for \
            \(environment.rawValue).
            """
        )
    }
}

extension VerificationError {
    fileprivate static func noPath(from leaf: Certificate, over intermediate: Certificate) -> VerificationError {
        VerificationError(
            .untrustedChain,
            """
            The certificates of “\(leaf.commonName)”, issued by “\(intermediate.commonName)”, do not lead \
            to a trusted root.
            """
        )
    }
}

extension TrustRoots {
    /// Builds and validates a path to one of these roots by RFC 5280, without regard to the dates: the callers check
    /// the dates of the certificates below the root.
    func validate(_ leaf: Certificate, intermediates: [Certificate]) async -> CertificateValidationResult {
        var verifier = Verifier(rootCertificates: CertificateStore(authorities)) {
            RFC5280Policy.withValidityCheckDisabled()
        }
        return await verifier.validate(leaf: leaf, intermediates: CertificateStore(intermediates))
    }
}
