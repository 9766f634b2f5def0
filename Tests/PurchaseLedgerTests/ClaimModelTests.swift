// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import TestData
import Testing

/// Tests random claims, notifications, aliases and deletions against a model written from `docs/owners.md`.
@Suite struct ClaimModelTests {
    private static let names = ["anna", "bert", "cora"]
    private static let accounts = [
        "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11", "7e3fb204-2a7d-41e6-b58f-0c6b8e6f4a31",
        "c56a4180-65aa-42ec-a945-5fd21dec0538",
    ]
    private static let chains = ["1", "2"]

    /// A month of a subscription, as the App Store signs it.
    struct Document: Sendable {
        var chain: String
        /// Ends 30 days later.
        var day: Int
        var account: String?
        var evidence: Evidence
    }

    /// Five months of each subscription, each with one account or none, signed once for all tests.
    private static let documents = Task<[Document], any Error> {
        let signed = try SignedHistory()
        var documents: [Document] = []
        for chain in chains {
            for month in 0..<5 {
                let account = (accounts + [nil])[(month * 3 + (chain == "1" ? 0 : 1)) % 4]
                let token = try signed.transaction(
                    "\(chain)\(month)", original: chain, signed: Double(month * 30), from: Double(month * 30),
                    until: Double(month * 30 + 30)
                ) { $0.appAccountToken = account }
                documents.append(
                    Document(
                        chain: chain, day: month * 30, account: account,
                        evidence: try await signed.evidence(transaction: token)))
            }
        }
        return documents
    }

    enum Step {
        case notify(Int)
        case claim(String, [Int], limits: Bool)
        case alias(String, of: String)
        case delete(String)
    }

    /// The model: the rules in their simplest form.
    struct Model {
        struct Purchase {
            var known: Set<Int> = []
            var owners: [(person: Int, byClaim: Bool)] = []
            var isErased = false
            var changes: [Timestamp] = []
            /// Who had it before all others, once there was a dispute.
            var first: Int?
        }

        let policy: ClaimPolicy
        let documents: [Document]
        var persons: [String: Int] = [:]
        var established: Set<Int> = []
        var purchases: [String: Purchase] = [:]
        private var count = 0

        init(_ policy: ClaimPolicy, _ documents: [Document]) {
            self.policy = policy
            self.documents = documents
        }

        private mutating func person(_ id: String) -> Int {
            if let known = persons[id] { return known }
            count += 1
            persons[id] = count
            return count
        }

        /// The account of the latest month that has one.
        private func account(_ chain: String) -> String? {
            let known = (purchases[chain]?.known ?? []).map { documents[$0] }
            return known.filter { $0.account != nil }.max { $0.day < $1.day }?.account
        }

        /// Until a claim is accepted, the account of the latest month owns the subscription.
        private mutating func link(_ chain: String) {
            guard var purchase = purchases[chain], !purchase.owners.contains(where: \.byClaim) else { return }
            let holder = account(chain).map { person($0) }
            if purchase.owners.map(\.person) != [holder].compactMap(\.self) {
                purchase.owners = holder.map { [($0, false)] } ?? []
            }
            purchases[chain] = purchase
        }

        mutating func notify(_ number: Int) {
            let chain = documents[number].chain
            var purchase = purchases[chain] ?? Purchase()
            guard !purchase.isErased, purchase.known.insert(number).inserted else { return }
            purchases[chain] = purchase
            link(chain)
        }

        /// Returns the subscriptions that a refused claim leaves with their owners.
        mutating func claim(_ id: String, _ numbers: [Int], limits: Bool, at now: Timestamp) -> Set<String> {
            let claimant = person(id)
            established.insert(claimant)
            var kept: Set<String> = []
            for number in numbers {
                purchases[documents[number].chain, default: Purchase()].known.insert(number)
                purchases[documents[number].chain]?.isErased = false
            }
            for chain in Set(numbers.map { documents[$0].chain }) {
                link(chain)
                if !claim(chain, by: claimant, limits: limits, at: now) { kept.insert(chain) }
            }
            return kept
        }

