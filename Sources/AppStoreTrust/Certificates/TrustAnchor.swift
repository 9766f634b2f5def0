// SPDX-License-Identifier: Apache-2.0

import Crypto
import X509

/// The root that anchors a signer's chain, in a form that can be stored.
///
/// The ledger stores the root of each document, because other roots may be configured later.
package struct TrustAnchor: Hashable, Sendable {
    /// `apple`, or the SHA-256 of the root's DER in lowercase hexadecimal digits.
    package let name: String
    /// Whether an App Store simulator created the root, according to the marker in the root's certificate.
    package let isSimulated: Bool

    /// Creates an anchor from stored values.
    package init(name: String, isSimulated: Bool = false) {
        self.name = name
        self.isSimulated = isSimulated
    }

    /// Any of Apple's roots that this version of the library knows. A later version will give documents under Apple's
    /// next root the same anchor.
    package static let apple = TrustAnchor(name: "apple")

    init(_ root: Certificate) {
        guard !TrustRoots.apple.certificates.contains(root) else {
            self = .apple
            return
        }
        name = SHA256.hash(data: root.der).reduce(into: "") { digits, byte in
            digits += (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        isSimulated = root.extensions[oid: MarkerOIDs.simulator] != nil
    }
}

extension TrustAnchor {
    /// The owner of a root. A simulator has several roots, and so has Apple.
    package enum Family: Sendable {
        case apple
        case simulator
        case other
    }

    /// The owner of this root.
    package var family: Family {
        if self == .apple { return .apple }
        return isSimulated ? .simulator : .other
    }
}

extension TrustAnchor: CustomStringConvertible {
    /// A description of the root for human readers, such as `Apple's roots` or `the simulator's root 5f3c…`.
    package var description: String {
        switch family {
        case .apple: "Apple's roots"
        case .simulator: "the simulator's root \(name)"
        case .other: "the root \(name)"
        }
    }
}

extension TrustRoots {
    /// These roots as anchors of chains.
    package var anchors: Set<TrustAnchor> { Set(certificates.map { TrustAnchor($0) }) }
}
