// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import AppStoreTrust

/// Lets a verifier trust a simulated authority.
extension CertificateAuthority {
    /// The authority's roots.
    var trust: TrustRoots {
        get throws {
            let roots = try roots.map { try TrustRoots(reading: $0) }
            return roots.dropFirst().reduce(roots[0]) { $0.union($1) }
        }
    }
}
