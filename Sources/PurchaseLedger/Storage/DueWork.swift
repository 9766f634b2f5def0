// SPDX-License-Identifier: Apache-2.0

// The search that a server makes each second: what is due, of all kinds and owners in one request.

/// The records of one kind and owner. A server does those that are due, or leaves all of them alone.
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

/// What is due.
public struct DueWork: Hashable, Sendable {
    /// The first records of each lane that are due, the earliest of a lane first.
    public var records: [RecordKey]
    /// Whether the report of a chain has a `nextChange` that is over.
    public var hasDueChains: Bool

    public init(records: [RecordKey] = [], hasDueChains: Bool = false) {
        self.records = records
        self.hasDueChains = hasDueChains
    }
}
