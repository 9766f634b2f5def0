// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Customers: a row for each of their ids.

extension LoadPlan {
    private static let columns =
        "SELECT home, version, number, is_established, consented_at, ids FROM quittance.customers"

    /// - Parameter ids: Of one app.
    mutating func load(_ ids: [CustomerID], of bundleId: String) {
        add(
            Self.columns + " WHERE app = $1 AND home", ids.map(\.id), [.integer(scopes.app(bundleId))],
            Self.reader(bundleId))
    }

    mutating func load(_ customer: Customer) {
        add(
            Self.columns + " WHERE number = $1 AND app = $2",
            [.integer(customer.number), .integer(scopes.app(customer.bundleId))], Self.reader(customer.bundleId))
    }

    private static func reader(_ bundleId: String) -> Reader {
        { rows, loaded in
            for (id, row) in try rows.map({ try $0.customer(bundleId) }) { loaded.customers[id] = row }
        }
    }
}

extension PostgresRow {
    mutating func customer(_ bundleId: String) throws -> (CustomerID, StoredCustomer) {
        let id = CustomerID(try next(), of: bundleId)
        let customer = StoredCustomer(
            version: try next(), number: try next(), isEstablished: try next(), consentedAt: try next(),
            ids: try texts())
        return (id, customer)
    }
}

extension CommitPlan {
    private static let insert = """
        INSERT INTO quittance.customers (home, app, version, number, is_established, consented_at, ids)
        VALUES ($1, $2, $3, $4, $5::bigint <> 0, $6, $7)
        """

    private static let update = """
        WITH changed AS (
            UPDATE quittance.customers SET version = $3, number = $4, is_established = $5::bigint <> 0,
                consented_at = $6, ids = $7
            WHERE home = $1 AND app = $2 AND version = $8 RETURNING 1)
        \(Conflict.unlessAny("changed"))
        """

    private static let delete = """
        WITH gone AS (DELETE FROM quittance.customers WHERE home = $1 AND app = $2 AND version = $3 RETURNING 1)
        \(Conflict.unlessAny("gone"))
        """

    private static let check = RowStatement(
        one: """
            WITH kept AS (SELECT 1 FROM quittance.customers WHERE home = $1 AND app = $2 AND version = $3 FOR SHARE)
            \(Conflict.unlessAny("kept"))
            """,
        many: """
            WITH kept AS MATERIALIZED (
                SELECT (SELECT 1 FROM quittance.customers
                        WHERE customers.home = looked.home AND customers.app = looked.app
                            AND customers.version = looked.version FOR SHARE) AS found
                FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS looked (home, app, version))
            SELECT CASE WHEN count(found) < count(*) THEN quittance.conflict(count(*)) END FROM kept
            """, [.text, .integer, .integer])

    private static let (take, giveBack) = (
        """
        INSERT INTO quittance.customers (home, app, version, number, is_established, ids)
        VALUES ($1, $2, 0, 0, false, '{}')
        """,
        "DELETE FROM quittance.customers WHERE home = $1 AND app = $2"
    )

    /// - Parameters:
    ///   - after: The loaded records as they are to be.
    ///   - looked: The ids that were looked up.
    mutating func putCustomers(_ after: LoadedRecords, _ looked: Set<CustomerID>) {
        let (rows, gained) = (after.customers, loaded.holdings(gainedBy: after))
        let ids = Set(rows.keys).union(loaded.customers.keys).union(looked)
        for id in ids.sorted(by: { ($0.bundleId, $0.id) < ($1.bundleId, $1.id) }) {
            let name: [PostgresValue] = [.text(id.id), .integer(scopes.app(id.bundleId))]
            switch (loaded.customers[id], rows[id]) {
            case (nil, let new?): add(Self.insert, name + values(of: new))
            case (let old?, nil): add(Self.delete, name + [.integer(old.version)])
            case (let old?, let new?) where old.isSame(as: new) && gained[new.customer(id.bundleId)] == nil:
                add(Self.check, name + [.integer(old.version)])
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
            .texts(row.ids),
        ]
    }
}

extension LoadedRecords {
    /// The rows of all customers after some changes.
    func customers(after changes: LedgerChanges) -> [CustomerID: StoredCustomer] {
        var rows = customers
        for customer in changes.erasedCustomers { for id in self.rows(of: customer).keys { rows[id] = nil } }
        for record in changes.customers {
            for id in self.rows(of: record.customer).keys { rows[id] = nil }
            for id in record.ids {
                rows[CustomerID(id, of: record.customer.bundleId)] = StoredCustomer(
                    version: 0, number: record.customer.number, isEstablished: record.isEstablished,
                    consentedAt: record.consentedAt, ids: record.ids)
            }
        }
        return rows
    }
}

/// All customers.
enum CustomerSearch {
    /// The customers after a cursor, which is the number of the last one. All rows of a customer say the same.
    static func scan(after cursor: ScanCursor?, limit: Int) -> PostgresStatement {
        PostgresStatement(
            """
            SELECT DISTINCT ON (number) number, bundle_id, is_established, consented_at, ids
            FROM quittance.customers JOIN quittance.apps ON apps.id = app WHERE number > $1 ORDER BY number LIMIT $2
            """, [.integer(cursor.flatMap { Int64($0.rawValue) } ?? 0), .integer(Int64(max(1, limit)))])
    }

    static func found(_ rows: PostgresRows) throws -> [CustomerRecord] {
        try rows.map { row in
            let customer = Customer(number: try row.next(), bundleId: try row.next())
            let (isEstablished, consentedAt) = (try row.next(Bool.self), try row.next(Timestamp?.self))
            var record = CustomerRecord(customer, ids: try row.texts(), isEstablished: isEstablished)
            record.consentedAt = consentedAt
            return record
        }
    }
}
