// SPDX-License-Identifier: Apache-2.0

// Chains of environments without an App Store, in which original transaction ids repeat; see `ChainName`.

import AppStoreModel

extension ChainKey {
    /// The key of the record that leads from an original transaction id to the newest chain with that id; `nil` in
    /// environments in which only one chain has it.
    var pointer: ChainKey? {
        scope.environment.hasAppStore ? nil : ChainKey(originalTransactionId, in: scope)
    }

    /// Whether the key is of such a record, which has no facts of its own.
    var isPointer: Bool { pointer == self }
}

extension LedgerDraft {
    /// Makes the original transaction id of a chain lead to it, unless that leads to a newer chain.
    mutating func pointToNewest(_ key: ChainKey) {
        guard let pointer = key.pointer, pointer != key else { return }
        var record = record(pointer)
        let newest = record.successor.flatMap { ChainName.second(in: $0) } ?? .min
        guard record.successor == nil || newest < ChainName.second(in: key.name) ?? .min else { return }
        record.successor = key.name
        put(record)
    }
}
