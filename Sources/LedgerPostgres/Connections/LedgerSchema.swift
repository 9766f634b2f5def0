// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The schema of a database that has the tables of a ledger.
///
/// All statements name tables with the usual schema, as in `quittance.chains`. If the ledger is in another schema,
/// each connection sends its name instead. So no statement depends on `search_path`, which a pooler does not keep.
enum LedgerSchema {
    /// The schema of a new ledger, unless the address names another one.
    static let usual = "quittance"

    /// The content of `schema_version.ledger`, which no other software writes.
    static let marker = "a ledger of Quittance"

    /// Whether a name may be that of a schema: letters, digits and underscores, as PostgreSQL keeps without quotes.
    static func isName(_ text: String) -> Bool {
        let isPlain = text.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "_")
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        // PostgreSQL cuts longer names off, and keeps those that begin with pg_ for itself.
        return isPlain && (1...63).contains(text.utf8.count) && text.first?.isNumber == false
            && !text.hasPrefix("pg_") && text != "information_schema"
    }

    /// A statement's text for a ledger in another schema.
    static func text(_ sql: String, in schema: String) -> String {
        schema == usual ? sql : sql.replacing("\(usual).", with: "\"\(schema)\".")
    }
}
