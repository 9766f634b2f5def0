// SPDX-License-Identifier: Apache-2.0

// The requirements for documents and for scans (reading all records of a kind page by page). ``LedgerStorageContract``
// tests them.

import AppStoreModel
import PurchaseLedger

// MARK: - Documents

extension LedgerStorageContract {
    static let documents = [
        Requirement("A document is loaded byte for byte, with all of its stored properties") { trial in
            let notification = Evidence.Notification(uuid: "uuid", type: "A_WORD", subtype: "")
            let evidence = [
                Sample.evidence([]), Sample.evidence([0]), Sample.evidence(Array(0...255), in: Sample.sandbox),
                Sample.evidence([7], .notification, signed: Sample.time(7), notification: notification),
                Sample.evidence(
                    [8], .notification, in: Sample.otherApp, signed: Timestamp(milliseconds: -1),
                    notification: Evidence.Notification(uuid: nil, type: "", subtype: nil)),
                Sample.evidence((0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 7) }),
                Sample.evidence(Sample.token(#"{"a":1}"#), .transaction, signed: Sample.time(0)),
                Sample.evidence(Sample.token("not JSON"), .renewalInfo, signed: Sample.ends[1]),
                Sample.evidence(Array("e30.e30.AA=".utf8), .appTransaction),
                Sample.evidence(Array("..".utf8), .transaction),
                Sample.evidence(Array("no token".utf8), .notification),
            ]
            let documents = evidence.enumerated().map { Sample.newDocument($1, for: [], at: Int64($0)) }
            try await trial.commit { $0.documents = Array(documents.dropLast(3)) }
            for document in documents.suffix(3) { try await trial.commit(trial.second) { $0.documents = [document] } }
            let names = Set(evidence.map(\.provenance))
            let missing = Sample.document(1, for: []).evidence.provenance
            for handle in trial.handles {
                let keys = names.union([missing]).flatMap { [LedgerKey.document($0), .content($0)] }
                let found = try await trial.load(keys, from: handle)
                try trial.expect(found.names, is: names, "Names")
                try trial.expect(Set(found.documents.keys), is: names, "Names of documents")
                for document in documents {
                    let expected = StoredDocument(document)
                    try trial.expect(found.documents[expected.name], is: expected, "A document")
                }
            }
        },
        Requirement("A stored document does not change if stored again, and becomes evidence for more chains") {
            trial in
            let first = Array("e30.e30.AA".utf8)
            let second = Array("e30.e30.BB".utf8)
            let stored = Sample.newDocument(Sample.evidence(first, .transaction), for: [1], at: 1)
            try await trial.commit { changes in
                changes.documents = [stored]
                changes.chains = [Sample.chain(1)]
            }
            // Documents with the same signed bytes have the same name. The second has a different signature, and must
            // not replace the first.
            for chains in [[1, 2], []] {
                let again = Sample.newDocument(Sample.evidence(second, .transaction), for: chains, at: 2)
                try await trial.commit(trial.second) { changes in
                    changes.documents = [again]
                    changes.chains = [Sample.chain(2)]
                }
            }
            let name = stored.evidence.provenance
            let chains = (1...3).map { LedgerKey.evidence(Sample.key($0)) }
            let found = try await trial.load([.content(name)] + chains)
            try trial.expect(found.documents, is: [name: StoredDocument(stored)], "The document")
            let reference = DocumentReference(name, about: [Sample.key(1), Sample.key(2)])
            try trial.expect(
                (1...3).map { found.evidence[Sample.key($0)] ?? [] }, is: [[reference], [reference], []], "Evidence")
        },
        Requirement("A token in a notification is also a document of its own, byte for byte") {
            trial in
            let token = Sample.evidence(Sample.token(#"{"name":"inner"}"#), .transaction)
            let text = String(decoding: token.document, as: UTF8.self)
            let notifications = (1...3).map { number in
                Sample.evidence(
                    Sample.token(#"{"name":\#(number),"data":{"signedTransactionInfo":"\#(text)"}}"#), .notification,
                    parts: [token], notification: Evidence.Notification(uuid: "\(number)", type: "A", subtype: nil))
            }
            // The first notification is committed together with the token, the second after the token, and the third
            // after the token's erasure.
            try await trial.commit {
                $0.documents = [Sample.newDocument(token, for: [1]), Sample.newDocument(notifications[0], for: [1])]
            }
            try await trial.commit(trial.second) { $0.documents = [Sample.newDocument(notifications[1], for: [2])] }
            try await trial.commit { $0.erasedChains = [Sample.key(1)] }
            try await trial.commit { $0.documents = [Sample.newDocument(notifications[2], for: [2])] }
            let names = Set(([token] + notifications).map(\.provenance))
            var found = try await trial.load(names.map(LedgerKey.content)).documents
            let kept = Set(notifications.dropFirst().map(\.document))
            try trial.expect(Set(found.values.map(\.document)), is: kept, "The documents after the erasure")
            try await trial.commit { $0.documents = [Sample.newDocument(token, for: [2])] }
            found = try await trial.load(names.map(LedgerKey.content)).documents
            try trial.expect(
                Set(found.values.map(\.document)), is: kept.union([token.document]), "Documents with the token again")
        },
        Requirement("The evidence for a chain is every document stored for the chain, with all of its chains") {
            trial in
            let documents = (1...6).map { Sample.document($0, for: $0 == 6 ? [] : [$0 % 2, $0 / 2]) }
            for document in documents { try await trial.commit { $0.documents = [document] } }
            let found = try await trial.load((0...3).map { .evidence(Sample.key($0)) }).evidence
            for number in 0...3 {
                let expected = documents.filter { $0.chains.contains(Sample.key(number)) }.map {
                    DocumentReference($0.evidence.provenance, about: $0.chains)
                }
                let references = found[Sample.key(number)] ?? []
                try trial.expect(Set(references), is: Set(expected), "Evidence for \(number)")
                try trial.expect(references.count, is: expected.count, "Documents for \(number)")
            }
        },
        Requirement("Erasing a chain erases exactly its documents that are evidence for no other chain") {
            trial in
            // Of three chains (a chain is a purchase with its renewals), chains 1 and 3 are erased, and chain 2
            // remains. Each document is evidence for one of these sets of chains.
            let chains = [[1], [1, 2], [1, 3], [], [2], [3]]
            let documents = (0..<24).map { Sample.document($0, for: chains[$0 % 6]) }
            let names = Set(documents.map(\.evidence.provenance))
            for _ in 1...2 {
                try await trial.commit { $0.documents = Array(documents[..<12]) }
                for document in documents[12...] { try await trial.commit(trial.second) { $0.documents = [document] } }
                try await trial.commit { $0.erasedChains = [Sample.key(1), Sample.key(3)] }
                let left = documents.filter { $0.chains.isEmpty || $0.chains.contains(Sample.key(2)) }
                let chains = (1...3).map { LedgerKey.evidence(Sample.key($0)) }
                let found = try await trial.load(names.flatMap { [.content($0), .document($0)] } + chains)
                try trial.expect(
                    Set(found.documents.values), is: Set(left.map { StoredDocument($0) }), "Documents left")
                try trial.expect(found.names, is: Set(left.map(\.evidence.provenance)), "Names left")
                let counts = (1...3).map { found.evidence[Sample.key($0)]?.count ?? 0 }
                try trial.expect(counts, is: [0, left.count { !$0.chains.isEmpty }, 0], "Evidence left")
                let about = Set(found.evidence.values.joined().flatMap(\.chains))
                try trial.expect(about, is: [Sample.key(2)], "Chains of the remaining documents")
            }
        },
        Requirement("Moved documents are evidence for the new chain instead of the old chain, each once") {
            trial in
            let chains = [[1], [1, 2], [2], [1, 3], []]
            let documents = (0..<10).map { Sample.document($0, for: chains[$0 % 5]) }
            try await trial.commit { $0.documents = documents }
            try await trial.commit(trial.second) { $0.movedEvidence = [Sample.key(1): Sample.key(2)] }
            let found = try await trial.load((1...3).map { .evidence(Sample.key($0)) }).evidence
            let counts = (1...3).map { found[Sample.key($0)]?.count ?? 0 }
            try trial.expect(counts, is: [0, 8, 2], "Evidence")
            try trial.expect(
                Set(found.values.joined().flatMap(\.chains)), is: [Sample.key(2), Sample.key(3)], "Chains")
            try await trial.commit { $0.erasedChains = [Sample.key(2)] }
            let left = try await trial.scan(trial.first.allDocuments, limit: 10) { _ in }
            try trial.expect(left.count, is: 4, "Documents left")
        },
        Requirement("The newest notification is found if it is among the last documents") { trial in
            let kinds: [Evidence.Kind] = [.notification, .notification, .transaction, .receipt]
            for (number, kind) in kinds.enumerated() {
                let evidence = Sample.evidence(Array("e30.\(number).AA".utf8), kind, signed: Sample.time(Int64(number)))
                try await trial.commit { $0.documents = [Sample.newDocument(evidence, for: [], at: Int64(number))] }
            }
            for (count, time) in [(9, 1), (3, 1), (2, nil), (0, nil)] as [(Int, Int64?)] {
                let hours = try await trial.second.notificationHours(of: nil, among: count, limit: 1)
                try trial.expect(hours.first?.newest, is: time.map(Sample.time), "The arrival among the last \(count)")
            }
            for (app, count, limit, expected) in [
                (Sample.production, 9, 9, [2]), (Sample.production, 3, 9, [1]), (Sample.production, 2, 9, []),
                (Sample.production, 9, 0, []), (Sample.otherApp, 9, 9, []),
            ] as [(LedgerScope, Int, Int, [Int])] {
                let hours = try await trial.second.notificationHours(of: app.bundleId, among: count, limit: limit)
                try trial.expect(hours.map(\.count), is: expected, "The hours among the last \(count)")
                try trial.expect(hours.allSatisfy { $0.newest == Sample.time(1) }, is: true, "The last arrival")
            }
            // Apple may send an old notification again after newer notifications.
            for (signed, arrived) in [(10, 10), (11, 11), (12, 12), (13, 13), (2, 20)] as [(Int64, Int64)] {
                let evidence = Sample.evidence(
                    Array("e30.a\(signed).AA".utf8), .notification, signed: Sample.time(signed))
                try await trial.commit { $0.documents = [Sample.newDocument(evidence, for: [], at: arrived)] }
            }
            let hours = try await trial.second.notificationHours(of: nil, among: 9, limit: 1)
            try trial.expect(hours.first?.newest, is: Sample.time(20), "The arrival of an old notification")
        },
        Requirement("The newest documents of an environment are found for all apps, among the last documents") {
            trial in
            let scopes = [Sample.production, Sample.sandbox, Sample.otherApp, Sample.sandbox, Sample.production]
            for (number, scope) in scopes.enumerated() {
                let evidence = Sample.evidence(
                    Sample.token("\(number)"), .transaction, in: scope, signed: Sample.time(Int64(number)))
                try await trial.commit { $0.documents = [Sample.newDocument(evidence, for: [], at: Int64(number))] }
            }
            for (environment, limit, count, numbers) in [
                (.production, 9, 9, [0, 2, 4]), (.production, 2, 9, [2, 4]), (.production, 9, 3, [2, 4]),
                (.sandbox, 9, 9, [1, 3]), (.sandbox, 9, 1, []), (.xcode, 9, 9, []), (.production, 0, 9, []),
                (.production, 9, 0, []),
            ] as [(Environment, Int, Int, [Int])] {
                let page = try await trial.second.documents(
                    .newest(in: environment, among: count), after: nil, limit: limit)
                let found = page.items
                try trial.expect(page.next, is: nil, "The cursor after the newest")
                let documents = Set(numbers.map { Sample.token("\($0)") })
                try trial.expect(
                    Set(found.map(\.document)), is: documents, "The newest \(limit) of \(environment) among \(count)")
                try trial.expect(found.count, is: documents.count, "Documents, each once")
                try trial.expect(
                    found.allSatisfy { $0.scope.environment == environment }, "A document is of a different environment"
                )
            }
        },
    ]
}

// MARK: - Scans

extension LedgerStorageContract {
    static let scans = [
        Requirement("A scan finds each document stored before the scan once, even during writes") { trial in
            for limit in [1, 7, 1000] {
                try await trial.store(100 * limit..<100 * limit + 20)
                let before = try await trial.scan(trial.first.allDocuments, limit: 1000) { _ in }
                let found = try await trial.scan(trial.second.allDocuments, limit: limit) { page in
                    let start = 100 * limit + 30 + page * 2
                    if page < 30 { try await trial.store(start..<start + 2) }
                }
                let counts = Dictionary(found.map { ($0.document, 1) }) { $0 + $1 }
                try trial.expect(before.allSatisfy { counts[$0.document] == 1 }, "A document is missing or comes twice")
                try trial.expect(Set(before).isSubset(of: found), "A document differs from the stored document")
            }
        },
        Requirement("A scan finds the remaining documents during an erasure") { trial in
            try await trial.store(0..<20)
            var isErased = false
            let found = try await trial.scan(trial.first.allDocuments, limit: 3) { _ in
                guard !isErased else { return }
                isErased = true
                try await trial.commit(trial.second) { $0.erasedChains = Set((5..<10).map { Sample.key($0) }) }
            }
            let left = (0..<5).map { Sample.document($0, for: []) } + (10..<20).map { Sample.document($0, for: []) }
            try trial.expect(
                Set(left.map(\.evidence.document)).isSubset(of: found.map(\.document)), "A document is missing")
            let after = try await trial.scan(trial.second.allDocuments, limit: 3) { _ in }
            try trial.expect(after.count, is: left.count, "Documents in a scan after the erasure")
        },
        Requirement("A scan of an app's customers finds each once, by number, and no customer of a different app") {
            trial in
            var stored: [String: [CustomerRecord]] = [:]
            for number in 0..<20 {
                let app = number.isMultiple(of: 3) ? Sample.otherApp.bundleId : Sample.production.bundleId
                let record = try await trial.customer("\(number)", "\(number) alias", of: app)
                stored[app, default: []].append(record)
            }
            for (app, records) in stored {
                let expected = records.sorted { $0.customer.number < $1.customer.number }
                for limit in [1, 3, 6, 100] {
                    let found = try await trial.scan(
                        { try await trial.second.customers(.all, of: app, after: $0, limit: $1) }, limit: limit
                    ) { _ in }
                    try trial.expect(found, is: expected, "Customers of \(app) on pages of \(limit)")
                }
                for record in expected {
                    let before = ScanCursor(rawValue: "\(record.customer.number - 1)")
                    let found = try await trial.first.customers(.all, of: app, after: before, limit: 1).items
                    try trial.expect(found, is: [record], "The customer with the number")
                }
            }
            let none = try await trial.first.customers(.all, of: "com.example.three", after: nil, limit: 5)
            try trial.expect(none.items, is: [], "Customers of an unknown app")
        },
        Requirement("A search of an app's customers finds the newest first, or those with the beginning of an id") {
            trial in
            var stored: [CustomerRecord] = []
            for number in 0..<20 {
                let isOther = number.isMultiple(of: 3)
                let app = isOther ? Sample.otherApp.bundleId : Sample.production.bundleId
                let record = try await trial.customer("c\(number)", "a\(number)", of: app)
                if !isOther { stored.append(record) }
            }
            let app = Sample.production.bundleId
            let newest = stored.sorted { $0.customer.number > $1.customer.number }
            for limit in [1, 3, 100] {
                for (selection, expected) in [
                    (.newest, newest),
                    (.beginning("c1"), stored.filter { $0.ids[0].hasPrefix("c1") }.sorted { $0.ids[0] < $1.ids[0] }),
                    (.beginning("a"), stored.sorted { $0.ids[1] < $1.ids[1] }), (.beginning("c20"), []),
                    (.beginning("%"), []),
                ] as [(CustomerSelection, [CustomerRecord])] {
                    let found = try await trial.scan(
                        { try await trial.second.customers(selection, of: app, after: $0, limit: $1) }, limit: limit
                    ) { _ in }
                    try trial.expect(found, is: expected, "\(selection) on pages of \(limit)")
                }
            }
        },
        Requirement("A scan finds every chain with facts or documents, and every erased chain") { trial in
            try await trial.store(0..<20)
            let facts = (20..<30).map { Sample.chain($0, in: $0 == 20 ? Sample.otherApp : Sample.production) }
            try await trial.commit { $0.chains = facts }
            try await trial.commit { changes in
                var erased = ChainRecord(Sample.key(3))
                erased.erasedAt = Sample.time(1)
                changes.chains = [erased]
                changes.erasedChains = [Sample.key(3)]
            }
            let expected = Set((0..<20).map { Sample.key($0) } + facts.map(\.key))
            for limit in [1, 7, 1000] {
                let found = try await trial.scan(trial.second.allChains, limit: limit) { page in
                    let start = 100 * limit + page
                    if page < 30 { try await trial.store(start..<start + 1) }
                }
                try trial.expect(expected.subtracting(found), is: [], "Chains missing in the scan")
            }
        },
        Requirement("A scan finds each customer once, with all ids, while other customers come and go") { trial in
            var kept: [CustomerRecord] = []
            var gone: [CustomerRecord] = []
            for number in 0..<12 {
                let app = number % 3 == 0 ? Sample.otherApp.bundleId : Sample.production.bundleId
                var record = try await trial.customer("id \(number)", "alias \(number)", of: app)
                record.isEstablished = number % 2 == 0
                record.consentedAt = number % 4 == 0 ? Sample.time(1) : nil
                try await trial.commit { [record] in $0.customers = [record] }
                if number % 4 == 1 { gone.append(record) } else { kept.append(record) }
            }
            for limit in [1, 5, 1000] {
                let found = try await trial.scan(trial.second.customers, limit: limit) { page in
                    guard page == 1 else { return }
                    _ = try await trial.customer("new \(limit)")
                    if let record = gone.popLast() { try await trial.commit(erasing: [record]) { _ in } }
                }
                for record in kept {
                    try trial.expect(found.filter { $0 == record }.count, is: 1, "How often \(record.ids) is found")
                }
                try trial.expect(Set(found.map(\.customer)).count, is: found.count, "Customers, each once")
            }
            try trial.expect(gone, is: [], "Customers to erase")
        },
    ]
}

extension Trial {
    /// Stores documents and chains, a chain per document.
    fileprivate func store(_ numbers: Range<Int>) async throws {
        try await commit { changes in
            changes.documents = numbers.map { Sample.document($0, for: [$0]) }
            changes.chains = numbers.map { Sample.chain($0) }
        }
    }

    /// All items of a scan.
    ///
    /// - Parameter onPage: Called after each page with its number.
    fileprivate func scan<Item: Sendable>(
        _ next: (ScanCursor?, Int) async throws -> ScanPage<Item>, limit: Int,
        onPage: (Int) async throws -> Void
    ) async throws -> [Item] {
        var items: [Item] = []
        var cursor: ScanCursor?
        var pages = 0
        repeat {
            let page = try await next(cursor, limit)
            try expect(page.items.count <= limit, "A page has more than \(limit)")
            try expect(page.damage, is: [], "Damage")
            items += page.items
            cursor = page.next
            pages += 1
            try await onPage(pages)
            try expect(pages < 10_000, "A scan does not end")
        } while cursor != nil
        return items
    }
}

extension LedgerStorage {
    fileprivate func allDocuments(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<StoredDocument> {
        try await documents(.all, after: cursor, limit: limit)
    }

    fileprivate func allChains(after cursor: ScanCursor?, limit: Int) async throws -> ScanPage<ChainKey> {
        try await chains(.all, after: cursor, limit: limit)
    }
}
