// SPDX-License-Identifier: Apache-2.0

/// The upgrade of an older ledger to the tables of ``Schema``, in a single transaction.
///
/// No server should run during the upgrade of a ledger without the table `records`. A server of that version would
/// answer 503: it would first wait for the locks, and then miss the tables and columns that the upgrade drops.
enum SchemaUpgrade {
    /// The version without the table `records`.
    static let withoutRecords = 19

    /// The previous version, in which ``column`` is missing.
    static let previous = 21

    /// The versions that can be upgraded. Ledgers of other older versions are refused.
    static let sources = [withoutRecords, previous]

    /// The statements that follow the advance of the version. `schema_version` is altered last, because altering it
    /// locks out starting servers, which read it.
    static func statements(from version: Int) -> [String] {
        guard version == withoutRecords else { return [Citus.sequential, column] }
        return [Citus.sequential, lock] + forms + Conflict.function + [conflictOnNodes] + RecordUpgrade.statements
            + EventUpgrade.statements + [column, marker]
    }

    private static let column = "ALTER TABLE quittance.customers ADD COLUMN grants bytea"

    /// Locks the tables to change.
    private static let lock: String = {
        let tables = (["customers", "forms"] + RecordUpgrade.tables + EventUpgrade.tables).map { "quittance.\($0)" }
        return "LOCK TABLE \(tables.joined(separator: ", ")) IN ACCESS EXCLUSIVE MODE"
    }()

    /// The table `forms` recorded whether servers of still earlier versions were running. Such servers used
    /// `customers.chains`, whose content was copied into `holdings` by triggers, and they could not read documents
    /// whose shared parts are stored only once, see ``PackedDocument``.
    private static let forms = [
        "DROP FUNCTION quittance.hold() CASCADE",
        "ALTER TABLE quittance.customers DROP COLUMN chains",
        "DROP TABLE quittance.forms",
    ]

    private static let conflictOnNodes = Citus.ifDistributed("PERFORM \(Conflict.distribution);")

    /// The column `ledger` has the ``LedgerSchema/marker`` by which a ledger is recognized. Ledgers created before this
    /// column was introduced have been given the marker since. The column therefore no longer needs to permit NULL.
    private static let marker = "ALTER TABLE quittance.schema_version ALTER ledger SET NOT NULL"
}
