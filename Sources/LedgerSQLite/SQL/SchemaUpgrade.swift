// SPDX-License-Identifier: Apache-2.0

import GRDB

// Migrates a file of the earlier version, which has six migrations, to the present tables.

extension Schema {
    /// Copies the columns that both versions have from the old tables to the new ones, and computes the new columns.
    static func upgrade(_ connection: Database) throws {
        try connection.execute(sql: renames)
        let names = """
            SELECT name FROM sqlite_schema WHERE type = ? AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'grdb_%'
            """
        let tables = try String.fetchAll(connection, sql: names, arguments: ["table"])
        for name in try String.fetchAll(connection, sql: names, arguments: ["index"]) {
            try connection.execute(sql: "DROP INDEX \(name)")
        }
        for name in tables { try connection.execute(sql: "ALTER TABLE \(name) RENAME TO old_\(name)") }
        try connection.execute(sql: Self.tables)
        for name in tables {
            let common = """
                SELECT name FROM pragma_table_info('\(name)')
                INTERSECT SELECT name FROM pragma_table_info('old_\(name)')
                """
            let columns = try String.fetchAll(connection, sql: common).joined(separator: ", ")
            try connection.execute(sql: "INSERT INTO \(name) (\(columns)) SELECT \(columns) FROM old_\(name)")
        }
        try connection.execute(sql: newColumns)
        for name in tables { try connection.execute(sql: "DROP TABLE old_\(name)") }
    }

    /// Events keep their sequence numbers, which all apps shared. Documents stop being evidence for chains that were
    /// erased.
    private static let renames = """
        ALTER TABLE pieces RENAME TO sharedBlobs;
        ALTER TABLE chains RENAME COLUMN forgottenAt TO erasedAt;
        ALTER TABLE chains RENAME COLUMN toldStatus TO publishedStatus;
        ALTER TABLE chains RENAME COLUMN toldProductId TO publishedProductId;
        ALTER TABLE chains RENAME COLUMN toldTransactionId TO publishedTransactionId;
        ALTER TABLE chains RENAME COLUMN toldExpiresDate TO publishedExpiresDate;
        ALTER TABLE chains RENAME COLUMN toldWillRenew TO publishedWillRenew;
        ALTER TABLE chains RENAME COLUMN toldRevoked TO publishedRevoked;
        ALTER TABLE chains RENAME COLUMN toldEntitling TO publishedEntitling;
        ALTER TABLE events ADD COLUMN app INTEGER;
        ALTER TABLE events ADD COLUMN effectiveAt INTEGER;
        UPDATE events SET app = (SELECT app FROM scopes WHERE id = scope), effectiveAt = recordedAt;
        DELETE FROM mentions WHERE chain IN (SELECT id FROM chains WHERE erasedAt IS NOT NULL);
        """

    /// Estimates the new columns. `quittance rebuild` computes them from the documents. Until then
    ///
    /// - a customer exists in its own right if an event reports a claim, if it has several ids, which only an alias
    ///   makes, or if no purchase names its id as its account now;
    /// - a transaction counts as known since its purchase;
    /// - renewal info is about the transaction that was signed at the same instant. Therefore renewal info about the
    ///   newest period stays about that period.
    ///
    /// The numbers of deleted rows are not reused.
    private static let newColumns = """
        UPDATE apps SET sharedSequence = coalesce((SELECT max(sequence) FROM events), 0);

        UPDATE customers SET isEstablished = 1
        WHERE number IN (SELECT customer FROM events WHERE kind = 'purchase.linked' AND detail = 'claim')
            OR number IN (SELECT customer FROM customerIds GROUP BY customer HAVING count(*) > 1)
            OR number IN (
                SELECT customer FROM customerIds WHERE (app, id) NOT IN (
                    SELECT app, appAccountToken FROM statements
                    JOIN chains ON chains.id = chain JOIN scopes ON scopes.id = scope
                    WHERE appAccountToken IS NOT NULL
                    UNION
                    SELECT app, renewalAppAccountToken FROM chains JOIN scopes ON scopes.id = scope
                    WHERE renewalAppAccountToken IS NOT NULL));

        UPDATE statements SET knownSince = min(signedDate, coalesce(purchaseDate, signedDate))
        WHERE signedDate > -9223372036854775808;

        UPDATE chains SET renewalDate = (
            SELECT expiresDate FROM statements WHERE chain = chains.id AND signedDate = renewalSignedDate
            ORDER BY purchaseDate DESC LIMIT 1)
        WHERE renewalSignedDate IS NOT NULL;

        UPDATE chains SET
            publishedIsSubscription = publishedStatus IS NOT NULL,
            publishedUntil = iif(publishedStatus = 'active', publishedExpiresDate, NULL),
            publishedStatus = coalesce(publishedStatus,
                iif(publishedEntitling, 'active', iif(publishedRevoked IS NOT NULL, 'revoked', 'expired')))
        WHERE publishedEntitling IS NOT NULL;

        UPDATE chains SET lastEventAt = last.recordedAt
        FROM (
            SELECT scope, originalTransactionId, max(recordedAt) AS recordedAt FROM events
            WHERE originalTransactionId IS NOT NULL GROUP BY scope, originalTransactionId) AS last
        WHERE chains.originalTransactionId = last.originalTransactionId AND chains.scope = last.scope;

        DELETE FROM sqlite_sequence WHERE name NOT LIKE 'old_%';
        UPDATE sqlite_sequence SET name = substr(name, 5);
        """
}
