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
    /// - Throws: ``LedgerStorageError``.
    public func publishCatalogueChanges(at now: Timestamp) async throws -> Int {
        let digests = rules.catalogues.mapValues(\.timingDigest)
        var query = LedgerQuery()
        query.catalogues = Set(digests.keys)
        let known = try await storage.load(query).catalogues
        let changed = digests.filter { known[$0.key] != $0.value }
        guard !changed.isEmpty else { return 0 }
        var (cursor, count) = (ScanCursor?.none, 0)
        repeat {
            let page = try await storage.scanChains(after: cursor, limit: Self.catalogueChainPage)
            count += try await evaluate(page.items.filter { changed[$0.scope.bundleId] != nil }, at: now)
            cursor = page.next
        } while cursor != nil
        try await commit(LedgerQuery()) { _, _ in
            var changes = LedgerChanges()
            changes.catalogues = changed
            return .commit(changes, ())
        }
        return count
    }

    private func evaluate(_ keys: [ChainKey], at now: Timestamp) async throws -> Int {
        guard !keys.isEmpty else { return 0 }
        var query = LedgerQuery()
        query.chains = Set(keys)
        return try await commit(query) { snapshot, rules in
            LedgerDraft.decide(snapshot, rules, at: now) { draft in
                for key in keys {
                    draft.publishDue(key)
                    var record = draft.record(key)
                    draft.publish(&record, asOf: now, effectiveAt: now)
                    draft.put(record)
                }
                return keys.count
            }
        }
    }
}

extension Catalogue {
    /// A digest of what decides until when purchases can be used.
    fileprivate var timingDigest: [UInt8] {
        let durations = products.compactMapValues(\.duration).sorted { $0.key < $1.key }
        let words = durations.map { JSONValue.array([.string($0.key), .string("\($0.value)")]) }
        return EvidenceID(Array(JSONValue.array([.string("\(staleLeeway)")] + words).compactText.utf8)).octets
    }
}
