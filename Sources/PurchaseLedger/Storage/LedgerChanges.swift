// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The changes of a decision. Each changed record is a whole value. A storage may write the members in any order, but
/// keeps the order within lists.
public struct LedgerChanges: Sendable {
    /// Documents to store. The tokens in a notification come before the notification.
    public var documents: [NewDocument] = []
    /// Chain records to insert, or to replace the stored records.
    public var chains: [ChainRecord] = []
    /// Customer records to insert, or to replace the stored records.
    public var customers: [CustomerRecord] = []
    /// Customers to erase together with their ids.
    public var erasedCustomers: Set<Customer> = []
    /// By chain: the new chain for which its documents become evidence.
    public var movedEvidence: [ChainKey: ChainKey] = [:]
    /// Chains that lose their documents. A document that is then evidence for no chain is erased.
    public var erasedChains: Set<ChainKey> = []
    /// Documents to erase if they have a wording and are not pinned, because ``documents`` replace them. No document is
    /// in both lists.
    public var displacedDocuments: Set<Provenance> = []
    /// Events to append, in order. The storage numbers events without a cursor. An event with a cursor comes from a
    /// different ledger and keeps its cursor. If an event with the same cursor exists, the event is not added.
    public var events: [LedgerEvent] = []
    /// Records to insert, or to replace the records with the same keys.
    public var records: [LedgerRecord] = []
    /// Records to erase. No record is also in ``records``.
    public var erasedRecords: Set<RecordKey> = []
    /// The marks of a different ledger. The storage raises its own marks to these at least, and takes over the epochs
    /// of the apps. No other process may use the storage meanwhile.
    public var marks = HighWaterMarks()

    public init() {}

    /// The write set; empty without changes. A document is written with the chains for which it is evidence. An event
    /// is written with its chain, unless the event comes from a different ledger.
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
    /// otherwise `nil`, as for the tokens in a notification. A document may be stored both with a wording and without,
    /// or for a further chain. It then keeps the wording and is pinned, in whatever order this happens.
    public var wording: Wording?
    /// Whether it is pinned; see ``WordedDocument/isPinned``.
    public var isPinned = false

    public init(
        _ evidence: Evidence, for chains: Set<ChainKey>, receivedAt: Timestamp, wording: Wording? = nil
    ) {
        self.evidence = evidence
        self.chains = chains
        self.receivedAt = receivedAt
        self.wording = wording
    }

    /// The wording of the document about its purchase; `nil` if no other document may replace this document, for
    /// example because it is evidence for several chains.
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
