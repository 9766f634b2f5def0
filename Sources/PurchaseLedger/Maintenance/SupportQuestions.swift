// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

// Answers the questions of customer support, in addition to the questions of apps.

extension Ledger {
    /// The apps with an API key, by bundle id. This method only reads, so it also works with a read-only database.
    package func apps() async throws -> [String] { Set(try await apiKeys().items.map(\.bundleId)).sorted() }

    /// The customers that own a purchase (see ``Chain``).
    package func owners(of key: ChainKey) async throws -> [CustomerRecord] {
        let snapshot = try await storage.load(LedgerQuery([.chain(key)], owners: true))
        return (snapshot.chains[key]?.owners ?? []).compactMap { snapshot.customers[$0.customer] }
    }

    /// The first id of each customer that owns a purchase, in the order in which they became owners.
    package func ownerIds(of key: ChainKey) async throws -> [String] {
        try await owners(of: key).compactMap(\.ids.first)
    }

    /// The answer about a purchase, as if an imaginary customer owned only this chain. The chain need not have an
    /// owner. `nil` if the chain has no facts.
    package func answer(about key: ChainKey, at now: Timestamp) async throws -> CustomerAnswer? {
        let record = try await storage.load(LedgerQuery([.chain(key)])).chains[key]
        guard let record, record.hasFacts else { return nil }
        let nobody = CustomerRecord(Customer(number: 0, bundleId: key.scope.bundleId), ids: [])
        return CustomerAnswer(
            nobody, [record], in: key.scope.environment, rules.catalogue(key.scope), at: now)
    }

    /// The most recently signed documents about some chains, the newest first, at most `limit`.
    package func newestDocuments(about chains: Set<ChainKey>, limit: Int) async throws -> [StoredDocument] {
        guard !chains.isEmpty else { return [] }
        let evidence = try await storage.load(LedgerQuery(chains.map(LedgerKey.evidence))).evidence
        let names = Set(evidence.values.joined().map(\.name)).sorted(by: >).prefix(limit)
        return try await documents(names).values.sorted { $0.name > $1.name }
    }
}
