// SPDX-License-Identifier: Apache-2.0

// Evaluates all purchases of an app (see ``Chain``) again after a change of its ``Catalogue``, because some purchases
// may now end at a different time.

public import AppStoreModel

extension Ledger {
    /// The number of chains evaluated in a commit.
    private static let catalogueChainPage = 200

    /// Evaluates the chains of every app whose catalogue has changed since the last call, and publishes the resulting
    /// changes.
    ///
    /// After an interrupted call, the next call evaluates all chains of these apps again.
    ///
    /// - Returns: The number of evaluated chains.
    /// - Throws: ``LedgerStorageError``: `damaged` if some chains cannot be read. All other chains were evaluated, and
    ///   the next call evaluates every chain of these apps again.
    public func publishCatalogueChanges(at now: Timestamp) async throws -> Int {
        let digests = rules.catalogues.mapValues(\.timingDigest)
        guard !digests.isEmpty else { return 0 }
        let known = try await storage.load(LedgerQuery(digests.keys.map { .record(CatalogueDigest.key($0)) }))
            .records
        let changed = digests.filter { known[CatalogueDigest.key($0.key)]?.payload != $0.value }
        guard !changed.isEmpty else { return 0 }
        var cursor: ScanCursor?
        var count = 0
        var damage: [String] = []
        var damaged: Set<ChainKey> = []
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.catalogueChainPage)
            let keys = page.items.filter { changed[$0.scope.bundleId] != nil }
            damaged.formUnion(
                try await publish(keys, at: now) { draft, key in
                    draft.publishDue(key)
                    draft.publishNow(key)
                })
            damage += page.damage
            count += keys.count
            cursor = page.next
        } while cursor != nil
        guard damaged.isEmpty else { throw LedgerStorageError.damaged(damaged) }
        if let damage = damage.first { throw LedgerStorageError(.damaged, damage) }
        try await commit(LedgerQuery(), at: now) { draft in
            for (bundleId, digest) in changed { draft.put(CatalogueDigest(digest, of: bundleId)) }
        }
        return count
    }
}

extension Catalogue {
    /// A digest of all catalogue entries that decide when purchases end.
    ///
    /// Earlier versions knew no refused purchases. Without refused purchases the digest equals theirs, so that an
    /// upgrade of the software evaluates no chain again.
    fileprivate var timingDigest: [UInt8] {
        let durations = products.compactMapValues(\.duration).sorted { $0.key < $1.key }
        var words = durations.map { JSONValue.array([.string($0.key), .string("\($0.value)")]) }
        if !refusedPurchases.isEmpty {
            // A product is an array of two strings, so no product has this form.
            words.append(.array([.array(refusedPurchases.sorted().map { .string($0) })]))
        }
        return DocumentDigest(Array(JSONValue.array([.string("\(staleLeeway)")] + words).compactText.utf8)).bytes
    }
}
