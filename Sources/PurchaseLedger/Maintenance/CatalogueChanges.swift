// SPDX-License-Identifier: Apache-2.0

// A change of the catalogue may change when purchases end, so all chains of the app are evaluated again.

public import AppStoreModel

extension Ledger {
    /// How many chains are evaluated in one commit.
    private static let catalogueChainPage = 200

    /// Evaluates the chains of every app whose catalogue changed since the last call, and publishes what that changes.
    ///
    /// If a call is interrupted, the next one evaluates all of these chains again.
    ///
    /// - Returns: How many chains were evaluated.
    /// - Throws: ``LedgerStorageError``: `damaged` if some chains cannot be read. All others were evaluated, and the
    ///   next call evaluates all of them again.
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
    /// A digest of everything in the catalogue that decides when purchases end.
    ///
    /// Without refused purchases it is that of the versions that knew none, so that an upgrade evaluates nothing again.
    fileprivate var timingDigest: [UInt8] {
        let durations = products.compactMapValues(\.duration).sorted { $0.key < $1.key }
        var words = durations.map { JSONValue.array([.string($0.key), .string("\($0.value)")]) }
        if !refusedPurchases.isEmpty {
            // An array in an array, which no product is.
            words.append(.array([.array(refusedPurchases.sorted().map { .string($0) })]))
        }
        return DocumentDigest(Array(JSONValue.array([.string("\(staleLeeway)")] + words).compactText.utf8)).bytes
    }
}
