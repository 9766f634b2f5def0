// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

private typealias Trial = ContractTrial

// MARK: - Transactions

extension LedgerStorageContract {
    static let transactions = [
        Promise("A write returns what its work returns") { trial in
            let number = try await trial.storage.write { _ in 17 }
            try Trial.expect(number, is: 17, "The result")
        },
        Promise("A write whose work throws writes nothing of anything") { trial in
            try await trial.write { try $0.append(Trial.event("before")) }
            try await trial.undo(writeEverything)
            try await trial.read(expectNothing)
            // And leaves nothing behind that would be in the way.
            try await trial.write(writeEverything)
        },
        Promise("A write sees what it wrote") { trial in
            try await trial.write { writer in
                try writeEverything(writer)
                try Trial.expect(try writer.documents(after: 0, limit: 9).count, is: 1, "Documents")
                try Trial.expect(try writer.chain(Trial.key(1))?.transactions.count, is: 1, "Transactions")
                try Trial.expect(try writer.report(Trial.key(1))?.productId, is: "product", "Reported product")
                try Trial.expect(try writer.owners(of: Trial.key(1)).count, is: 1, "Owners")
                try Trial.expect(try writer.events(after: 0, limit: 9).count, is: 1, "Events")
                try Trial.expect(try writer.chainsDue(at: Trial.time(0), limit: 9), is: [Trial.key(1)], "Chains due")
                try writer.put(Trial.renewal(), in: Trial.key(2))
                let keys = try writer.chainKeys(after: 0, limit: 9).map(\.key)
                try Trial.expect(keys, is: [Trial.key(1), Trial.key(2)], "Chains")
                _ = try writer.forget([Trial.key(1)], at: Trial.time(1))
                try Trial.expect(try writer.chainKeys(after: 0, limit: 9).map(\.key), is: [Trial.key(2)], "Chains left")
                try writer.put(Trial.renewal(), in: Trial.key(1))
                try Trial.expect(try writer.chain(Trial.key(1))?.renewal, is: Trial.renewal(), "The renewal put after")
            }
            let left = try await trial.read { try $0.chain(Trial.key(1)) }
            try Trial.expect(left?.renewal, is: Trial.renewal(), "The renewal put last")
            try Trial.expect(left?.transactions.count, is: 0, "Transactions left")
        },
        Promise("What a write wrote is read after it") { trial in
            try await trial.write(writeEverything)
            try await trial.read { reader in
                try Trial.expect(try reader.documents(after: 0, limit: 9).count, is: 1, "Documents")
                try Trial.expect(try reader.customer("customer", of: "com.example.one") != nil, "No customer")
            }
        },
        Promise("A read sees one state while others write") { trial in
            try await trial.write { for number in 1...2 { try touch(number, 0, $0) } }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for round in 1...50 {
                    // Both or neither.
                    group.addTask {
                        try await trial.write { for number in 1...2 { try touch(number, Int64(round), $0) } }
                    }
                    group.addTask {
                        let dates = try await trial.read { reader in
                            try (1...2).map { try reader.chain(Trial.key($0))?.renewal?.provenance.signedDate }
                        }
                        try Trial.expect(dates[0] == dates[1], "A read saw half of a write: \(dates)")
                    }
                }
                try await group.waitForAll()
            }
        },
        Promise("Many writers at once do not lose or mix what they write") { trial in
            try await manyWriters(trial)
            let (events, count) = try await trial.read { reader in
                (try reader.events(after: 0, limit: 1000), try reader.chain(Trial.key(1))?.transactions.count)
            }
            try Trial.expect(count, is: 100, "Transactions of 100 writers, each of which wrote one")
            try Trial.expect(
                events.map { String($0.detail?.prefix(1) ?? "") }.joined(), is: "ab".repeated(100), "Events")
            try Trial.expect(Set(events.map(\.sequence)).count, is: 200, "Different numbers of events")
        },
    ]

    @Sendable private static func writeEverything(_ writer: any LedgerWriter) throws {
        _ = try writer.add(Trial.evidence([1, 2, 3]), receivedAt: Trial.time(0))
        try writer.put(Trial.statement(), in: Trial.key(1))
        try writer.put(Trial.renewal(), in: Trial.key(1))
        try writer.put(ChainReport(productId: "product", nextChange: Trial.time(0)), for: Trial.key(1))
        let customer = try writer.addCustomer("customer", of: "com.example.one")
        try writer.add(id: "alias", to: customer)
        try writer.establish(customer)
        try writer.put(ownerChanges: [Trial.time(0)], of: Trial.key(1))
        try writer.link(Trial.key(1), to: customer, .claim)
        try writer.append(Trial.event("after"))
    }

    @Sendable private static func expectNothing(_ reader: any LedgerReader) throws {
        try Trial.expect(try reader.documents(after: 0, limit: 9), is: [], "Documents")
        try Trial.expect(try reader.document(Trial.evidence([1, 2, 3]).provenance), is: nil, "The document")
        try Trial.expect(try reader.chain(Trial.key(1)), is: nil, "The chain")
        let transaction = TransactionKey("1", in: Trial.production)
        try Trial.expect(try reader.chainKey(of: transaction), is: nil, "The transaction's chain")
        try Trial.expect(try reader.report(Trial.key(1)), is: nil, "The report")
        try Trial.expect(try reader.chainsDue(at: Trial.time(9), limit: 9), is: [], "Chains that are due")
        for id in ["customer", "alias"] {
            try Trial.expect(try reader.customer(id, of: "com.example.one"), is: nil, "The customer called \(id)")
        }
        try Trial.expect(try reader.owners(of: Trial.key(1)).isEmpty, "The chain has an owner")
        try Trial.expect(try reader.ownerChanges(of: Trial.key(1)), is: [], "When the owner changed")
        try Trial.expect(try reader.events(after: 0, limit: 9).map(\.detail), is: ["before"], "Events")
    }

    @Sendable private static func touch(_ chain: Int, _ signed: Int64, _ writer: any LedgerWriter) throws {
        // Written whatever the order: the newest holds, and it is the newest of both.
        try writer.put(Trial.renewal(of: chain, signed: signed), in: Trial.key(chain))
    }

    /// A hundred that write two events and a transaction each, and between them as many whose work throws.
    private static func manyWriters(_ trial: ContractTrial) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask {
                    try await trial.write { writer in
                        try writer.append(Trial.event("a\(number)"))
                        try writer.put(Trial.statement("\(number)"), in: Trial.key(1))
                        try writer.append(Trial.event("b\(number)"))
                    }
                }
                group.addTask {
                    try await trial.undo { writer in
                        try writer.append(Trial.event("undone"))
                        try writer.put(Trial.statement("undone \(number)"), in: Trial.key(1))
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}

extension String {
    fileprivate func repeated(_ count: Int) -> String { String(repeating: self, count: count) }
}

// MARK: - Documents

extension LedgerStorageContract {
    static let documents = [
        Promise("A document comes back byte for byte, with all that was said of it") { trial in
            let about = Evidence.Notification(uuid: "uuid", type: "A_WORD", subtype: "")
            let evidence = [
                Trial.evidence([], in: Trial.otherApp), Trial.evidence(Array(0...255), .appTransaction),
                Trial.evidence(Array("e30.e30.AA".utf8), .transaction, signed: Trial.time(7)),
                Trial.evidence(Array("\u{0}\u{1}\n\"é\"".utf8), .notification, notification: about),
                Trial.evidence(Array("{}".utf8), .notification, notification: .init(uuid: nil, type: "", subtype: nil)),
                Trial.evidence([UInt8](repeating: 7, count: 1 << 20), .renewalInfo, in: Trial.sandbox),
            ]
            try await trial.write { writer in
                for (number, document) in evidence.enumerated() {
                    try Trial.expect(
                        try writer.add(document, receivedAt: Trial.time(Int64(number))),
                        "A new document is said to be known")
                }
            }
            let all = try await trial.read { try $0.documents(after: 0, limit: 100) }
            try Trial.expect(all.map(\.document.count), is: evidence.map(\.document.count), "Bytes of the documents")
            for (number, (found, expected)) in zip(all, evidence).enumerated() {
                try expect(found, is: expected, receivedAt: Trial.time(Int64(number)))
                let alone = try await trial.read { try $0.document(expected.provenance) }
                try Trial.expect(alone, is: found, "Document \(number) by its name")
            }
        },
        Promise("Documents are numbered in the order of their arrival, and found after a number up to a limit") {
            trial in
            for byte in UInt8(1)...5 {
                try await trial.write { _ = try $0.add(Trial.evidence([byte]), receivedAt: Trial.time(0)) }
            }
            let all = try await trial.read { try $0.documents(after: 0, limit: 5) }
            try Trial.expect(all.map(\.document), is: (1...5).map { [$0] }, "Documents in order")
            try Trial.expect(zip(all, all.dropFirst()).allSatisfy { $0.number < $1.number }, "Numbers do not increase")
            try Trial.expect((all.first?.number ?? 0) > 0, "The first number is not greater than 0")
            let (second, last) = (all[1].number, all[4].number)
            let some = try await trial.read { try $0.documents(after: second, limit: 2) }
            try Trial.expect(some.map(\.document), is: [[3], [4]], "Two documents after the second")
            for (number, limit) in [(last, 5), (second, 0)] {
                let none = try await trial.read { try $0.documents(after: number, limit: limit) }
                try Trial.expect(none, is: [], "Documents after \(number), at most \(limit)")
            }
        },
        Promise("The numbers of documents are those of the documents themselves") { trial in
            try await trial.write { writer in
                for byte in UInt8(1)...5 { _ = try writer.add(Trial.evidence([byte]), receivedAt: Trial.time(0)) }
            }
            for (after, limit) in [(Int64(0), 9), (2, 2), (5, 9), (0, 0), (-1, 1)] {
                let (numbers, documents) = try await trial.read { reader in
                    (
                        try reader.documentNumbers(after: after, limit: limit),
                        try reader.documents(after: after, limit: limit).map(\.number)
                    )
                }
                try Trial.expect(numbers, is: documents, "Numbers after \(after), at most \(limit)")
            }
        },
        Promise("The newest notification is found if it is among the last documents") { trial in
            let kinds: [Evidence.Kind] = [.notification, .notification, .transaction, .receipt]
            for (number, kind) in kinds.enumerated() {
                let document = kind == .transaction ? Array("e30.e30.AA".utf8) : [UInt8(number)]
                try await trial.write { writer in
                    _ = try writer.add(Trial.evidence(document, kind), receivedAt: Trial.time(Int64(number)))
                }
            }
            for (count, time) in [(9, 1), (3, 1), (2, nil), (0, nil)] as [(Int, Int64?)] {
                let found = try await trial.read { try $0.lastNotification(among: count) }
                try Trial.expect(found, is: time.map(Trial.time), "The newest among the last \(count)")
            }
        },
        Promise("A document that is there already is known, and nothing of it changes") { trial in
            try await trial.write { writer in
                _ = try writer.add(Trial.evidence([1]), receivedAt: Trial.time(1))
                let again = try writer.add(
                    Trial.evidence([1], .transaction, in: Trial.sandbox), receivedAt: Trial.time(2))
                try Trial.expect(!again, "It is said to be new")
            }
            let (first, second) = (Array("e30.e30.AA".utf8), Array("e30.e30.BB".utf8))
            try await trial.write { writer in
                _ = try writer.add(Trial.evidence(first, .transaction), receivedAt: Trial.time(1))
                let again = try writer.add(Trial.evidence(second, .transaction), receivedAt: Trial.time(2))
                try Trial.expect(!again, "With another signature it is said to be new")
                let found = try writer.document(Trial.evidence(second, .transaction).provenance)
                try Trial.expect(found?.document, is: first, "What is there under the name of both")
            }
            let again = try await trial.storage.write { try $0.add(Trial.evidence([1]), receivedAt: Trial.time(3)) }
            try Trial.expect(!again, "It is said to be new in another write")
            let all = try await trial.read { try $0.documents(after: 0, limit: 9) }
            try Trial.expect(all.map(\.receivedAt), is: [Trial.time(1), Trial.time(1)], "Times of arrival")
            try Trial.expect(all.map(\.kind), is: [.receipt, .transaction], "Kinds")
        },
        Promise("A document that stands in another is a document of its own only where it came alone") { trial in
            let inner = token(#"{"name":"inner"}"#)
            let outer = token(#"{"name":"outer","token":""# + String(decoding: inner, as: UTF8.self) + #""}"#)
            try await trial.write { _ = try $0.add(Trial.evidence(outer), receivedAt: Trial.time(0)) }
            let missing = try await trial.read { try $0.document(Trial.evidence(inner).provenance) }
            try Trial.expect(missing, is: nil, "The inner one before it came")
            let isNew = try await trial.storage.write { try $0.add(Trial.evidence(inner), receivedAt: Trial.time(1)) }
            try Trial.expect(isNew, "The inner one is said to be known")
            let all = try await trial.read { try $0.documents(after: 0, limit: 9) }
            try Trial.expect(all.map(\.document), is: [outer, inner], "Both")
        },
    ]

    private static func expect(_ found: StoredDocument, is evidence: Evidence, receivedAt: Timestamp) throws {
        // Not shown: one has a megabyte.
        try Trial.expect(found.document == evidence.document, "Document \(found.number) has other bytes")
        var expected = found
        expected.id = evidence.id
        expected.kind = evidence.kind
        expected.scope = evidence.scope
        expected.signedDate = evidence.signedDate
        expected.receivedAt = receivedAt
        expected.notification = evidence.notification
        try Trial.expect(found == expected, "Document \(found.number) is not what was said of it")
    }

    /// What looks like a signed token of some length.
    private static func token(_ payload: String) -> [UInt8] {
        let parts = ["{\"alg\":\"ES256\",\"x5c\":[\"\("A".repeated(500))\"]}", payload, "s".repeated(64)]
        return Array(
            parts.map { String(decoding: Base64.encodeURL(Array($0.utf8)[...]), as: UTF8.self) }.joined(separator: ".")
                .utf8)
    }
}

// MARK: - Facts

extension LedgerStorageContract {
    static let facts = [
        Promise("A chain has what was put into it, in every part") { trial in
            let bare = TransactionStatement(
                source: .signedTransaction, provenance: Trial.statement().provenance, transactionId: "bare",
                originalTransactionId: Trial.key(1).originalTransactionId, productId: "")
            let statements = [Trial.statement(), Trial.statement(source: .receipt), bare, extreme]
            try await trial.write { writer in
                for statement in statements { try writer.put(statement, in: Trial.key(1)) }
                try writer.put(Trial.renewal(), in: Trial.key(1))
            }
            var expected = Chain(Trial.key(1))
            for statement in statements { expected.merge(statement) }
            expected.merge(Trial.renewal())
            let found = try await trial.read { try $0.chain(Trial.key(1)) }
            try Trial.expect(found, is: expected, "The chain")
        },
        Promise("Of each kind of document the newest statement holds, known since the oldest, whatever the order") {
            trial in
            // By date, then by name; the greatest last.
            let order: [(Int64, UInt8)] = [(0, 9), (1, 1), (1, 2), (1, 0xff), (2, 0)]
            for (index, sequence) in permutations(of: Array(order.indices)).enumerated() {
                try await trial.write { writer in
                    for source in [TransactionStatement.Source.signedTransaction, .receipt] {
                        // The receipt's newest is another one.
                        for (signed, name) in sequence.map({ order[$0] }) where source == .receipt || signed < 2 {
                            try writer.put(
                                Trial.statement(of: index, signed: signed, name: name, source: source),
                                in: Trial.key(index))
                        }
                    }
                    for (signed, name) in sequence.map({ order[$0] }) {
                        try writer.put(Trial.renewal(of: index, signed: signed, name: name), in: Trial.key(index))
                    }
                }
                let chain = try await trial.read { try $0.chain(Trial.key(index)) }
                let fact = chain?.transactions["1"]
                let what = "in the order \(sequence)"
                var signed = Trial.statement(of: index, signed: 1, name: 0xff)
                var receipt = Trial.statement(of: index, signed: 2, name: 0, source: .receipt)
                (signed.knownSince, receipt.knownSince) = (Trial.time(0), Trial.time(0))
                try Trial.expect(fact?.signed, is: signed, "Signed statement \(what)")
                try Trial.expect(fact?.receipt, is: receipt, "Receipt's statement \(what)")
                try Trial.expect(
                    chain?.renewal, is: Trial.renewal(of: index, signed: 2, name: 0), "Renewal info \(what)")
            }
        },
        Promise("A transaction leads to its chain, by the newest document that names it") { trial in
            let transaction = TransactionKey("1", in: Trial.production)
            try await trial.write { writer in
                try writer.put(Trial.statement(of: 2, signed: 5), in: Trial.key(2))
                try writer.put(Trial.statement(of: 1, signed: 4), in: Trial.key(1))
                try writer.put(Trial.statement(of: 1, signed: 6), in: Trial.key(1, in: Trial.sandbox))
            }
            let (found, missing) = try await trial.read { reader in
                (
                    try reader.chainKey(of: transaction),
                    try reader.chainKey(of: TransactionKey("1", in: Trial.otherApp))
                )
            }
            try Trial.expect(found, is: Trial.key(2), "The chain")
            try Trial.expect(missing, is: nil, "The chain in another app")
            try await trial.write { try $0.put(Trial.statement(of: 1, signed: 7, source: .receipt), in: Trial.key(1)) }
            let later = try await trial.read { try $0.chainKey(of: transaction) }
            try Trial.expect(later, is: Trial.key(1), "The chain by a newer document")
        },
        Promise("Apps and environments do not share facts") { trial in
            let scopes = [Trial.production, Trial.sandbox, Trial.otherApp]
            try await trial.write { writer in
                for (signed, scope) in scopes.enumerated() {
                    try writer.put(Trial.statement(signed: Int64(signed)), in: Trial.key(1, in: scope))
                }
            }
            for (signed, scope) in scopes.enumerated() {
                let found = try await trial.read { try $0.chain(Trial.key(1, in: scope)) }
                try Trial.expect(
                    found?.transactions["1"]?.signed, is: Trial.statement(signed: Int64(signed)),
                    "The statement in \(scope)")
            }
        },
        Promise("A chain without facts is not there, also where it is somebody's") { trial in
            try await trial.write { writer in
                try writer.link(Trial.key(1), to: try writer.addCustomer("a", of: "com.example.one"), .claim)
                try writer.put(ChainReport(), for: Trial.key(2))
            }
            for number in 1...3 {
                let chain = try await trial.read { try $0.chain(Trial.key(number)) }
                try Trial.expect(chain, is: nil, "Chain \(number)")
            }
        },
        Promise("Chains are found in the order in which they became known, up to a limit") { trial in
            for number in [3, 1, 2] {
                try await trial.write { try $0.put(Trial.statement(of: number), in: Trial.key(number)) }
            }
            try await trial.write { try $0.put(Trial.renewal(of: 3, signed: 9), in: Trial.key(3)) }
            let all = try await trial.read { try $0.chainKeys(after: 0, limit: 9) }
            try Trial.expect(all.map(\.key), is: [3, 1, 2].map { Trial.key($0) }, "All chains")
            let (first, last) = (all[0].number, all[2].number)
            try Trial.expect(first > 0, "The first number is not greater than 0")
            let one = try await trial.read { try $0.chainKeys(after: first, limit: 1) }
            try Trial.expect(one.map(\.key), is: [Trial.key(1)], "One chain after the first")
            let none = try await trial.read { try $0.chainKeys(after: last, limit: 9) }
            try Trial.expect(none.isEmpty, "There are chains after the last")
        },
        Promise("Removing the facts of a chain leaves the rest") { trial in
            try await trial.write(writeEverything)
            try await trial.write { writer in
                try writer.put(Trial.statement("other", of: 2), in: Trial.key(2))
                try writer.removeFacts(of: Trial.key(1))
            }
            try await trial.read { reader in
                try Trial.expect(try reader.chain(Trial.key(1)), is: nil, "The chain")
                try Trial.expect(try reader.chainKeys(after: 0, limit: 9).map(\.key), is: [Trial.key(2)], "Chains")
                let transaction = TransactionKey("1", in: Trial.production)
                try Trial.expect(try reader.chainKey(of: transaction), is: nil, "The transaction's chain")
                try Trial.expect(try reader.report(Trial.key(1))?.productId, is: "product", "The report")
                try Trial.expect(try reader.documents(after: 0, limit: 9).count, is: 1, "Documents")
                try Trial.expect(try reader.events(after: 0, limit: 9).count, is: 1, "Events")
                let customer = try reader.customer("alias", of: "com.example.one")
                try Trial.expect(
                    try reader.owners(of: Trial.key(1)).map(\.customer), is: [customer].compactMap { $0 }, "Owners")
            }
            try await trial.write { try $0.put(Trial.statement(), in: Trial.key(1)) }
            let again = try await trial.read { try $0.chainKeys(after: 0, limit: 9).map(\.key) }
            try Trial.expect(Set(again), is: [Trial.key(1), Trial.key(2)], "Chains after facts came again")
        },
        Promise("A chain that is forgotten takes along the documents that speak of it alone") { trial in
            let alone = Trial.evidence(Array("e30.one.AA".utf8), .transaction, about: [1])
            let both = Trial.evidence(Array("e30.two.AA".utf8), .receipt, about: [1, 2])
            try await trial.write { writer in
                for document in [alone, both] {
                    _ = try writer.add(document, receivedAt: Trial.time(0))
                    for statement in document.statements {
                        try writer.put(statement, in: ChainKey(statement.originalTransactionId, in: Trial.production))
                    }
                }
                try writer.put(ChainReport(nextChange: Trial.time(0)), for: Trial.key(1))
                try writer.link(Trial.key(1), to: try writer.addCustomer("a", of: "com.example.one"), .claim)
            }
            let first = try await trial.storage.write { try $0.forget([Trial.key(1)], at: Trial.time(5)) }
            try Trial.expect([first.forgotten, first.kept], is: [1, 1], "Documents forgotten and kept")
            try await trial.read { reader in
                try Trial.expect(try reader.document(alone.provenance), is: nil, "The document that spoke of it alone")
                try Trial.expect(
                    try reader.document(both.provenance)?.document, is: both.document, "The other document")
                try Trial.expect(try reader.chain(Trial.key(1)), is: nil, "The chain")
                try Trial.expect(try reader.chain(Trial.key(2)) != nil, "The other chain is forgotten too")
                try Trial.expect(try reader.report(Trial.key(1)), is: nil, "The report")
                try Trial.expect(try reader.chainsDue(at: Trial.time(9), limit: 9), is: [], "Chains that are due")
                try Trial.expect(try reader.owners(of: Trial.key(1)).isEmpty, "It has an owner")
                try Trial.expect(try reader.forgottenAt(Trial.key(1)), is: Trial.time(5), "When it was forgotten")
                try Trial.expect(try reader.forgottenAt(Trial.key(2)), is: nil, "When the other was")
            }
            let second = try await trial.storage.write { try $0.forget([Trial.key(2)], at: Trial.time(6)) }
            try Trial.expect([second.forgotten, second.kept], is: [1, 0], "Documents of the second")
            let isNew = try await trial.storage.write { try $0.add(alone, receivedAt: Trial.time(1)) }
            try Trial.expect(isNew, "A document that was forgotten is said to be known")
        },
        Promise("With a chain all of its documents are forgotten, and no other's") { trial in
            let documents = (1...12).map { Trial.evidence(Array("e30.\($0).AA".utf8), about: [$0 % 3 + 1]) }
            for round in 1...2 {
                // Together and one by one.
                try await trial.write {
                    for document in documents.prefix(6) { _ = try $0.add(document, receivedAt: Trial.time(0)) }
                }
                for document in documents.dropFirst(6) {
                    try await trial.write { _ = try $0.add(document, receivedAt: Trial.time(0)) }
                }
                let count = try await trial.storage.write {
                    try $0.forget([Trial.key(1), Trial.key(3)], at: Trial.time(1))
                }
                try Trial.expect(
                    [count.forgotten, count.kept], is: [8, 0], "Documents forgotten and kept in round \(round)")
                let left = try await trial.read { try $0.documents(after: 0, limit: 99).map(\.document) }
                try Trial.expect(
                    left, is: documents.filter { $0.chains == [Trial.key(2)] }.map(\.document), "Documents left")
            }
        },
        Promise("A chain that is remembered again keeps its documents from being forgotten with others") { trial in
            let both = Trial.evidence(Array("e30.two.AA".utf8), .receipt, about: [1, 2])
            try await trial.write { writer in
                _ = try writer.add(both, receivedAt: Trial.time(0))
                _ = try writer.forget([Trial.key(1)], at: Trial.time(1))
                try writer.remember(Trial.key(1))
                try writer.remember(Trial.key(3))
            }
            let forgotten = try await trial.read { try $0.forgottenAt(Trial.key(1)) }
            try Trial.expect(forgotten, is: nil, "When it was forgotten")
            let count = try await trial.storage.write { try $0.forget([Trial.key(2)], at: Trial.time(2)) }
            try Trial.expect([count.forgotten, count.kept], is: [0, 1], "Documents forgotten and kept")
            let all = try await trial.storage.write { try $0.forget([Trial.key(1), Trial.key(2)], at: Trial.time(3)) }
            try Trial.expect(
                [all.forgotten, all.kept], is: [1, 0], "Documents forgotten with both, each counted once")
        },
        Promise("Whether writing is possible can be tried") { trial in
            for _ in 0..<2 { try await trial.write { try $0.proveWritable() } }
        },
    ]

    /// Values at the ends of what there is.
    private static var extreme: TransactionStatement {
        var statement = Trial.statement("\u{0}\u{1}0'\"é\u{1f600}")
        statement.provenance.signedDate = .distantPast
        statement.expiresDate = .distantFuture
        statement.quantity = .max
        statement.appAccountToken = ""
        return statement
    }

    private static func permutations(of list: [Int]) -> [[Int]] {
        guard let first = list.first else { return [[]] }
        return permutations(of: Array(list.dropFirst())).flatMap { rest in
            (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
        }
    }
}

// MARK: - Reports

extension LedgerStorageContract {
    static let reports = [
        Promise("The report that was put last is the one that is there") { trial in
            let report = ChainReport(
                status: .billingGrace, productId: "product", transactionId: "1", expiresDate: Trial.time(1),
                willRenew: false, revoked: ["3", "2", "\"\\,"], nextChange: Trial.time(2))
            for report in [report, ChainReport(status: .stale, willRenew: true), ChainReport()] {
                try await trial.write { try $0.put(report, for: Trial.key(1)) }
                let found = try await trial.read { try $0.report(Trial.key(1)) }
                try Trial.expect(found, is: report, "The report")
            }
            let (none, other) = try await trial.read {
                (try $0.report(Trial.key(2)), try $0.report(Trial.key(1, in: Trial.sandbox)))
            }
            try Trial.expect([none, other], is: [nil, nil], "Reports of other chains")
        },
        Promise("Chains are due from the instant that their reports name, the earliest first, up to a limit") { trial in
            try await trial.write { writer in
                for (number, next) in ([5, 3, nil, 1, 4, 2] as [Int64?]).enumerated() {
                    try writer.put(ChainReport(nextChange: next.map(Trial.time)), for: Trial.key(number))
                }
                try writer.put(ChainReport(nextChange: Trial.time(0)), for: Trial.key(3, in: Trial.sandbox))
            }
            let inSandbox = Trial.key(3, in: Trial.sandbox)
            for (now, limit, expected) in [
                (3, 9, [inSandbox, Trial.key(3), Trial.key(5), Trial.key(1)]), (9, 2, [inSandbox, Trial.key(3)]),
                (-1, 9, []), (9, 0, []),
            ] as [(Int64, Int, [ChainKey])] {
                let due = try await trial.read { try $0.chainsDue(at: Trial.time(now), limit: limit) }
                try Trial.expect(due, is: expected, "Due at \(now), at most \(limit)")
            }
            try await trial.write { try $0.put(ChainReport(nextChange: Trial.time(9)), for: inSandbox) }
            let due = try await trial.read { try $0.chainsDue(at: Trial.time(2), limit: 9) }
            try Trial.expect(due, is: [Trial.key(3), Trial.key(5)], "Due after one was put off")
        },
    ]
}

// MARK: - Customers

extension LedgerStorageContract {
    static let customers = [
        Promise("A customer is found by every id, byte for byte, in its own app only") { trial in
            let ids = ["a", "A", "a\u{0}", "a\u{0}b", "", "ä", "'; --"]
            try await trial.write { writer in
                for id in ids { _ = try writer.addCustomer(id, of: "com.example.one") }
                _ = try writer.addCustomer("a", of: "com.example.two")
            }
            try await trial.read { reader in
                let found = try ids.compactMap { try reader.customer($0, of: "com.example.one") }
                try Trial.expect(Set(found).count, is: ids.count, "Customers by \(ids.count) ids")
                for (id, customer) in zip(ids, found) {
                    try Trial.expect(try reader.ids(of: customer), is: [id], "The customer's ids")
                }
                let other = try reader.customer("a", of: "com.example.two")
                try Trial.expect(other?.bundleId, is: "com.example.two", "The other app's customer")
                try Trial.expect(other != found.first, "Two apps share a customer")
                try Trial.expect(try reader.customer("A", of: "com.example.two"), is: nil, "Another app's id")
            }
        },
        Promise("Ids come in the order in which they were added") { trial in
            let ids = ["m", "z", "a", "k"]
            try await trial.write { writer in
                let customer = try writer.addCustomer("m", of: "com.example.one")
                _ = try writer.addCustomer("other", of: "com.example.one")
                for id in ids.dropFirst() { try writer.add(id: id, to: customer) }
            }
            try await trial.read { reader in
                for id in ids {
                    guard let customer = try reader.customer(id, of: "com.example.one") else {
                        throw Trial.Broken(message: "Nobody is called \(id)")
                    }
                    try Trial.expect(try reader.ids(of: customer), is: ids, "Ids")
                }
            }
        },
        Promise("Of two customers that become one, the ids and chains are the one's, after its own") { trial in
            let (one, two) = try await twoCustomers(trial)
            try await trial.write { writer in
                try writer.link(Trial.key(1), to: two, .claim)
                try writer.link(Trial.key(2), to: one, .appAccountToken)
                try writer.link(Trial.key(2), to: two, .claim)
                try writer.merge(two, into: one)
            }
            try await trial.read { reader in
                try Trial.expect(try reader.ids(of: one), is: ["one", "two", "three"], "Ids")
                try Trial.expect(try reader.ids(of: two), is: [], "The other's ids")
                try Trial.expect(
                    try reader.customer("two", of: "com.example.one"), is: one, "The customer by the other's id")
                try Trial.expect(
                    try reader.chains(of: one, in: .production), is: [Trial.key(2), Trial.key(1)], "Chains")
                try Trial.expect(try reader.chains(of: two, in: .production), is: [], "The other's chains")
                let reasons = try [1, 2].flatMap { try reader.owners(of: Trial.key($0)).map(\.reason) }
                try Trial.expect(reasons, is: [.claim, .claim], "Reasons, of which a claim is the stronger")
            }
        },
        Promise("Of a customer that is deleted nothing is left but its number, which nobody gets again") { trial in
            let (one, two) = try await twoCustomers(trial)
            try await trial.write { writer in
                try writer.put(Trial.statement(), in: Trial.key(1))
                for customer in [one, two] { try writer.link(Trial.key(1), to: customer, .claim) }
                try writer.append(Trial.event("told", two))
                try writer.delete(two)
            }
            let new = try await trial.storage.write { try $0.addCustomer("two", of: "com.example.one") }
            try Trial.expect(new.number != two.number, "A new customer has the number of a deleted one")
            try await trial.read { reader in
                try Trial.expect(try reader.ids(of: two), is: [], "Ids")
                try Trial.expect(
                    try reader.customer("three", of: "com.example.one"), is: nil, "The customer by an alias")
                try Trial.expect(try reader.chains(of: two, in: .production), is: [], "Chains")
                try Trial.expect(try reader.chains(of: new, in: .production), is: [], "The new customer's chains")
                try Trial.expect(try reader.owners(of: Trial.key(1)).map(\.customer), is: [one], "Owners")
                try Trial.expect(try reader.chain(Trial.key(1)) != nil, "The facts are gone too")
                try Trial.expect(try reader.events(after: 0, limit: 9).map(\.customer), is: [two], "Whom events name")
            }
        },
        Promise("A customer exists in its own right from when that was noted until it is deleted") { trial in
            let (one, two) = try await twoCustomers(trial)
            let before = try await trial.read { try [one, two].map($0.isEstablished) }
            try Trial.expect(before, is: [false, false], "Whether new customers exist in their own right")
            try await trial.undo { try $0.establish(one) }
            for _ in 0..<2 { try await trial.write { try $0.establish(two) } }
            let after = try await trial.read { try [one, two].map($0.isEstablished) }
            try Trial.expect(after, is: [false, true], "Whether they do after it was noted of the second")
            try await trial.write { try $0.delete(two) }
            let new = try await trial.storage.write { try $0.addCustomer("two", of: "com.example.one") }
            let again = try await trial.read { try [two, new].map($0.isEstablished) }
            try Trial.expect(again, is: [false, false], "Whether a deleted one does, or a new one with its id")
        },
        Promise("Of two customers that become one, the one exists in its own right if either did") { trial in
            for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
                let (one, two) = try await trial.storage.write { writer in
                    let one = try writer.addCustomer("\(first) \(second) one", of: "com.example.one")
                    let two = try writer.addCustomer("\(first) \(second) two", of: "com.example.one")
                    if first { try writer.establish(one) }
                    if second { try writer.establish(two) }
                    try writer.merge(two, into: one)
                    return (one, two)
                }
                let found = try await trial.read { try [one, two].map($0.isEstablished) }
                try Trial.expect(found, is: [first || second, false], "The one, and the other that is no more")
            }
        },
    ]

    /// One called `one`, and one called `two` and `three`.
    private static func twoCustomers(_ trial: ContractTrial) async throws -> (Customer, Customer) {
        try await trial.storage.write { writer in
            let one = try writer.addCustomer("one", of: "com.example.one")
            let two = try writer.addCustomer("two", of: "com.example.one")
            try writer.add(id: "three", to: two)
            return (one, two)
        }
    }
}

// MARK: - Links

extension LedgerStorageContract {
    static let links = [
        Promise("Linking twice is linking once, and the first reason stays") { trial in
            let (one, two) = try await twoCustomers(trial)
            for (customer, reason) in [(two, .claim), (one, .appAccountToken), (two, .appAccountToken)]
                as [(Customer, LinkReason)]
            {
                try await trial.write { try $0.link(Trial.key(1), to: customer, reason) }
            }
            let owners = try await trial.read { try $0.owners(of: Trial.key(1)).map { ($0.customer, $0.reason) } }
            try Trial.expect(owners.map(\.0), is: [two, one], "Owners in the order in which they were linked")
            try Trial.expect(owners.map(\.1), is: [.claim, .appAccountToken], "Reasons")
        },
        Promise("A customer has the chains that are linked and not unlinked, by environment, in their order") { trial in
            let (one, two) = try await twoCustomers(trial)
            try await trial.write { writer in
                for number in [3, 1, 2] { try writer.link(Trial.key(number), to: one, .claim) }
                try writer.link(Trial.key(4, in: Trial.sandbox), to: one, .claim)
                try writer.link(Trial.key(1), to: two, .claim)
                try writer.unlink(Trial.key(1), from: one)
                // Neither is there.
                try writer.unlink(Trial.key(1), from: one)
                try writer.unlink(Trial.key(9), from: one)
            }
            try await trial.read { reader in
                try Trial.expect(
                    try reader.chains(of: one, in: .production), is: [Trial.key(3), Trial.key(2)],
                    "Chains in production")
                try Trial.expect(
                    try reader.chains(of: one, in: .sandbox), is: [Trial.key(4, in: Trial.sandbox)], "Chains in sandbox"
                )
                try Trial.expect(try reader.chains(of: one, in: .xcode), is: [], "Chains in Xcode")
                try Trial.expect(try reader.owners(of: Trial.key(1)).map(\.customer), is: [two], "Owners")
            }
            try await trial.write { try $0.link(Trial.key(1), to: one, .appAccountToken) }
            let owners = try await trial.read { try $0.owners(of: Trial.key(1)).map(\.customer) }
            try Trial.expect(owners, is: [two, one], "Owners after it was linked again")
        },
        Promise("When owners changed is what was put last, of that chain alone, and is forgotten with it") { trial in
            let lists = [[Trial.time(1), Trial.time(2)], [], [.distantPast, .distantFuture, Trial.time(3)]]
            for times in lists {
                try await trial.undo { try $0.put(ownerChanges: [Trial.time(9)], of: Trial.key(1)) }
                try await trial.write { try $0.put(ownerChanges: times, of: Trial.key(1)) }
                let found = try await trial.read { reader in
                    try [Trial.key(1), Trial.key(2), Trial.key(1, in: Trial.sandbox)].map(reader.ownerChanges)
                }
                try Trial.expect(found, is: [times, [], []], "The times, and those of other chains")
            }
            try await trial.write { writer in
                try writer.put(Trial.statement(), in: Trial.key(1))
                try writer.removeFacts(of: Trial.key(1))
            }
            let kept = try await trial.read { try $0.ownerChanges(of: Trial.key(1)) }
            try Trial.expect(kept, is: lists[2], "The times after facts were removed")
            try await trial.write { _ = try $0.forget([Trial.key(1)], at: Trial.time(1)) }
            let left = try await trial.read { try $0.ownerChanges(of: Trial.key(1)) }
            try Trial.expect(left, is: [], "The times after the chain was forgotten")
        },
    ]
}

// MARK: - Events

extension LedgerStorageContract {
    static let events = [
        Promise("Events come back as they were, in order, after a number and up to a limit") { trial in
            let customer = Customer(number: 77, bundleId: "com.example.one")
            let bare = LedgerEvent(.notificationReceived, in: Trial.sandbox, at: Trial.time(1))
            let expected = [Trial.event("one", customer), bare, Trial.event("three"), Trial.event("four")]
            try await trial.write { for event in expected[..<2] { try $0.append(event) } }
            try await trial.write { for event in expected[2...] { try $0.append(event) } }
            let all = try await trial.read { try $0.events(after: 0, limit: 9) }
            let unnumbered = all.map { event in
                var event = event
                event.sequence = 0
                return event
            }
            try Trial.expect(unnumbered, is: expected, "Events")
            try Trial.expect((all.first?.sequence ?? 0) > 0, "The first number is not greater than 0")
            let (first, last) = (all[0].sequence, all[3].sequence)
            let some = try await trial.read { try $0.events(after: first, limit: 2) }
            try Trial.expect(some, is: Array(all[1...2]), "Two events after the first")
            for (sequence, limit) in [(last, 9), (first, 0)] {
                let none = try await trial.read { try $0.events(after: sequence, limit: limit) }
                try Trial.expect(none, is: [], "Events after \(sequence), at most \(limit)")
            }
        },
        Promise("An event's number is greater than those of all before it, also after a write that came to nothing") {
            trial in
            for round in 0..<3 {
                try await trial.undo { try $0.append(Trial.event("undone")) }
                try await trial.write { for _ in 0..<2 { try $0.append(Trial.event("\(round)")) } }
            }
            let all = try await trial.read { try $0.events(after: 0, limit: 9) }
            try Trial.expect(all.map(\.detail), is: ["0", "0", "1", "1", "2", "2"], "Events")
            try Trial.expect(
                zip(all, all.dropFirst()).allSatisfy { $0.sequence < $1.sequence },
                "Numbers do not increase: \(all.map(\.sequence))")
        },
    ]
}
