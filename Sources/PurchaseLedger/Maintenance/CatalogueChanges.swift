// SPDX-License-Identifier: Apache-2.0

// Evaluates all purchases of an app (see ``Chain``) again after a change of its ``Catalogue``, because some purchases
// may now end at a different time or give different entitlements.

public import AppStoreModel

extension Ledger {
    /// The number of chains evaluated in a commit.
    private static let catalogueChainPage = 200

    /// Evaluates the chains of every app whose catalogue has changed since the last call, or less than a day ago
    /// (`CatalogueChange`), and publishes the resulting changes.
    ///
    /// After an interrupted call, the next call evaluates all chains of these apps again.
    ///
    /// - Returns: The number of evaluated chains.
    /// - Throws: ``LedgerStorageError``: `damaged` if some chains cannot be read. All other chains were evaluated, and
    ///   the next call evaluates every chain of these apps again.
    public func publishCatalogueChanges(at now: Timestamp) async throws -> Int {
        let digests = rules.catalogues.map { CatalogueDigest($1.digest, of: $0) }
        guard !digests.isEmpty else { return 0 }
        let keys = digests.map(\.record.key) + rules.catalogues.keys.map(CatalogueChange.key)
        let known = try await storage.load(LedgerQuery(keys.map(LedgerKey.record))).records
        let new = digests.filter { known[$0.record.key]?.payload != $0.bytes }
        let recent = known.values.compactMap { CatalogueChange(changeIn: $0) }.filter { $0.isRecent(at: now) }
        let apps = Set(new.map(\.bundleId) + recent.map(\.bundleId))
        let count = apps.isEmpty ? 0 : try await evaluate(apps, at: now)
        guard !new.isEmpty else { return count }
        try await commit(LedgerQuery(), at: now) { draft in
            for digest in new {
                draft.put(digest)
                draft.put(CatalogueChange(of: digest.bundleId, at: now))
            }
        }
        return count
    }

    /// Evaluates all chains of some apps, and publishes the resulting changes.
    ///
    /// - Returns: The number of evaluated chains.
    private func evaluate(_ apps: Set<String>, at now: Timestamp) async throws -> Int {
        var cursor: ScanCursor?
        var count = 0
        var damage: [String] = []
        var damaged: Set<ChainKey> = []
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.catalogueChainPage)
            let keys = page.items.filter { apps.contains($0.scope.bundleId) }
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
        return count
    }
}

extension CatalogueChange {
    fileprivate init?(changeIn record: LedgerRecord) {
        guard record.key.kind == Self.recordKind else { return nil }
        self.init(readable: record)
    }
}

extension Catalogue {
    /// A digest of all entries that decide when purchases end and what they grant.
    fileprivate var digest: [UInt8] {
        func names(_ names: Set<String>) -> JSONValue { .array(names.sorted().map { .string($0) }) }
        let products = products.sorted { $0.key < $1.key }.map { id, product in
            JSONValue.array([.string(id), names(product.entitlements)])
        }
        let rules = appPurchase.map { rule in
            JSONValue.array([
                .string(rule.beforeVersion?.description ?? ""), .string("\(rule.beforeDate?.milliseconds ?? 0)"),
                .string(rule.platform?.rawValue ?? ""), names(rule.entitlements),
            ])
        }
        let all: [JSONValue] = [.string("\(stamp)"), .array(products), .array(rules)]
        return DocumentDigest(Array(JSONValue.array(all).compactText.utf8)).bytes
    }
}
