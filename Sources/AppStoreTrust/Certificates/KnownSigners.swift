// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Synchronization

/// Signers whose chain was found valid, so that their next document costs no chain work. A full list drops the signer that
/// was used least recently.
///
/// A key consists of what is signed, such as the `tbsCertificate` of certificates: other encodings of Apple's public
/// certificates, which anybody can make, then add nothing. A lock around an array was measured to be faster than a list
/// without locks.
package final class KnownSigners<Key: Equatable & Sendable, Signer: Sendable>: Sendable {
    /// The most recently used last.
    private let known = Mutex<[(key: Key, signer: Signer)]>([])

    package init() {}

    package var keys: [Key] { known.withLock { $0.map(\.key) } }

    /// The known signer that matches, which counts as used.
    package func signer(where matches: (Key, Signer) -> Bool) -> Signer? {
        known.withLock { known in
            guard let index = known.lastIndex(where: { matches($0.key, $0.signer) }) else { return nil }
            if index < known.count - 1 { known.append(known.remove(at: index)) }
            return known.last?.signer
        }
    }

    /// Remembers a signer, in place of the one that has the same key.
    package func remember(_ signer: Signer, as key: Key) {
        known.withLock { known in
            known.removeAll { $0.key == key }
            if known.count >= Limits.knownSigners { known.removeFirst() }
            known.append((key, signer))
        }
    }
}
