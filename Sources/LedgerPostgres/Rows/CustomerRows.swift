// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Loads and commits customers. A customer has a row for each of its ids, and each of these rows contains the customer's
// whole record.

extension LoadPlan {
    private static let columns =
        "SELECT home, version, number, is_established, consented_at, ids, grants FROM quittance.customers"

    /// - Parameter ids: The customers' ids, all of the same app.
    mutating func load(_ ids: [CustomerID], of bundleId: String) {
        let app = PostgresValue.integer(scopes.app(bundleId))
        add(PostgresStatement(Self.columns + " WHERE app = $1 AND home", ids.map(\.id), [app]), Self.reader(bundleId))
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
    mutating func customer(_ bundleId: String) throws -> (CustomerID, Versioned<CustomerRecord>) {
        let id = CustomerID(try next(), of: bundleId)
        let version = try next(Int64.self)
        let record = try record(of: Customer(number: try next(), bundleId: bundleId))
        return (id, Versioned(version: version, record: record))
    }

    mutating func record(of customer: Customer) throws -> CustomerRecord {
        let isEstablished = try next(Bool.self)
        let consentedAt = try next(Timestamp?.self)
        var record = CustomerRecord(customer, ids: try texts(), isEstablished: isEstablished)
        record.consentedAt = consentedAt
        record.storedGrants = try StoredGrants(try next([UInt8]?.self), of: customer)
        return record
    }
}

extension CommitPlan {
    private static let table = VersionedTable(
        "customers", key: ["home", "app"],
        values: [
            ("number", "", "0"), ("is_established", "::bigint <> 0", "false"), ("consented_at", "", nil),
            ("ids", "", "'{}'"), ("grants", "", nil),
        ])

    private static let check = RowStatement(
        one: table.check,
        many: """
            WITH kept AS MATERIALIZED (
                SELECT (SELECT 1 FROM quittance.customers
                        WHERE customers.home = wanted.home AND customers.app = wanted.app
                            AND customers.version = wanted.version FOR SHARE) AS found
                FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS wanted (home, app, version))
            SELECT CASE WHEN count(found) < count(*) THEN quittance.conflict(count(*)) END FROM kept
            """, [.text, .integer, .integer])

    /// - Parameters:
    ///   - after: The loaded records, with the changes of the commit applied.
    ///   - readSet: The ids that the decisions looked up, including ids that no customer has.
    mutating func putCustomers(_ after: LoadedRecords, _ readSet: Set<CustomerID>) {
        let rows = after.customers
        let gained = loaded.holdings(gainedBy: after)
        let ids = Set(rows.keys).union(loaded.customers.keys).union(readSet)
        for id in ids.sorted(by: { ($0.bundleId, $0.id) < ($1.bundleId, $1.id) }) {
            let name: [PostgresValue] = [.text(id.id), .integer(scopes.app(id.bundleId))]
            let old = loaded.customers[id]
            let new = rows[id]?.record
            if let old, let new, new == old.record, gained[new.customer] == nil {
                add(Self.check, name + [.integer(old.version)])
            } else {
                put(new.map(values), at: name, in: Self.table, replacing: old?.version)
            }
        }
    }

    private func values(of record: CustomerRecord) -> [PostgresValue] {
        [
            .integer(stamp), .integer(record.customer.number), record.isEstablished.parameter,
            record.consentedAt.parameter, .texts(record.ids), record.storedGrants.bytes.parameter,
        ]
    }
}

extension LoadedRecords {
    /// The rows of the loaded customers after some changes, including the rows of new customers. A row of a new or
    /// changed customer has the version 0 here.
    func customers(after changes: LedgerChanges) -> [CustomerID: Versioned<CustomerRecord>] {
        var rows = customers
        for customer in changes.erasedCustomers { for id in self.rows(of: customer).keys { rows[id] = nil } }
        // A customer may get an id that a different customer loses, so all lost ids are removed first.
        for record in changes.customers { for id in self.rows(of: record.customer).keys { rows[id] = nil } }
        for record in changes.customers {
            for id in record.ids {
                rows[CustomerID(id, of: record.customer.bundleId)] = Versioned(version: 0, record: record)
            }
        }
        return rows
    }
}
