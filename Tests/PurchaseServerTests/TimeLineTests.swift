// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseServer
import TestData
import TestWorld
import Testing

@testable import PurchaseLedger

/// Tests the time lines of random lives against the ledger's answers.
@Suite struct TimeLineTests {
    static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    /// The customers of a world, each in a ledger of its own, with all that the App Store knows at the end.
    struct Life {
        let ledger: Ledger
        let story: CustomerStory
        let now: Timestamp

        init(of name: String, in world: World) async throws {
            now = world.now
            var products: [String: Catalogue.Product] = [:]
            for id in ["gold.month", "gold.year", "silver.month", "silver.week"] {
                products[id] = .init(entitlements: ["pro"], level: id.hasPrefix("gold") ? 1 : 2)
            }
            products["book"] = .init(entitlements: ["book"])
            products["season"] = .init(entitlements: ["season"], duration: .seconds(20 * 86_400))
            let catalogue = Catalogue(products: products)
            let rules = LedgerRules(catalogues: [TimeLineTests.scope.bundleId: catalogue])
            ledger = Ledger(storage: MemoryLedgerStorage(), rules: rules)
            let renewals = world.subscriptions(of: name).compactMap { world.subscriptions[$0]?.renewal }
            let documents = Documents(world.history(of: name).map(\.transaction), renewals, at: now)
            _ = try await ledger.record(documents.all, claimedBy: "anna", at: now)
            let stories = try await ledger.stories(
                of: "anna", of: TimeLineTests.scope.bundleId, in: [.production], at: now)
            story = try #require(stories?[.production])
        }

        /// The rules' answer about a purchase, if only what had happened by an instant is known.
        func answer(_ chain: Chain, at instant: Timestamp) -> (state: SubscriptionState?, hasAccess: Bool) {
            let all = chain.transactions.values.compactMap { chain.current($0) }
            let known = all.filter { now <= instant || $0.purchaseDate ?? instant <= instant }
            var past = Chain(chain.key)
            for var statement in known {
                if now > instant {
                    if statement.revocation.map({ instant < $0.date }) ?? false { statement.revocation = nil }
                    let next = all.filter { $0.replaces(statement) }.compactMap(\.purchaseDate).min()
                    if next.map({ instant < $0 }) ?? false { statement.isUpgraded = false }
                }
                past.merge(statement)
            }
            var catalogue = ledger.rules.catalogues[TimeLineTests.scope.bundleId] ?? Catalogue()
            if known.count == all.count {
                if let renewal = chain.renewal { past.merge(renewal) }
            } else {
                catalogue.staleLeeway = .zero
            }
            let state = past.subscription(catalogue, at: instant)
            let isGiven = past.access(catalogue, at: instant).values.contains(where: \.isGiven)
            return (state, state?.hasAccess ?? isGiven)
        }
    }

    @Test(.takesLong, arguments: Seeds.first(16, soak: 50))
    func `each band equals the ledger's answers inside it, and nothing is given outside of bands`(
        seed: UInt64
    ) async throws {
        var events = try RandomWorld(seed: seed, newCustomers: 4)
        for _ in 0..<120 { events.step(hours: 150) }
        var random = SeededRandom(seed: ~seed)
        for number in 0..<4 {
            let life = try await Life(of: "customer \(number)", in: events.world)
            for line in life.story.timeLines.items where !line.bands.isEmpty {
                let chain = try #require(try await life.ledger.chain(ChainKey(line.id, in: Self.scope)))
                for _ in 0..<4 {
                    for band in line.bands {
                        let end = band.to ?? max(life.now, band.from).adding(days: 1)
                        check(line, chain, life, at: Self.instant(band.from, end, &random))
                    }
                    let first = try #require(line.bands.first?.from)
                    if first < life.now { check(line, chain, life, at: Self.instant(first, life.now, &random)) }
                }
                check(line, chain, life, at: life.now)
                checkEnd(line, life)
                checkMarks(line, chain)
            }
            checkSentences(life)
        }
    }

    private static func instant(_ from: Timestamp, _ to: Timestamp, _ random: inout SeededRandom) -> Timestamp {
        Timestamp(milliseconds: .random(in: from.milliseconds..<to.milliseconds, using: &random))
    }

