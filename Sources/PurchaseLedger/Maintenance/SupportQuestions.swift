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

    /// The answers about a customer at `now` with what happened before, from a single load of purchases; `nil` if the
    /// customer is unknown.
    package func stories(
        of id: String, of bundleId: String, in environments: Set<Environment>, at now: Timestamp
    ) async throws -> [Environment: CustomerStory]? {
        guard let (customer, chains, _) = try await holder(id, of: bundleId, in: environments) else { return nil }
        var stories: [Environment: CustomerStory] = [:]
        for (environment, records) in chains {
            let story = CustomerStory(customer, records, in: environment, rules.catalogue(of: bundleId), at: now)
            stories[environment] = try await dated(story, in: LedgerScope(bundleId: bundleId, environment: environment))
        }
        return stories
    }

    /// The story of a purchase, as if an imaginary customer owned only this chain. The chain need not have an owner.
    /// `nil` if the chain has no facts.
    package func story(about key: ChainKey, at now: Timestamp) async throws -> CustomerStory? {
        let record = try await storage.load(LedgerQuery([.chain(key)])).chains[key]
        guard let record, record.hasFacts else { return nil }
        let nobody = CustomerRecord(Customer(number: 0, bundleId: key.scope.bundleId), ids: [])
        let catalogue = rules.catalogue(key.scope)
        return try await dated(
            CustomerStory(nobody, [record], in: key.scope.environment, catalogue, at: now), in: key.scope)
    }

    /// Of how many subscriptions, and among how many of the newest documents of each, the notification is searched
    /// that says when renewal was turned off. The facts do not have this time.
    private static let searched = (subscriptions: 3, documents: 10)

    private func dated(_ story: CustomerStory, in scope: LedgerScope) async throws -> CustomerStory {
        var story = story
        for id in story.withoutRenewal.prefix(Self.searched.subscriptions) {
            let newest = try await newestDocuments(about: [ChainKey(id, in: scope)], limit: Self.searched.documents)
            let date = newest.first { $0.notification?.turnsRenewalOff ?? false }?.signedDate
            if let date { story.timeLines.add(turnedOff: date, id) }
        }
        return story
    }

    /// The most recently signed documents about some chains, the newest first, at most `limit`.
    package func newestDocuments(about chains: Set<ChainKey>, limit: Int) async throws -> [StoredDocument] {
        guard !chains.isEmpty else { return [] }
        let evidence = try await storage.load(LedgerQuery(chains.map(LedgerKey.evidence))).evidence
        let names = Set(evidence.values.joined().map(\.name)).sorted(by: >).prefix(limit)
        return try await documents(names).values.sorted { $0.name > $1.name }
    }
}

/// A customer in an environment, with what happened.
package struct CustomerStory: Sendable {
    package let answer: Ledger.CustomerAnswer
    package fileprivate(set) var timeLines: TimeLines

    init(
        _ customer: CustomerRecord, _ records: [ChainRecord], in environment: Environment, _ catalogue: Catalogue,
        at now: Timestamp
    ) {
        answer = Ledger.CustomerAnswer(customer, records, in: environment, catalogue, at: now)
        timeLines = TimeLines(records.map(\.chain), customer.grants(in: environment), catalogue, at: now)
    }

    /// The subscriptions that will not renew, those that changed last first.
    fileprivate var withoutRenewal: [String] {
        timeLines.items.map(\.id).filter { answer.holdings.subscriptions[$0]?.willRenew == false }
    }
}

extension Evidence.Notification {
    fileprivate var turnsRenewalOff: Bool {
        type == NotificationTypeV2.didChangeRenewalStatus.rawValue
            && subtype == NotificationSubtype.autoRenewDisabled.rawValue
    }
}
