// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import Synchronization
import TestData
import Testing

/// The App Store signs each answer anew. Tests which of the documents that say the same are kept, and that the others
/// change nothing.
@Suite struct EqualDocumentTests {
    fileprivate static let now = Facts.day(40)

    /// Documents about one subscription: their names say what they say, and on which day they were signed.
    struct Documents {
        let signed: SignedHistory
        let all: [(name: String, evidence: [Evidence])]

        init() async throws {
            let signed = try SignedHistory()
            self.signed = signed
            var all: [(name: String, evidence: [Evidence])] = []
            for day in [1, 2, 3, 5, 6] {
                let token = try signed.transaction(signed: Double(day), from: 0, until: 30)
                all.append(("a\(day)", [try await signed.evidence(transaction: token)]))
            }
            // A refund that was reversed: the same is said before it and after it.
            let refund = try signed.transaction(signed: 4, from: 0, until: 30) { $0.revocationDate = Facts.day(4) }
            all.append(("b4", [try await signed.evidence(transaction: refund)]))
            let anchor = try await signed.verifier.verify(
                signed.transaction(signed: 1, from: 0, until: 30).utf8, as: JWSTransactionDecodedPayload.self,
                at: EqualDocumentTests.now)
            for (name, day, renews) in [("r1", 1, true), ("s3", 3, false), ("r2", 2, true), ("r5", 5, true)] {
                let renewal = try await signed.verifier.verify(
                    signed.renewal(signed: Double(day), renews: renews).utf8, as: JWSRenewalInfoDecodedPayload.self,
                    at: EqualDocumentTests.now)
                all.append((name, [try #require(Evidence(renewal, boundBy: anchor))]))
            }
            // Two of the transactions are also in notifications: an end, and one between the ends.
            for (name, day, type) in [("n2", 2, "SUBSCRIBED"), ("n6", 6, "DID_RENEW")] {
                let token = try #require(all.first { $0.name == "a\(day)" }?.evidence[0].document)
                let notification = try signed.notification(
                    type, signed: Double(day), transaction: String(decoding: token, as: UTF8.self))
                all.append((name, [try await signed.evidence(notification: notification)]))
            }
            self.all = all
        }

        func names(of ledger: Ledger) async throws -> Set<String> {
            let stored = Set(try await ledger.documents().map(\.name))
            return Set(all.filter { stored.contains($0.evidence[0].provenance) }.map(\.name))
        }
    }

    @Test(arguments: Seeds.blocks(60, of: 20, soak: 2000))
    func `of equal transactions the oldest and the newest are kept, of equal renewal infos the newest, in any order`(
        seeds: [UInt64]
    ) async throws {
        let documents = try await Documents()
        var all = Chain(Facts.key)
        for (_, evidence) in documents.all {
            for document in evidence {
                for statement in document.statements { all.merge(statement) }
                for renewal in document.renewals { all.merge(renewal) }
            }
        }
        for seed in seeds {
            var random = SeededRandom(seed: seed)
            let ledger = Ledger(storage: MemoryLedgerStorage())
            var rest = (documents.all + documents.all.filter { _ in Bool.random(using: &random) })
                .shuffled(using: &random)[...]
            var new = 0
            while !rest.isEmpty {
                let group = rest.prefix(Int.random(in: 1...4, using: &random))
                let result = try await ledger.record(group.flatMap(\.evidence), at: Self.now)
                new += result.new
                #expect(result.new + result.known == group.count, "seed \(seed)")
                rest = rest.dropFirst(group.count)
            }
            #expect(
                try await documents.names(of: ledger) == ["a1", "a2", "a6", "b4", "n2", "n6", "r5", "s3"],
                "seed \(seed)")
            #expect(try await ledger.chain(Facts.key) == all, "seed \(seed)")
            // Verifying all again takes most of the time.
            guard seed % 10 == 0 else { continue }
            let rebuilt = try await ledger.rebuild(by: documents.signed.verifier, at: Self.now)
            #expect(rebuilt.differing == [] && rebuilt.faults == [], "seed \(seed)")
            #expect(try await ledger.check(by: documents.signed.verifier).faults == [], "seed \(seed)")
        }
    }

    @Test func `tokens in notifications and receipts are kept, and take the place of nothing`() async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        var tokens: [String] = []
        for day in 1...6 { tokens.append(try signed.transaction(signed: Double(day), from: 0, until: 30)) }
        let inner = try await signed.evidence(
            notification: signed.notification("SUBSCRIBED", signed: 3, transaction: tokens[2]))
        let again = try await signed.evidence(
            notification: signed.notification("DID_RENEW", signed: 4, transaction: tokens[2]))
        // One of the tokens arrives on its own first.
        for document in [try await signed.evidence(transaction: tokens[2]), inner, again] {
            _ = try await ledger.record([document], at: Self.now)
        }
        for token in [1, 4, 0, 5].map({ tokens[$0] }) {
            _ = try await ledger.record([try await signed.evidence(transaction: token)], at: Self.now)
        }
        let kept = [inner, again] + [try await signed.evidence(transaction: tokens[2])]
        let ends = [
            try await signed.evidence(transaction: tokens[0]), try await signed.evidence(transaction: tokens[5]),
        ]
        #expect(
            try await Set(ledger.documents().map(\.document)) == Set((kept + ends).map(\.document)))
        #expect(try await ledger.check(by: signed.verifier).faults == [])
    }

