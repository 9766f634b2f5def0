// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Testing

@testable import PurchaseLedger

/// One line that `Tests/RuleBook/world.py --crowds` prints: an app with customers who share purchases, and what its
/// backend and its server do, in the order in which they do it.
struct RuleBookCrowd: Decodable {
    /// A step, and the members of its kind.
    struct Step: Decodable {
        enum Kind: String, Decodable {
            case record, grant, end, move, deny, allow, alias, unlink, unmerge
            /// The server publishes all changes that are due.
            case work
            case rebuild, copy, ask
        }

        var `do`: Kind
        /// What the server's clock says.
        var at: Timestamp
        var documents: [Int]?
        var claimant: String?
        var customer: String?
        var customers: [String]?
        var alias: String?
        var transaction: String?
        var environment: Open<Environment>?
        var id: String?
        var entitlement: String?
        var until: Timestamp?
        var why: String?
        /// Whether all derived facts are removed before the rebuild.
        var forgets: Bool?
    }

    var policy: ClaimPolicy
    var catalogue: RuleBookCustomer.Products
    var documents: [RuleBookCustomer.Document]
    var steps: [Step]
}

extension ClaimPolicy: Decodable {}

// MARK: - Answers

extension RuleBookCrowd {
    /// What a step came to, in the terms of `customers.py`.
    struct Answer: Encodable {
        var outcome = Outcome()
        var events: [Event] = []
        /// For each customer asked about, the answers by environment.
        var customers: [[String: CustomerAnswer]] = []
    }

    struct Outcome: Encodable {
        var outcome: String?
        var kept: [String]?
        var purchase: String?
        var owners: [String: String]?
        var isDenied: Bool?
        var ids: [String]?
        var purchases: Int?
    }

    struct Event: Encodable {
        struct Given: Encodable {
            var name: String
            var environment: String
            var until: Timestamp?
            var subscriptionGroup: String?
            var level: Int?
        }

        var kind: String
        var customer: String?
        var originalTransactionId: String?
        var grantId: String?
        var mergedCustomer: String?
        var entitlementsAfter: [Given]?
        var transactionId: String?
        var before: State?
        var after: State?

        struct State: Encodable {
            var hasAccess: Bool
            var until: Timestamp?
        }
    }

    /// An answer about a customer, with the purchase of the app.
    struct CustomerAnswer: Encodable {
        struct App: Encodable {
            var id: String?
            var version: String?
            var platform: String?
            var bought: Timestamp?
        }

        var holdings = RuleBookCustomer.Answer()
        var app: App?

        func encode(to encoder: any Encoder) throws {
            try holdings.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(app, forKey: .app)
        }

        private enum CodingKeys: CodingKey { case app }
    }

    /// Takes all steps with a ledger of its own.
    func answers(signing history: SignedHistory) async throws -> [Answer] {
        var evidence: [[Evidence]] = []
        for document in documents { evidence.append(try await document.evidence(signing: history)) }
        var run = Run(ledger: Ledger(Catalogue(catalogue), policy), evidence: evidence, history: history)
        var answers: [Answer] = []
        for step in steps { answers.append(try await run.take(step)) }
        return answers
    }
}

// MARK: - Steps

extension RuleBookCrowd {
    private struct Run {
        var ledger: Ledger
        let evidence: [[Evidence]]
        let history: SignedHistory
        private var cursor: EventCursor?
        private let correction = Correction(by: "5tnvindf", reason: "a mistake")
        private let scopes = [Environment.production, .sandbox].map {
            LedgerScope(bundleId: Facts.scope.bundleId, environment: $0)
        }

        init(ledger: Ledger, evidence: [[Evidence]], history: SignedHistory) {
            (self.ledger, self.evidence, self.history) = (ledger, evidence, history)
        }

        mutating func take(_ step: Step) async throws -> Answer {
            guard step.do != .ask else {
                var answer = Answer()
                for id in try #require(step.customers) { answer.customers.append(try await ask(id, at: step.at)) }
                return answer
            }
            return Answer(outcome: try await outcome(of: step), events: try await newEvents())
        }

        private mutating func outcome(of step: Step) async throws -> Outcome {
            switch step.do {
            case .record: return try await record(step)
            case .grant, .end: return try await grant(step)
            case .move, .deny, .allow: return try await correctPurchase(step)
            case .alias, .unlink, .unmerge: return try await changeCustomer(step)
            case .work: return try await work(at: step.at)
            case .rebuild: return try await rebuild(step)
            case .copy: return try await copy(at: step.at)
            case .ask: return Outcome()
            }
        }

        private func record(_ step: Step) async throws -> Outcome {
            let documents = try #require(step.documents).flatMap { evidence[$0] }
            let result = try await ledger.record(documents, claimedBy: step.claimant, at: step.at)
            return Outcome(kept: result.kept.map(\.name).sorted())
        }

