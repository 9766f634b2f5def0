// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import PurchaseLedgerTesting
import TestWorld

/// The storages for tests. A test must have the same outcome with each.
enum TestStorage: CaseIterable {
    case memory
    /// Makes every decision twice.
    case unsteady

    func make() -> any LedgerStorage {
        switch self {
        case .memory: MemoryLedgerStorage()
        case .unsteady: UnsteadyStorage(around: MemoryLedgerStorage())
        }
    }
}

/// Shorthands with which tests read a ledger.
extension Ledger {
    init(
        _ catalogue: Catalogue, _ policy: ClaimPolicy = .accountTokenWins,
        in storage: any LedgerStorage = MemoryLedgerStorage()
    ) {
        self.init(
            storage: storage, rules: LedgerRules(catalogues: [Facts.scope.bundleId: catalogue], claimPolicy: policy))
    }

    func snapshot(_ keys: some Sequence<LedgerKey>) async throws -> LedgerSnapshot {
        try await storage.load(LedgerQuery(keys))
    }

    /// All events so far, except those about payments.
    func events() async throws -> EventPage { try await events { !$0 } }

    /// All events about payments so far.
    func payments() async throws -> [LedgerEvent] { try await events { $0 }.events }

    private func events(where isWanted: (_ isAboutPayment: Bool) -> Bool) async throws -> EventPage {
        var page = try await events(of: Facts.scope.bundleId, limit: 10_000)
        page.events.removeAll { !isWanted($0.kind.known?.isAboutPayment == true) }
        return page
    }

    /// All events so far, except those about payments, as text: kind, transaction and, unless `customers` is false, the
    /// first id of the customer. Links have no transaction here.
    func words(customers: Bool = true) async throws -> [String] {
        let page = try await events()
        return page.events.map { event in
            let customer = customers ? event.customer.flatMap { page.customerIds[$0] } : nil
            let isLink = event.kind == .linked || event.kind == .unlinked
            let transaction = isLink ? nil : event.content?.transactionId
            return [event.kind.rawValue, transaction, customer].compactMap { $0 }.joined(separator: " ")
        }
    }

    /// The ids of each owner of a chain.
    func owners(_ key: ChainKey = Facts.key) async throws -> [[String]] {
        let snapshot = try await storage.load(LedgerQuery([.chain(key)], owners: true))
        return snapshot.chains[key]?.owners.compactMap { snapshot.customers[$0.customer]?.ids } ?? []
    }

    /// Whether a customer is established, not only named by a document; `nil` if there is no such customer.
    func isEstablished(_ id: String) async throws -> Bool? {
        let id = CustomerID(id, of: Facts.scope.bundleId)
        return try await snapshot([.customerID(id)]).customer(id)?.isEstablished
    }

    func document(_ name: Provenance) async throws -> StoredDocument? { try await documents([name])[name] }

    /// All documents.
    func documents() async throws -> [StoredDocument] {
        let page = try await storage.documents(.all, after: nil, limit: 1000)
        precondition(page.next == nil, "A test has more than a page of documents")
        return page.items
    }

    /// Replaces a chain without applying any rules.
    func put(_ record: ChainRecord) async throws {
        try await LongHistory.put(record, into: storage)
    }
}
