// SPDX-License-Identifier: Apache-2.0

/// The digest of a part of the ``Catalogue`` with which all purchases of an app were last evaluated. A different digest
/// shows that the catalogue has changed since.
package struct CatalogueDigest: Hashable, RecordValue {
    /// The part of the catalogue. The raw value is the name of the record.
    package enum Part: String, CaseIterable, Sendable {
        /// Everything that decides when purchases end.
        case timing = ""
        /// The names of entitlements and the levels of products, which events have.
        case entitlements
    }

    /// The app.
    package var bundleId: String
    /// The part of the catalogue.
    package var part: Part
    /// The digest; empty if the app had no catalogue.
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8], of bundleId: String, _ part: Part = .timing) {
        self.bundleId = bundleId
        self.part = part
        self.bytes = bytes
    }

    /// The kind of the records that hold digests.
    package static let recordKind = RecordKind(rawValue: "catalogue")

    /// The key of the record that holds an app's digest.
    package static func key(_ bundleId: String, _ part: Part = .timing) -> RecordKey {
        RecordKey(recordKind, part.rawValue, of: .app(bundleId))
    }

    package init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard case .app(let bundleId) = record.key.owner, let part = Part(rawValue: record.key.name) else {
            throw LedgerStorageError(unreadable: record.key)
        }
        self.init(record.payload, of: bundleId, part)
    }

    package var record: LedgerRecord { LedgerRecord(Self.key(bundleId, part), payload: bytes) }
}
