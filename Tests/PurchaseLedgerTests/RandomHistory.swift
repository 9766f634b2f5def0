// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger

/// Random steps of a ledger: documents about two subscriptions, one of which gets another id, and about other
/// purchases, some contradictory, in any order, duplicated and late; claims, aliases and deletions; and clocks that are
/// set back.
///
/// No simulated App Store invents the documents, since none contradicts itself or shares a chain between apps'
/// customers so often; they need no signatures either.
struct RandomHistory {
    static let catalogue = Catalogue(products: [
        "month": .init(entitlements: ["pro"], level: 2), "high": .init(entitlements: ["pro"], level: 1),
        "coins": .init(entitlements: []), "book": .init(entitlements: ["book"]),
        "season": .init(entitlements: ["season"], duration: .seconds(12 * 86_400)),
    ])
    static let keys = ["1", "2", "3", "coins", "book", "season"].map { ChainKey($0, in: Facts.scope) }
    static let customers = Set(["anna", "bert", "a", "b"].map { CustomerID($0, of: Facts.scope.bundleId) })

    enum Step {
        case record([Int], claimedBy: String?)
        case alias(String, of: String)
        case delete(String)
        case wait
    }

    private(set) var now = Facts.day(-1)
    /// Whether no earlier step had a later time.
    private(set) var isLatest = true
    /// The steps so far, as text.
    private(set) var trace: String
    private var latest = Facts.day(-1)
    private var random: SeededRandom
    private var documents: [Evidence] = []
    private let storage: TestStorage
    private let rules: LedgerRules
    private let counts: ClosedRange<Int>

    /// - Parameter counts: How many documents are recorded together.
    init(_ seed: UInt64, documents counts: ClosedRange<Int> = 1...3) {
        self.counts = counts
        random = SeededRandom(seed: seed)
        storage = TestStorage.allCases[Int(seed % 2)]
        rules = LedgerRules(
            catalogues: [Facts.scope.bundleId: Self.catalogue],
            claimPolicy: ClaimPolicy.allCases.randomElement(using: &random) ?? .transfer,
            keepsEvidence: Int.random(in: 0..<4, using: &random) == 0, asksAppStore: [Facts.scope.bundleId])
        trace = "\(storage) \(rules.claimPolicy), keeps evidence: \(rules.keepsEvidence)"
        for number in 0..<50 { documents.append(document(number)) }
    }

    func ledger() -> Ledger { Ledger(storage: storage.make(), rules: rules) }

    // MARK: Steps

    mutating func next() -> Step {
        let milliseconds: Int64 =
            chance(10)
            ? -Int64.random(in: 0...172_800_000, using: &random) : .random(in: 0...86_400_000, using: &random)
        now = Timestamp(milliseconds: now.milliseconds + milliseconds)
        isLatest = now >= latest
        latest = max(now, latest)
        let step = step()
        trace += "\n\(now.iso8601) \(step)"
        if case .record(let numbers, _) = step {
            for number in numbers { trace += "\n    \(documents[number].kind) \(documents[number].words)" }
        }
        return step
    }

    private mutating func step() -> Step {
        switch Int.random(in: 0..<20, using: &random) {
        case 0: return .alias(customer(), of: customer())
        case 1: return .delete(customer())
        case 2, 3: return .wait
        default:
            let count = Int.random(in: counts, using: &random)
            let numbers = (0..<count).map { _ in Int.random(in: 0..<documents.count, using: &random) }
            return .record(numbers, claimedBy: chance(3) ? customer() : nil)
        }
    }

    func take(_ step: Step, _ ledger: Ledger) async throws {
        switch step {
        case .record(let numbers, let claimant):
            _ = try await ledger.record(numbers.map { documents[$0] }, claimedBy: claimant, at: now)
        case .alias(let alias, let id): _ = try await ledger.addAlias(alias, to: id, in: Facts.scope, at: now)
        case .delete(let id): _ = try await ledger.delete(id, in: Facts.scope, at: now)
        case .wait: break
        }
    }

