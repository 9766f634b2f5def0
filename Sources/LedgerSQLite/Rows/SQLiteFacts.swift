// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// What documents say about transactions. `statements` has a row for each transaction and kind of document. `residue`
// has such rows for documents that were erased, without account, offer and price.

extension SQLiteLedgerSession {
    private static let columns = ColumnNames.names(TransactionStatement.self)

    private static let columnList = columns.joined(separator: ", ")

    private static let factsOfChain = """
        SELECT 0, \(columnList) FROM statements WHERE chain = ?1
        UNION ALL SELECT 1, \(columnList) FROM residue WHERE chain = ?1
        """

    private static let putStatement = """
        INSERT OR REPLACE INTO statements (chain, isOriginal, \(columnList)) VALUES (\(placeholders(columns.count + 2)))
        """

    private static let putResidue = """
        INSERT OR REPLACE INTO residue (chain, \(columnList)) VALUES (\(placeholders(columns.count + 1)))
        """

    static func placeholders(_ count: Int) -> String { Array(repeating: "?", count: count).joined(separator: ", ") }

    /// Merges the stored facts of a chain into it.
    func addFacts(to chain: inout Chain, _ number: Int64) throws {
        var blank = TransactionStatement.blank
        blank.chainName = chain.key.name
        let facts = try all(Self.factsOfChain, [.integer(number)]) { row in
            (isResidue: try row.next(Bool.self), statement: try row.fields(of: blank))
        }
        for (isResidue, statement) in facts {
            if isResidue { chain.mergeResidue(statement) } else { chain.merge(statement) }
        }
    }

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
        for (new, old) in [(fact.signed, old?.signed), (fact.receipt, old?.receipt)] where new != old {
            if let new {
                let fields = try ParameterWriter.parameters(of: new)
                let isOriginal = new.transactionId.utf8.elementsEqual(key.name.utf8)
                switch table {
                case .statements: try run(Self.putStatement, [.integer(chain), isOriginal.stored] + fields)
                case .residue: try run(Self.putResidue, [.integer(chain)] + fields)
                }
            } else if let old {
                try run(
                    "DELETE FROM \(table.rawValue) WHERE chain = ? AND transactionId = ? AND source = ?",
                    [.integer(chain), .text(old.transactionId), old.source.stored])
            }
        }
    }
}
