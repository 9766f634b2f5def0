// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestData
import TestWorld
import Testing

/// Tests that every answer about signed documents is the same, whatever their order, and however often or late they
/// arrive.
@Suite struct SignedOrderTests {
    /// How documents arrive.
    private enum Delivery: CaseIterable {
        case backwards
        case shuffled
        /// Each document arrives up to three times, together with others.
        case doubledInBatches
        /// Some arrive after all others.
        case late

        func batches(_ documents: [Evidence], using random: inout SeededRandom) -> [[Evidence]] {
            switch self {
            case .backwards: return documents.reversed().map { [$0] }
            case .shuffled: return documents.shuffled(using: &random).map { [$0] }
            case .doubledInBatches:
                let again = documents.filter { _ in Bool.random(using: &random) }
                let all = (documents + again + again.filter { _ in Bool.random(using: &random) })
                var rest = all.shuffled(using: &random)[...]
                var batches: [[Evidence]] = []
                while !rest.isEmpty {
                    let count = Int.random(in: 1...7, using: &random)
                    batches.append(Array(rest.prefix(count)))
                    rest = rest.dropFirst(count)
                }
                return batches
            case .late:
                var (punctual, held): ([Evidence], [Evidence]) = ([], [])
                for document in documents {
                    if Int.random(in: 0..<3, using: &random) == 0 {
                        held.append(document)
                    } else {
                        punctual.append(document)
                    }
                }
                return (punctual + held).map { [$0] }
            }
        }
    }

    @Test(arguments: Seeds.blocks(8, of: 4, soak: 1000))
    func `a history that is shuffled, repeated or partly late leads to the same answers`(
        seeds: [UInt64]
    ) async throws {
        for seed in seeds {
            var random = SeededRandom(seed: ~seed)
            let history = try await RandomHistory(seed: seed, length: Int.random(in: 1...60, using: &random))
            let expected = try await Self.answers(to: history, arriving: history.documents.map { [$0] }, &random)
            for delivery in Delivery.allCases {
                let batches = delivery.batches(history.documents, using: &random)
                let found = try await Self.answers(to: history, arriving: batches, &random)
                #expect(found.differences(from: expected) == [], "seed \(seed), \(delivery)")
            }
        }
    }

    @Test(arguments: Seeds.first(3, soak: 20))
    func `every order of a small history leads to the same answers`(seed: UInt64) async throws {
        var random = SeededRandom(seed: ~seed)
        let history = try await RandomHistory(seed: seed, length: Seeds.isSoak ? 5 : 4)
        let expected = try await Self.answers(to: history, arriving: history.documents.map { [$0] }, &random)
        var count = 0
        for order in Self.permutations(of: Array(history.documents.indices)) {
            count += 1
            let batches = order.map { [history.documents[$0]] }
            let found = try await Self.answers(to: history, arriving: batches, &random)
            #expect(found.differences(from: expected) == [], "seed \(seed), order \(order)")
        }
        #expect(count == (1...history.documents.count).reduce(1, *))
    }

    private static func permutations(of list: [Int]) -> [[Int]] {
        guard list.count > 1 else { return [list] }
        return list.flatMap { first in permutations(of: list.filter { $0 != first }).map { [first] + $0 } }
    }

    @Test(.takesLong)
    func `the histories contain every kind of document`() async throws {
        var (types, kinds, ties, statuses): (Set<String>, Set<Evidence.Kind>, Int, Set<SubscriptionState.Status>) = (
            [], [], 0, []
        )
        var groups = Set<String>()
        // None of these histories ends in a grace period, and only then does its ledger show one; FeedTests has it.
        let wanted = Set(SubscriptionState.Status.allCases).subtracting([.billingGrace])
        // Few histories end while a charge fails, so more follow until one does.
        for seed in 0..<UInt64(200) where seed < 20 || !statuses.isSuperset(of: wanted) {
            let history = try await RandomHistory(seed: seed, length: 60)
            for document in history.documents {
                kinds.insert(document.kind)
                if let type = document.notification?.type { types.insert(type) }
                groups.formUnion(document.statements.compactMap(\.subscriptionGroup))
            }
            // Counts the instants at which several documents about one transaction were signed.
            let statements = history.documents.flatMap(\.statements)
            let instants = Dictionary(grouping: statements) { [$0.transactionId, "\($0.provenance.signedDate)"] }
            ties += instants.values.count { Set($0.map(\.provenance.digest)).count > 1 }
            var random = SeededRandom(seed: seed)
            let answers = try await Self.answers(to: history, arriving: [history.documents], &random)
            statuses.formUnion(answers.states.values.joined().compactMap { $0?.status })
        }
        #expect(kinds == [.transaction, .notification, .receipt])
        #expect(types.count >= 20)
        #expect(ties >= 20)
        #expect(groups == ["21000001", "21000002"])
        #expect(statuses.isSuperset(of: wanted), "Never: \(wanted.subtracting(statuses))")
    }

    // MARK: - Recording and asking

