// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The changes made by a decision (``LedgerDecider``). Each changed record is given as a whole. A storage may apply the
/// members in any order, but keeps the order within each list.
public struct LedgerChanges: Sendable {
    /// Documents to store. The signed parts (tokens) of a notification come before the notification.
    public var documents: [NewDocument] = []
    /// Chain records to insert, or to replace the stored records.
    public var chains: [ChainRecord] = []
    /// Customer records to insert, or to replace the stored records.
    public var customers: [CustomerRecord] = []
    /// Customers to erase together with their ids.
    public var erasedCustomers: Set<Customer> = []
    /// Migrated chains (see ``Chain``): each key is an old chain, and its value the new chain. The documents of the old
    /// chain become evidence for the new chain instead.
    public var movedEvidence: [ChainKey: ChainKey] = [:]
    /// Chains that lose their documents. A document that is then evidence for no chain is erased.
    public var erasedChains: Set<ChainKey> = []
    /// Stored documents that are replaced by ``documents``. The storage erases those that have a ``Wording`` and are
    /// not pinned (``WordedDocument/isPinned``). No document is in both lists.
    public var displacedDocuments: Set<Provenance> = []
    /// Events to append, in order. The storage numbers events without a cursor. An event with a cursor comes from a
    /// different ledger and keeps its cursor, and is not added if an event with this cursor exists.
    public var events: [LedgerEvent] = []
    /// Records to insert, or to replace the records with the same keys.
    public var records: [LedgerRecord] = []
    /// Records to erase. No record is also in ``records``.
    public var erasedRecords: Set<RecordKey> = []
    /// If this ledger is a copy: the last numbers and the epochs of the source. The storage raises its own last numbers
    /// to at least these, and takes over the epochs. No other process may use the storage meanwhile.
    public var marks = HighWaterMarks()

    public init() {}

    /// The keys written by these changes; empty without changes. A document adds the keys of the chains for which it is
    /// evidence. An event adds the key of its chain, unless the event comes from a different ledger.
    public var keys: Set<LedgerKey> {
        var keys: Set<LedgerKey> = []
        for document in documents {
            keys.insert(.document(document.evidence.provenance))
            keys.formUnion(document.chains.map(LedgerKey.chain))
        }
        keys.formUnion(chains.map { .chain($0.key) })
        for record in customers {
            keys.formUnion(record.ids.map { .customerID(CustomerID($0, of: record.customer.bundleId)) })
        }
        keys.formUnion(erasedCustomers.map(LedgerKey.customer))
        for (old, new) in movedEvidence { keys.formUnion([.evidence(old), .chain(new)]) }
        keys.formUnion(erasedChains.map(LedgerKey.evidence))
        keys.formUnion(displacedDocuments.map(LedgerKey.document))
        for event in events {
            keys.insert(.events(event.scope.bundleId))
            if event.cursor == nil, let name = event.chainName { keys.insert(.chain(ChainKey(name, in: event.scope))) }
        }
        keys.formUnion(records.map { .record($0.key) })
        keys.formUnion(erasedRecords.map(LedgerKey.record))
        if marks != HighWaterMarks() { keys.insert(.marks) }
        return keys
    }
}

/// A document to store.
public struct NewDocument: Sendable {
    /// The document and the facts in it.
    public var evidence: Evidence
    /// The chains for which the document is evidence. If the document is already stored, these chains are added.
    public var chains: Set<ChainKey>
    /// When the document arrived.
    public var receivedAt: Timestamp
    /// The wording of a document that arrived on its own and may later be replaced by a document with the same wording;
    /// otherwise `nil`, as for the tokens in a notification. A document that is stored once with a wording and once
    /// without, or again for a further chain, keeps the wording and is pinned. The order does not matter.
    public var wording: Wording?
    /// Whether the document is pinned; see ``WordedDocument/isPinned``.
    public var isPinned = false

    public init(
        _ evidence: Evidence, for chains: Set<ChainKey>, receivedAt: Timestamp, wording: Wording? = nil
    ) {
        self.evidence = evidence
        self.chains = chains
        self.receivedAt = receivedAt
        self.wording = wording
    }

    /// The wording of the document, with its chain; `nil` if no other document may replace this document, for example
    /// because it is evidence for several chains.
    package var wordingKey: WordingKey? {
        guard let wording, let chain = chains.first, chains.count == 1 else { return nil }
        return WordingKey(wording, about: chain)
    }
}

extension StoredDocument {
    /// The stored form of a new document.
    package init(_ new: NewDocument) {
        let evidence = new.evidence
        self.init(
            id: evidence.id, kind: Open(evidence.kind), scope: evidence.scope, signedDate: evidence.signedDate,
            receivedAt: new.receivedAt, notification: evidence.notification, wording: new.wordingKey?.wording,
            isPinned: new.isPinned, document: evidence.document)
    }
}
