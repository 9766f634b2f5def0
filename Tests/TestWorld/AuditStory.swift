// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
package import PurchaseLedger

/// A day of random operations of the operator, each noted for the audit list, and of documents without a note.
package struct AuditStory {
    private static let app = "com.example"
    private static let scope = LedgerScope(bundleId: app, environment: .production)
    private static let ids = ["anna", "bert", "cleo", "dora", "emil"]

    private let ledger: Ledger
    private let store: TestStore
    private var random: SeededRandom
    private var now = TestStore.start
    /// The faults: operations whose entries are not what they changed.
    package private(set) var faults: [String] = []
    /// The operations that changed something, the newest last.
    package private(set) var changed: [String] = []
    private var unchanged = 0

    /// Tells the story in an empty ledger.
    package static func told(in storage: any LedgerStorage, seed: UInt64, steps: Int = 200) async throws -> AuditStory {
        var story = AuditStory(
            ledger: Ledger(storage: storage), store: try TestStore(), random: SeededRandom(seed: seed))
        for number in 0..<steps { try await story.step(number) }
        if story.changed.count < steps / 4 || story.unchanged < steps / 10 {
            story.faults.append("\(story.changed.count) operations changed something, \(story.unchanged) nothing")
        }
        return story
    }

    private init(ledger: Ledger, store: TestStore, random: SeededRandom) {
        self.ledger = ledger
        self.store = store
        self.random = random
    }

    /// Makes one operation, and compares what it changed with its entries.
    private mutating func step(_ number: Int) async throws {
        let isLater = Bool.random(using: &random)
        if isLater { now = now.advanced(by: .seconds(Int64.random(in: 1...600, using: &random))) }
        let before = try await Self.content(ledger.storage)
        let name = try await act(number)
        let after = try await Self.content(ledger.storage)
        let new = Set(after.audit).subtracting(before.audit)
        let isKept = Set(before.audit).isSubset(of: after.audit)
        let expected = name.isNoted && after.rest != before.rest ? [name.operation] : []
        if new.map(\.content.operation) != expected || !isKept {
            let found = new.map(\.content.operation)
            faults.append("\(number) \(name.operation): \(found), not \(expected); kept: \(isKept)")
        }
        changed += expected
        unchanged += expected.isEmpty ? 1 : 0
    }

    private static func content(
        _ storage: any LedgerStorage
    ) async throws -> (audit: [AuditEntry], rest: LedgerContent) {
        var content = try await LedgerContent(of: storage)
        let audit = content.records.filter { $0.key.kind.rawValue == "audit" }
        content.records.subtract(audit)
        // Some storages of tests write to another app meanwhile.
        content.customers = content.customers.filter { $0.customer.bundleId == app }
        content.events = content.events.filter { $0.key == app }
        content.erasedEvents = [:]
        return (try audit.map { try AuditEntry($0) }, content)
    }

    private mutating func act(_ number: Int) async throws -> (operation: String, isNoted: Bool) {
        func pick(_ random: inout SeededRandom) -> String { Self.ids.randomElement(using: &random) ?? "" }
        let (id, other) = (pick(&random), pick(&random))
        let few = Int.random(in: 0..<3, using: &random)
        let transaction = "\(Int.random(in: 1...4, using: &random))"
        let kinds = [
            "makeGrant", "endGrant", "setAttributes", "recordConsent", "addAlias", "unlinkCustomer",
            "unmergeCustomer", "deleteCustomer", "movePurchase", "denyPurchase", "allowPurchase", "addWebhook",
            "removeWebhook", "submission", "submission",
        ]
        let kind = kinds.randomElement(using: &random) ?? ""
        var ledger = ledger
        if kind != "submission" {
            ledger.audit = AuditEntry(kind, of: Self.app, at: now, wall: now, unique: "\(number)")
            ledger.audit?.customerId = id
        }
        let purchase = TransactionKey(transaction, in: Self.scope)
        guard let correction = Correction(by: "key", reason: "why") else { return (kind, false) }
        switch kind {
        case "makeGrant":
            // Without an id, a grant of a new customer takes two commits.
            let grant = GrantRequest(
                id: few == 0 ? nil : "\(id)-\(few)", entitlement: "pro", environment: .production,
                from: nil, until: TestStore.day(100), why: "why", author: .init())
            _ = try await ledger.make(grant, forCustomer: id, of: Self.app, at: now)
        case "endGrant":
            _ = try await ledger.endGrant("\(id)-\(few)", ofCustomer: id, of: Self.app, by: .init(), at: now)
        case "setAttributes":
            let changes = [CustomerAttributes.Change("plan", "\(few)")]
            try await ledger.setAttributes(changes, of: id, in: Self.app, at: now)
        case "recordConsent":
            _ = try await ledger.recordConsent(few > 0, of: id, in: Self.scope, at: now)
        case "addAlias": _ = try await ledger.addAlias(other, to: id, in: Self.scope, at: now)
        case "unlinkCustomer":
            _ = try await ledger.removeAlias(other, from: id, in: Self.scope, correction, at: now)
        case "unmergeCustomer": _ = try await ledger.undoMerge(of: id, in: Self.scope, correction, at: now)
        case "deleteCustomer": _ = try await ledger.delete(id, in: Self.scope, at: now)
        case "movePurchase": _ = try await ledger.move(purchase, to: [id], correction, at: now)
        case "denyPurchase": _ = try await ledger.deny(purchase, correction, at: now)
        case "allowPurchase": _ = try await ledger.allow(purchase, correction, at: now)
        case "addWebhook":
            let endpoint = WebhookEndpoint(id: id, of: Self.app, url: "https://example.com", createdAt: now)
            _ = try await ledger.addWebhook(endpoint, fingerprint: "print", at: now)
        case "removeWebhook": _ = try await ledger.removeWebhook(id, of: Self.app, at: now)
        default:
            let token = try store.sign(TestStore.transaction(transaction))
            let document = try await store.verifier().evidence(transaction: token, at: now)
            _ = try await ledger.record([document], claimedBy: id, at: now)
            return (kind, false)
        }
        return (kind, true)
    }
}
