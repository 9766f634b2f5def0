// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import SwiftASN1
package import X509

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The root certificates that may anchor a signer's chain.
public struct TrustRoots: Sendable {
    package let certificates: [Certificate]

    init(_ certificates: [Certificate]) {
        self.certificates = certificates
    }

    /// The roots that may issue certificates. Certificates for signing documents are excluded: Xcode's certificates are
    /// marked as authorities too, and a chain issued by Xcode must not pass for Apple's.
    var authorities: [Certificate] { certificates.filter { !$0.signsDocuments } }

    /// The roots that may sign documents.
    var signers: [Certificate] { certificates.filter { $0.extensions.permit(.signsDocuments) } }

    /// Apple's three roots, included in this library.
    public static let apple = TrustRoots(
        AppleRoots.all.compactMap { root in
            // A bad constant would be left out silently here. A test checks that all three roots are present.
            Base64.decode(root.utf8).flatMap { try? Certificate(derEncoded: $0) }
        })

    /// Reads roots from a file's bytes: one certificate as DER, or one or more certificates as PEM.
    ///
    /// - Throws: ``VerificationError`` with `malformed` if the file contains no certificate.
    public init(reading file: some Collection<UInt8>) throws(VerificationError) {
        certificates = try [Certificate](reading: file)
    }

    /// These roots and `other`.
    public func union(_ other: TrustRoots) -> TrustRoots { TrustRoots(certificates + other.certificates) }

    /// Whether these roots and `other` have no key in common. The names of the roots do not matter.
    public func isDisjoint(with other: TrustRoots) -> Bool {
        Set(certificates.map(\.publicKey)).isDisjoint(with: other.certificates.map(\.publicKey))
    }

    /// Whether an App Store simulator created some of these roots, or all of them, according to the marker in their
    /// certificates.
    public var simulated: (some: Bool, all: Bool) {
        let simulated = certificates.count { $0.extensions[oid: MarkerOIDs.simulator] != nil }
        return (simulated > 0, simulated > 0 && simulated == certificates.count)
    }
}

/// Intermediate certificates between a signer's certificate and a root.
///
/// A separate type prevents the use of intermediates as roots. Apple's intermediates also issue certificates to
/// developers, so an intermediate in the place of a root would let any developer sign.
public struct Intermediates: Sendable {
    package let certificates: [Certificate]

    /// Creates an empty set.
    public init() {
        certificates = []
    }

    private init(_ certificates: [Certificate]) {
        self.certificates = certificates
    }

    /// Reads intermediates from a file's bytes: one certificate as DER, or one or more certificates as PEM.
    ///
    /// - Throws: ``VerificationError`` with `malformed` if the file contains no certificate.
    public init(reading file: some Collection<UInt8>) throws(VerificationError) {
        certificates = try [Certificate](reading: file)
    }

    /// These intermediates and `other`.
    public func union(_ other: Intermediates) -> Intermediates { Intermediates(certificates + other.certificates) }
}

extension Certificate {
    /// Whether the key usage contains digitalSignature (RFC 5280 section 4.2.1.3).
    fileprivate var signsDocuments: Bool { extensions.readable { try $0.keyUsage }?.digitalSignature == true }
}

extension [Certificate] {
    /// Reads the certificates of a file: one certificate as DER, or one or more certificates as PEM.
    fileprivate init(reading file: some Collection<UInt8>) throws(VerificationError) {
        let pemStart = "-----BEGIN"
        do {
            if let text = String(validating: file, as: UTF8.self), text.contains(pemStart) {
                let parts = text.components(separatedBy: pemStart).dropFirst()
                self = try parts.map { try Certificate(pemEncoded: pemStart + $0) }
            } else {
                self = [try Certificate(derEncoded: Array<UInt8>(file))]
            }
        } catch {
            throw VerificationError(
                .malformed, "The file is neither the DER nor the PEM of a certificate.", cause: error)
        }
    }
}