    private mutating func chance(_ count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    private mutating func customer() -> String {
        Self.customers.map(\.id).sorted().randomElement(using: &random) ?? "anna"
    }

    // MARK: Documents

    private mutating func document(_ number: Int) -> Evidence {
        let signed = Double.random(in: 0..<40, using: &random)
        let kinds: [Evidence.Kind] = [.transaction, .transaction, .notification, .notification, .receipt]
        let kind = kinds.randomElement(using: &random) ?? .transaction
        var statements = [statement(signed, kind)]
        var renewals: [RenewalFact] = []
        if kind == .receipt { while !chance(3) { statements.append(statement(signed, kind)) } }
        let subscription = statements[0].originalTransactionId
        if kind == .notification, ["1", "2", "3"].contains(subscription) {
            renewals.append(renewal(subscription, signed))
        }
        // Some renewal info arrives without its transaction.
        if !renewals.isEmpty, chance(5) { statements = [] }
        let type = ["NEW", "CONSUMPTION_REQUEST", "REFUND_DECLINED"].randomElement(using: &random) ?? ""
        let about = Evidence.Notification(uuid: "\(number)", type: chance(5) ? type : "DID_RENEW", subtype: nil)
        return Evidence(
            kind, Array("e30.\(number).".utf8), Facts.scope, chance(20) ? nil : Facts.day(signed),
            notification: kind == .notification ? about : nil,
            // Receipts name no predecessor.
            predecessors: kind != .receipt && subscription == "3" ? ["3": "2"] : [:]
        ) { provenance in
            (
                statements.map { statement in
                    var statement = statement
                    (statement.provenance, statement.knownSince) = (provenance, provenance.date)
                    return statement
                },
                renewals.map { renewal in
                    var renewal = renewal
                    renewal.provenance = provenance
                    return renewal
                }
            )
        }
    }

    private mutating func statement(_ signed: Double, _ kind: Evidence.Kind) -> TransactionStatement {
        var statement = chance(3) ? oneTime(signed) : period(signed)
        if chance(4) { statement.revocation = .init(date: Facts.day(signed)) }
        if kind == .receipt {
            statement.source = Open(.receipt)
            (statement.isUpgraded, statement.appAccountToken, statement.subscriptionGroup) = (false, nil, nil)
        }
        return statement
    }

    /// A period of five days. Some are extended or upgraded, begin in the middle of another, or have two transaction
    /// ids.
    private mutating func period(_ signed: Double) -> TransactionStatement {
        let chain = ["1", "1", "2", "3"].randomElement(using: &random) ?? "1"
        let number = Int.random(in: 0..<8, using: &random)
        let start = Double(number) * 5 + (chance(4) ? 2 : 0)
        let token = [nil, "a", "a", "b"].randomElement(using: &random) ?? nil
        let (isUpgraded, hasLine, isExtended) = (chance(6), chance(4), chance(6))
        let reason = [TransactionReason.renewal, .purchase].randomElement(using: &random)
        return Facts.transaction(
            "\(chain)-\(number)-\(start)", original: chain, product: chance(3) ? "high" : "month", signed: signed,
            from: start, until: start + (isExtended ? 8 : 5)
        ) {
            ($0.isUpgraded, $0.appAccountToken) = (isUpgraded, token)
            $0.webOrderLineItemId = hasLine ? "\(chain)-\(number)" : nil
            $0.transactionReason = reason.map { Open($0) }
        }
    }

    private mutating func oneTime(_ signed: Double) -> TransactionStatement {
        let kinds: [(String, ProductType)] = [
            ("coins", .consumable), ("book", .nonConsumable), ("season", .nonRenewingSubscription),
        ]
        let (product, type) = kinds.randomElement(using: &random) ?? kinds[0]
        let start = Int.random(in: 0..<3, using: &random) * 10
        let token = [nil, "a", "b"].randomElement(using: &random) ?? nil
        return Facts.transaction(
            "\(product)-\(start)", original: product, product: product, signed: signed, from: Double(start), until: nil,
            type: type, group: nil
        ) { $0.appAccountToken = token }
    }

    private mutating func renewal(_ chain: String, _ signed: Double) -> RenewalFact {
        var renewal = Facts.renewal(
            original: chain, signed: signed, renews: .random(using: &random),
            retry: [nil, true, true, false].randomElement(using: &random) ?? nil,
            grace: [nil, signed + 3].randomElement(using: &random) ?? nil,
            intent: [nil, nil, .billingError, .noConsentToPriceIncrease].randomElement(using: &random) ?? nil)
        renewal.terms.autoRenewProductId = ["month", "month", "high"].randomElement(using: &random)
        let statuses: [PriceIncreaseStatus?] = [nil, nil, .pending, .agreed]
        renewal.terms.priceIncreaseStatus = (statuses.randomElement(using: &random) ?? nil).map { Open($0) }
        renewal.commitmentWillRenew = [nil, true, false].randomElement(using: &random) ?? nil
        return renewal
    }
}

extension Evidence {
    fileprivate var words: String {
        let said = statements.map { statement in
            "\(statement.transactionId) \(statement.productId)"
                + (statement.revocation == nil ? "" : " revoked") + (statement.isUpgraded ? " upgraded" : "")
        }
        let renewed = renewals.map { "renews \($0.willRenew as Any) retry \($0.isInBillingRetry)" }
        return "signed \(signedDate?.iso8601 ?? "never"): \((said + renewed).joined(separator: ", "))"
    }
}
