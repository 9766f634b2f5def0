// SPDX-License-Identifier: Apache-2.0

// What this version changes about a ledger that an earlier one wrote, once.

package import AppStoreModel

/// What the first start of this version changed and found.
package struct UpgradeReport: Hashable, Sendable {
    /// The purchases of Xcode and LocalTesting that were dropped: an earlier version took all with one id for one.
    package var droppedPurchases = 0
    /// How many customers have an entitlement in the sandbox that they lack in production, by bundle id.
    package var sandboxCustomers: [String: Int] = [:]
}

extension Ledger {
    /// How many chains are read at once.
    private static let upgradePage = 200

    /// Drops test purchases that an earlier version recorded under ids alone, publishes what the rules of this version
    /// change about all others, and counts the customers whom sandbox purchases entitle. Runs once for each app of the
    /// rules; if it is interrupted, the next call begins again.
    ///
    /// - Throws: ``LedgerStorageError``.
    package func upgrade(at now: Timestamp) async throws -> UpgradeReport {
        let keys = Set(rules.catalogues.keys.map(Self.noteKey))
        let known = try await storage.load(LedgerQuery(keys.map(LedgerKey.record))).records
        let apps = Set(rules.catalogues.keys.filter { known[Self.noteKey(of: $0)] == nil })
        guard !apps.isEmpty else { return UpgradeReport() }
        var (report, testers, cursor) = (UpgradeReport(), Set<CustomerID>(), ScanCursor?.none)
        repeat {
            let page = try await storage.chains(.all, after: cursor, limit: Self.upgradePage)
            let keys = page.items.filter { apps.contains($0.scope.bundleId) }
            report.droppedPurchases += try await drop(keys.filter(\.isNamedByIdAlone), at: now)
            // A line item of "0" made two periods one, so states that were published may be wrong.
            _ = try await publish(keys.filter(\.scope.environment.hasAppStore), at: now) { draft, key in
                draft.publishDue(key)
                draft.publishNow(key)
            }
            testers.formUnion(try await owners(of: keys.filter { $0.scope.environment == .sandbox }, at: now))
            cursor = page.next
        } while cursor != nil
        for tester in testers where try await gains(tester, at: now) {
            report.sandboxCustomers[tester.bundleId, default: 0] += 1
        }
        try await commit(LedgerQuery(), at: now) { draft in
            for app in apps { draft.put(LedgerRecord(Self.noteKey(of: app))) }
        }
        return report
    }

    /// The key of the note that this ran for an app.
    private static func noteKey(of bundleId: String) -> RecordKey {
        let scope = LedgerScope(bundleId: bundleId, environment: .production)
        return RecordKey(RecordKind(rawValue: "upgrade"), "1", of: .scope(scope))
    }

    private func drop(_ keys: [ChainKey], at now: Timestamp) async throws -> Int {
        var count = 0
        _ = try await Self.skippingDamaged(keys) { keys in
            count += try await commit(LedgerQuery(keys.map(LedgerKey.chain)), at: now) { draft in
                keys.count { draft.drop($0) }
            }
        }
        return count
    }

    /// The customers that own entitling chains, each by one of its ids.
    private func owners(of keys: [ChainKey], at now: Timestamp) async throws -> Set<CustomerID> {
        var owners: Set<CustomerID> = []
        _ = try await Self.skippingDamaged(keys) { keys in
            let snapshot = try await storage.load(LedgerQuery(keys.map(LedgerKey.chain), owners: true))
            for record in snapshot.chains.values {
                guard record.chain.isEntitling(rules.catalogue(record.key.scope), at: now) else { continue }
                let ids = record.owners.compactMap { snapshot.customers[$0.customer]?.ids.first }
                owners.formUnion(ids.map { CustomerID($0, of: record.key.scope.bundleId) })
            }
        }
        return owners
    }

    /// Whether a customer has an entitlement in the sandbox that it lacks in production.
    private func gains(_ id: CustomerID, at now: Timestamp) async throws -> Bool {
        let found = try await holdings(of: id.id, of: id.bundleId, in: [.production, .sandbox], at: now)
        let names = (found?.environments ?? [:]).mapValues { Set($0.entitlements.map(\.name)) }
        return !(names[.sandbox] ?? []).isSubset(of: names[.production] ?? [])
    }
}
