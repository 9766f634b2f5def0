// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Synchronization

/// A ledger in memory, for tests and simulations: it keeps every promise but that of durability.
public final class MemoryLedgerStorage: LedgerStorage {
    private let state = Mutex(State())

    /// An empty ledger.
    public init() {}

    public func write<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerWriter) throws -> Result
    ) async throws -> Result {
        try state.withLock { state in
            // Handed over and not copied, so that a write costs what it changes and not what there is.
            let transaction = Transaction(state)
            state = State()
            defer { state = transaction.state }
            do {
                return try work(transaction)
            } catch {
                transaction.undo()
                throw error
            }
        }
    }

    public func read<Result: Sendable>(
        _ work: @escaping @Sendable (any LedgerReader) throws -> Result
    ) async throws -> Result {
        try work(Transaction(state.withLock { $0 }))
    }

    fileprivate struct State {
        /// By number, which starts with 1; `nil` where one was forgotten.
        var documents: [StoredDocument?] = []
        var mentions: [EvidenceID: Set<ChainKey>] = [:]
        var forgotten: [ChainKey: Timestamp] = [:]
        /// In the order in which they became known; `nil` where one was forgotten.
        var order: [ChainKey?] = []
        var numbers: [EvidenceID: Int] = [:]
        var chains: [ChainKey: Chain] = [:]
        var chainKeys: [TransactionKey: Set<ChainKey>] = [:]
        var reports: [ChainKey: ChainReport] = [:]
        var events: [LedgerEvent] = []
        var lastCustomer: Int64 = 0
        var customers: [CustomerID: Customer] = [:]
        var ids: [Customer: [String]] = [:]
        var established: Set<Customer> = []
        var owners: [ChainKey: [Owner]] = [:]
        var ownerChanges: [ChainKey: [Timestamp]] = [:]
        var holdings: [Customer: [ChainKey]] = [:]
        var apiKeys: [APIKey] = []
    }

    fileprivate struct CustomerID: Hashable {
        var id: String
        var bundleId: String
    }

    fileprivate struct Owner {
        var customer: Customer
        var reason: LinkReason
    }

    /// Works on the state, and remembers what it was.
    fileprivate final class Transaction: LedgerWriter {
        var state: State
        private var steps: [(inout State) -> Void] = []

        init(_ state: State) {
            self.state = state
        }

        /// Takes back all that was done.
        func undo() {
            while let step = steps.popLast() { step(&state) }
        }

        func set<Value>(_ place: WritableKeyPath<State, Value>, to value: Value) {
            let old = state[keyPath: place]
            steps.append { $0[keyPath: place] = old }
            state[keyPath: place] = value
        }

        func append<Element>(_ element: Element, to list: WritableKeyPath<State, [Element]>) {
            steps.append { $0[keyPath: list].removeLast() }
            state[keyPath: list].append(element)
        }
    }
}

// MARK: - Finding

extension MemoryLedgerStorage.Transaction {
    func document(_ source: Provenance) -> StoredDocument? {
        let named = state.numbers[source.evidence].flatMap { state.documents[$0] }
        return named?.signedDate == source.date ? named : nil
    }

    func documents(after number: Int64, limit: Int) -> [StoredDocument] {
        // The first has number 1.
        Array(state.documents.dropFirst(Int(clamping: max(0, number))).lazy.compactMap(\.self).prefix(max(0, limit)))
    }

    func documentNumbers(after number: Int64, limit: Int) -> [Int64] {
        documents(after: number, limit: limit).map(\.number)
    }

    func lastNotification(among count: Int) -> Timestamp? {
        state.documents.lazy.compactMap(\.self).suffix(max(0, count)).last { $0.kind == .notification }?.receivedAt
    }

    func chainKeys(after number: Int64, limit: Int) -> [(number: Int64, key: ChainKey)] {
        let start = Int(clamping: max(0, number))
        let known = state.order.enumerated().dropFirst(start).lazy.compactMap { place, key in
            key.map { (number: Int64(place) + 1, key: $0) }
        }
        return Array(known.prefix(max(0, limit)))
    }

    func chain(_ key: ChainKey) -> Chain? { state.chains[key] }

