// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding
import SwiftASN1
@_spi(DisableValidityCheck) package import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

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
        try SignerMarks.appStore.require(onLeaf: leaf, onIntermediate: intermediate)
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

/// The extensions by which Apple tells the App Store's own signers from all others: anybody with a developer certificate
/// from Apple has a chain to Apple's root.
struct SignerMarks: Sendable {
    let leaf: ASN1ObjectIdentifier
    let intermediate: ASN1ObjectIdentifier

    /// Of tokens, app receipts and version 3 transaction receipts.
    static let appStore = SignerMarks(
        leaf: [1, 2, 840, 113635, 100, 6, 11, 1], intermediate: [1, 2, 840, 113635, 100, 6, 2, 1])

    /// Of version 2 transaction receipts, under Apple's iTunes Store authority.
    static let iTunesStore = SignerMarks(
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
        _ mark: ASN1ObjectIdentifier, _ found: [ASN1ObjectIdentifier], _ name: String, _ holders: String
    ) throws(VerificationError) {
        guard found.contains(mark) else {
            throw VerificationError(
                .untrustedChain, "The certificate “\(name)” lacks the mark of \(holders) (\(mark)).")
        }
    }
}

/// From when to when a certificate is valid, to the second and including both ends (RFC 5280 section 4.1.2.5).
struct CertificateValidity: Sendable {
    let from: Timestamp
    let until: Timestamp

    func require(_ instant: Timestamp, of name: @autoclosure () -> String) throws(VerificationError) {
        guard instant >= from, instant.milliseconds < until.milliseconds + 1000 else {
            throw VerificationError(
                .certificateExpired,
                "The certificate “\(name())” is valid from \(from.iso8601) to \(until.iso8601), not at \(instant.iso8601)."
            )
        }
    }
}

extension Certificate {
    /// Reads a certificate from a document.
    ///
    /// - Throws: `malformed`.
    init(from der: some Collection<UInt8>, _ name: String) throws(VerificationError) {
        do {
            try self.init(canonical: Array(der))
        } catch {
            throw VerificationError(.malformed, "The \(name) is no X.509 certificate.", cause: error)
        }
    }

    var validity: CertificateValidity {
        CertificateValidity(from: Timestamp(notValidBefore), until: Timestamp(notValidAfter))
    }

    var der: [UInt8] {
        var serializer = DER.Serializer()
        // Cannot fail: a certificate is read from its bytes, and keeps them.
        try? serializer.serialize(self)
        return serializer.serializedBytes
    }

    /// The subject's common name, for people only: Apple changes it, and anybody can write it.
    var commonName: String { subject.commonName }
}

extension DistinguishedName {
    var commonName: String {
        for name in self {
            for attribute in name where attribute.type == .RDNAttributeType.commonName {
                return String(describing: attribute.value)
            }
        }
        return String(describing: self)
    }
}

extension Timestamp {
    /// A certificate's date. ASN.1 ends with the year 9999, so it always fits; whatever else there might be is clamped.
    fileprivate init(_ date: Date) {
        let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
        self.init(milliseconds: Int64(exactly: milliseconds) ?? (milliseconds < 0 ? 0 : .max - 1000))
    }
}
