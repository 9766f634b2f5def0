// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The App Store signs each answer anew. Of the documents that say the same, those are kept that decide something.

extension LedgerDraft {
    /// Decides whether a new document is kept beside those that say the same about its purchase, whatever the order in
    /// which they arrive.
    ///
    /// Of equal transactions the oldest is kept, since when the transaction is known, and the newest, which counts
    /// against all that was signed in between. Of equal renewal infos the newest is kept: it alone is ever asked.
    ///
    /// Documents that a notification contains are kept besides. They count among the others if they arrive on their own
    /// too.
    ///
    /// - Parameters:
    ///   - keys: The chains that the document is evidence for.
    ///   - wording: What it says; `nil` for a document that is kept in any case.
    /// - Returns: The documents that it takes the place of; `nil` if it is not kept, or was stored so before.
    mutating func documentsDisplaced(
        by document: Evidence, about keys: [ChainKey], _ wording: Wording?
    ) -> [Provenance]? {
        guard let wording, let chain = keys.first, keys.count == 1 else { return isStored(document) ? nil : [] }
        let known = documents(WordingKey(wording, about: chain))
        guard !known.contains(where: { $0.name == document.provenance }) else { return nil }
        let all = (known.map(\.name) + [document.provenance]).sorted()
        let kept = document.kind == .renewalInfo ? [all.last] : [all.first, all.last]
        guard kept.contains(document.provenance) else { return nil }
        return known.filter { !$0.isPinned && !kept.contains($0.name) }.map(\.name)
    }
}

/// What is known of the documents that are stored.
package protocol DocumentNames {
    var names: Set<Provenance> { get set }
    var wordings: [WordingKey: [WordedDocument]] { get set }
}

extension LedgerSnapshot: DocumentNames {}

extension DocumentNames {
    /// Notes which documents are stored once some were, and which of them have a wording.
    package mutating func note(_ documents: [NewDocument], displacing displaced: Set<Provenance>) {
        let pinned = Set(documents.filter { $0.wording == nil }.map(\.evidence.provenance))
        for (key, known) in wordings {
            wordings[key] = known.filter { !displaced.contains($0.name) }.map { document in
                WordedDocument(document.name, isPinned: document.isPinned || pinned.contains(document.name))
            }
        }
        for document in documents {
            let name = document.evidence.provenance
            let isNew = names.insert(name).inserted
            guard let key = document.wordingKey, wordings[key]?.contains(where: { $0.name == name }) != true else {
                continue
            }
            wordings[key, default: []].append(WordedDocument(name, isPinned: !isNew))
        }
        names.subtract(displaced)
    }
}

extension LedgerChanges {
    /// Adds a document that takes the place of others, which the same changes may have added.
    mutating func add(_ new: NewDocument, displacing displaced: [Provenance]) {
        documents.removeAll { displaced.contains($0.evidence.provenance) }
        documents.append(new)
        displacedDocuments.formUnion(displaced)
        displacedDocuments.remove(new.evidence.provenance)
    }
}
