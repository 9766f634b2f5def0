// SPDX-License-Identifier: Apache-2.0

// The purchases (see ``Chain``) of environments without an App Store. Original transaction ids repeat in these
// environments; see `ChainName`.

import AppStoreModel

extension ChainKey {
    /// The key of the chain's pointer: a record that leads from an original transaction id to the newest chain with
    /// this id. `nil` in environments with unique ids.
    var pointer: ChainKey? {
        scope.environment.hasAppStore ? nil : ChainKey(originalTransactionId, in: scope)
    }

    /// Whether the key belongs to a pointer. A pointer has no facts of its own.
    var isPointer: Bool { pointer == self }
}

extension LedgerDraft {
    /// Makes the pointer of a chain's original transaction id point to the chain, unless the pointer already leads to a
    /// newer chain.
    mutating func pointToNewest(_ key: ChainKey) {
        guard let pointer = key.pointer, pointer != key else { return }
        var record = record(pointer)
        let newest = record.successor.flatMap { ChainName.second(in: $0) } ?? .min
        guard record.successor == nil || newest < ChainName.second(in: key.name) ?? .min else { return }
        record.successor = key.name
        put(record)
    }
}
