// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import LedgerSQLite
import PurchaseLedger
import Testing

/// The code in the articles about the ledger.
@Suite struct LedgerArticles {
    @Test func `keep a ledger`() async throws {
        let store = try SimulatedStore()
        let (now, verifier, storage) = (store.now, store.verifier, MemoryLedgerStorage())
        let (jws, signedPayload) = (try store.transaction(), try store.notification())

        let products = ["com.example.notes.pro.annual": Catalogue.Product(entitlements: ["pro"])]
        let rules = LedgerRules(catalogues: ["com.example.notes": Catalogue(products: products)])
        let ledger = Ledger(storage: storage, rules: rules)

        let transaction = try await verifier.verify(jws.utf8, as: JWSTransactionDecodedPayload.self, at: now)
        if let evidence = Evidence(transaction) {
            _ = try await ledger.record([evidence], claimedBy: "anna", at: now)
        }
        let notification = try await verifier.verify(notification: signedPayload.utf8, at: now)
        if let evidence = Evidence(notification) {
            _ = try await ledger.record([evidence], at: now)
        }

        let scope = LedgerScope(bundleId: "com.example.notes", environment: .production)
        let holdings = try await ledger.holdings(of: "anna", in: scope, at: now)
        let isPro = holdings?.entitlements.contains { $0.name == "pro" } ?? false
        let validUntil = holdings?.nextChange
        #expect(isPro)
        #expect(validUntil.map { $0 > now } == true)

        try await publish(from: ledger, at: Timestamp(milliseconds: now.milliseconds + 400 * 86_400_000))
    }

    private func publish(from ledger: Ledger, at now: Timestamp) async throws {
        var cursor: EventCursor?
        var handled: [LedgerEvent] = []
        func handle(_ event: LedgerEvent) { handled.append(event) }
        _ = try await ledger.publishDueChanges(at: now)
        let page = try await ledger.events(of: "com.example.notes", after: cursor, limit: 100)
        for event in page.events { handle(event) }
        cursor = page.next
        #expect(handled.count > 1)
        #expect(try await ledger.events(of: "com.example.notes", after: cursor, limit: 100).events.isEmpty)
    }

    @Test func `keep it in a file`() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "article-\(UUID()).sqlite").path
        defer { for ending in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + ending) } }
        let storage = try SQLiteLedgerStorage(path: path)
        let ledger = Ledger(storage: storage)
        try await ledger.proveWritable()
        try storage.close()
    }
}
