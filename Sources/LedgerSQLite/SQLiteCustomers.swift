// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

// MARK: - Customers and their ids

extension SQLiteTransaction {
    func customer(_ id: String, of bundleId: String) throws -> Customer? {
        guard let app = try tables.app(bundleId) else { return nil }
        return try tables.first(
            "SELECT customer FROM customerIds WHERE id = ? AND app = ?", [.text(id), .integer(app)]
        ) { Customer(number: try $0.integer(), bundleId: bundleId) }
    }

    func ids(of customer: Customer) throws -> [String] {
        try tables.all(
            "SELECT id FROM customerIds WHERE customer = ? ORDER BY place", [.integer(customer.number)]
        ) { try $0.text() }
    }

    func addCustomer(_ id: String, of bundleId: String) throws -> Customer {
        let app = try tables.addedApp(bundleId)
        let number = try tables.insert("INSERT INTO customers (app) VALUES (?)", [.integer(app)])
        let customer = Customer(number: number, bundleId: bundleId)
        try add(id: id, to: customer)
        return customer
    }

    func add(id: String, to customer: Customer) throws {
        try tables.run(
            """
            INSERT INTO customerIds (customer, place, app, id)
            VALUES (?1, (SELECT coalesce(max(place), 0) + 1 FROM customerIds WHERE customer = ?1), ?2, ?3)
            """, [.integer(customer.number), .integer(try tables.addedApp(customer.bundleId)), .text(id)])
    }

    func isEstablished(_ customer: Customer) throws -> Bool {
        try tables.first("SELECT isEstablished FROM customers WHERE number = ?", [.integer(customer.number)]) {
            try $0.flag()
        } ?? false
    }

    func establish(_ customer: Customer) throws {
        guard try !isEstablished(customer) else { return }
        try tables.run("UPDATE customers SET isEstablished = 1 WHERE number = ?", [.integer(customer.number)])
    }

    func merge(_ other: Customer, into customer: Customer) throws {
        if try isEstablished(other) { try establish(customer) }
        let ids = try ids(of: other)
        let links = try links(of: other)
        try delete(other)
        // Anew, so that they come after the customer's own.
        for id in ids { try add(id: id, to: customer) }
        for link in links {
            try self.link(link.chain, to: customer, link.reason)
            guard link.reason == LinkReason.claim.rawValue else { continue }
            try tables.run(
                "UPDATE links SET reason = ?1 WHERE chain = ?2 AND customer = ?3 AND reason <> ?1",
                [.text(link.reason), .integer(link.chain), .integer(customer.number)])
        }
    }

    func delete(_ customer: Customer) throws {
        for table in ["links", "customerIds"] {
            try tables.run("DELETE FROM \(table) WHERE customer = ?", [.integer(customer.number)])
        }
        try tables.run("DELETE FROM customers WHERE number = ?", [.integer(customer.number)])
    }
}

// MARK: - Links

extension SQLiteTransaction {
    func owners(of key: ChainKey) throws -> [(customer: Customer, reason: LinkReason)] {
        guard let chain = try tables.chain(key), chain.mayHaveLinks else { return [] }
        return try tables.all(
            "SELECT customer, reason FROM links WHERE chain = ? ORDER BY place", [.integer(chain.number)]
        ) { (Customer(number: try $0.integer(), bundleId: key.scope.bundleId), try $0.word()) }
    }

    private static let chainsOfCustomer = """
        SELECT originalTransactionId, \(ChainRow.columns) FROM links JOIN chains ON chains.id = links.chain
        WHERE customer = ? AND scope = ? ORDER BY place
        """

    func chains(of customer: Customer, in environment: Environment) throws -> [ChainKey] {
        let scope = LedgerScope(bundleId: customer.bundleId, environment: environment)
        guard let number = try tables.scope(scope) else { return [] }
        return try tables.all(Self.chainsOfCustomer, [.integer(customer.number), .integer(number)]) { columns in
            let key = ChainKey(try columns.text(), in: scope)
            let row = try ChainRow(&columns, originalTransactionId: key.originalTransactionId)
            // Whoever asks for the chains looks at them next, and need not search for them.
            if tables.chains[key] == nil { tables.chains[key] = row }
            return key
        }
    }

    func link(_ key: ChainKey, to customer: Customer, _ reason: LinkReason) throws {
        let chain = try tables.addedChain(key)
        chain.mayHaveLinks = true
        try link(chain.number, to: customer, reason.rawValue)
    }

    func unlink(_ key: ChainKey, from customer: Customer) throws {
        guard let chain = try tables.chain(key) else { return }
        try tables.run(
            "DELETE FROM links WHERE chain = ? AND customer = ?", [.integer(chain.number), .integer(customer.number)])
    }

    private func links(of customer: Customer) throws -> [(chain: Int64, reason: String)] {
        try tables.all(
            "SELECT chain, reason FROM links WHERE customer = ? ORDER BY place", [.integer(customer.number)]
        ) { (try $0.integer(), try $0.text()) }
    }

    private func link(_ chain: Int64, to customer: Customer, _ reason: String) throws {
        try tables.run(
            "INSERT INTO links (chain, customer, reason) VALUES (?, ?, ?) ON CONFLICT (chain, customer) DO NOTHING",
            [.integer(chain), .integer(customer.number), .text(reason)])
    }

    func ownerChanges(of key: ChainKey) throws -> [Timestamp] {
        guard let chain = try tables.chain(key), chain.mayHaveLinks else { return [] }
        return try tables.first("SELECT times FROM ownerChanges WHERE chain = ?", [.integer(chain.number)]) {
            try Self.times(try $0.text())
        } ?? []
    }

    func put(ownerChanges times: [Timestamp], of key: ChainKey) throws {
        let chain = try tables.addedChain(key)
        let list = JSONValue.array(times.map { .number("\($0.milliseconds)") }).compactText
        chain.mayHaveLinks = true
        try tables.run(
            "INSERT INTO ownerChanges (chain, times) VALUES (?, ?) ON CONFLICT DO UPDATE SET times = excluded.times",
            [.integer(chain.number), .text(list)])
    }

    private static func times(_ list: String) throws -> [Timestamp] {
        let numbers = try? JSONValue(parsing: list.utf8).array?.compactMap(\.integer)
        guard let numbers else { throw SQLiteErrors.damaged("The ledger does not say when owners changed") }
        return numbers.map(Timestamp.init(milliseconds:))
    }
}
