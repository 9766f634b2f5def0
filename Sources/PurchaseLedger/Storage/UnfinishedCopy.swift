// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// An unfinished copy into a ledger, see ``LedgerCopy``.
///
/// Until the copy ends, the ledger lacks an unknown part of the source's records. Therefore, while the record of
/// ``key`` exists, the ledger is opened only to continue the copy.
public struct UnfinishedCopy: Hashable, Sendable {
    /// The source of the copy, for people, without a password or other secrets.
    public var source: String
    /// The time of the first write into the ledger.
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

    /// Reads an unfinished copy from its record.
    @inline(never)
    public init(_ record: LedgerRecord) throws(LedgerStorageError) {
        guard let payload = JSONValue(readable: record.payload), let source = payload[Self.source]?.string,
            let beganAt = payload[Self.beganAt]?.integer
        else { throw LedgerStorageError(unreadable: record.key) }
        self.init(source: source, beganAt: Timestamp(milliseconds: beganAt))
    }

    /// The stored form of the copy. The time is in milliseconds since 1970.
    public var record: LedgerRecord {
        let payload = JSONValue.object([
            JSONValue.Member(Self.source, .string(source)),
            JSONValue.Member(Self.beganAt, .number("\(beganAt.milliseconds)")),
        ])
        return LedgerRecord(Self.key, payload: Array(payload.compactText.utf8))
    }
}

extension LedgerStorageError {
    /// The refusal of an incomplete ledger: `unfinishedCopy`.
    public init(_ copy: UnfinishedCopy) {
        self.init(
            .unfinishedCopy,
            "This is half a copy of \(copy.source), begun at \(copy.beganAt.iso8601), and no ledger: run the same "
                + "quittance copy again to finish the copy, or empty the place")
    }
}