    /// Records the batches in a new ledger, publishes due changes in between, and returns all answers.
    private static func answers(
        to history: RandomHistory, arriving batches: [[Evidence]], _ random: inout SeededRandom
    ) async throws -> Answers {
        let storage = MemoryLedgerStorage()
        let ledger = Ledger(
            storage: storage,
            rules: LedgerRules(catalogues: [RandomHistory.bundleId: RandomHistory.catalogue]))
        var now = history.start
        for batch in batches {
            now = Timestamp(milliseconds: now.milliseconds + Int64.random(in: 0...3 * 86_400_000, using: &random))
            _ = try await ledger.record(batch, at: now)
            if Bool.random(using: &random) { _ = try await ledger.publishDueChanges(at: now) }
        }
        return try await Answers(ledger, in: storage, about: history)
    }
}

/// All answers about a history.
private struct Answers: Sendable {
    var chains: [ChainKey: Chain] = [:]
    var chainKeys: [TransactionKey: ChainKey] = [:]
    var owners: [ChainKey: [String]] = [:]
    /// The states of subscriptions at several instants.
    var states: [ChainKey: [SubscriptionState?]] = [:]
    /// The holdings by account and environment, at several instants; `nil` if the account is unknown.
    var holdings: [String: [Holdings?]] = [:]
    /// The responses of the server, by path.
    var served: [String: String] = [:]

    init(_ ledger: Ledger, in storage: any LedgerStorage, about history: RandomHistory) async throws {
        let keys = Set(
            history.documents.flatMap { document in
                document.statements.map { ChainKey($0.chainName, in: document.scope) }
                    + document.renewals.map { ChainKey($0.chainName, in: document.scope) }
            })
        let transactions = Set(
            history.documents.flatMap { document in
                document.statements.map { TransactionKey($0.transactionId, in: document.scope) }
            })
        let (start, length) = (history.start.milliseconds, history.end.milliseconds - history.start.milliseconds)
        let instants =
            [0, 3, 6, 9].map { Timestamp(milliseconds: start + length / 10 * $0) }
            + [history.end, history.end.advanced(by: .seconds(5 * 86_400))]

        let names = keys.map(LedgerKey.chain) + transactions.map(LedgerKey.transaction)
        let snapshot = try await storage.load(LedgerQuery(names, owners: true))
        (chains, chainKeys) = (snapshot.chains.mapValues(\.chain), snapshot.transactions)
        owners = snapshot.chains.mapValues { record in
            record.owners.flatMap { snapshot.customers[$0.customer]?.ids ?? [] }.sorted()
        }
        states = chains.mapValues { chain in instants.map { chain.subscription(Catalogue(), at: $0) } }
        for account in history.accounts {
            for environment in [AppStoreModel.Environment.production, .sandbox] {
                let scope = LedgerScope(bundleId: RandomHistory.bundleId, environment: environment)
                var found: [Holdings?] = []
                for instant in instants {
                    found.append(try await ledger.holdings(of: account, in: scope, at: instant))
                }
                holdings["\(account) \(environment)"] = found
            }
        }
        try await ask(ledger, about: history)
    }

    private mutating func ask(_ ledger: Ledger, about history: RandomHistory) async throws {
        var random = SeededRandom(seed: 1)
        let (key, text) = APIKey.make(
            name: "test", role: .server, bundleId: RandomHistory.bundleId, at: history.end, using: &random)
        try await ledger.put(key)
        let verifier = try RandomHistory.store.get().verifier()
        let server = ServerApplication(
            ledger: LedgerService(ledger: ledger, verifier: verifier), requestSeed: 1, now: { history.end },
            logger: .quiet)
        served = try await checkedApplication(of: server).test(.router) { client in
            var served: [String: String] = [:]
            for member in ["", #","exclude-old-transactions":true"#] {
                let body = #"{"receipt-data":"\#(Base64.encode(history.receipt))"\#(member)}"#
                let response = try await client.execute(
                    uri: "/verifyReceipt", method: .post, body: ByteBuffer(string: body))
                served["/verifyReceipt \(member)"] = String(buffer: response.body)
            }
            for account in history.accounts {
                let response = try await client.execute(
                    uri: "/v1/customers/\(account)", method: .get, headers: [.authorization: "Bearer \(text)"])
                served["/v1/customers/\(account)"] = String(buffer: response.body)
            }
            return served
        }
        #expect(served["/verifyReceipt "]?.hasSuffix(#""status":0}"#) == true)
    }

    /// The differences, as text.
    func differences(from other: Answers) -> [String] {
        differences("facts", chains, other.chains) + differences("chain", chainKeys, other.chainKeys)
            + differences("owners", owners, other.owners) + differences("states", states, other.states)
            + differences("holdings", holdings, other.holdings) + differences("answer", served, other.served)
    }

    private func differences<Key, Value: Equatable>(
        _ name: String, _ left: [Key: Value], _ right: [Key: Value]
    ) -> [String] {
        Set(left.keys).union(right.keys).filter { left[$0] != right[$0] }.map { key in
            let texts = [left[key], right[key]].map { $0.map { "\($0)" } ?? "none" }
            // The texts, from 40 characters before the first difference.
            let same = zip(texts[0], texts[1]).prefix { $0 == $1 }.count
            let parts = texts.map { String($0.dropFirst(max(0, same - 40)).prefix(160)) }
            return "\(name) of \(key): …\(parts[0])… and not …\(parts[1])…"
        }
    }
}