    private func check(_ line: TimeLine, _ chain: Chain, _ life: Life, at instant: Timestamp) {
        let band = line.bands.first { $0.isAt(instant) }
        let (state, hasAccess) = life.answer(chain, at: instant)
        let words = "\(line.id) at \(instant.iso8601), now \(life.now.iso8601): \(line.bands)"
        // Whether a period will renew is unknown.
        if band == nil, life.now < instant { return }
        #expect(hasAccess == band?.state.givesAccess ?? false, "\(words)")
        guard let state, let band else { return }
        #expect(band.transactionId ?? state.governing.transactionId == state.governing.transactionId, "\(words)")
        let expected: Set<SubscriptionState.Status> =
            switch band.state {
            case .trial, .offer, .paid, .chargedAhead: [.active]
            case .grace: [.billingGrace]
            case .retry: [.billingRetry]
            case .stale: [.stale]
            case .revoked: [.revoked]
            case .upgraded: [.upgraded]
            case .gap: [.expired, .stale, .revoked, .upgraded]
            case .given: []
            }
        #expect(expected.contains(state.status), "\(state.status): \(words)")
        if band.state == .trial { #expect(state.governing.offerDiscountType == .freeTrial, "\(words)") }
    }

    /// The access of a subscription ends where its last band with access ends.
    private func checkEnd(_ line: TimeLine, _ life: Life) {
        guard let state = life.story.answer.holdings.subscriptions[line.id] else { return }
        let band = line.bands.first { $0.isAt(life.now) }
        #expect(state.hasAccess == band?.state.givesAccess ?? false, "\(line)")
        guard state.hasAccess, line.bands.allSatisfy({ $0.from <= life.now }) else { return }
        #expect(band?.to == state.accessUntil, "\(line)")
    }

    private func checkMarks(_ line: TimeLine, _ chain: Chain) {
        // Of more transactions than fit, the newest are shown.
        let statements = chain.purchases.sorted { $0.isBought(before: $1) }.dropFirst(line.omitted ?? 0)
        let lost = line.marks.filter { $0.kind == .refund || $0.kind == .revoked }
        #expect(Set(lost.map(\.at)) == Set(statements.compactMap(\.revocation?.date)), "\(line)")
        let bought = Set(line.marks.filter { $0.kind == .purchase }.map(\.at))
        #expect(bought == Set(statements.filter { $0.transactionReason != .renewal }.compactMap(\.purchaseDate)))
        #expect(line.marks.map(\.at) == line.marks.map(\.at).sorted())
    }

    private func checkSentences(_ life: Life) {
        let sentences = life.story.sentences(at: life.now)
        for entitlement in life.story.answer.holdings.entitlements {
            let end = entitlement.until.map { "until \($0.words(near: life.now)):" } ?? "without end:"
            let found = sentences.contains { sentence in
                let head = sentence.prefix { $0 != ":" }.split(separator: " ").first ?? ""
                return head.split(separator: ",").contains { $0 == entitlement.name } && sentence.contains(end)
            }
            #expect(found, "\(entitlement): \(sentences)")
        }
        #expect(!sentences.isEmpty && sentences.allSatisfy { !$0.hasSuffix(", ") && !$0.contains(", ,") })
    }

    @Test func `of many transactions the newest are shown, and the others are counted`() async throws {
        let count = 3 * TimeLines.limit
        let periods = (0..<count).map { number in
            TestStore.transaction("\(number + 1)", original: "1", from: Double(number), until: Double(number + 1))
        }
        let coins = (0..<count).map { number in
            TestStore.transaction(
                "c\(number)", product: "coins", type: .consumable, from: Double(number), until: nil)
        }
        let now = TestStore.day(Double(count) - 0.5)
        let ledger = Ledger(storage: MemoryLedgerStorage())
        _ = try await ledger.record(Documents(periods + coins, [], at: now).all, claimedBy: "anna", at: now)
        let stories = try await ledger.stories(of: "anna", of: Self.scope.bundleId, in: [.production], at: now)
        let lines = try #require(stories?[.production]?.timeLines)
        #expect(lines.omitted == 2 * (count - TimeLines.limit))
        #expect(lines.items.count == TimeLines.limit + 1)
        let line = try #require(lines.items.first { $0.kind == .subscription })
        #expect(line.omitted == count - TimeLines.limit && line.bands.count == TimeLines.limit)
        #expect(line.bands.last?.to == TestStore.day(Double(count)))
        #expect(lines.items.filter { $0.kind == .purchase }.allSatisfy { $0.bands.isEmpty && $0.marks.count == 1 })
    }
}

extension TimeLine.Band {
    fileprivate func isAt(_ instant: Timestamp) -> Bool { from <= instant && (to.map { instant < $0 } ?? true) }
}

extension TransactionStatement {
    /// Whether the customer bought this during the other period instead of it.
    fileprivate func replaces(_ other: TransactionStatement) -> Bool {
        guard let start = purchaseDate, let begin = other.purchaseDate else { return false }
        return other.isUpgraded && begin < start && start < other.expiresDate ?? begin
            && productId != other.productId
    }
}

/// Documents without signatures, each about one transaction or renewal.
struct Documents {
    private(set) var all: [Evidence] = []

    init(
        _ transactions: [JWSTransactionDecodedPayload], _ renewals: [JWSRenewalInfoDecodedPayload], at now: Timestamp
    ) {
        for payload in transactions {
            let signed = min(payload.purchaseDate ?? now, now)
            add(.transaction, signed) { name in
                let statement = TransactionStatement(
                    payload, source: .signedTransaction, provenance: name, in: .production)
                return ([statement].compactMap(\.self), [])
            }
        }
        for payload in renewals { add(payload, signed: now) }
    }

    /// - Parameter notification: The type and subtype, if the renewal info is in a notification.
    mutating func add(
        _ payload: JWSRenewalInfoDecodedPayload, signed: Timestamp, notification: (String, String)? = nil
    ) {
        let known = notification.map { Evidence.Notification(uuid: nil, type: $0.0, subtype: $0.1) }
        add(known == nil ? .renewalInfo : .notification, signed, known) { name in
            ([], [RenewalFact(payload, provenance: name)].compactMap(\.self))
        }
    }

    private mutating func add(
        _ kind: Evidence.Kind, _ signed: Timestamp, _ notification: Evidence.Notification? = nil,
        says: (Provenance) -> ([TransactionStatement], [RenewalFact])
    ) {
        let bytes = Array("e30.\(all.count).AA".utf8)
        all.append(Evidence(kind, bytes, TimeLineTests.scope, signed, notification: notification, says: says))
    }
}
