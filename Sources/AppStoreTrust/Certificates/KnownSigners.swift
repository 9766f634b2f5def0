// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Synchronization

/// A cache of signers with a valid chain, so that the verifier does not check the chain again for each document. A full
/// cache drops the least recently used signer.
///
/// A key consists of bytes covered by a signature, such as the `tbsCertificate` of certificates. Therefore a client
/// cannot add entries by re-encoding Apple's public certificates.
package final class KnownSigners<Key: Equatable & Sendable, Signer: Sendable>: Sendable {
    /// The most recently used signer is last.
    private let known = Mutex<[(key: Key, signer: Signer)]>([])

    package init() {}

    /// The keys, for tests.
    package var keys: [Key] { known.withLock { $0.map(\.key) } }

    /// The matching signer. If several match, the most recently used of them. The lookup itself counts as a use.
    package func signer(where matches: (Key, Signer) -> Bool) -> Signer? {
        known.withLock { known in
            guard let index = known.lastIndex(where: { matches($0.key, $0.signer) }) else { return nil }
            if index < known.count - 1 { known.append(known.remove(at: index)) }
            return known.last?.signer
        }
    }

    /// Adds a signer as the most recently used. Replaces a signer with the same key.
    package func insert(_ signer: Signer, for key: Key) {
        known.withLock { known in
            known.removeAll { $0.key == key }
            if known.count >= Limits.knownSigners { known.removeFirst() }
            known.append((key, signer))
        }
    }
}
