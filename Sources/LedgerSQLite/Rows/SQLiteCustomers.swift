// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// Customers and their ids. Which purchases (chains) a customer owns is stored with the chains.

extension SQLiteLedgerSession {
    private static let customerByID = """
        SELECT number, isEstablished, consentedAt, grants, ids.id FROM customerIds AS named
        JOIN customers ON number = named.customer JOIN customerIds AS ids ON ids.customer = number
        WHERE named.id = ? AND named.app = ? ORDER BY ids.place
        """

    private static let customerByNumber = """
        SELECT number, isEstablished, consentedAt, grants, id FROM customers JOIN customerIds ON customer = number
        WHERE number = ? ORDER BY place
        """

    func customer(_ id: CustomerID) throws -> CustomerRecord? {
        guard let app = try app(id.bundleId) else { return nil }
        return try customer(Self.customerByID, [.text(id.id), .integer(app)], of: id.bundleId)
    }

    /// A customer; `nil` if the customer is not stored. Reads the rows unless the present decision has already loaded
    /// the customer.
    func customer(_ customer: Customer) throws -> CustomerRecord? {
        if let record = customers[customer] { return record }
        let found = try self.customer(Self.customerByNumber, [.integer(customer.number)], of: customer.bundleId)
        customers[customer] = .some(found)
        return found
    }

    private func customer(_ sql: String, _ parameters: [StoredValue], of bundleId: String) throws -> CustomerRecord? {
        let rows = try all(sql, parameters) { row in
            (
                number: try row.next(Int64.self), isEstablished: try row.next(Bool.self),
                consentedAt: try row.next(Timestamp?.self), grants: try row.next([UInt8]?.self),
                id: try row.next(String.self)
            )
        }
        guard let first = rows.first else { return nil }
        let customer = Customer(number: first.number, bundleId: bundleId)
        var record = CustomerRecord(customer, ids: rows.map(\.id), isEstablished: first.isEstablished)
        record.consentedAt = first.consentedAt
        record.storedGrants = try StoredGrants(first.grants, of: customer)
        customers[customer] = record
        return record
    }

    /// A new customer number for each id. It is greater than the number of any past or present customer, because events
    /// still name erased customers by their numbers.
    func newNumbers(for ids: Set<CustomerID>) throws -> [CustomerID: Int64] {
        guard !ids.isEmpty else { return [:] }
        let last = try lastCustomer()
        var numbers: [CustomerID: Int64] = [:]
        for (index, id) in ids.sorted(by: { ($0.id, $0.bundleId) < ($1.id, $1.bundleId) }).enumerated() {
            let number = last &+ Int64(index) &+ 1
            numbers[id] = number
            customers[Customer(number: number, bundleId: id.bundleId)] = .some(nil)
        }
        return numbers
    }

    /// The greatest number of any past or present customer.
    func lastCustomer() throws -> Int64 {
        try first(
            """
            SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'customers'), 0),
                       coalesce((SELECT max(number) FROM customers), 0))
            """, []
        ) { try $0.next(Int64.self) } ?? 0
    }

    /// Makes `number` the greatest number assigned so far, unless a greater number was assigned. SQLite creates the row
    /// of `sqlite_sequence` only with the first customer, so the row may still be missing here.
    func raiseLastCustomer(to number: Int64) throws {
        try run(
            """
            INSERT INTO sqlite_sequence (name, seq)
            SELECT 'customers', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'customers')
            """)
        try run("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'customers'", [.integer(number)])
    }

    func customers(after cursor: ScanCursor?, limit: Int) throws -> ScanPage<CustomerRecord> {
        try TableScan.page(after: cursor, limit: limit) { number, limit in
            let rows = try all(
                """
                SELECT number, bundleId FROM customers LEFT JOIN apps ON apps.id = app
                WHERE number > ? ORDER BY number LIMIT ?
                """, [.integer(number), limit.stored]
            ) { Customer(number: try $0.next(), bundleId: try $0.next()) }
            return try rows.map { customer in
                guard let record = try self.customer(customer) else {
                    throw SQLiteErrors.damaged("Customer \(customer.number) has no id")
                }
                return (customer.number, record)
            }
        }
    }

    /// The maximum number of rows, of any app, that a page of an app's customers reads. No index has the customers of
    /// an app alone. Reading so many rows takes some milliseconds.
    private static let rowsOfPage = 10_000