    func chainKey(of transaction: TransactionKey) -> ChainKey? {
        (state.chainKeys[transaction] ?? []).max { left, right in
            guard let left = newest(transaction, in: left) else { return true }
            guard let right = newest(transaction, in: right) else { return false }
            return left < right
        }
    }

    private func newest(_ transaction: TransactionKey, in key: ChainKey) -> Provenance? {
        let fact = state.chains[key]?.transactions[transaction.transactionId]
        return [fact?.signed, fact?.receipt].compactMap { $0?.provenance }.max()
    }

    func report(_ key: ChainKey) -> ChainReport? { state.reports[key] }

    func chainsDue(at now: Timestamp, limit: Int) -> [ChainKey] {
        let due = state.reports.compactMap { key, report in
            report.nextChange.flatMap { $0 <= now ? ($0, key) : nil }
        }
        return due.sorted { ($0.0, $0.1.words) < ($1.0, $1.1.words) }.prefix(max(0, limit)).map(\.1)
    }

    func customer(_ id: String, of bundleId: String) -> Customer? {
        state.customers[.init(id: id, bundleId: bundleId)]
    }

    func ids(of customer: Customer) -> [String] { state.ids[customer] ?? [] }

    func isEstablished(_ customer: Customer) -> Bool { state.established.contains(customer) }

    func owners(of key: ChainKey) -> [(customer: Customer, reason: LinkReason)] {
        (state.owners[key] ?? []).map { ($0.customer, $0.reason) }
    }

    func chains(of customer: Customer, in environment: Environment) -> [ChainKey] {
        (state.holdings[customer] ?? []).filter { $0.scope.environment == environment }
    }

    func ownerChanges(of key: ChainKey) -> [Timestamp] { state.ownerChanges[key] ?? [] }

    func apiKey(_ id: String) -> APIKey? { state.apiKeys.first { $0.id == id } }

    func apiKeys() -> [APIKey] { state.apiKeys }

    func events(after sequence: Int64, limit: Int) -> [LedgerEvent] {
        Array(state.events.dropFirst(Int(clamping: max(0, sequence))).prefix(max(0, limit)))
    }
}

extension ChainKey {
    /// Something to sort by, so that a simulation comes out the same every time.
    fileprivate var words: String { "\(originalTransactionId) \(scope.bundleId) \(scope.environment)" }
}

// MARK: - Documents, facts and events

extension MemoryLedgerStorage.Transaction {
    func add(_ evidence: Evidence, receivedAt: Timestamp) -> Bool {
        guard state.numbers[evidence.id] == nil else { return false }
        set(\.numbers[evidence.id], to: state.documents.count)
        let document = StoredDocument(
            number: Int64(state.documents.count) + 1, id: evidence.id, kind: evidence.kind, scope: evidence.scope,
            signedDate: evidence.signedDate, receivedAt: receivedAt, notification: evidence.notification,
            document: evidence.document)
        append(document, to: \.documents)
        set(\.mentions[evidence.id], to: Set(evidence.chains))
        return true
    }

    func put(_ statement: TransactionStatement, in key: ChainKey) {
        var chain = state.chains[key] ?? Chain(key)
        chain.merge(statement)
        set(chain)
        let transaction = TransactionKey(statement.transactionId, in: key.scope)
        set(\.chainKeys[transaction], to: (state.chainKeys[transaction] ?? []).union([key]))
    }

    func put(_ renewal: RenewalFact, in key: ChainKey) {
        var chain = state.chains[key] ?? Chain(key)
        chain.merge(renewal)
        set(chain)
    }

    private func set(_ chain: Chain) {
        if state.chains[chain.key] == nil { append(chain.key, to: \.order) }
        set(\.chains[chain.key], to: chain)
    }

    func put(_ report: ChainReport, for key: ChainKey) {
        set(\.reports[key], to: report)
    }

    func append(_ event: LedgerEvent) {
        var event = event
        event.sequence = Int64(state.events.count) + 1
        append(event, to: \.events)
    }

