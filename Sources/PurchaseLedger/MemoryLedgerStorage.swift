// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Synchronization

/// A ledger in memory, for tests and simulations: it keeps every promise but that of durability.
public final class MemoryLedgerStorage: LedgerStorage {
    private let state = Mutex(State())

    public init() {}

    public func write<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerWriter) throws -> Result
    ) async throws -> Result {
        try state.withLock { state in
            let transaction = Transaction(state)
            let result = try work(transaction)
            state = transaction.state
            return result
        }
    }

    public func read<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerReader) throws -> Result
    ) async throws -> Result {
        try work(Transaction(state.withLock { $0 }))
    }

    fileprivate struct State {
        var documents: [StoredDocument] = []
        var numbers: [EvidenceID: Int] = [:]
        var chains: [ChainKey: Chain] = [:]
        var chainKeys: [TransactionKey: ChainKey] = [:]
        var reports: [ChainKey: ChainReport] = [:]
        var events: [LedgerEvent] = []
        var lastCustomer: Int64 = 0
        var ids: [Customer: [String]] = [:]
        var links: [Link] = []
        var apiKeys: [APIKey] = []
    }

    fileprivate struct Link {
        var key: ChainKey
        var customer: Customer
        var reason: LinkReason
    }

    /// Works on a copy, which takes the place of the original once all of it succeeded.
    fileprivate final class Transaction: LedgerWriter {
        var state: State

        init(_ state: State) {
            self.state = state
        }
    }
}

// MARK: - Finding

extension MemoryLedgerStorage.Transaction {
    func document(_ id: EvidenceID) -> StoredDocument? {
        state.numbers[id].map { state.documents[$0] }
    }

    func documents(after number: Int64, limit: Int) -> [StoredDocument] {
        Array(state.documents.drop { $0.number <= number }.prefix(limit))
    }

    func chain(_ key: ChainKey) -> Chain? { state.chains[key] }

    func chainKey(of transaction: TransactionKey) -> ChainKey? { state.chainKeys[transaction] }

    func report(_ key: ChainKey) -> ChainReport? { state.reports[key] }

    func chainsDue(at now: Timestamp, limit: Int) -> [ChainKey] {
        let due = state.reports.compactMap { key, report in
            report.nextChange.flatMap { $0 <= now ? ($0, key) : nil }
        }
        return due.sorted { ($0.0, $0.1.originalTransactionId) < ($1.0, $1.1.originalTransactionId) }
            .prefix(limit).map(\.1)
    }

    func customer(_ id: String, of bundleId: String) -> Customer? {
        state.ids.first { $0.key.bundleId == bundleId && $0.value.contains(id) }?.key
    }

    func ids(of customer: Customer) -> [String] { state.ids[customer] ?? [] }

    func owners(of key: ChainKey) -> [(customer: Customer, reason: LinkReason)] {
        state.links.filter { $0.key == key }.map { ($0.customer, $0.reason) }
    }

    func chains(of customer: Customer, in environment: Environment) -> [ChainKey] {
        state.links.filter { $0.customer == customer && $0.key.scope.environment == environment }.map(\.key)
    }

    func apiKey(_ id: String) -> APIKey? { state.apiKeys.first { $0.id == id } }

    func apiKeys() -> [APIKey] { state.apiKeys }

    func events(after sequence: Int64, limit: Int) -> [LedgerEvent] {
        Array(state.events.drop { $0.sequence <= sequence }.prefix(limit))
    }
}

// MARK: - Writing

extension MemoryLedgerStorage.Transaction {
    func add(_ evidence: Evidence, receivedAt: Timestamp) -> Bool {
        guard state.numbers[evidence.id] == nil else { return false }
        state.numbers[evidence.id] = state.documents.count
        state.documents.append(
            StoredDocument(
                number: Int64(state.documents.count) + 1, id: evidence.id, kind: evidence.kind, scope: evidence.scope,
                signedDate: evidence.signedDate, receivedAt: receivedAt, notification: evidence.notification,
                document: evidence.document))
        return true
    }

    func put(_ statement: TransactionStatement, in key: ChainKey) {
        state.chains[key, default: Chain(key)].merge(statement)
        state.chainKeys[TransactionKey(statement.transactionId, in: key.scope)] = key
    }

    func put(_ renewal: RenewalFact, in key: ChainKey) {
        state.chains[key, default: Chain(key)].merge(renewal)
    }

    func put(_ report: ChainReport, for key: ChainKey) {
        state.reports[key] = report
    }

    func append(_ event: LedgerEvent) {
        var event = event
        event.sequence = Int64(state.events.count) + 1
        state.events.append(event)
    }

    func addCustomer(_ id: String, of bundleId: String) -> Customer {
        state.lastCustomer += 1
        let customer = Customer(number: state.lastCustomer, bundleId: bundleId)
        state.ids[customer] = [id]
        return customer
    }

    func add(id: String, to customer: Customer) {
        state.ids[customer, default: []].append(id)
    }

    func merge(_ other: Customer, into customer: Customer) {
        state.ids[customer, default: []] += state.ids.removeValue(forKey: other) ?? []
        for link in state.links where link.customer == other { self.link(link.key, to: customer, link.reason) }
        state.links.removeAll { $0.customer == other }
    }

    func delete(_ customer: Customer) {
        state.ids[customer] = nil
        state.links.removeAll { $0.customer == customer }
    }

    func link(_ key: ChainKey, to customer: Customer, _ reason: LinkReason) {
        guard !state.links.contains(where: { $0.key == key && $0.customer == customer }) else { return }
        state.links.append(.init(key: key, customer: customer, reason: reason))
    }

    func unlink(_ key: ChainKey, from customer: Customer) {
        state.links.removeAll { $0.key == key && $0.customer == customer }
    }

    func put(_ key: APIKey) {
        if let index = state.apiKeys.firstIndex(where: { $0.id == key.id }) {
            state.apiKeys[index] = key
        } else {
            state.apiKeys.append(key)
        }
    }

    func removeFacts() {
        state.chains = [:]
        state.chainKeys = [:]
        state.reports = [:]
    }
}
