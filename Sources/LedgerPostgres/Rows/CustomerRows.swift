// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

// Customers: a row for each of their ids.

extension LoadPlan {
    private static let columns =
        "SELECT home, version, number, is_established, consented_at, ids, chains FROM customers"

    mutating func load(_ id: CustomerID) {
        add(
            Self.columns + " WHERE home = $1 AND app = $2", [.text(id.id), .integer(scopes.app(id.bundleId))],
            Self.reader(id.bundleId))
    }

    mutating func load(_ customer: Customer) {
        add(
            Self.columns + " WHERE number = $1 AND app = $2",
            [.integer(customer.number), .integer(scopes.app(customer.bundleId))], Self.reader(customer.bundleId))
    }

    private static func reader(_ bundleId: String) -> Reader {
        { rows, loaded in
            let found = try rows.map { row in
                (
                    try row.next(String.self),
                    StoredCustomer(
                        version: try row.next(), number: try row.next(), isEstablished: try row.next(),
                        consentedAt: try row.next(), ids: try row.texts(), chains: try row.texts())
                )
            }
            for (id, row) in found { loaded.customers[CustomerID(id, of: bundleId)] = row }
        }
    }
}

extension CommitPlan {
    private static let insert = """
        INSERT INTO customers (home, app, version, number, is_established, consented_at, ids, chains)
        VALUES ($1, $2, $3, $4, $5::bigint <> 0, $6, $7, $8)
        """

    private static let update = """
        WITH changed AS (
            UPDATE customers SET version = $3, number = $4, is_established = $5::bigint <> 0, consented_at = $6,
                ids = $7, chains = $8
            WHERE home = $1 AND app = $2 AND version = $9 RETURNING 1)
        SELECT 1 / count(*) FROM changed
        """

    private static let delete = """
        WITH gone AS (DELETE FROM customers WHERE home = $1 AND app = $2 AND version = $3 RETURNING 1)
        SELECT 1 / count(*) FROM gone
        """

    private static let check = """
        WITH kept AS (SELECT 1 FROM customers WHERE home = $1 AND app = $2 AND version = $3 FOR SHARE)
        SELECT 1 / count(*) FROM kept
        """

    private static let (take, giveBack) = (
        """
        INSERT INTO customers (home, app, version, number, is_established, ids, chains)
        VALUES ($1, $2, 0, 0, false, '{}', '{}')
        """,
        "DELETE FROM customers WHERE home = $1 AND app = $2"
    )

    mutating func putCustomers(_ changes: LedgerChanges, _ footprint: Footprint) {
        let rows = rows(after: changes)
        let ids = Set(rows.keys).union(loaded.customers.keys).union(footprint.customers)
        for id in ids.sorted(by: { ($0.bundleId, $0.id) < ($1.bundleId, $1.id) }) {
            let name: [PostgresValue] = [.text(id.id), .integer(scopes.app(id.bundleId))]
            switch (loaded.customers[id], rows[id]) {
            case (nil, let new?): add(Self.insert, name + values(of: new))
            case (let old?, nil): add(Self.delete, name + [.integer(old.version)])
            case (let old?, let new?) where old.isSame(as: new): add(Self.check, name + [.integer(old.version)])
            case (let old?, let new?): add(Self.update, name + values(of: new) + [.integer(old.version)])
            case (nil, nil):
                // Takes the id for a moment: fails if another commit has added it.
                add(Self.take, name)
                add(Self.giveBack, name)
            }
        }
    }

    private func values(of row: StoredCustomer) -> [PostgresValue] {
        [
            .integer(stamp), .integer(row.number), row.isEstablished.parameter, row.consentedAt.parameter,
            .texts(row.ids), .texts(row.chains),
        ]
    }

    /// The rows of all loaded customers as they are to be.
    private func rows(after changes: LedgerChanges) -> [CustomerID: StoredCustomer] {
        var rows = loaded.customers
        for customer in changes.erasedCustomers { for id in loaded.rows(of: customer).keys { rows[id] = nil } }
        for record in changes.customers {
            let old = loaded.rows(of: record.customer)
            for id in old.keys { rows[id] = nil }
            for id in record.ids {
                rows[CustomerID(id, of: record.customer.bundleId)] = StoredCustomer(
                    version: 0, number: record.customer.number, isEstablished: record.isEstablished,
                    consentedAt: record.consentedAt, ids: record.ids, chains: old.values.first?.chains ?? [])
            }
        }
        for record in changes.chains {
            let (owners, name) = (Set(loaded.newOwners(of: record)), StoredCustomer.name(record.key))
            for id in owners.isEmpty ? [] : Array(rows.keys) {
                guard let row = rows[id], owners.contains(Customer(number: row.number, bundleId: id.bundleId)),
                    !row.chains.contains(name)
                else { continue }
                rows[id]?.chains.append(name)
            }
        }
        return rows
    }
}