        private mutating func claim(
            _ chain: String, by claimant: Int, limits: Bool, at now: Timestamp
        ) -> Bool {
            guard var purchase = purchases[chain] else { return true }
            let owners = purchase.owners.map(\.person)
            let isReturn = purchase.first == claimant
            // The first dispute: another established customer has it, or one that does not yield.
            if purchase.first == nil {
                let yields = [.accountTokenWins, .transfer, .share].contains(policy)
                let isOver = policy == .transferIfInactive && !isActive(purchase, at: now)
                let holder = owners.first(where: established.contains) ?? (yields || isOver ? nil : owners.first)
                if holder != claimant { purchase.first = holder }
                purchases[chain] = purchase
            }
            if owners.contains(claimant) { return true }
            let named = account(chain).map { person($0) }
            switch policy {
            case .accountTokenWins: if let named, named != claimant, established.contains(named) { return false }
            case .transferIfInactive: if isActive(purchase, at: now), !owners.isEmpty { return false }
            case .keep: if !owners.isEmpty { return false }
            case .transfer, .share: break
            }
            if owners.contains(where: established.contains), !isReturn {
                purchase.changes.removeAll { $0 <= Timestamp(milliseconds: now.milliseconds - 86_400_000) }
                let isExempt = !limits || policy == .accountTokenWins && named == claimant
                if !isExempt, purchase.changes.count >= 10 { return false }
                purchase.changes.append(now)
            }
            // A claim without limits is the backend's, which says whose the purchase is.
            if !limits, policy != .share, owners.contains(where: established.contains) { purchase.first = claimant }
            if policy != .share { purchase.owners = [] }
            purchase.owners.append((claimant, true))
            purchases[chain] = purchase
            return true
        }

        /// A subscription whose renewal has not arrived counts as active for another hour.
        private func isActive(_ purchase: Purchase, at now: Timestamp) -> Bool {
            let lastDay = purchase.known.map { documents[$0].day + 30 }.max() ?? 0
            return now < Facts.day(Double(lastDay) + 1.0 / 24)
        }

        /// Adds an id to a customer. If the id belonged to another customer, the two become one.
        mutating func alias(_ alias: String, of id: String) {
            let (one, other) = (person(id), persons[alias])
            established.insert(one)
            persons[alias] = one
            guard let other, other != one else { return }
            for (name, person) in persons where person == other { persons[name] = one }
            for (chain, purchase) in purchases where purchase.first == other {
                // The customer that had it first is known by a number, which is found where one of the two owns it.
                let isFound = purchase.owners.contains { [one, other].contains($0.person) }
                if isFound { purchases[chain]?.first = one }
            }
            for (chain, var purchase) in purchases {
                guard let place = purchase.owners.firstIndex(where: { $0.person == other }) else { continue }
                let byClaim = purchase.owners.remove(at: place).byClaim
                if let place = purchase.owners.firstIndex(where: { $0.person == one }) {
                    purchase.owners[place].byClaim = purchase.owners[place].byClaim || byClaim
                } else {
                    purchase.owners.append((one, byClaim))
                }
                purchases[chain] = purchase
            }
        }

        mutating func delete(_ id: String) {
            guard let person = persons[id] else { return }
            persons = persons.filter { $0.value != person }
            for (chain, var purchase) in purchases where purchase.owners.contains(where: { $0.person == person }) {
                purchase.owners.removeAll { $0.person == person }
                if purchase.first == person { purchase.first = nil }
                if purchase.owners.isEmpty {
                    purchase = Purchase()
                    purchase.isErased = true
                }
                purchases[chain] = purchase
            }
        }

        /// The ids of the owners of a subscription.
        func owners(of chain: String) -> Set<Set<String>> {
            Set((purchases[chain]?.owners ?? []).map { owner in Set(persons.filter { $0.value == owner.person }.keys) })
        }

