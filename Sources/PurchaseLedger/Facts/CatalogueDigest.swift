// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The digest of the ``Catalogue`` with which all purchases of an app were last evaluated. A different digest shows
/// that the catalogue has changed since.
package struct CatalogueDigest: Hashable, RecordValue {
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
    package static func key(_ bundleId: String) -> RecordKey { RecordKey(recordKind, "", of: .app(bundleId)) }

    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner else { throw LedgerStorageError(unreadable: record.key) }
        self.init(record.payload, of: bundleId)
    }

    package var record: LedgerRecord { LedgerRecord(Self.key(bundleId), payload: bytes) }
}

/// The time at which all purchases of an app were last evaluated because its ``Catalogue`` had changed.
///
/// In a rolling restart a server that still has the former catalogue may publish events after another server has
/// evaluated the purchases. Therefore each start within ``settlingTime`` of the change evaluates them once more.
package struct CatalogueChange: Hashable, RecordValue {
    package var bundleId: String
    package var at: Timestamp

    package static let recordKind = RecordKind(rawValue: "catalogueChange")

    /// The longest time that a rolling restart takes.
    package static let settlingTime = Duration.seconds(86_400)

    package init(of bundleId: String, at: Timestamp) {
        self.bundleId = bundleId
        self.at = at
    }

    package static func key(_ bundleId: String) -> RecordKey { RecordKey(recordKind, "", of: .app(bundleId)) }

    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner,
            let milliseconds = Int64(String(decoding: record.payload, as: UTF8.self))
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(of: bundleId, at: Timestamp(milliseconds: milliseconds))
    }

    package var record: LedgerRecord {
        LedgerRecord(Self.key(bundleId), payload: Array("\(at.milliseconds)".utf8))
    }

    /// Whether a server may have published events with the former catalogue since. A time ahead was stored before the
    /// clock was set back.
    package func isRecent(at now: Timestamp) -> Bool {
        now < at.advanced(by: Self.settlingTime) && at <= now.advanced(by: Self.settlingTime)
    }
}
