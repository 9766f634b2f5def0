// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// A chain that cannot be read stops no other.

extension Ledger {
    /// Does something with some chains at once. If one of them is damaged, it is done with each half by itself, and so on.
    ///
    /// - Returns: The chains that are damaged, and why.
    /// - Throws: What `body` throws, but for `damaged`.
    static func skippingDamaged(
        _ keys: [ChainKey], _ body: ([ChainKey]) async throws -> Void
    ) async throws -> [ChainKey: LedgerStorageError] {
        guard let first = keys.first else { return [:] }
        do {
            try await body(keys)
            return [:]
        } catch let error as LedgerStorageError where error.code == .damaged {
            guard keys.count > 1 else { return [first: error] }
            let middle = keys.count / 2
            let damaged = try await skippingDamaged(Array(keys[..<middle]), body)
            return try await damaged.merging(skippingDamaged(Array(keys[middle...]), body)) { $1 }
        }
    }

    /// Publishes changes of some chains in one commit, and passes over those that are damaged.
    ///
    /// That a chain is damaged does not mean that the ledger cannot be written, so ``onCommit`` is not called for it.
    ///
    /// - Returns: The chains that are damaged.
    func publish(
        _ keys: [ChainKey], at now: Timestamp, _ body: @escaping @Sendable (inout LedgerDraft, ChainKey) -> Void
    ) async throws -> Set<ChainKey> {
        var ledger = self
        ledger.onCommit = { [onCommit] error in
            if error?.code != .damaged { onCommit(error) }
        }
        let damaged = try await Self.skippingDamaged(keys) { [ledger] keys in
            var query = LedgerQuery()
            query.chains = Set(keys)
            try await ledger.commit(query) { snapshot, rules in
                LedgerDraft.decide(snapshot, rules, at: now) { draft in
                    for key in keys { body(&draft, key) }
                }
            }
        }
        return Set(damaged.keys)
    }
}

extension LedgerStorageError {
    /// How many chains are named in a message. `quittance check` names all.
    private static let namedChains = 5

    /// Some chains cannot be read.
    package static func damaged(_ keys: Set<ChainKey>) -> LedgerStorageError {
        let ids = keys.sorted().prefix(namedChains).map { "\($0.originalTransactionId) of \($0.scope.bundleId)" }
        let more = keys.count > ids.count ? ", …" : ""
        return LedgerStorageError(
            .damaged, "Purchases that cannot be read: \(keys.count) (\(ids.joined(separator: ", "))\(more))")
    }
}
