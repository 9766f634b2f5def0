// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// A row of `documents`, whose content may be packed.
struct DocumentRow {
    let name: Provenance
    let scope: LedgerScope
    let kind: Open<Evidence.Kind>
    let receivedAt: Timestamp
    let notification: Evidence.Notification?
    let wording: Wording?
    let isPinned: Bool
    let content: [UInt8]

    /// Reads the columns of ``DocumentSearch/columns``.
    init(_ row: inout PostgresRow) throws {
        name = try row.name()
        (scope, kind, receivedAt) = (try row.scope(), try row.next(), try row.next())
        let (type, subtype, uuid) = (try row.next(String?.self), try row.next(String?.self), try row.next(String?.self))
        notification = type.map { Evidence.Notification(uuid: uuid, type: $0, subtype: subtype) }
        wording = try row.next(Int64?.self).map { Wording(digest: $0) }
        isPinned = try row.next(Int64?.self) != nil
        content = try row.next()
    }

    /// - Returns: `nil` for a document that cannot be restored, or has another digest than its name says.
    func stored(_ parts: [PartName: [UInt8]]) -> StoredDocument? {
        guard let document = try? PackedDocument.unpack(content, parts),
            DocumentDigest(document, kind.known) == name.digest
        else { return nil }
        return StoredDocument(
            id: name.digest, kind: kind, scope: scope, signedDate: name.date, receivedAt: receivedAt,
            notification: notification, wording: wording, isPinned: isPinned,
            document: document)
    }
}
