// SPDX-License-Identifier: Apache-2.0

// Skips unreadable purchases (see ``Chain``), so that they do not block the others.

import AppStoreModel

extension Ledger {
    /// Runs `body` once with all chains. If a chain is damaged, runs `body` with each half of the chains instead,
    /// recursively.
    ///
    /// - Returns: The damaged chains with their errors.
    /// - Throws: Errors of `body` other than `damaged`.
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

    /// Publishes changes of some chains, and skips damaged chains. Without damage, this takes a single commit.
    ///
    /// ``onCommit`` is not called for damage, because the ledger can still be written.
    ///
    /// - Returns: The damaged chains.
    func publish(
        _ keys: [ChainKey], at now: Timestamp, _ body: @escaping @Sendable (inout LedgerDraft, ChainKey) -> Void
    ) async throws -> Set<ChainKey> {
        var ledger = self
        ledger.onCommit = { [onCommit] error in
            if error?.code != .damaged { onCommit(error) }
        }
        let damaged = try await Self.skippingDamaged(keys) { [ledger] keys in
            try await ledger.commit(LedgerQuery(keys.map(LedgerKey.chain)), at: now) { draft in
                for key in keys { body(&draft, key) }
            }
        }
        return Set(damaged.keys)
    }
}

extension LedgerStorageError {
    /// The maximum number of chains named in a message. `quittance check` names all damaged chains.
    private static let namedChains = 5

    /// The error for unreadable chains.
    package static func damaged(_ keys: Set<ChainKey>) -> LedgerStorageError {
        let ids = keys.sorted().prefix(namedChains).map { "\($0.originalTransactionId) of \($0.scope.bundleId)" }
        let more = keys.count > ids.count ? ", …" : ""
        return LedgerStorageError(
            .damaged, "Purchases that cannot be read: \(keys.count) (\(ids.joined(separator: ", "))\(more))")
    }
}
