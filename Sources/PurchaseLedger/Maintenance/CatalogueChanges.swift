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
        let digests = rules.catalogues.flatMap { bundleId, catalogue in
            CatalogueDigest.Part.allCases.map { CatalogueDigest(catalogue.digest($0), of: bundleId, $0) }
        }
        guard !digests.isEmpty else { return 0 }
        let keys = digests.map(\.record.key) + rules.catalogues.keys.map(CatalogueChange.key)
        let known = try await storage.load(LedgerQuery(keys.map(LedgerKey.record))).records
        let new = digests.filter { known[$0.record.key]?.payload != $0.bytes }
        // Earlier versions published no entitlements and stored no digest of them. Their purchases need no evaluation,
        // because filling in the entitlements is no event.
        let changed = Set(
            new.filter { $0.part == .timing || known[$0.record.key] != nil }.map(\.bundleId))
        let recent = known.values.compactMap { CatalogueChange(changeIn: $0) }.filter { $0.isRecent(at: now) }
        let apps = changed.union(recent.map(\.bundleId))
        let count = apps.isEmpty ? 0 : try await evaluate(apps, at: now)
        guard !new.isEmpty else { return count }
        try await commit(LedgerQuery(), at: now) { draft in
            for digest in new { draft.put(digest) }
            for app in changed { draft.put(CatalogueChange(of: app, at: now)) }
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
    fileprivate func digest(_ part: CatalogueDigest.Part) -> [UInt8] {
        switch part {
        case .timing: timingDigest
        case .entitlements: entitlementDigest
        }
    }

    /// A digest of the entitlements that products and the purchase of the app grant, and of the levels of products.
    private var entitlementDigest: [UInt8] {
        func names(_ names: Set<String>) -> JSONValue { .array(names.sorted().map { .string($0) }) }
        let products = products.sorted { $0.key < $1.key }.map { id, product in
            JSONValue.array([.string(id), .string("\(product.level ?? 0)"), names(product.entitlements)])
        }
        let rules = appPurchase.map { rule in
            JSONValue.array([
                .string(rule.beforeVersion?.description ?? ""), .string("\(rule.beforeDate?.milliseconds ?? 0)"),
                .string(rule.platform?.rawValue ?? ""), names(rule.entitlements),
            ])
        }
        return DocumentDigest(Array(JSONValue.array(products + rules).compactText.utf8)).bytes
    }

    /// A digest of all catalogue entries that decide when purchases end.
    ///
    /// Earlier versions knew no refused purchases. Without refused purchases the digest equals theirs, so that an
    /// upgrade of the software evaluates no chain again.
    private var timingDigest: [UInt8] {
        let durations = products.compactMapValues(\.duration).sorted { $0.key < $1.key }
        var words = durations.map { JSONValue.array([.string($0.key), .string("\($0.value)")]) }
        if !refusedPurchases.isEmpty {
            // A product is an array of two strings, so no product has this form.
            words.append(.array([.array(refusedPurchases.sorted().map { .string($0) })]))
        }
        return DocumentDigest(Array(JSONValue.array([.string("\(staleLeeway)")] + words).compactText.utf8)).bytes
    }
}
