// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Upgrades a file of the previous version. Jobs, API keys, digests of product catalogues and the note of an unfinished
/// copy had separate tables or a separate column, and become rows of the table `records`.
enum RecordUpgrade {
    /// A payload is a line of JSON followed by bytes: see `LinedPayload`. A job above the size limit of records is
    /// dropped. Only a job that keeps a document for later (`parkedDocument`) can be so large, and no document of the
    /// App Store is.
    static let statements = """
        INSERT INTO records (kind, owner, name, dueAt, payload)
        SELECT kind, scope, name, iif(kind IN (\(notes)), NULL, dueAt), iif(kind IN (\(notes), \(notices)), payload,
            CAST('{"attempts":' || attempts
                || iif(failure IS NULL, '', ',"failure":' || json_quote(substr(failure, 1, 1000)))
                || '}' || char(10) || payload AS BLOB))
        FROM jobs WHERE length(payload) <= \(Job.payloadLimit);
        DROP TABLE jobs;

        INSERT INTO records (kind, owner, name, payload)
        SELECT 'apiKey', 0, apiKeys.id,
            CAST('{"name":' || json_quote(name) || ',"role":' || json_quote(role)
                || ',"bundleId":' || json_quote(bundleId) || ',"createdAt":' || createdAt
                || iif(revokedAt IS NULL, '', ',"revokedAt":' || revokedAt)
                || '}' || char(10) || secretHash AS BLOB)
        FROM apiKeys JOIN apps ON apps.id = apiKeys.app ORDER BY place;
        DROP TABLE apiKeys;

        INSERT INTO records (kind, owner, name, payload)
        SELECT 'catalogue', -id, '', catalogueDigest FROM apps WHERE catalogueDigest IS NOT NULL;
        ALTER TABLE apps DROP COLUMN catalogueDigest;

        INSERT INTO records (kind, owner, name, payload)
        SELECT 'unfinishedCopy', 0, '',
            CAST('{"source":' || json_quote(source) || ',"beganAt":' || beganAt || '}' AS BLOB)
        FROM unfinishedCopy;
        DROP TABLE unfinishedCopy;
        """

    /// The kinds of old jobs that were only notes of the ledger, and never due.
    private static let notes = "'trustAnchors', 'upgrade', 'erasures'"

    /// The kinds of old jobs that were notices to the operator. They get no line of JSON.
    private static let notices = "'unknownProduct', 'contestedPurchase'"
}
