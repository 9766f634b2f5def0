// SPDX-License-Identifier: Apache-2.0

// The requirements for documents with the same wording: the same content except the signing date.
// ``LedgerStorageContract`` tests them.

import AppStoreModel
import PurchaseLedger

extension LedgerStorageContract {
    static let wordings = [
        Requirement("A search by wording finds exactly the documents of a chain with the wording") { trial in
            let documents = [
                Sample.said(1, wording: 7, about: [1]), Sample.said(2, wording: 7, about: [1]),
                Sample.said(3, wording: -8, about: [1]), Sample.said(4, wording: 7, about: [2], naming: 2),
                Sample.said(5, wording: 7, about: [1, 2]), Sample.said(6, wording: nil, about: [1]),
                Sample.said(7, wording: 7, about: []),
            ]
            try await trial.commit { $0.documents = documents }
            let found = try await trial.wordings([(7, 1), (-8, 1), (7, 2), (9, 1), (7, 3)])
            try trial.expect(found, is: [[1, 2], [3], [4], [], []], "Documents")
            let scan = try await trial.first.documents(.all, limit: 100)
            let wordings = Dictionary(scan.map { ($0.name, $0.wording?.digest) }) { first, _ in first }
            for (document, wording) in zip(documents, [7, 7, -8, 7, nil, nil, nil] as [Int64?]) {
                try trial.expect(wordings[document.evidence.provenance], is: wording, "The wording of a document")
            }
        },
        Requirement("A document stored both with a wording and without is pinned, as is a document of two chains") {
            trial in
            for number in 1...4 {
                try await trial.commit { $0.documents = [Sample.said(number, wording: 7, about: [1])] }
            }
            try await trial.commit(trial.second) {
                $0.documents = [
                    Sample.said(1, wording: 7, about: [1]), Sample.said(2, wording: nil, about: [1]),
                    Sample.said(5, wording: nil, about: [1]), Sample.said(6, wording: nil, about: [1]),
                ]
            }
            // Document 5 gets its wording in the second of two commits, and document 7 is stored with a wording and
            // without in one commit.
            try await trial.commit { $0.documents = [Sample.said(5, wording: 7, about: [1])] }
            try await trial.commit {
                $0.documents = [Sample.said(7, wording: 7, about: [1]), Sample.said(7, wording: nil, about: [1])]
            }
            try trial.expect(try await trial.wordings([(7, 1)]), is: [[1, 2, 3, 4, 5, 7]], "Documents")
            try trial.expect(try await trial.pinned(7, 1), is: [2, 5, 7], "Pinned documents")
            try await trial.commit { changes in
                changes.documents = [Sample.said(9, wording: 7, about: [1])]
                changes.displacedDocuments = Set((1...7).map { Sample.name($0) })
            }
            try trial.expect(try await trial.wordings([(7, 1)]), is: [[2, 5, 7, 9]], "Documents left")
            try await trial.commit { $0.documents = [Sample.said(9, wording: 7, about: [2])] }
            try await trial.commit { $0.displacedDocuments = [Sample.name(9)] }
            let found = try await trial.load((1...9).map { .document(Sample.name($0)) })
            try trial.expect(found.names, is: Set([2, 5, 6, 7, 9].map { Sample.name($0) }), "Names left")
        },
        Requirement("A displaced document is erased in the same commit, and can come again") { trial in
            try await trial.commit {
                $0.documents = [Sample.said(1, wording: 7, about: [1]), Sample.said(2, wording: 7, about: [1])]
            }
            for (new, old) in [(3, 2), (2, 3)] {
                try await trial.commit(trial.second) { changes in
                    changes.documents = [Sample.said(new, wording: 7, about: [1])]
                    changes.displacedDocuments = [Sample.said(old, wording: 7, about: [1]).evidence.provenance]
                }
                let names = (1...3).map { Sample.said($0, wording: 7, about: [1]).evidence.provenance }
                let found = try await trial.load(names.map(LedgerKey.document) + [.evidence(Sample.key(1))])
                let left = Set([names[0], names[new - 1]])
                try trial.expect(found.names, is: left, "Names")
                try trial.expect(Set((found.evidence[Sample.key(1)] ?? []).map(\.name)), is: left, "Evidence")
                try trial.expect(try await trial.wordings([(7, 1)]), is: [[1, Int64(new)].sorted()], "Documents")
            }
        },
        Requirement("Documents moved to a new chain are found there by their wording, or are kept") { trial in
            try await trial.commit { $0.documents = [Sample.said(1, wording: 7, about: [1])] }
            try await trial.commit { $0.movedEvidence = [Sample.key(1): Sample.key(2)] }
            let found = try await trial.wordings([(7, 1), (7, 2)])
            try trial.expect(found == [[], [1]] || found == [[], []], "A document is found in a wrong place")
            try await trial.commit { $0.erasedChains = [Sample.key(2)] }
            try trial.expect(try await trial.wordings([(7, 1), (7, 2)]), is: [[], []], "Documents after an erasure")
        },
        Requirement("Of concurrent decisions, each decision sees the wordings stored by the decisions before") {
            trial in
            let key = WordingKey(Wording(digest: 7), about: Sample.key(1))
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...20 {
                    let handle = trial.handles[number % 2]
                    group.addTask {
                        let query = LedgerQuery([.wording(key), .chain(key.chain)])
                        try await handle.commit(query) { snapshot in
                            var changes = LedgerChanges()
                            changes.documents = [Sample.said(number, wording: 7, about: [1])]
                            changes.displacedDocuments = Set((snapshot.wordings[key] ?? []).map(\.name))
                            return .commit(changes, ())
                        }
                    }
                }
                try await group.waitForAll()
            }
            let left = try await trial.wordings([(7, 1)])
            try trial.expect(left.map(\.count), is: [1], "How many documents are left")
            let scan = try await trial.first.documents(.all, limit: 100)
            try trial.expect(scan.count, is: 1, "How many documents a scan finds")
        },
    ]
}

