// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
import TestData
import Testing

/// Tests that arrival order, duplicates and delays change nothing.
@Suite struct OrderTests {
    /// One fact in a document.
    enum DocumentFact: Hashable {
        case transaction(TransactionStatement)
        case renewal(RenewalFact)
    }

    /// Facts about one customer's subscription and purchases, some contradictory, some signed at the same instant.
    private static func history(_ random: inout SeededRandom, length: Int) -> [DocumentFact] {
        (0..<length).map { _ in
            let signed = Double(Int.random(in: 0..<40, using: &random)) / 2
            guard Int.random(in: 0..<4, using: &random) > 0 else {
                return .renewal(
                    Facts.renewal(
                        signed: signed, renews: .random(using: &random),
                        retry: [nil, true, false].randomElement(using: &random) ?? nil,
                        grace: [nil, signed + 16].randomElement(using: &random) ?? nil))
            }
            let period = Int.random(in: 0..<6, using: &random)
            let isReceipt = Int.random(in: 0..<4, using: &random) == 0
            var statement = Facts.transaction(
                "\(period + 1)", product: ["month", "high"].randomElement(using: &random) ?? "month", signed: signed,
                from: Double(period) * 5, until: Double(period) * 5 + 5
            ) {
                if Int.random(in: 0..<5, using: &random) == 0 { $0.revocationDate = Facts.day(signed) }
                if Int.random(in: 0..<5, using: &random) == 0 { $0.isUpgraded = true }
                $0.appAccountToken = [nil, "a", "b"].randomElement(using: &random) ?? nil
            }
            if isReceipt {
                statement.source = Open(.receipt)
                statement.isUpgraded = false
                statement.appAccountToken = nil
            }
            return .transaction(statement)
        }
    }

    private static func fold(_ facts: [DocumentFact]) -> Chain {
        facts.reduce(into: Chain(Facts.key)) { chain, fact in
            switch fact {
            case .transaction(let statement): chain.merge(statement)
            case .renewal(let renewal): chain.merge(renewal)
            }
        }
    }

    private static let catalogue = Catalogue(products: [
        "month": .init(entitlements: ["pro"], level: 2), "high": .init(entitlements: ["pro"], level: 1),
    ])

    @Test(arguments: Seeds.blocks(200, of: 50, soak: 4000))
    func `the facts of a history in any order, with repetitions, lead to the same chain and answers`(seeds: [UInt64]) {
        for seed in seeds {
            var random = SeededRandom(seed: seed)
            let history = Self.history(&random, length: Int.random(in: 1...60, using: &random))
            let expected = Self.fold(history)
            for _ in 0..<4 {
                let repeated = history + history.filter { _ in Bool.random(using: &random) }
                let found = Self.fold(repeated.shuffled(using: &random))
                #expect(found == expected, "seed \(seed)")
                let now = Facts.day(Double.random(in: 0...40, using: &random))
                // After all documents were signed, and all purchases have begun.
                let later = Facts.day(Double.random(in: 25...70, using: &random))
                let state = found.subscription(Self.catalogue, at: later)
                let told = [state?.access].compactMap(\.self) + found.access(Self.catalogue, at: later).values
                for access in told {
                    #expect(access.isGiven == (access.until.map { later < $0 } ?? true), "seed \(seed): \(access)")
                }
                #expect(
                    found.subscription(Catalogue(), at: now) == expected.subscription(Catalogue(), at: now),
                    "seed \(seed)")
                #expect(
                    Holdings([found], catalogue: Self.catalogue, at: now)
                        == Holdings([expected], catalogue: Self.catalogue, at: now), "seed \(seed)")
            }
        }
    }

    @Test(arguments: Seeds.first(20))
    func `every order of six facts leads to the same chain`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let history = Self.history(&random, length: 6)
        let expected = Self.fold(history)
        var count = 0
        Self.permutations(of: history) { order in
            count += 1
            #expect(Self.fold(order) == expected)
        }
        #expect(count == 720)
    }

    private static func permutations(of list: [DocumentFact], from start: Int = 0, _ visit: ([DocumentFact]) -> Void) {
        guard start < list.count - 1 else { return visit(list) }
        for index in start..<list.count {
            var next = list
            next.swapAt(start, index)
            permutations(of: next, from: start + 1, visit)
        }
    }

    @Test func `a newer receipt decides, and an older signed transaction adds what receipts do not state`() {
        var receipt = Facts.transaction(signed: 10, until: 35)
        receipt.source = Open(.receipt)
        receipt.subscriptionGroup = nil
        receipt.revocation = .init(date: Facts.day(9))
        let signed = Facts.transaction(signed: 5) {
            $0.appAccountToken = "a"
            $0.isUpgraded = true
        }
        let current = Facts.chain([signed, receipt]).purchases.first
        #expect(current?.expiresDate == Facts.day(35))
        #expect(current?.subscriptionGroup == "g")
        #expect(current?.appAccountToken == "a")
        // A receipt states an upgrade as a cancellation, which is no refund.
        #expect(current?.isUpgraded == true)
        #expect(current?.revocation == nil)
    }
}