    @Test func `a customer who presents a document that says nothing new gets the purchase`() async throws {
        let signed = try SignedHistory()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        for day in [1, 9, 5] {
            let token = try signed.transaction(signed: Double(day), from: 0, until: 30)
            let document = try await signed.evidence(transaction: token)
            let result = try await ledger.record([document], claimedBy: day == 5 ? "anna" : nil, at: Facts.day(10))
            #expect(result.new == (day == 5 ? 0 : 1) && result.known == (day == 5 ? 1 : 0))
        }
        #expect(try await ledger.documents().count == 2)
        let answer = try await ledger.customer("anna", in: Facts.scope, at: Facts.day(10))
        #expect(answer?.purchases.count == 1)
    }

    @Test func `a check and a rebuild read again what was displaced meanwhile`() async throws {
        let signed = try SignedHistory()
        let inner = MemoryLedgerStorage()
        var evidence: [Evidence] = []
        for day in 1...12 {
            evidence.append(
                try await signed.evidence(transaction: signed.transaction(signed: Double(day), from: 0, until: 30)))
        }
        for document in evidence.prefix(2) {
            _ = try await Ledger(storage: inner).record([document], at: Self.now)
        }
        let rest = Mutex(evidence.dropFirst(2))
        let busy = Ledger(
            storage: InterceptedStorage(
                inner: inner,
                afterLoad: { query in
                    let isAboutEvidence = query.keys.contains { if case .evidence = $0 { true } else { false } }
                    guard isAboutEvidence, let next = rest.withLock({ $0.popFirst() }) else { return }
                    _ = try await Ledger(storage: inner).record([next], at: Self.now)
                }))
        #expect(try await busy.check(by: signed.verifier).faults == [])
        #expect(rest.withLock(\.count) < 10)
        rest.withLock { $0 = evidence.dropFirst(2).suffix(3) }
        let report = try await busy.rebuild(by: signed.verifier, at: Self.now)
        #expect(report.faults == [] && report.differing == [])
    }

    @Test(arguments: [
        (#"{"a":1,"signedDate":5,"b":[{"d":1,"c":2}]}"#, true), (#"{"b":[{"c":2,"d":1}],"a":1}"#, true),
        (#"{"a":1.0,"b":[{"c":2,"d":1}]}"#, false), (#"{"a":1,"b":[{"c":2,"d":1}],"e":null}"#, false),
        (#"{"a":1,"b":[{"c":2,"d":1,"signedDate":1}]}"#, false),
    ])
    func `a wording is all but the date of the signing, in any order of members`(payload: String, isSame: Bool) {
        let first = Wording(.transaction, payload: Array(#"{"a":1,"b":[{"c":2,"d":1}],"signedDate":7}"#.utf8))
        let second = Wording(.transaction, payload: Array(payload.utf8))
        #expect(first != nil && (first == second) == isSame)
        #expect(Wording(.renewalInfo, payload: Array(payload.utf8)) != second)
        #expect(Wording(.notification, payload: Array(payload.utf8)) == nil)
    }
}
