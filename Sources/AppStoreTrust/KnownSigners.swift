// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Synchronization

/// Signers whose chain was found right, so that the next document of theirs costs no chain work.
///
/// The list only grows, up to a bound, and any number of threads read it without waiting for one another. That is enough,
/// since nobody but Apple can add to it: a signer is remembered after its signature over a whole document was right, under
/// a key that this signature covers or that only Apple can make. In years there have been a handful.
final class KnownSigners<Key: Equatable & Sendable>: Sendable {
    private final class Node: Sendable {
        let key: Key
        let chain: SignerChain
        let next = AtomicLazyReference<Node>()

        init(_ key: Key, _ chain: SignerChain) {
            self.key = key
            self.chain = chain
        }
    }

    private let first = AtomicLazyReference<Node>()

    /// The chain that is known for a key.
    func chain(where isKey: (Key) -> Bool) -> SignerChain? {
        var node = first.load()
        while let known = node {
            if isKey(known.key) { return known.chain }
            node = known.next.load()
        }
        return nil
    }

    /// Remembers a chain, unless the key is known by now or there is no more room.
    func remember(_ key: Key, _ chain: SignerChain) {
        let new = Node(key, chain)
        var last = first.storeIfNil(new)
        for _ in 1..<Limits.knownSigners where last !== new && last.key != key {
            last = last.next.storeIfNil(new)
        }
    }
}
