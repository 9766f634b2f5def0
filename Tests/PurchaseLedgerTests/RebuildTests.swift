// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import PurchaseLedger
import Testing

/// Everything can be derived from the documents again.
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

    @Test func `what was derived comes out the same, and nothing is written`() async throws {
        let (ledger, signed) = try await Self.ledger()
        let events = try await ledger.storage.read { try $0.events(after: 0, limit: 100) }
        let rebuilt = try await ledger.rebuild(in: MemoryLedgerStorage(), by: signed.verifier, at: Facts.day(32))
        // The notification and the two tokens in it are documents of their own.
        #expect(rebuilt.documents == 6)
        #expect(rebuilt.faults == [] && rebuilt.differing == [])
        #expect(try await ledger.storage.read { try $0.events(after: 0, limit: 100) } == events)
    }

    @Test func `facts that no document says are put right, and told of`() async throws {
        let (ledger, signed) = try await Self.ledger()
        let before = try await ledger.storage.read { try $0.chain(Facts.key) }
        let invented = ChainKey("99", in: Facts.scope)
        try await ledger.storage.write { writer in
            try writer.removeFacts(of: Facts.key)
            var statement = Facts.transaction("99", signed: 1)
            statement.originalTransactionId = "99"
            try writer.put(statement, in: invented)
        }
        let rebuilt = try await ledger.rebuild(in: MemoryLedgerStorage(), by: signed.verifier, at: Facts.day(32))
        #expect(Set(rebuilt.differing) == [Facts.key, invented])
        #expect(try await ledger.storage.read { try $0.chain(Facts.key) } == before)
        #expect(try await ledger.storage.read { try $0.chain(invented) } == nil)
        let again = try await ledger.rebuild(in: MemoryLedgerStorage(), by: signed.verifier, at: Facts.day(32))
        #expect(again.differing == [])
    }

    @Test func `where a document does not verify, nothing is changed`() async throws {
        let (ledger, signed) = try await Self.ledger()
        try await ledger.storage.write { try $0.removeFacts(of: Facts.key) }
        var verifier = signed.verifier
        verifier.roots = .apple
        let rebuilt = try await ledger.rebuild(in: MemoryLedgerStorage(), by: verifier, at: Facts.day(32))
        #expect(rebuilt.faults.count == rebuilt.documents)
        #expect(rebuilt.faults.allSatisfy { $0.error.hasPrefix("untrustedChain: ") })
        #expect(try await ledger.storage.read { try $0.chain(Facts.key) } == nil)
    }

    @Test func `documents that arrive meanwhile end it`() async throws {
        let (ledger, signed) = try await Self.ledger()
        try await ledger.storage.write { try $0.removeFacts(of: Facts.key) }
        let late = try await signed.evidence(transaction: signed.transaction("8", original: "8"))
        struct Late: LedgerStorage {
            var inner = MemoryLedgerStorage()
            var whenRead: @Sendable () async throws -> Void
            func write<Result: Sendable>(
                _ work: @escaping @Sendable (any LedgerWriter) throws -> Result
            ) async throws -> Result { try await inner.write(work) }
            func read<Result: Sendable>(
                _ work: @escaping @Sendable (any LedgerReader) throws -> Result
            ) async throws -> Result {
                try await whenRead()
                return try await inner.read(work)
            }
        }
        let scratch = Late { _ = try await ledger.record([late], at: Facts.day(32)) }
        let error = await #expect(throws: LedgerStorageError.self) {
            try await ledger.rebuild(in: scratch, by: signed.verifier, at: Facts.day(32))
        }
        #expect(error?.code == .unavailable)
    }
}
