// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

/// The row of a chain: all that is kept about it but for its statements and whose it is. A work reads it once, and once at
/// its end writes what it changed.
final class ChainRow {
    let number: Int64
    /// Of the documents that speak of it alone. Each names the one before it.
    var lastDocument: Int64? { didSet { isChanged = true } }
    /// How many they are.
    var documentCount: Int { didSet { isChanged = true } }
    var forgottenAt: Timestamp? { didSet { isChanged = true } }
    var renewal: RenewalFact? { didSet { isChanged = true } }
    var report: ChainReport? { didSet { isChanged = true } }
    /// What is in the index of what is due.
    fileprivate var keptNextChange: Timestamp?
    /// Whether there may be any: there are none of a chain that is new, until they are written.
    var mayHaveStatements: Bool
    var mayHaveLinks: Bool
    fileprivate var isChanged: Bool

    /// One that was added just now.
    fileprivate init(new number: Int64) {
        self.number = number
        documentCount = 0
        mayHaveStatements = false
        mayHaveLinks = false
        isChanged = true
    }

    /// Reads ``columns``.
    init(_ columns: inout Columns, originalTransactionId: String) throws {
        number = try columns.integer()
        lastDocument = try columns.integerIfAny()
        documentCount = try columns.number()
        forgottenAt = try columns.timeIfAny()
        renewal = try RenewalFact(&columns, originalTransactionId: originalTransactionId)
        report = try ChainReport(&columns)
        keptNextChange = report?.nextChange
        mayHaveStatements = true
        mayHaveLinks = true
        isChanged = false
    }
}

extension ChainRow {
    static let columns = "id, \(contents), nextChange"

    private static let contents = """
        lastDocument, documentCount, forgottenAt, renewalSignedDate, renewalEvidence, renewalProductId, autoRenewProductId, autoRenewStatus,
        expirationIntent, isInBillingRetry, gracePeriodExpiresDate, priceIncreaseStatus, renewalAppAccountToken,
        renewalDate, toldStatus, toldProductId, toldTransactionId, toldExpiresDate, toldWillRenew, toldRevoked, toldEntitling
        """

    fileprivate static let find = "SELECT \(columns) FROM chains WHERE originalTransactionId = ? AND scope = ?"

    /// With room for what is written at the end of the work: the page of a row that grows has to be split, and its neighbours
    /// are written too.
    fileprivate static let add = """
        INSERT INTO chains (scope, originalTransactionId, renewalEvidence) VALUES (?, ?, zeroblob(250))
        """

    /// Two, since the index of what is due is written again even with what it holds.
    fileprivate static let update = """
        UPDATE chains SET (\(contents)) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ?
        """

    fileprivate static let updateWithDue = """
        UPDATE chains SET (\(contents), nextChange) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        WHERE id = ?
        """

    fileprivate var arguments: [Argument] {
        [
            .integer(lastDocument), .number(documentCount), .time(forgottenAt), .time(renewal?.provenance.signedDate),
            .octets(renewal?.provenance.evidence.octets),
            .text(renewal?.productId), .text(renewal?.autoRenewProductId), .flag(renewal?.willRenew),
            .number(renewal?.expirationIntent?.rawValue), .flag(renewal?.isInBillingRetry),
            .time(renewal?.gracePeriodExpiresDate), .number(renewal?.priceIncreaseStatus?.rawValue),
            .text(renewal?.appAccountToken), .time(renewal?.renewalDate), .text(report?.status?.rawValue),
            .text(report?.productId),
            .text(report?.transactionId), .time(report?.expiresDate), .flag(report?.willRenew),
            .text(report?.revokedList), .flag(report?.isEntitling),
        ]
    }
}

// MARK: - Finding and adding

extension LedgerTables {
    func chain(_ key: ChainKey) throws -> ChainRow? {
        if let met = chains[key] { return met }
        guard let scope = try scope(key.scope) else { return nil }
        let id = key.originalTransactionId
        let row = try first(ChainRow.find, [.text(id), .integer(scope)]) {
            try ChainRow(&$0, originalTransactionId: id)
        }
        chains[key] = .some(row)
        return row
    }

    func addedChain(_ key: ChainKey) throws -> ChainRow {
        if let row = try chain(key) { return row }
        let row = ChainRow(
            new: try insert(ChainRow.add, [.integer(try addedScope(key.scope)), .text(key.originalTransactionId)]))
        chains[key] = row
        return row
    }

    /// Writes what changed in the rows of chains: at the end of a work, and before they are searched.
    func writeChains() throws {
        for case let row? in chains.values where row.isChanged {
            let (number, due) = (Argument.integer(row.number), row.report?.nextChange)
            if due == row.keptNextChange {
                try run(ChainRow.update, row.arguments + [number])
            } else {
                try run(ChainRow.updateWithDue, row.arguments + [.time(due), number])
            }
            (row.keptNextChange, row.isChanged) = (due, false)
        }
    }
}

// MARK: - Reading

extension RenewalFact {
    fileprivate init?(_ columns: inout Columns, originalTransactionId: String) throws {
        guard let provenance = try columns.provenanceIfAny() else {
            columns.skip(9)
            return nil
        }
        self.init(provenance: provenance, originalTransactionId: originalTransactionId)
        productId = try columns.textIfAny()
        autoRenewProductId = try columns.textIfAny()
        willRenew = try columns.flagIfAny()
        expirationIntent = try columns.numberIfAny().map(Open.init)
        isInBillingRetry = try columns.flag()
        gracePeriodExpiresDate = try columns.timeIfAny()
        priceIncreaseStatus = try columns.numberIfAny().map(Open.init)
        appAccountToken = try columns.textIfAny()
        renewalDate = try columns.timeIfAny()
    }
}

extension ChainReport {
    fileprivate init?(_ columns: inout Columns) throws {
        self.init()
        status = try columns.wordIfAny()
        productId = try columns.textIfAny()
        transactionId = try columns.textIfAny()
        expiresDate = try columns.timeIfAny()
        willRenew = try columns.flagIfAny()
        revoked = try columns.textIfAny().map(Self.revoked) ?? []
        let isEntitling = try columns.flagIfAny()
        nextChange = try columns.timeIfAny()
        guard let isEntitling else { return nil }
        self.isEntitling = isEntitling
    }

    /// ``revoked`` as a JSON array, in order so that the same report is the same row; `nil` where it is empty, as it mostly is.
    fileprivate var revokedList: String? {
        revoked.isEmpty ? nil : JSONValue.array(revoked.sorted().map { .string($0) }).compactText
    }

    private static func revoked(_ list: String) throws -> Set<String> {
        guard let ids = try? JSONValue(parsing: list.utf8).array?.compactMap(\.string) else {
            throw SQLiteErrors.damaged("The ledger does not say what was taken back")
        }
        return Set(ids)
    }
}