    /// The rows of any app after a cursor, with their places.
    private static func rows(
        _ selection: CustomerSelection, after cursor: ScanCursor?
    ) -> (sql: String, isDescending: Bool, bounds: [StoredValue]) {
        let number = cursor.flatMap { Int64($0.rawValue) }
        let columns = "SELECT number AS place, number, app FROM customers WHERE number"
        return switch selection {
        case .all: ("\(columns) > ? ORDER BY number LIMIT ?", false, [.integer(number ?? 0)])
        case .newest: ("\(columns) < ? ORDER BY number DESC LIMIT ?", true, [.integer(number ?? .max)])
        case .beginning(let text):
            (
                """
                SELECT id AS place, customer AS number, app FROM customerIds
                WHERE id \(cursor == nil ? ">=" : ">") ? AND id < ? ORDER BY id LIMIT ?
                """, false, [.text(cursor?.rawValue ?? text), .text(CustomerSelection.end(of: text))]
            )
        }
    }

    /// The customers of an app among the next rows of the table.
    func customers(
        _ selection: CustomerSelection, of bundleId: String, after cursor: ScanCursor?, limit: Int
    ) throws -> ScanPage<CustomerRecord> {
        guard let app = try app(bundleId) else { return ScanPage(items: [], next: nil) }
        let limit = max(1, limit)
        let (rows, isDescending, bounds) = Self.rows(selection, after: cursor)
        let next = bounds + [Self.rowsOfPage.stored]
        let found = try all(
            """
            SELECT CAST(place AS TEXT), number FROM (\(rows)) WHERE app = ?
            ORDER BY place \(isDescending ? "DESC" : "") LIMIT ?
            """, next + [.integer(app), limit.stored]
        ) { (place: try $0.next(String.self), number: try $0.next(Int64.self)) }
        let items = try found.map { _, number in
            guard let record = try customer(Customer(number: number, bundleId: bundleId)) else {
                throw SQLiteErrors.damaged("Customer \(number) has no id")
            }
            return record
        }
        func page(_ last: String?) -> ScanPage<CustomerRecord> {
            ScanPage(items: items, next: last.map { ScanCursor(rawValue: $0) })
        }
        if items.count == limit { return page(found.last?.place) }
        let end = try first(
            "SELECT count(*), CAST(\(isDescending ? "min" : "max")(place) AS TEXT) FROM (\(rows))", next
        ) { (rows: try $0.next(Int.self), last: try $0.next(String?.self)) }
        return page(end?.rows == Self.rowsOfPage ? end?.last : nil)
    }

    func put(_ record: CustomerRecord) throws {
        let old = try customer(record.customer)
        let customer = record.customer
        let app = StoredValue.integer(try addedApp(customer.bundleId))
        let number = customer.number.stored
        let isChanged =
            old?.isEstablished != record.isEstablished || old?.consentedAt != record.consentedAt
            || old?.storedGrants != record.storedGrants
        if isChanged {
            try run(
                """
                INSERT INTO customers (number, app, isEstablished, consentedAt, grants) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET (isEstablished, consentedAt, grants)
                    = (excluded.isEstablished, excluded.consentedAt, excluded.grants)
                """,
                [
                    number, app, record.isEstablished.stored, record.consentedAt.stored,
                    record.storedGrants.bytes.stored,
                ])
        }
        let kept = try removeLostIDs(record)
        for (index, id) in record.ids.enumerated().dropFirst(kept) {
            try run(
                "INSERT INTO customerIds (customer, place, app, id) VALUES (?, ?, ?, ?)",
                [number, (index + 1).stored, app, .text(id)])
        }
        customers[customer] = record
    }

    /// Removes the ids that a changed customer no longer has, and the ids after them.
    ///
    /// - Returns: The number of ids that stay.
    @discardableResult
    func removeLostIDs(_ record: CustomerRecord) throws -> Int {
        let old = try customer(record.customer)?.ids ?? []
        // Swift's `==` would keep an id in the place of a canonically equivalent id.
        let kept = zip(old, record.ids).prefix { $0.isSameID(as: $1) }.count
        guard kept < old.count else { return kept }
        try run(
            "DELETE FROM customerIds WHERE customer = ? AND place > ?",
            [record.customer.number.stored, kept.stored])
        return kept
    }

    func removeIDs(of customer: Customer) throws {
        try run("DELETE FROM customerIds WHERE customer = ?", [.integer(customer.number)])
    }

    func remove(_ customer: Customer) throws {
        try run("DELETE FROM links WHERE customer = ?", [.integer(customer.number)])
        try run("DELETE FROM customers WHERE number = ?", [.integer(customer.number)])
    }
}
