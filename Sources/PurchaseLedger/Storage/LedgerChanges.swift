// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// The changes that a decision makes. Each changed record is a whole value. A storage may write the members in any
/// order, but keeps the order within lists.
public struct LedgerChanges: Sendable {
    /// Documents to store. The tokens in a notification come before the notification.
    public var documents: [NewDocument] = []
    /// Records of chains, to insert or to replace the stored ones.
    public var chains: [ChainRecord] = []
    /// Records of customers, to insert or to replace the stored ones.
    public var customers: [CustomerRecord] = []
    /// Customers to erase together with their ids.
    public var erasedCustomers: Set<Customer> = []
    /// Chains whose documents become evidence for another chain.
    public var movedEvidence: [ChainKey: ChainKey] = [:]
    /// Chains that lose their documents. A document that is then evidence for no chain is erased.
    public var erasedChains: Set<ChainKey> = []
    /// Documents to erase if they have a wording and are not pinned, since ``documents`` has others in their place.
    /// None of them is among ``documents``.
    public var displacedDocuments: Set<Provenance> = []
    /// Events to append, in order. One with a cursor comes from another ledger and keeps that cursor; if there is an
    /// event with it already, nothing is added. Others are numbered by the storage.
    public var events: [LedgerEvent] = []
    /// Records, to insert or to replace those with the same keys.
    public var records: [LedgerRecord] = []
    /// Records to erase. None of them is among ``records``.
    public var erasedRecords: Set<RecordKey> = []
    /// Marks to raise to at least these, of another ledger, whose epochs replace those of the same apps. No other
    /// process may use this one meanwhile.
    public var marks = HighWaterMarks()

    public init() {}

    /// Everything that is written; empty if nothing is. A document is written with the chains that it is evidence for,
    /// and an event with its chain, unless the event comes from another ledger.
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
    /// The chains that it is evidence for, in addition to earlier ones if it is stored already.
    public var chains: Set<ChainKey>
    /// When the document arrived.
    public var receivedAt: Timestamp
    /// What it says, if it arrived on its own and another document that says the same may take its place later;
    /// otherwise `nil`, as for the tokens in a notification. A document that is stored both with a wording and without
    /// one, or for another chain, keeps the wording and is pinned, in whatever order that happens.
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

    /// What the document says about its purchase; `nil` if no other document may take its place, as if it is evidence
    /// for several chains.
    package var wordingKey: WordingKey? {
        guard let wording, let chain = chains.first, chains.count == 1 else { return nil }
        return WordingKey(wording, about: chain)
    }
}

extension StoredDocument {
    /// The document as a storage returns it.
    package init(_ new: NewDocument) {
        let evidence = new.evidence
        self.init(
            id: evidence.id, kind: Open(evidence.kind), scope: evidence.scope, signedDate: evidence.signedDate,
            receivedAt: new.receivedAt, notification: evidence.notification, wording: new.wordingKey?.wording,
            isPinned: new.isPinned, document: evidence.document)
    }
}
