// SPDX-License-Identifier: Apache-2.0

// Chains of environments without an App Store, in which original transaction ids repeat; see `ChainName`.

import AppStoreModel

extension ChainKey {
    /// The key of the record that leads from an original transaction id to the newest chain with that id; `nil` in
    /// environments in which only one chain has it.
    var pointer: ChainKey? {
        scope.environment.hasAppStore ? nil : ChainKey(originalTransactionId, in: scope)
    }

    /// Whether the chain is of an environment without an App Store, and was named by an earlier version, which took all
    /// purchases with one id for one chain.
    var isNamedByIdAlone: Bool { pointer == self }
}

extension LedgerDraft {
    /// Makes the original transaction id of a chain lead to it, unless that leads to a newer chain.
    mutating func pointToNewest(_ key: ChainKey) {
        guard let pointer = key.pointer, pointer != key else { return }
        drop(pointer)
        var record = record(pointer)
        let newest = record.successor.flatMap { ChainName.second(in: $0) } ?? .min
        guard record.successor == nil || newest < ChainName.second(in: key.name) ?? .min else { return }
        record.successor = key.name
        put(record)
    }

    /// Drops the facts, owners and documents of a chain that an earlier version named by its id alone. They may be
    /// those of several purchases, which cannot be told apart.
    ///
    /// - Returns: Whether there were any.
    @discardableResult mutating func drop(_ key: ChainKey) -> Bool {
        var record = record(key)
        guard key.isNamedByIdAlone, record.hasFacts || !record.owners.isEmpty else { return false }
        for owner in record.owners { unlink(&record, from: owner.customer) }
        var pointer = ChainRecord(key)
        pointer.successor = record.successor
        pointer.lastEventAt = record.lastEventAt
        put(pointer)
        changes.erasedChains.insert(key)
        return true
    }
}
