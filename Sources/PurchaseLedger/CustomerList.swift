// SPDX-License-Identifier: Apache-2.0

// Lists the customers of an app with their holdings, page by page, for a backend that begins to follow the events.

public import AppStoreModel

extension Ledger {
    /// The cursor after the last event of an app, see ``LedgerStorage/endOfEvents(of:)``. A backend that takes this
    /// cursor, and then reads all customers, misses no change: the events after the cursor have all later changes.
    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        try await storage.endOfEvents(of: bundleId)
    }

    /// A cursor before the newest events of an app, see ``LedgerStorage/cursor(beforeNewest:of:)``.
    package func cursor(beforeNewest count: Int, of bundleId: String) async throws -> EventCursor? {
        try await storage.cursor(beforeNewest: count, of: bundleId)
    }

    /// The customers of an app after a cursor, at most `limit`, see ``LedgerStorage/customers(_:of:after:limit:)``. A
    /// page may have fewer customers, or none, although more pages follow.
    public func customers(
        _ selection: CustomerSelection = .all, of bundleId: String, after cursor: ScanCursor? = nil, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        try await storage.customers(selection, of: bundleId, after: cursor, limit: limit)
    }

    /// A customer in a list.
    public struct ListedCustomer: Hashable, Sendable {
        /// The customer's holdings; purchases that have nothing more to give (``Settlement``) may be missing.
        public var holdings: CustomerHoldings
        /// The entitlements that each purchase and each grant gives the customer, as events name them. Purchases and
        /// grants that give nothing are left out.
        public var given: [Source]

        /// The entitlements of a purchase or a grant.
        public struct Source: Hashable, Sendable {
            /// The original transaction id of the purchase; `nil` for a grant.
            public var originalTransactionId: String?
            /// The id of the grant; `nil` for a purchase.
            public var grantId: String?
            /// The entitlements.
            public var entitlements: GivenEntitlements
        }
    }

    /// Some customers with their holdings at `now` in several environments, from a single load. A customer that was
    /// erased or merged into a different customer meanwhile is left out: an event says so.
    public func listed(
        _ customers: [CustomerRecord], in environments: Set<Environment>, at now: Timestamp
    ) async throws -> [Customer: ListedCustomer] {
        let apps = Set(customers.map(\.customer.bundleId))
        let settled = apps.count == 1 ? apps.first.map { settledChains(of: $0, at: now) } : nil
        let snapshot = try await storage.load(.holdings(of: customers, in: environments, besides: settled))
        return Dictionary(
            uniqueKeysWithValues: Set(customers.map(\.customer)).compactMap { customer in
                guard let record = snapshot.customers[customer] else { return nil }
                let chains = snapshot.chains(of: customer).map(\.chain)
                let catalogue = rules.catalogue(of: customer.bundleId)
                return (customer, ListedCustomer(record, chains, in: environments, catalogue, at: now))
            })
    }

    /// The approximate number of statements that ``listed(_:in:at:)`` loads.
    package func statementCount(of customers: [CustomerRecord], in environments: Set<Environment>) async throws -> Int {
        customers.isEmpty ? 0 : try await statementCount(.holdings(of: customers, in: environments))
    }
}

extension Ledger.ListedCustomer {
    fileprivate init(
        _ record: CustomerRecord, _ chains: [Chain], in environments: Set<Environment>, _ catalogue: Catalogue,
        at now: Timestamp
    ) {
        let byEnvironment = Dictionary(grouping: chains, by: \.key.scope.environment)
        let holdings = environments.map { environment in
            (
                environment,
                Holdings(
                    byEnvironment[environment] ?? [], grants: record.grants(in: environment), catalogue: catalogue,
                    at: now)
            )
        }
        self.holdings = Ledger.CustomerHoldings(
            ids: record.ids, environments: Dictionary(uniqueKeysWithValues: holdings))
        given = chains.map { chain in
            Source(
                originalTransactionId: ChainName.originalTransactionId(in: chain.key.name),
                entitlements: chain.given(catalogue, at: now))
        }
        given += record.grants.filter { $0.isActive(at: now) && environments.contains($0.environment) }
            .map { Source(grantId: $0.id, entitlements: $0.given) }
        given.removeAll { $0.entitlements == GivenEntitlements.empty }
    }
}

extension LedgerQuery {
    /// Queries customers, each by its first id, with their chains in some environments.
    fileprivate static func holdings(
        of customers: [CustomerRecord], in environments: Set<Environment>, besides settled: SettledChains? = nil
    ) -> LedgerQuery {
        let ids = customers.compactMap { record in
            record.ids.first.map { CustomerID($0, of: record.customer.bundleId) }
        }
        return .holdings(of: ids, in: environments, besides: settled)
    }
}
