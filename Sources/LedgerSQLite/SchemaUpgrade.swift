// SPDX-License-Identifier: Apache-2.0

import GRDB

/// Brings a file of the first six steps to the tables of today: renames the old tables, creates today's and copies the
/// rows.
extension Schema {
    static func upgrade(_ connection: Database) throws {
        let old = """
            SELECT name FROM sqlite_schema WHERE type = ? AND name NOT LIKE 'sqlite_%' AND name <> 'grdb_migrations'
            """
        let (indexes, names) = try (
            String.fetchAll(connection, sql: old, arguments: ["index"]),
            String.fetchAll(connection, sql: old, arguments: ["table"])
        )
        for name in indexes { try connection.execute(sql: "DROP INDEX \(name)") }
        for name in names { try connection.execute(sql: "ALTER TABLE \(name) RENAME TO old_\(name)") }
        try connection.execute(sql: tables + copies)
        for name in names { try connection.execute(sql: "DROP TABLE old_\(name)") }
    }

    /// What documents say of it now is filled in by `quittance rebuild`. Until then
    ///
    /// - renewal info that was signed with a transaction is about that one, and a transaction counts as known since its
    ///   purchase, so that renewal info stays about the newest period;
    /// - a customer exists in its own right if an event reports a claim, if it has several ids, which only an alias
    ///   makes, or if its id is no account that a purchase names now.
    ///
    /// Events keep their numbers, which all apps shared. Evidence for chains that were erased is evidence for the
    /// others only.
    private static let copies = """
        INSERT INTO apps (id, bundleId, sharedSequence)
        SELECT id, bundleId, (SELECT coalesce(max(sequence), 0) FROM old_events) FROM old_apps;

        INSERT INTO scopes SELECT id, app, environment FROM old_scopes;

        INSERT INTO chains (
            id, scope, originalTransactionId, erasedAt, lastEventAt, renewalSignedDate, renewalEvidence,
            renewalProductId, autoRenewProductId, autoRenewStatus, expirationIntent, isInBillingRetry,
            gracePeriodExpiresDate, priceIncreaseStatus, renewalAppAccountToken, renewalDate, publishedStatus,
            publishedProductId, publishedUntil, publishedWillRenew, publishedIsSubscription, publishedTransactionId,
            publishedExpiresDate, publishedRevoked, publishedEntitling, nextChange)
        SELECT
            id, chains.scope, chains.originalTransactionId, forgottenAt, last.recordedAt, renewalSignedDate,
            renewalEvidence, renewalProductId, autoRenewProductId, autoRenewStatus, expirationIntent, isInBillingRetry,
            gracePeriodExpiresDate, priceIncreaseStatus, renewalAppAccountToken,
            (SELECT expiresDate FROM old_statements WHERE chain = chains.id AND signedDate = renewalSignedDate
             ORDER BY purchaseDate DESC LIMIT 1),
            iif(toldEntitling IS NULL, NULL, coalesce(toldStatus,
                iif(toldEntitling, 'active', iif(toldRevoked IS NOT NULL, 'revoked', 'expired')))),
            toldProductId, iif(toldStatus = 'active', toldExpiresDate, NULL), toldWillRenew,
            iif(toldEntitling IS NULL, NULL, toldStatus IS NOT NULL), toldTransactionId, toldExpiresDate, toldRevoked,
            toldEntitling, nextChange
        FROM old_chains AS chains LEFT JOIN (
            SELECT scope, originalTransactionId, max(recordedAt) AS recordedAt FROM old_events
            WHERE originalTransactionId IS NOT NULL GROUP BY scope, originalTransactionId) AS last
            ON last.originalTransactionId = chains.originalTransactionId AND last.scope = chains.scope;

        INSERT INTO sharedBlobs SELECT id, digest, content FROM old_pieces;

        INSERT INTO documents
        SELECT number, signedDate, digest, scope, chain, kind, receivedAt, notificationType, notificationSubtype,
               notificationUUID, content
        FROM old_documents;

        INSERT INTO mentions
        SELECT chain, document FROM old_mentions JOIN chains ON chains.id = chain WHERE erasedAt IS NULL;

        INSERT INTO statements (
            chain, transactionId, source, isOriginal, signedDate, evidence, productId, type, subscriptionGroup,
            purchaseDate, expiresDate, quantity, isUpgraded, revocationDate, revocationReason, revocationType,
            revocationPercentage, ownership, appAccountToken, offerType, webOrderLineItemId, knownSince)
        SELECT
            chain, transactionId, source, isOriginal, signedDate, evidence, productId, type, subscriptionGroup,
            purchaseDate, expiresDate, quantity, isUpgraded, revocationDate, revocationReason, revocationType,
            revocationPercentage, ownership, appAccountToken, offerType, webOrderLineItemId,
            iif(signedDate > -9223372036854775808, min(signedDate, coalesce(purchaseDate, signedDate)), NULL)
        FROM old_statements;

        INSERT INTO customers (number, app, isEstablished)
        SELECT
            number, app,
            number IN (SELECT customer FROM old_events WHERE kind = 'purchase.linked' AND detail = 'claim')
            OR number IN (SELECT customer FROM old_customerIds GROUP BY customer HAVING count(*) > 1)
            OR number IN (
                SELECT customer FROM old_customerIds WHERE (app, id) NOT IN (
                    SELECT app, appAccountToken FROM old_statements
                    JOIN old_chains ON old_chains.id = chain JOIN old_scopes ON old_scopes.id = scope
                    WHERE appAccountToken IS NOT NULL
                    UNION
                    SELECT app, renewalAppAccountToken FROM old_chains JOIN old_scopes ON old_scopes.id = scope
                    WHERE renewalAppAccountToken IS NOT NULL))
        FROM old_customers;

        INSERT INTO customerIds SELECT customer, place, app, id FROM old_customerIds;

        INSERT INTO links SELECT place, chain, customer, reason FROM old_links;

        INSERT INTO events (app, sequence, kind, scope, recordedAt, effectiveAt, customer, originalTransactionId,
                            transactionId, productId, detail)
        SELECT app, sequence, kind, scope, recordedAt, recordedAt, customer, originalTransactionId, transactionId,
               productId, detail
        FROM old_events JOIN old_scopes ON old_scopes.id = scope ORDER BY app, sequence;

        INSERT INTO apiKeys SELECT place, id, name, role, app, secretHash, createdAt, revokedAt FROM old_apiKeys;

        INSERT INTO proof SELECT id, written FROM old_proof;

        -- Numbers of rows that were deleted are not given again either.
        DELETE FROM sqlite_sequence WHERE name NOT LIKE 'old_%';
        UPDATE sqlite_sequence SET name = substr(name, 5);
        """
}
