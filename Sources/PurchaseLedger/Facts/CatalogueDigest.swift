// SPDX-License-Identifier: Apache-2.0

/// The digest of the ``Catalogue`` with which all purchases of an app were last evaluated. A different digest shows
/// that the catalogue has changed since.
package struct CatalogueDigest: Hashable, RecordValue {
    /// The app.
    package var bundleId: String
    /// The digest; empty if the app had no catalogue.
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8], of bundleId: String) {
        self.bundleId = bundleId
        self.bytes = bytes
    }

    /// The kind of the records that hold digests.
    package static let recordKind = RecordKind(rawValue: "catalogue")

    /// The key of the record that holds an app's digest.
    package static func key(_ bundleId: String) -> RecordKey {
        RecordKey(recordKind, "", of: .app(bundleId))
    }

    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner else { throw LedgerStorageError(unreadable: record.key) }
        self.init(record.payload, of: bundleId)
    }

    package var record: LedgerRecord { LedgerRecord(Self.key(bundleId), payload: bytes) }
}