        private func grant(_ step: Step) async throws -> Outcome {
            let (id, customer) = (try #require(step.id), try #require(step.customer))
            guard step.do == .grant else {
                let ended = try await ledger.endGrant(
                    id, ofCustomer: customer, of: Facts.scope.bundleId, by: .init(name: "Eva"), at: step.at)
                return Outcome(outcome: ended == nil ? "unknown" : "ended")
            }
            let request = GrantRequest(
                id: id, entitlement: try #require(step.entitlement), environment: try #require(step.environment?.known),
                until: step.until, why: try #require(step.why))
            switch try await ledger.make(request, forCustomer: customer, of: Facts.scope.bundleId, at: step.at) {
            case .made: return Outcome(outcome: "made")
            case .known: return Outcome(outcome: "known")
            case .refused(let refusal): return Outcome(outcome: "\(refusal)")
            }
        }

        private func correctPurchase(_ step: Step) async throws -> Outcome {
            let scope = LedgerScope(bundleId: Facts.scope.bundleId, environment: try #require(step.environment?.known))
            let key = TransactionKey(try #require(step.transaction), in: scope)
            let correction = try #require(correction)
            let corrected =
                switch step.do {
                case .deny: try await ledger.deny(key, correction, at: step.at)
                case .allow: try await ledger.allow(key, correction, at: step.at)
                default: try await ledger.move(key, to: try #require(step.customers), correction, at: step.at)
                }
            guard let corrected else { return Outcome(outcome: "unknown") }
            return Outcome(
                purchase: corrected.key.name,
                owners: Dictionary(uniqueKeysWithValues: corrected.owners.map { ($0.id, $0.reason.rawValue) }),
                isDenied: corrected.denial != nil)
        }

        private func changeCustomer(_ step: Step) async throws -> Outcome {
            let (customer, correction) = (try #require(step.customer), try #require(correction))
            if step.do == .alias {
                let alias = try #require(step.alias)
                let isKnown = try await ledger.addAlias(alias, to: customer, in: Facts.scope, at: step.at)
                return Outcome(outcome: isKnown ? nil : "unknown")
            }
            if step.do == .unlink {
                let alias = try #require(step.alias)
                let removal = try await ledger.removeAlias(
                    alias, from: customer, in: Facts.scope, correction, at: step.at)
                return Outcome(outcome: "\(removal)")
            }
            let undoing = try await ledger.undoMerge(of: customer, in: Facts.scope, correction, at: step.at)
            guard case .undone(let ids, let purchases) = undoing else { return Outcome(outcome: "\(undoing)") }
            return Outcome(outcome: "undone", ids: ids, purchases: purchases)
        }

        // MARK: The server and its operator

        private func work(at now: Timestamp) async throws -> Outcome {
            let runner = JobRunner(ledger, [ledger.grantEnds(in: scopes, now: { now })], now: { now })
            try await runner.pullBack()
            while try await runner.workOnce() {}
            while try await ledger.publishDueChanges(at: now, limit: 500) >= 500 {}
            return Outcome()
        }

        private func rebuild(_ step: Step) async throws -> Outcome {
            var forgotten: Set<ChainKey> = []
            if step.forgets == true {
                for key in try await ledger.storage.chains(.all, after: nil, limit: 1000).items {
                    forgotten.insert(key)
                    try await forgetFacts(of: key)
                }
            }
            let report = try await ledger.rebuild(by: history.verifier, at: step.at)
            let isWhole = report.faults.isEmpty && Set(report.differing) == forgotten
            return Outcome(outcome: isWhole ? "rebuilt" : "\(report)")
        }

        /// Removes everything that documents say about a purchase. No document says that it is denied.
        private func forgetFacts(of key: ChainKey) async throws {
            guard var record = try await ledger.snapshot([.chain(key)]).chains[key] else { return }
            let denial = record.chain.denial
            record.chain = Chain(key)
            record.chain.denial = denial
            try await ledger.put(record)
        }

        private mutating func copy(at now: Timestamp) async throws -> Outcome {
            let target = MemoryLedgerStorage()
            _ = try await LedgerCopy(
                from: ledger.storage, named: "the crowd", to: target, by: history.verifier
            ).run(at: now)
            ledger = Ledger(storage: target, rules: ledger.rules)
            return Outcome(outcome: "copied")
        }

        // MARK: Questions

        private func ask(_ id: String, at now: Timestamp) async throws -> [String: CustomerAnswer] {
            let environments = scopes.map(\.environment)
            let found = try await ledger.customer(
                id, of: Facts.scope.bundleId, in: Set(environments), at: now)
            return Dictionary(
                uniqueKeysWithValues: environments.map {
                    ($0.rawValue, found?[$0].map(CustomerAnswer.init) ?? CustomerAnswer())
                })
        }

        private mutating func newEvents() async throws -> [Event] {
            var events: [Event] = []
            while true {
                let page = try await ledger.events(of: Facts.scope.bundleId, after: cursor, limit: 500)
                events += page.events.map { Event($0, in: page) }
                cursor = page.next
                guard !page.events.isEmpty else { return events }
            }
        }
    }
}

extension RuleBookCrowd.CustomerAnswer {
    fileprivate init(_ answer: Ledger.CustomerAnswer) {
        holdings = RuleBookCustomer.Answer(answer)
        app = answer.app.map {
            App(
                id: $0.appTransactionId, version: $0.originalApplicationVersion,
                platform: $0.originalPlatform?.rawValue, bought: $0.purchaseDate)
        }
    }
}

extension RuleBookCrowd.Event {
    fileprivate init(_ event: LedgerEvent, in page: EventPage) {
        let content = event.content
        kind = event.kind.rawValue
        customer = page.customerId(of: event)
        originalTransactionId = event.originalTransactionId
        grantId = content?.grantId
        mergedCustomer = event.mergedCustomer.flatMap { page.formerIds[$0] }
        entitlementsAfter = content?.entitlementsAfter?.list?.map {
            Given(
                name: $0.name, environment: $0.environment.rawValue, until: $0.until,
                subscriptionGroup: $0.subscriptionGroup, level: $0.level)
        }
        transactionId = content?.transactionId
        before = content?.before.map { State(hasAccess: $0.hasAccess, until: $0.until) }
        after = content?.after.map { State(hasAccess: $0.hasAccess, until: $0.until) }
    }
}
