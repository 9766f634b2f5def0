// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The PostgreSQL schema that has the tables of a ledger.
///
/// Every statement names its tables with the usual schema, for example `quittance.chains`. If the ledger has a
/// different schema, each connection replaces the schema's name in the statement. Statements therefore do not depend on
/// `search_path`, which a pooler does not keep.
enum LedgerSchema {
    /// The schema of a new ledger, unless the settings name a schema.
    static let usual = "quittance"

    /// The content of `schema_version.ledger`, by which a ledger is recognized.
    static let marker = "a ledger of Quittance"

    /// Whether a text is a valid schema name: lower-case letters, digits and underscores, which need no quotes in
    /// PostgreSQL.
    static func isName(_ text: String) -> Bool {
        let isPlain = text.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "_")
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        // PostgreSQL truncates names of more than 63 bytes, and reserves names that begin with pg_.
        return isPlain && (1...63).contains(text.utf8.count) && text.first?.isNumber == false
            && !text.hasPrefix("pg_") && text != "information_schema"
    }

    /// The text of a statement for a ledger in the given schema.
    static func text(_ sql: String, in schema: String) -> String {
        schema == usual ? sql : sql.replacing("\(usual).", with: "\"\(schema)\".")
    }
}
