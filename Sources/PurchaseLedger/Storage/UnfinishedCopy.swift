// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A copy into a ledger that has begun and not ended, see ``LedgerCopy``.
///
/// Until it has, the ledger lacks a part of what is copied, and nobody sees which. So a storage does not open a ledger
/// that has the record of ``key``, except to go on with the copy.
public struct UnfinishedCopy: Hashable, Sendable {
    /// Where the ledger is copied from, for people. It has no password and no other secret.
    public var source: String
    /// When the copy first wrote into the ledger.
    public var beganAt: Timestamp

    public init(source: String, beganAt: Timestamp) {
        self.source = source
        self.beganAt = beganAt
    }
}

extension UnfinishedCopy: RecordValue {
    private static let source = "source"
    private static let beganAt = "beganAt"

    /// The key of the record of a copy into this ledger.
    public static let key = RecordKey(RecordKind(rawValue: "unfinishedCopy"), "", of: .ledger)

    /// Reads the copy of a record.
    @inline(never)
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard let payload = JSONValue(readable: record.payload), let source = payload[Self.source]?.string,
            let beganAt = payload[Self.beganAt]?.integer
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(source: source, beganAt: Timestamp(milliseconds: beganAt))
    }

    /// The copy as it is stored. The time is in milliseconds since 1970.
    public var record: LedgerRecord {
        let payload = JSONValue.object([
            JSONValue.Member(Self.source, .string(source)),
            JSONValue.Member(Self.beganAt, .number("\(beganAt.milliseconds)")),
        ])
        return LedgerRecord(Self.key, payload: Array(payload.compactText.utf8))
    }
}

extension LedgerStorageError {
    /// The refusal of a ledger that is not whole: `unfinishedCopy`.
    public init(_ copy: UnfinishedCopy) {
        self.init(
            .unfinishedCopy,
            "This is half a copy of \(copy.source), begun at \(copy.beganAt.iso8601), and no ledger: run the same "
                + "quittance copy again, which goes on where it was, or empty the place")
    }
}
