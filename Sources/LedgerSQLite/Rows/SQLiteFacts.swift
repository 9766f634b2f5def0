// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// The facts about transactions. `statements` has a row per transaction and kind of document. `residue` has such rows
// for the documents of erased customers, without account, storefront, offer, price and commitment; see
// ``Chain/residue``.

extension SQLiteLedgerSession {
    private static let columns = ColumnNames.names(TransactionStatement.self)

    private static let columnList = columns.joined(separator: ", ")

    private static let factsOfChain = """
        SELECT 0, \(columnList) FROM statements WHERE chain = ?1
        UNION ALL SELECT 1, \(columnList) FROM residue WHERE chain = ?1
        """

    /// Without the past periods that a question does not need. Such a chain has no residue.
    private static let neededFactsOfChain = """
        SELECT 0, \(columnList) FROM statements WHERE chain = ?1 AND (purchaseDate >= ?2 OR expiresDate > ?3)
        """

    private static let putStatement = """
        INSERT OR REPLACE INTO statements (chain, isOriginal, \(columnList)) VALUES (\(placeholders(columns.count + 2)))
        """

    private static let putResidue = """
        INSERT OR REPLACE INTO residue (chain, \(columnList)) VALUES (\(placeholders(columns.count + 1)))
        """

    static func placeholders(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }

    /// Merges the stored facts of a chain, from both tables, into `chain`.
    ///
    /// - Parameter needed: The periods to read; `nil` for all facts.
    func addFacts(to chain: inout Chain, _ number: Int64, _ needed: NeededPeriods? = nil) throws {
        var blank = TransactionStatement.blank
        blank.chainName = chain.key.name
        let sql = needed == nil ? Self.factsOfChain : Self.neededFactsOfChain
        let bounds = needed.map { [$0.bought.stored, $0.end.stored] } ?? []
        _ = try all(sql, [.integer(number)] + bounds) { row in
            let isResidue = try row.next(Bool.self)
            let statement = try row.fields(of: blank)
            if isResidue { chain.mergeResidue(statement) } else { chain.take(statement) }
        }
    }

    // MARK: Counting

    private static let countOfChain = """
        (SELECT count(*) FROM statements WHERE chain = chains.id)
        + (SELECT count(*) FROM residue WHERE chain = chains.id)
        """

    private static let countByKey = """
        SELECT coalesce(sum(\(countOfChain)), 0) FROM chains
        WHERE scope = ?2 AND originalTransactionId IN (
            ?1, (SELECT successor FROM chains WHERE originalTransactionId = ?1 AND scope = ?2))
        """

    private static let countByOwner = """
        SELECT coalesce(sum(\(countOfChain)), 0) FROM customerIds
        JOIN links ON links.customer = customerIds.customer JOIN chains ON chains.id = links.chain
        WHERE customerIds.id = ?1 AND customerIds.app = ?2 AND scope = ?3
        """

    /// Counts the rows by the indexes alone, without reading them: 0.1 µs for each row, compared with some 4 µs to load
    /// it.
    func statementCount(_ query: LedgerQuery) throws -> Int {
        var count = Int64(0)
        var chains: Set<ChainKey> = []
        for key in query.keys {
            switch key {
            case .chain(let key): chains.insert(key)
            case .transaction(let key): chains.formUnion(try self.chains(of: key))
            case .holdings(let id, let environment): count += try statementCount(id, environment)
            default: break
            }
        }
        for key in chains {
            guard let scope = try scope(key.scope) else { continue }
            count += try first(Self.countByKey, [.text(key.name), .integer(scope)]) { try $0.next(Int64.self) } ?? 0
        }
        return Int(count)
    }

    private func statementCount(_ id: CustomerID, _ environment: Environment) throws -> Int64 {
        guard let app = try app(id.bundleId),
            let scope = try scope(LedgerScope(bundleId: id.bundleId, environment: environment))
        else { return 0 }
        let parameters: [StoredValue] = [.text(id.id), .integer(app), .integer(scope)]
        return try first(Self.countByOwner, parameters) { try $0.next(Int64.self) } ?? 0
    }

    // MARK: Writing

    /// The tables of facts.
    enum FactTable: String {
        case statements
        case residue
    }

    func put(
        _ facts: [String: TransactionFact], old: [String: TransactionFact], of key: ChainKey, _ chain: Int64,
        in table: FactTable
    ) throws {
        guard !facts.isEmpty || !old.isEmpty else { return }
        for (id, fact) in facts where fact != old[id] { try put(fact, old: old[id], of: key, chain, in: table) }
        for id in old.keys where facts[id] == nil {
            try run(
                "DELETE FROM \(table.rawValue) WHERE chain = ? AND transactionId = ?", [.integer(chain), .text(id)])
        }
    }

    private func put(
        _ fact: TransactionFact, old: TransactionFact?, of key: ChainKey, _ chain: Int64, in table: FactTable
    ) throws {
        let statements = fact.statements
        let oldStatements = old?.statements ?? []
        for new in statements where !oldStatements.contains(new) {
            let fields = try ColumnWriter.columns(of: new)
            let isOriginal = new.transactionId.utf8.elementsEqual(key.name.utf8)
            switch table {
            case .statements: try run(Self.putStatement, [.integer(chain), isOriginal.stored] + fields)
            case .residue: try run(Self.putResidue, [.integer(chain)] + fields)
            }
        }
        for old in oldStatements where !statements.contains(where: { $0.source == old.source }) {
            try run(
                "DELETE FROM \(table.rawValue) WHERE chain = ? AND transactionId = ? AND source = ?",
                [.integer(chain), .text(old.transactionId), old.source.stored])
        }
    }
}
