// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A row of the table `documents`. Its content may leave out parts of the document stored in other rows, see
/// ``PackedDocument``.
struct DocumentRow {
    let name: Provenance
    /// The document without its content.
    private let head: StoredDocument
    let content: [UInt8]

    /// Reads the columns of ``DocumentSearch/columns``.
    init(_ row: inout PostgresRow) throws {
        name = try row.name()
        head = try row.document(name)
        content = try row.next()
    }

    /// - Returns: `nil` if the document cannot be restored, or if its digest differs from the digest in its name.
    func stored(_ parts: [PartName: [UInt8]]) -> StoredDocument? {
        // There is an error only if the content is damaged, or a part named in the content is missing.
        guard let document = try? PackedDocument.unpack(content, parts),
            DocumentDigest(document, head.kind.known) == name.digest
        else { return nil }
        var stored = head
        stored.document = document
        return stored
    }
}
