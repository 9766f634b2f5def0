// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Removal of documents with equal wording: documents whose content differs only in the signing date (see ``Wording``).
// The App Store signs each response anew, even if nothing has changed. Of the documents with the same wording, only
// those that can affect what the ledger reports are kept.

extension LedgerDraft {
    /// Decides whether to keep a new document beside documents with the same wording about the same purchase. The order
    /// of arrival does not matter.
    ///
    /// Of signed transactions with the same wording, the oldest and the newest are kept. The oldest shows since when
    /// the transaction is known. The newest takes precedence over documents with a different wording that were signed
    /// in between. Of renewal infos with the same wording, only the newest is kept, because no rule reads the others.
    ///
    /// Documents inside a notification are always kept. If such a document also arrives on its own, it can be the
    /// oldest or the newest of its wording, and so displace others, but is never displaced.
    ///
    /// - Parameters:
    ///   - keys: The chains (``Chain``) for which the document is evidence. Without exactly one chain, the document is
    ///     always kept.
    ///   - wording: The document's wording; `nil` for a notification or a receipt, which is always kept.
    /// - Returns: The documents to replace; `nil` if there is nothing to store, because the new document is not kept or
    ///   is already stored. A token (JWS) about one chain does not count as already stored if it is stored only as a
    ///   signed part of a notification, because its wording must still be stored.
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

/// The names and wordings of stored documents.
package protocol DocumentNames {
    var names: Set<Provenance> { get set }
    var wordings: [WordingKey: [WordedDocument]] { get set }
}

extension LedgerSnapshot: DocumentNames {}

extension DocumentNames {
    /// Updates the names and wordings after `documents` were stored and `displaced` were erased.
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
    /// Adds a document in place of the displaced documents. A displaced document may itself be among these changes; it
    /// is then removed from them.
    mutating func add(_ new: NewDocument, displacing displaced: [Provenance]) {
        documents.removeAll { displaced.contains($0.evidence.provenance) }
        documents.append(new)
        displacedDocuments.formUnion(displaced)
        displacedDocuments.remove(new.evidence.provenance)
    }
}
