// SPDX-License-Identifier: Apache-2.0

// The search for all due records (``LedgerRecord/dueAt``) and due chains (``ChainReport/nextChange``). A server makes
// this search once a second, in a single request.

/// All records of the same kind and owner. A server processes the due records of a lane, or leaves the whole lane
/// alone.
public struct RecordLane: Hashable, Sendable {
    /// The kind.
    public var kind: RecordKind
    /// The owner.
    public var owner: RecordOwner

    public init(_ kind: RecordKind, of owner: RecordOwner) {
        self.kind = kind
        self.owner = owner
    }
}

extension RecordKey {
    /// The lane of the record.
    package var lane: RecordLane { RecordLane(kind, of: owner) }
}

/// The due records and chains.
public struct DueWork: Hashable, Sendable {
    /// The keys of the first due records of each lane, the earliest of a lane first.
    public var records: [RecordKey]
    /// Whether the `nextChange` in the report of any chain has been reached.
    public var hasDueChains: Bool

    public init(records: [RecordKey] = [], hasDueChains: Bool = false) {
        self.records = records
        self.hasDueChains = hasDueChains
    }
}
