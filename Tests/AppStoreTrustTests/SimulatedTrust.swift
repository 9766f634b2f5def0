// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import AppStoreTrust

extension CertificateAuthority {
    /// Its roots, for a verifier.
    var trust: TrustRoots {
        get throws {
            let roots = try roots.map { try TrustRoots(reading: $0) }
            return roots.dropFirst().reduce(roots[0]) { $0.union($1) }
        }
    }
}
