// SPDX-License-Identifier: Apache-2.0

/// The upgrade of an older ledger to the tables of ``Schema``, in a single transaction.
///
/// No server should run during the upgrade. A server of the previous version waits for the locks, and answers 503.
enum SchemaUpgrade {
    /// The version that can be upgraded. Ledgers of other older versions are refused.
    static let source = 19

    /// The statements after the advance of the version. `schema_version` is altered last, because starting servers read
    /// it.
    static let statements =
        [Citus.sequential, lock] + forms + Conflict.function + [conflictOnNodes] + RecordUpgrade.statements
        + EventUpgrade.statements + [marker]

    /// Locks the tables to change.
    private static let lock: String = {
        let tables = (["customers", "forms"] + RecordUpgrade.tables + EventUpgrade.tables).map { "quittance.\($0)" }
        return "LOCK TABLE \(tables.joined(separator: ", ")) IN ACCESS EXCLUSIVE MODE"
    }()

    /// `forms` showed whether servers of earlier versions ran. Such servers used `customers.chains`, and could not read
    /// packed documents. Triggers copied the chains into `holdings`.
    private static let forms = [
        "DROP FUNCTION quittance.hold() CASCADE",
        "ALTER TABLE quittance.customers DROP COLUMN chains",
        "DROP TABLE quittance.forms",
    ]

    private static let conflictOnNodes = Citus.ifDistributed("PERFORM \(Conflict.distribution);")

    /// Ledgers made without a marker have got a marker since.
    private static let marker = "ALTER TABLE quittance.schema_version ALTER ledger SET NOT NULL"
}
