// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import GRDB
import PurchaseLedger

/// Upgrades the table of events: the former columns of an event's content become a body, see ``LedgerEvent``.
///
/// The bodies are not written in SQL, because the old columns contain escaped texts (see `StoredText`), which only
/// Swift code decodes. The same code writes the bodies of new events.
enum EventUpgrade {
    /// The number of rows in memory at once.
    private static let batch = 1000

    /// Moves all events to a new table.
    static func run(_ connection: Database) throws {
        let session = SQLiteLedgerSession(connection, SQLiteLedgerSession.Cache())
        try connection.execute(sql: "ALTER TABLE events RENAME TO oldEvents")
        try connection.execute(sql: Schema.events)
        var last = [StoredValue.integer(.min), .integer(.min)]
        while true {
            let rows = try session.all(select, last + [.integer(Int64(batch))]) { try row(&$0) }
            for row in rows { try session.run(insert, row) }
            guard let row = rows.last else { break }
            last = Array(row.prefix(2))
        }
        try connection.execute(sql: "DROP TABLE oldEvents")
    }

    private static let select = """
        SELECT app, sequence, scope, recordedAt, kind, customer, originalTransactionId,
               effectiveAt, transactionId, productId, detail,
               beforeStatus, beforeProductId, beforeUntil, beforeWillRenew, beforeCommitmentWillRenew,
               afterStatus, afterProductId, afterUntil, afterWillRenew, afterCommitmentWillRenew
        FROM oldEvents WHERE (app, sequence) > (?, ?) ORDER BY app, sequence LIMIT ?
        """

    private static let insert = """
        INSERT INTO events (app, sequence, scope, recordedAt, kind, customer, chainName, body)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """

    /// The columns of an event's row in the new table, from its row in the old table.
    private static func row(_ row: inout RowReader) throws -> [StoredValue] {
        var columns: [StoredValue] = []
        for _ in 0..<7 { columns.append(row.nextStored() ?? .null) }
        var content = EventContent(
            effectiveAt: try row.next(), transactionId: try row.next(), productId: try row.next(),
            detail: try row.next())
        try row.group(&content.before)
        try row.group(&content.after)
        return columns + [.bytes(StoredBody.packed(content.body, with: .second))]
    }
}
