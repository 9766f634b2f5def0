// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

extension Ledger {
    /// How many chains are evaluated in one commit.
    private static let catalogueChainPage = 200

    /// Evaluates the chains of every app whose catalogue changed since this was done last, and publishes what that changes.
    ///
    /// It can be interrupted at any time: then it begins again the next time.
    ///
    /// - Returns: How many chains were evaluated.
    /// - Throws: ``LedgerStorageError``: `damaged` if some chains cannot be read. All others were evaluated, and are again the
    ///   next time.
    public func publishCatalogueChanges(at now: Timestamp) async throws -> Int {
        let digests = rules.catalogues.mapValues(\.timingDigest)
        guard !digests.isEmpty else { return 0 }
        var query = LedgerQuery()
        query.catalogues = Set(digests.keys)
        let known = try await storage.load(query).catalogues
        let changed = digests.filter { known[$0.key] != $0.value }
        guard !changed.isEmpty else { return 0 }
        var (cursor, count, damage, damaged) = (ScanCursor?.none, 0, [String](), Set<ChainKey>())
        repeat {
            let page = try await storage.scanChains(after: cursor, limit: Self.catalogueChainPage)
            let keys = page.items.filter { changed[$0.scope.bundleId] != nil }
            damaged.formUnion(try await publish(keys, at: now) { $0.evaluate($1) })
            damage += page.damage
            count += keys.count
            cursor = page.next
        } while cursor != nil
        guard damaged.isEmpty else { throw LedgerStorageError.damaged(damaged) }
        if let damage = damage.first { throw LedgerStorageError(.damaged, damage) }
        try await commit(LedgerQuery()) { _, _ in
            var changes = LedgerChanges()
            changes.catalogues = changed
            return .commit(changes, ())
        }
        return count
    }
}

extension LedgerDraft {
    /// Publishes what time brought to a chain, then what another catalogue changes.
    fileprivate mutating func evaluate(_ key: ChainKey) {
        publishDue(key)
        var record = record(key)
        publish(&record, asOf: now, effectiveAt: now)
        put(record)
    }
}

extension Catalogue {
    /// A digest of what decides until when purchases can be used.
    fileprivate var timingDigest: [UInt8] {
        let durations = products.compactMapValues(\.duration).sorted { $0.key < $1.key }
        let words = durations.map { JSONValue.array([.string($0.key), .string("\($0.value)")]) }
        return EvidenceID(Array(JSONValue.array([.string("\(staleLeeway)")] + words).compactText.utf8)).bytes
    }
}
