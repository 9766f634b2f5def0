// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// What the works of a group decided, one after another. Each sees what those before it changed.
struct GroupDraft {
    /// What was loaded.
    let before: LoadedRecords
    /// The same after all changes so far. Versions are those before them.
    private(set) var after: LoadedRecords
    /// All changes, of which a later one replaces an earlier one.
    private(set) var changes = LedgerChanges()
    /// The records that the decisions depend on: they must not change until the commit.
    private(set) var readSet = ReadSet()
    /// What the changes write.
    private(set) var writes: Set<LedgerKey> = []

    init(_ loaded: LoadedRecords) {
        before = loaded
        after = loaded
    }

    /// Adds the changes of a decision.
    ///
    /// - Parameters:
    ///   - written: Its ``PurchaseLedger/LedgerChanges/keys``.
    ///   - read: The records that it depends on. If nothing was changed yet and the decision changes nothing either, it
    ///     saw one state of the database, which need not last.
    mutating func add(_ new: LedgerChanges, writing written: Set<LedgerKey>, reading read: ReadSet) {
        guard !written.isEmpty || !writes.isEmpty else { return }
        readSet.formUnion(read)
        writes.formUnion(written)
        after.apply(new)
        changes.add(new)
    }
}

extension GroupDraft {
    /// The apps and environments of what is written.
    var scopes: Set<LedgerScope> {
        Set(writes.compactMap(\.scope) + changes.documents.map(\.evidence.scope) + changes.events.map(\.scope))
    }

    /// The apps of what is written.
    var apps: Set<String> {
        Set(writes.compactMap(\.bundleId)).union(changes.marks.erasedEvents.keys).union(changes.marks.epochs.keys)
    }
}

extension LedgerKey {
    /// Whether the draft shows later works of the group what earlier ones wrote under this key. If not, a work that
    /// reads or writes the key is alone. The draft knows which documents are stored, and not what is in them; it finds
    /// chains by their keys and by their owners, and not by their transactions.
    var isFoldable: Bool {
        switch self {
        case .chain, .customerID, .holdings, .document, .wording, .record, .events: true
        case .transaction, .customer, .content, .evidence, .marks: false
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
        // A work that raises marks is alone.
        marks = new.marks
    }
}

extension LoadedRecords {
    /// Applies those of some changes that are foldable.
    fileprivate mutating func apply(_ changes: LedgerChanges) {
        customers = customers(after: changes)
        holdings = holdings(after: changes)
        for record in changes.chains {
            chains[record.key] = Versioned(version: chains[record.key]?.version ?? 0, record: record)
        }
        note(changes.documents, displacing: changes.displacedDocuments)
        for record in changes.records {
            records[record.key] = Versioned(version: records[record.key]?.version ?? 0, record: record)
        }
        for key in changes.erasedRecords { records[key] = nil }
    }
}