extension Sample {
    /// The name (signing date and digest) of the document that `said` creates for a number.
    fileprivate static func name(_ number: Int) -> Provenance {
        said(number, wording: nil, about: []).evidence.provenance
    }

    /// A document with renewal info. Its signing date encodes its number.
    ///
    /// - Parameter named: The chain in the document's renewal info.
    fileprivate static func said(
        _ number: Int, wording: Int64?, about chains: [Int], naming named: Int = 1
    ) -> NewDocument {
        let evidence = Evidence(.renewalInfo, token("\(number)"), production, time(Int64(number))) { name in
            ([], [RenewalFact(provenance: name, chain: key(named).name)])
        }
        var document = newDocument(evidence, for: chains)
        document.wording = wording.map { Wording(digest: $0) }
        return document
    }
}

extension Trial {
    /// The numbers of the documents that are found by each pair of a wording and a chain (a purchase with its
    /// renewals).
    fileprivate func wordings(_ keys: [(wording: Int64, chain: Int)]) async throws -> [[Int64]] {
        let keys = keys.map { WordingKey(Wording(digest: $0.wording), about: Sample.key($0.chain)) }
        let found = try await load(keys.map(LedgerKey.wording)).wordings
        return keys.map { (found[$0] ?? []).map { Self.number($0.name) }.sorted() }
    }

    /// The numbers of the pinned documents with a wording. A pinned document stays even if other documents have the
    /// same wording.
    fileprivate func pinned(_ wording: Int64, _ chain: Int) async throws -> [Int64] {
        let key = WordingKey(Wording(digest: wording), about: Sample.key(chain))
        let found = try await load([.wording(key)]).wordings[key] ?? []
        return found.filter(\.isPinned).map { Self.number($0.name) }.sorted()
    }

    private static func number(_ name: Provenance) -> Int64 {
        name.signedDate.milliseconds - Sample.time(0).milliseconds
    }
}
