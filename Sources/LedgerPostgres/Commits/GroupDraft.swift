// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// The changes of a batch, accumulated in order. A batch is a group of commits decided together and committed in a
/// single transaction. Each decision sees the changes of the earlier decisions in its batch.
struct GroupDraft {
    /// The records as loaded.
    let before: LoadedRecords
    /// The records after all changes so far, still with the versions as loaded.
    private(set) var after: LoadedRecords
    /// All changes so far. If a record was changed several times, its last change counts.
    private(set) var changes = LedgerChanges()
    /// The records read by the decisions. They must not change until the commit.
    private(set) var readSet = ReadSet()
    /// The keys written by the changes, see ``PurchaseLedger/LedgerChanges/keys``.
    private(set) var writes: Set<LedgerKey> = []

    init(_ loaded: LoadedRecords) {
        before = loaded
        after = loaded
    }

    /// Adds the changes of a decision.
    ///
    /// - Parameters:
    ///   - written: The ``PurchaseLedger/LedgerChanges/keys`` of the changes.
    ///   - read: The records read by the decision. The draft ignores them until a decision of the batch writes a key.
    ///     The decisions before the first write have seen the database exactly as loaded, and their answers stay valid
    ///     even if that state changes before the commit.
    mutating func add(_ new: LedgerChanges, writing written: Set<LedgerKey>, reading read: ReadSet) {
        guard !written.isEmpty || !writes.isEmpty else { return }
        readSet.formUnion(read)
        writes.formUnion(written)
        after.apply(new)
        changes.add(new)
    }
}

extension GroupDraft {
    /// The apps, each with an environment, to which the changes belong.
    var scopes: Set<LedgerScope> {
        Set(writes.compactMap(\.scope) + changes.documents.map(\.evidence.scope) + changes.events.map(\.scope))
    }

    /// The apps to which the changes belong.
    var apps: Set<String> {
        Set(writes.compactMap(\.bundleId)).union(changes.marks.erasedEvents.keys).union(changes.marks.epochs.keys)
    }
}

extension LedgerKey {
    /// Whether later decisions of a batch see, in the ``GroupDraft``, the changes made under this key by earlier
    /// decisions. If not, a commit that reads or writes the key gets a batch of its own. The draft knows which
    /// documents are stored, but not their contents.
    var isFoldable: Bool {
        switch self {
        case .chain, .transaction, .customerID, .holdings, .document, .wording, .record, .events: true
        case .customer, .content, .evidence, .marks, .openHoldings: false
        }
    }
}

extension LedgerChanges {
    fileprivate mutating func add(_ new: LedgerChanges) {
        documents.removeAll { new.displacedDocuments.contains($0.evidence.provenance) }
        documents += new.documents
        displacedDocuments = displacedDocuments.subtracting(new.documents.map(\.evidence.provenance))
            .union(new.displacedDocuments)
        chains += new.chains
        customers += new.customers
        erasedCustomers.formUnion(new.erasedCustomers)
        movedEvidence.merge(new.movedEvidence) { $1 }
        erasedChains.formUnion(new.erasedChains)
        events += new.events
        records = records.filter { !new.erasedRecords.contains($0.key) } + new.records
        erasedRecords = erasedRecords.subtracting(new.records.map(\.key)).union(new.erasedRecords)
        // A commit with ``PurchaseLedger/HighWaterMarks`` has a batch of its own.
        marks = new.marks
    }
}

extension LoadedRecords {
    /// Applies the changes visible to later decisions of the batch, see ``PurchaseLedger/LedgerKey/isFoldable``.
    fileprivate mutating func apply(_ changes: LedgerChanges) {
        customers = customers(after: changes)
        holdings = holdings(after: changes)
        for record in changes.chains {
            chains[record.key] = Versioned(version: chains[record.key]?.version ?? 0, record: record)
            for key in candidates.keys where record.chain.knows(key) { candidates[key]?.insert(record.key) }
        }
        note(changes.documents, displacing: changes.displacedDocuments)
        for record in changes.records {
            records[record.key] = Versioned(version: records[record.key]?.version ?? 0, record: record)
        }
        for key in changes.erasedRecords { records[key] = nil }
    }
}
