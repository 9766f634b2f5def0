// SPDX-License-Identifier: Apache-2.0

import Crypto
import X509

/// The root that anchors a signer's chain, in a form that can be stored.
///
/// A stored document keeps the root that anchored it, since later other roots may be configured.
package struct TrustAnchor: Hashable, Sendable {
    /// `apple`, or the SHA-256 of the root's DER in lowercase hexadecimal digits.
    package let name: String
    /// Whether an App Store simulator made the root, by the marker in its certificate.
    package let isSimulated: Bool

    /// Makes the anchor that was stored with these values.
    package init(name: String, isSimulated: Bool = false) {
        self.name = name
        self.isSimulated = isSimulated
    }

    /// Any root that a version of this library knows as Apple's: documents of Apple's next root are no others.
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
    /// Who has a root. A simulator has several, and so has Apple.
    package enum Family: Sendable {
        case apple
        case simulator
        case other
    }

    /// Who has this root.
    package var family: Family {
        if self == .apple { return .apple }
        return isSimulated ? .simulator : .other
    }
}

extension TrustAnchor: CustomStringConvertible {
    /// The root for people, such as `Apple's roots` or `the simulator's root 5f3c…`.
    package var description: String {
        switch family {
        case .apple: "Apple's roots"
        case .simulator: "the simulator's root \(name)"
        case .other: "the root \(name)"
        }
    }
}

extension TrustRoots {
    /// What these roots are as anchors of chains.
    package var anchors: Set<TrustAnchor> { Set(certificates.map { TrustAnchor($0) }) }
}