    func removeFacts(of key: ChainKey) {
        guard let chain = state.chains[key] else { return }
        for id in chain.transactions.keys {
            let transaction = TransactionKey(id, in: key.scope)
            let others = (state.chainKeys[transaction] ?? []).subtracting([key])
            set(\.chainKeys[transaction], to: others.isEmpty ? nil : others)
        }
        set(\.chains[key], to: nil)
        if let place = state.order.lastIndex(of: key) { set(\.order[place], to: nil) }
    }

    func forgottenAt(_ key: ChainKey) -> Timestamp? { state.forgotten[key] }

    func remember(_ key: ChainKey) {
        if state.forgotten[key] != nil { set(\.forgotten[key], to: nil) }
    }

    func forget(_ keys: [ChainKey], at now: Timestamp) -> (forgotten: Int, kept: Int) {
        for key in keys {
            removeFacts(of: key)
            set(\.reports[key], to: nil)
            for owner in owners(of: key) { unlink(key, from: owner.customer) }
            set(\.ownerChanges[key], to: nil)
            set(\.forgotten[key], to: now)
        }
        let mentioned = Set(keys.flatMap { key in state.mentions.filter { $0.value.contains(key) }.keys })
        let unwanted = mentioned.filter { id in (state.mentions[id] ?? []).allSatisfy { state.forgotten[$0] != nil } }
        for id in unwanted {
            if let place = state.numbers[id] { set(\.documents[place], to: nil) }
            set(\.numbers[id], to: nil)
            set(\.mentions[id], to: nil)
        }
        return (unwanted.count, mentioned.count - unwanted.count)
    }

    func proveWritable() {}
}

// MARK: - Customers

extension MemoryLedgerStorage.Transaction {
    func addCustomer(_ id: String, of bundleId: String) -> Customer {
        set(\.lastCustomer, to: state.lastCustomer + 1)
        let customer = Customer(number: state.lastCustomer, bundleId: bundleId)
        add(id: id, to: customer)
        return customer
    }

    func add(id: String, to customer: Customer) {
        set(\.customers[.init(id: id, bundleId: customer.bundleId)], to: customer)
        set(\.ids[customer], to: ids(of: customer) + [id])
    }

    func establish(_ customer: Customer) {
        if !isEstablished(customer) { set(\.established, to: state.established.union([customer])) }
    }

    func merge(_ other: Customer, into customer: Customer) {
        if isEstablished(other) { establish(customer) }
        let ids = ids(of: other)
        let links = (state.holdings[other] ?? []).map { key in
            (key, owners(of: key).first { $0.customer == other }?.reason)
        }
        delete(other)
        for id in ids { add(id: id, to: customer) }
        for case (let key, let reason?) in links {
            link(key, to: customer, reason)
            guard reason == .claim else { continue }
            let owners = state.owners[key] ?? []
            set(
                \.owners[key],
                to: owners.map { $0.customer == customer ? .init(customer: customer, reason: .claim) : $0 })
        }
    }

    func delete(_ customer: Customer) {
        for id in ids(of: customer) { set(\.customers[.init(id: id, bundleId: customer.bundleId)], to: nil) }
        set(\.ids[customer], to: nil)
        if isEstablished(customer) { set(\.established, to: state.established.subtracting([customer])) }
        for key in state.holdings[customer] ?? [] { unlink(key, from: customer) }
    }

    func link(_ key: ChainKey, to customer: Customer, _ reason: LinkReason) {
        let owners = state.owners[key] ?? []
        guard !owners.contains(where: { $0.customer == customer }) else { return }
        set(\.owners[key], to: owners + [.init(customer: customer, reason: reason)])
        set(\.holdings[customer], to: (state.holdings[customer] ?? []) + [key])
    }

    func put(ownerChanges times: [Timestamp], of key: ChainKey) {
        set(\.ownerChanges[key], to: times)
    }

    func unlink(_ key: ChainKey, from customer: Customer) {
        set(\.owners[key], to: state.owners[key]?.filter { $0.customer != customer })
        set(\.holdings[customer], to: state.holdings[customer]?.filter { $0 != key })
    }
}

// MARK: - API keys

extension MemoryLedgerStorage.Transaction {
    func put(_ key: APIKey) {
        set(\.apiKeys, to: state.apiKeys.filter { $0.id != key.id } + [key])
    }
}
