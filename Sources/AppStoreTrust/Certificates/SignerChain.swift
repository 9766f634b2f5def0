// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding
@_spi(DisableValidityCheck) package import X509

/// The certificates of a signer that lead to a trusted root by Apple's rules.
///
/// Whether a chain is right does not depend on the time; from when to when it holds is kept beside it, so that one chain
/// can be judged at the signing time of many documents. An object, since a certificate is a dozen references, and a known
/// chain is handed around for every document.
package final class SignerChain: Sendable {
    package let leaf: Certificate

    /// The intermediate and the root; nothing where the leaf itself is a trusted root.
    let issuers: [Certificate]

    /// Of `judged`, in their order: read once, for every document of this signer.
    private let validity: [CertificateValidity]

    /// All certificates as DER, the leaf first: written once, for every document of this signer.
    let encodedCertificates: [[UInt8]]

    /// The certificates that a signer brings along and that are judged at the signing time: all but the root, which is
    /// trusted by configuration, whatever its dates.
    var judged: [Certificate] { [leaf] + issuers.dropLast() }

    /// Whether the signer vouches for itself, as Xcode's do.
    var isSelfSigned: Bool { issuers.isEmpty }

    /// Checks the path from `leaf` over `intermediate` to one of `roots`: exactly three certificates, each signed by the
    /// next, valid as a path by RFC 5280, with Apple's marks on the first two. The root that a document brings along
    /// plays no part: only configured roots may anchor a chain.
    package static func check(
        leaf: Certificate, intermediate: Certificate, roots: TrustRoots
    ) async throws(VerificationError) -> SignerChain {
        try MarkerOIDs.appStore.require(onLeaf: leaf, onIntermediate: intermediate)
        let result = await roots.validate(leaf, intermediates: [intermediate])
        return try SignerChain(result, leaf: leaf, intermediate: intermediate)
    }

    private init(
        _ result: CertificateValidationResult, leaf: Certificate, intermediate: Certificate
    ) throws(VerificationError) {
        // A chain that skips the intermediate, or is the leaf alone because a caller trusts it as a root, is none of
        // the App Store's.
        guard case .validCertificate(let chain) = result, chain.count == 3, chain[chain.startIndex + 1] == intermediate,
            let root = chain.last
        else {
            throw VerificationError(
                .untrustedChain,
                "The certificates of “\(leaf.commonName)”, issued by “\(intermediate.commonName)”, do not lead to a trusted root."
            )
        }
        self.leaf = leaf
        issuers = [intermediate, root]
        encodedCertificates = [leaf, intermediate, root].map(\.der)
        validity = [leaf.validity, intermediate.validity]
    }

    /// A signer that vouches for itself, as Xcode's do: right where the caller named this very certificate as a root.
    init(selfSigned leaf: Certificate, roots: TrustRoots) throws(VerificationError) {
        guard roots.signers.contains(leaf) else {
            throw VerificationError(
                .untrustedChain,
                "The signer “\(leaf.commonName)” vouches for itself and is no trusted root: signed by Xcode, not by the App Store."
            )
        }
        self.leaf = leaf
        issuers = []
        encodedCertificates = [leaf.der]
        validity = [leaf.validity]
    }

    /// Checks that all certificates but the root were valid at `instant`, to the second and including both ends (RFC 5280
    /// section 4.1.2.5).
    func requireValidity(at instant: Timestamp) throws(VerificationError) {
        for (index, validity) in validity.enumerated() { try validity.require(instant, of: judged[index].commonName) }
    }

    /// Checks that the signer may sign for `environment`. Whoever can name Xcode's certificate as a root can also sign with
    /// it, so that it stands for nothing that was bought.
    func requireAuthority(over environment: Environment) throws(VerificationError) {
        guard isSelfSigned, environment != .xcode, environment != .localTesting else { return }
        throw VerificationError(
            .otherEnvironment,
            "The signer “\(leaf.commonName)” vouches for itself, which is enough for Xcode and LocalTesting, not for \(environment.rawValue)."
        )
    }
}

extension TrustRoots {
    /// Builds and judges a path to one of these roots by RFC 5280, but for the time, which `requireValidity` looks at.
    func validate(_ leaf: Certificate, intermediates: [Certificate]) async -> CertificateValidationResult {
        var verifier = Verifier(rootCertificates: CertificateStore(authorities)) {
            RFC5280Policy.withValidityCheckDisabled()
        }
        return await verifier.validate(leaf: leaf, intermediates: CertificateStore(intermediates))
    }
}
