// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import PurchaseLedgerTesting
import Testing

/// Tests that all facts can be derived from the documents again.
@Suite struct RebuildTests {
    private static func ledger() async throws -> (Ledger, SignedHistory) {
        let signed = try SignedHistory()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        let first = try signed.transaction { $0.appAccountToken = "anna" }
        let evidence = [
            try await signed.evidence(transaction: first),
            try await signed.evidence(
                notification: signed.notification(
                    "DID_RENEW", signed: 30, transaction: signed.transaction("2", signed: 30, from: 30, until: 60),
                    renewal: signed.renewal(signed: 30))),
            try await signed.evidence(
                transaction: signed.transaction("7", original: "7", product: "book", until: nil, type: .nonConsumable)),
            try await signed.evidence(notification: signed.notification("TEST", signed: 31)),
        ]
        for document in evidence { _ = try await ledger.record([document], at: Facts.day(31)) }
        return (ledger, signed)
    }

    @Test func `a rebuild without differences writes nothing`() async throws {
        let (ledger, signed) = try await Self.ledger()
        let events = try await ledger.events().events
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(32))
        // Two transactions, the renewal with its two tokens, and the TEST notification, which is about no chain.
        #expect(rebuilt.documents == 6)
        #expect(try await ledger.check(by: signed.verifier).documents == 6)
        #expect(rebuilt.faults == [] && rebuilt.differing == [])
        #expect(try await ledger.events().events == events)
    }

    @Test func `missing facts are derived again, and facts without a document are removed`() async throws {
        let (ledger, signed) = try await Self.ledger()
        let before = try await ledger.chain(Facts.key)
        let invented = ChainKey("99", in: Facts.scope)
        try await Self.removeFacts(of: Facts.key, in: ledger)
        var record = ChainRecord(invented)
        var statement = Facts.transaction("99", signed: 1)
        statement.chainName = "99"
        record.chain.merge(statement)
        try await ledger.put(record)
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(32))
        #expect(Set(rebuilt.differing) == [Facts.key, invented])
        #expect(try await ledger.chain(Facts.key) == before)
        #expect(try await ledger.chain(invented) == nil)
        let again = try await ledger.rebuild(by: signed.verifier, at: Facts.day(32))
        #expect(again.differing == [])
    }

    @Test func `a check reports the chains that a rebuild would correct, and writes nothing`() async throws {
        let (ledger, signed) = try await Self.ledger()
        #expect(try await ledger.check(by: signed.verifier).faults == [])
        try await Self.removeFacts(of: Facts.key, in: ledger)
        for _ in 0..<2 {
            let faults = try await ledger.check(by: signed.verifier).faults
            #expect(faults.count == 1 && faults.first?.document == nil)
            #expect(faults.first?.error.contains("\(Facts.key.originalTransactionId) of") == true)
            #expect(faults.first?.error.contains("differs from its documents") == true)
        }
        #expect(try await ledger.chain(Facts.key) == nil)
        _ = try await ledger.rebuild(by: signed.verifier, at: Facts.day(32))
        #expect(try await ledger.check(by: signed.verifier).faults == [])
    }

    /// A storage in which a record and one event cannot be read.
    private struct PartlyUnreadable: ForwardingStorage {
        var inner: any LedgerStorage
        var event: EventCursor

        func records(
            _ selection: RecordSelection, after cursor: ScanCursor?, limit: Int
        ) async throws -> ScanPage<LedgerRecord> {
            ScanPage(items: [], damage: ["a record"], next: nil)
        }

        func events(of bundleId: String, after cursor: EventCursor?, limit: Int) async throws -> EventPage {
            let page = try await inner.events(of: bundleId, after: cursor, limit: limit)
            guard !page.events.contains(where: { $0.cursor == event }) else {
                throw LedgerStorageError(.damaged, "an event")
            }
            return page
        }
    }

    @Test func `a check reads all records, and all events up to one that cannot be read`() async throws {
        let (ledger, signed) = try await Self.ledger()
        let events = try await ledger.storage.events(of: Facts.scope.bundleId, after: nil, limit: 10).events
        try #require(events.count > 1)
        for (place, event) in events.enumerated() {
            let damaged = Ledger(
                storage: PartlyUnreadable(inner: ledger.storage, event: try #require(event.cursor)))
            let faults = try await damaged.check(by: signed.verifier).faults
            let before = place == 0 ? "that comes first" : "after \(events[place - 1].cursor?.rawValue ?? "")"
            #expect(
                faults.map(\.error) == [
                    "a record",
                    "The event of \(Facts.scope.bundleId) \(before) cannot be read: an event",
                ])
        }
    }

    /// As in an answer of the App Store Server API, which is not signed as a whole.
    @Test func `renewal info that arrived beside its transaction is derived again`() async throws {
        let (ledger, signed) = try await Self.ledger()
        let transaction = try await signed.verifier.verify(
            signed.transaction("3", signed: 60, from: 60, until: 90).utf8, as: JWSTransactionDecodedPayload.self,
            at: Facts.day(61))
        let renewal = try await signed.verifier.verify(
            signed.renewal(signed: 60).utf8, as: JWSRenewalInfoDecodedPayload.self, at: Facts.day(61))
        let documents = [Evidence(transaction), Evidence(renewal, boundBy: transaction)].compactMap(\.self)
        _ = try await ledger.record(documents, at: Facts.day(61))
        let before = try #require(try await ledger.chain(Facts.key))
        #expect(before.renewal?.provenance.signedDate == Facts.day(60))
        #expect(try await ledger.rebuild(by: signed.verifier, at: Facts.day(62)).differing == [])
        try await Self.removeFacts(of: Facts.key, in: ledger)
        #expect(try await ledger.rebuild(by: signed.verifier, at: Facts.day(62)).differing == [Facts.key])
        #expect(try await ledger.chain(Facts.key) == before)
    }

    @Test func `a rebuild changes nothing if a document does not verify`() async throws {
        let (ledger, signed) = try await Self.ledger()
        try await Self.removeFacts(of: Facts.key, in: ledger)
        var verifier = signed.verifier
        verifier.roots = .apple
        let rebuilt = try await ledger.rebuild(by: verifier, at: Facts.day(32))
        // The TEST notification, which is about no chain, is not read.
        #expect(rebuilt.faults.count == rebuilt.documents - 1)
        #expect(rebuilt.faults.allSatisfy { $0.error.hasPrefix("untrustedChain: ") })
        #expect(try await ledger.chain(Facts.key) == nil)
    }

    private actor ArrivingDocuments {
        private let ledger: Ledger
        private var documents: [Evidence]

        init(_ documents: [Evidence], in ledger: Ledger) { (self.documents, self.ledger) = (documents, ledger) }

        func next() async throws {
            guard let document = documents.popLast() else { return }
            _ = try await ledger.record([document], at: Facts.day(32))
        }
    }

    /// Rebuilds while documents arrive about the chain that needs correction: one before each commit.
    private static func rebuild(
        _ ledger: Ledger, _ signed: SignedHistory, arriving count: Int
    ) async throws
        -> RebuildReport
    {
        var tokens: [String] = []
        for number in 0..<count {
            let start = Double(60 + number * 30)
            tokens.append(try signed.transaction("\(number + 10)", signed: 32, from: start, until: start + 30))
        }
        return try await rebuild(ledger, signed, arriving: tokens)
    }

    /// - Parameter tokens: The transactions that arrive, the last one first.
    private static func rebuild(
        _ ledger: Ledger, _ signed: SignedHistory, arriving tokens: [String]
    ) async throws
        -> RebuildReport
    {
        var documents: [Evidence] = []
        for token in tokens { documents.append(try await signed.evidence(transaction: token)) }
        let arrivals = ArrivingDocuments(documents, in: ledger)
        let busy = Ledger(storage: InterceptedStorage(inner: ledger.storage, before: arrivals.next))
        return try await busy.rebuild(by: signed.verifier, at: Facts.day(33))
    }

    @Test func `facts of documents that arrive during a rebuild are derived too`() async throws {
        let (ledger, signed) = try await Self.ledger()
        try await Self.removeFacts(of: Facts.key, in: ledger)
        let rebuilt = try await Self.rebuild(ledger, signed, arriving: 3)
        #expect(rebuilt.faults == [] && rebuilt.differing == [Facts.key])
        #expect(try await ledger.chain(Facts.key)?.transactions.count == 5)
        #expect(try await ledger.rebuild(by: signed.verifier, at: Facts.day(34)).differing == [])
    }

    @Test func `a rebuild keeps what arrives meanwhile about the same transaction under another original id`()
        async throws
    {
        let (signed, other) = (try SignedHistory(), ChainKey("9", in: Facts.scope))
        let ledger = Ledger(storage: MemoryLedgerStorage())
        for (day, original) in [(1.0, "9"), (2, "1")] {
            let token = try signed.transaction("1", original: original, signed: day)
            _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(3))
        }
        try await Self.removeFacts(of: other, in: ledger)
        let refunds = try [20.0, 10].map { day in
            try signed.transaction("1", signed: day) { $0.revocationDate = Facts.day(day) }
        }
        let rebuilt = try await Self.rebuild(ledger, signed, arriving: refunds)
        #expect(rebuilt.faults == [] && rebuilt.differing == [other])
        #expect(try await ledger.chain(other)?.transactions["1"]?.signed?.revocation?.date == Facts.day(20))
        #expect(try await ledger.rebuild(by: signed.verifier, at: Facts.day(34)).differing == [])
    }

    @Test func `a rebuild of all facts tells no refund that was reversed under another original id`() async throws {
        let signed = try SignedHistory()
        let rules = LedgerRules(catalogues: [Facts.scope.bundleId: Catalogue()])
        let ledger = Ledger(storage: MemoryLedgerStorage(), rules: rules)
        for (day, original, refund) in [(1.0, "9", nil), (2, "9", 2), (3, "1", nil)] as [(Double, String, Double?)] {
            let token = try signed.transaction("1", original: original, signed: day) {
                $0.revocationDate = refund.map(Facts.day)
            }
            _ = try await ledger.record([signed.evidence(transaction: token)], at: Facts.day(day))
        }
        let keys = [Facts.key, ChainKey("9", in: Facts.scope)]
        for key in keys { try await Self.removeFacts(of: key, in: ledger) }
        let events = try await ledger.events().events
        let rebuilt = try await ledger.rebuild(by: signed.verifier, at: Facts.day(4))
        #expect(Set(rebuilt.differing) == Set(keys), "\(rebuilt.faults)")
        #expect(try await ledger.events().events == events)
    }

    /// A storage from which old documents were removed.
    private struct Forgetful: ForwardingStorage {
        var inner: any LedgerStorage

        func load(_ query: LedgerQuery) async throws -> LedgerSnapshot {
            var snapshot = try await inner.load(query)
            for (key, documents) in snapshot.evidence {
                snapshot.evidence[key] = documents.filter { $0.name.signedDate >= Facts.day(20) }
            }
            return snapshot
        }

        func keepsAllDocuments() async throws -> Bool { false }
    }

    @Test func `facts of removed documents stay, also under another original id, and also an account`() async throws {
        let (ledger, signed) = (Ledger(storage: MemoryLedgerStorage()), try SignedHistory())
        let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
        func notification(_ day: Double, _ account: String?) throws -> String {
            try signed.notification(
                "DID_CHANGE_RENEWAL_STATUS", signed: day,
                transaction: signed.transaction("1", signed: day) { $0.appAccountToken = account },
                renewal: signed.renewal(signed: day) { $0.appAccountToken = account })
        }
        for document in try [
            SignedHistory.Document.notification(notification(1, account)),
            .transaction(signed.transaction("1", original: "9", signed: 2)),
            .transaction(signed.transaction("2", original: "9", signed: 3, from: 30, until: 60)),
            .transaction(signed.transaction("2", signed: 4, from: 30, until: 60)),
            .notification(notification(30, nil)),
        ] {
            _ = try await ledger.record([signed.evidence(document)], at: Facts.day(31))
        }
        let forgetful = Ledger(storage: Forgetful(inner: ledger.storage))
        #expect(try await forgetful.check(by: signed.verifier).faults == [])
        #expect(try await forgetful.rebuild(by: signed.verifier, at: Facts.day(32)).differing == [])
    }

    @Test func `a rebuild fails if a document arrives before each of its commits`() async throws {
        let (ledger, signed) = try await Self.ledger()
        try await Self.removeFacts(of: Facts.key, in: ledger)
        let error = await #expect(throws: LedgerStorageError.self) {
            try await Self.rebuild(ledger, signed, arriving: 50)
        }
        #expect(error?.code == .unavailable)
    }

    /// Removes all facts of a chain, and nothing else.
    private static func removeFacts(of key: ChainKey, in ledger: Ledger) async throws {
        var record = try #require(try await ledger.snapshot([.chain(key)]).chains[key])
        record.chain = Chain(key)
        try await ledger.put(record)
    }
}
