// SPDX-License-Identifier: Apache-2.0

// Lists the customers of an app with their holdings, page by page, for a backend that begins to follow the events.

public import AppStoreModel

extension Ledger {
    /// The cursor after the last event of an app, see ``LedgerStorage/endOfEvents(of:)``. A backend that takes this
    /// cursor, and then reads all customers, misses no change: the events after the cursor have all later changes.
    public func endOfEvents(of bundleId: String) async throws -> EventCursor {
        try await storage.endOfEvents(of: bundleId)
    }

    /// The customers of an app after a cursor, at most `limit`, see ``LedgerStorage/customers(of:after:limit:)``. A
    /// page may have fewer customers, or none, although more pages follow.
    public func customers(
        of bundleId: String, after cursor: ScanCursor? = nil, limit: Int
    ) async throws -> ScanPage<CustomerRecord> {
        try await storage.customers(of: bundleId, after: cursor, limit: limit)
    }

    /// The holdings at `now` of some customers in several environments, from a single load. A customer that was erased
    /// or merged into a different customer meanwhile is left out: an event says so.
    public func holdings(
        of customers: [CustomerRecord], in environments: Set<Environment>, at now: Timestamp
    ) async throws -> [Customer: CustomerHoldings] {
        let snapshot = try await storage.load(.holdings(of: customers, in: environments))
        return Dictionary(
            uniqueKeysWithValues: Set(customers.map(\.customer)).compactMap { customer in
                guard let record = snapshot.customers[customer] else { return nil }
                let chains = Dictionary(grouping: snapshot.chains(of: customer), by: \.key.scope.environment)
                let catalogue = rules.catalogue(of: customer.bundleId)
                let holdings = environments.map { environment in
                    (environment, Holdings((chains[environment] ?? []).map(\.chain), catalogue: catalogue, at: now))
                }
                return (
                    customer,
                    CustomerHoldings(ids: record.ids, environments: Dictionary(uniqueKeysWithValues: holdings))
                )
            })
    }

    /// The approximate number of statements that ``holdings(of:in:at:)`` loads.
    package func statementCount(of customers: [CustomerRecord], in environments: Set<Environment>) async throws -> Int {
        customers.isEmpty ? 0 : try await statementCount(.holdings(of: customers, in: environments))
    }
}

extension LedgerQuery {
    /// Queries customers, each by its first id, with their chains in some environments.
    fileprivate static func holdings(of customers: [CustomerRecord], in environments: Set<Environment>) -> LedgerQuery {
        let ids = customers.compactMap { record in
            record.ids.first.map { CustomerID($0, of: record.customer.bundleId) }
        }
        return .holdings(of: ids, in: environments)
    }
}
