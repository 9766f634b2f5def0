// SPDX-License-Identifier: Apache-2.0

/// The upgrade of an older ledger to the tables of ``Schema``, in one transaction.
///
/// No server runs meanwhile. One of the version before that still does waits for the locks, and answers 503.
enum SchemaUpgrade {
    /// The version that can be upgraded. Ledgers of other versions are refused.
    static let source = 19

    /// After the version was advanced. `schema_version` is changed last, since other servers read it as they start.
    static let statements =
        [Citus.sequential, lock] + forms + Conflict.function + [conflictOnNodes] + RecordUpgrade.statements
        + EventUpgrade.statements + [marker]

    /// The tables that are changed.
    private static let lock: String = {
        let tables = (["customers", "forms"] + RecordUpgrade.tables + EventUpgrade.tables).map { "quittance.\($0)" }
        return "LOCK TABLE \(tables.joined(separator: ", ")) IN ACCESS EXCLUSIVE MODE"
    }()

    /// `forms` said whether servers of earlier versions ran. These read and wrote `customers.chains`, whose chains
    /// triggers put into `holdings`, and no packed documents.
    private static let forms = [
        "DROP FUNCTION quittance.hold() CASCADE",
        "ALTER TABLE quittance.customers DROP COLUMN chains",
        "DROP TABLE quittance.forms",
    ]

    private static let conflictOnNodes = Citus.ifDistributed("PERFORM \(Conflict.distribution);")

    /// A ledger that was made without a marker got one later.
    private static let marker = "ALTER TABLE quittance.schema_version ALTER ledger SET NOT NULL"
}
