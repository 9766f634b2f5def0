// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Upgrades a ledger of the previous version: jobs, API keys, digests of catalogues and the note of an unfinished copy
/// become rows of the table `records`. Until then, each of these kinds had its own table or column.
enum RecordUpgrade {
    /// The tables to change.
    static let tables = ["jobs", "api_keys", "apps", "unfinished_copy"]

    static let statements =
        Schema.records + [distribution, jobs, keys, catalogues, note]
        + ["jobs", "api_keys", "unfinished_copy"].map { "DROP TABLE quittance.\($0)" }
        + ["ALTER TABLE quittance.apps DROP COLUMN catalogue"]

    private static let distribution = Citus.ifDistributed(
        "PERFORM create_distributed_table('quittance.records', 'home', colocate_with => 'quittance.chains');")

    /// The payload of most kinds of jobs becomes a line of JSON followed by bytes, see `LinedPayload`. A job whose
    /// payload exceeds the limit is dropped. Nothing of value is lost: only a job that keeps an invalid document, to
    /// verify it again later, can be so large. A genuine document of the App Store is never larger than the limit.
    private static let jobs = """
        INSERT INTO quittance.records (kind, owner, home, name, version, due_at, payload)
        SELECT kind, scope, home, home, version, CASE WHEN kind NOT IN (\(notes)) THEN due_at END,
            CASE WHEN kind IN (\(notes), \(notices)) THEN payload
            ELSE convert_to('{"attempts":' || attempts
                || CASE WHEN failure IS NULL THEN '' ELSE ',"failure":' || to_json(left(failure, 1000))::text END
                || '}' || chr(10), 'UTF8') || payload END
        FROM quittance.jobs WHERE length(payload) <= \(Job.payloadLimit)
        """

    private static let keys = """
        INSERT INTO quittance.records (kind, owner, home, name, version, payload)
        SELECT 'apiKey', 0, '', api_keys.id, 1,
            convert_to('{"name":' || to_json(name)::text || ',"role":' || to_json(role)::text
                || ',"bundleId":' || to_json(bundle_id)::text || ',"createdAt":' || created_at
                || CASE WHEN revoked_at IS NULL THEN '' ELSE ',"revokedAt":' || revoked_at END
                || '}' || chr(10), 'UTF8') || secret_hash
        FROM quittance.api_keys JOIN quittance.apps ON apps.id = app
        """

    private static let catalogues = """
        INSERT INTO quittance.records (kind, owner, home, name, version, payload)
        SELECT 'catalogue', -id, '', '', 1, catalogue FROM quittance.apps WHERE catalogue IS NOT NULL
        """

    private static let note = """
        INSERT INTO quittance.records (kind, owner, home, name, version, payload)
        SELECT 'unfinishedCopy', 0, '', '', 1,
            convert_to('{"source":' || to_json(source)::text || ',"beganAt":' || began_at || '}', 'UTF8')
        FROM quittance.unfinished_copy
        """

    /// The kinds of jobs that were no work, but kept a note, for example the journal of erasures. A note is never due.
    private static let notes = "'trustAnchors', 'upgrade', 'erasures'"

    /// The kinds of jobs that were no work, but kept a notice, for example of an unknown product. A notice had no
    /// payload.
    private static let notices = "'unknownProduct', 'contestedPurchase'"
}