        func owns(_ id: String) -> Bool {
            purchases.values.contains { $0.owners.contains { $0.person == persons[id] } }
        }

        func isEstablished(_ id: String) -> Bool { persons[id].map(established.contains) ?? false }
    }

    private static func step(_ model: Model, _ random: inout SeededRandom) -> Step {
        let ids = names + accounts
        let id = ids[Int.random(in: 0..<ids.count, using: &random)]
        let known = ids.filter { model.isEstablished($0) || model.owns($0) }
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<5: return .notify(Int.random(in: 0..<model.documents.count, using: &random))
        case 5 where !known.isEmpty: return .alias(id, of: known.randomElement(using: &random) ?? id)
        case 6 where !known.isEmpty: return .delete(known.randomElement(using: &random) ?? id)
        default:
            let count = Int.random(in: 1...3, using: &random)
            let numbers = (0..<count).map { _ in Int.random(in: 0..<model.documents.count, using: &random) }
            return .claim(id, numbers, limits: Int.random(in: 0..<8, using: &random) > 0)
        }
    }

    /// Takes a step, and returns the chains whose claim was refused.
    private static func take(_ step: Step, _ model: inout Model, at now: Timestamp) -> Set<String> {
        switch step {
        case .notify(let number): model.notify(number)
        case .alias(let alias, let id): model.alias(alias, of: id)
        case .delete(let id): model.delete(id)
        case .claim(let id, let numbers, let limits): return model.claim(id, numbers, limits: limits, at: now)
        }
        return []
    }

    private static func take(
        _ step: Step, _ ledger: Ledger, _ documents: [Document], at now: Timestamp
    ) async throws -> Set<String> {
        switch step {
        case .notify(let number): _ = try await ledger.record([documents[number].evidence], at: now)
        case .alias(let alias, let id): _ = try await ledger.addAlias(alias, to: id, in: Facts.scope, at: now)
        case .delete(let id): _ = try await ledger.delete(id, in: Facts.scope, at: now)
        case .claim(let id, let numbers, let limits):
            let recorded = try await ledger.record(
                numbers.map { documents[$0].evidence }, claimedBy: id, limitsClaims: limits, at: now)
            return Set(recorded.kept.map(\.originalTransactionId))
        }
        return []
    }

    @Test(arguments: Seeds.first(12, soak: 200), TestStorage.allCases)
    func `every step of a random history has the outcome that the model predicts`(
        seed: UInt64, storage: TestStorage
    ) async throws {
        var random = SeededRandom(seed: seed)
        let documents = try await Self.documents.value
        let policy = ClaimPolicy.allCases[Int(seed) % ClaimPolicy.allCases.count]
        let ledger = Ledger(
            Catalogue(products: ["month": .init(entitlements: ["pro"])]), policy, in: storage.make())
        var model = Model(policy, documents)
        // After the signing of every document, so that an erasure applies to all of them.
        var now = Facts.day(125)
        // Some histories take half a day, and some take weeks.
        let pace = [1, 100].randomElement(using: &random) ?? 1
        var trace = "\(policy), seed \(seed)"
        for _ in 0..<80 {
            now = Timestamp(
                milliseconds: now.milliseconds + Int64.random(in: 0...1_200_000, using: &random) * Int64(pace))
            let step = Self.step(model, &random)
            trace += "\n\(now.iso8601) \(step)"
            let expected = Self.take(step, &model, at: now)
            let found = try await Self.take(step, ledger, documents, at: now)
            #expect(found == expected, "\(trace)")
            for chain in Self.chains {
                let owners = try await ledger.owners(ChainKey(chain, in: Facts.scope))
                #expect(Set(owners.map { Set($0) }) == model.owners(of: chain), "\(chain) after \(trace)")
            }
            for id in Self.names + Self.accounts {
                let isEstablished = try await ledger.isEstablished(id) ?? false
                #expect(isEstablished == model.isEstablished(id), "\(id) after \(trace)")
            }
            guard found == expected else { return }
        }
    }
}
