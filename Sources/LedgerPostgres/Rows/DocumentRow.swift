// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A row of `documents`, whose content may be packed.
struct DocumentRow {
    let name: Provenance
    private let head: DocumentHead
    let content: [UInt8]

    /// Reads the columns of ``DocumentSearch/columns``.
    init(_ row: inout PostgresRow) throws {
        name = try row.name()
        head = try DocumentHead(&row)
        content = try row.next()
    }

    /// - Returns: `nil` for a document that cannot be restored, or has another digest than its name says.
    func stored(_ parts: [PartName: [UInt8]]) -> StoredDocument? {
        guard let document = try? PackedDocument.unpack(content, parts),
            DocumentDigest(document, head.kind.known) == name.digest
        else { return nil }
        return head.document(document, name)
    }
}
