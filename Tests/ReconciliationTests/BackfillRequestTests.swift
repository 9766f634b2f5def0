// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import PurchaseLedger
@testable import Reconciliation
import TestData
import TestWorld
import Testing

/// How many requests a backfill makes, and how many documents it leaves, beside the fewest.
@Suite struct BackfillRequestTests {
    /// In a soak 10,000 lines of 250 customers: the storage in memory searches all documents for equal ones.
    private static let (customers, coins) = Seeds.isSoak ? (250, 40) : (24, 50)

    @Test(
        .takesLong,
        arguments: ["sorted by customer", "sorted by customer, from the middle of each history", "shuffled"])
    func `a list needs at most 1.2 times the fewest requests, and stores each transaction once`(
        order: String
    ) async throws {
        let shop = try await BackfillTests.Shop(customers: Self.customers, coins: Self.coins)
        var lines = shop.customers.flatMap(\.transactions)
        var random = SeededRandom(seed: 7)
        if order == "shuffled" { lines.shuffle(using: &random) }
        if order.contains("middle") {
            lines = shop.customers.flatMap {
                $0.transactions[(Self.coins / 2)...] + $0.transactions[..<(Self.coins / 2)]
            }
        }
        let outcomes = try await shop.run(lines)
        #expect(Set(outcomes) == ["taken", "covered"])
        let fewest = Self.customers * ((Self.coins + 19) / 20)
        #expect(
            fewest...(fewest * 6 / 5) ~= shop.transport.count,
            "\(shop.transport.count) requests, the fewest are \(fewest)")
        let documents = try await shop.ledger.documents()
        #expect(documents.count == lines.count)
        #expect(Set(documents.map(\.name)).count == lines.count)
        print("\(lines.count) lines \(order): \(shop.transport.count) requests, the fewest are \(fewest)")
    }

    @Test func `a list that arrives slowly is not waited for`() async throws {
        let shop = try await BackfillTests.Shop(customers: 8, coins: 20)
        let ids = shop.customers.flatMap(\.transactions)
        let asked = Mutexed(0)
        // After 80 lines the list stops until some of them were taken in.
        let lines = ids.enumerated().lazy.map { place, id in
            if place == 80 { asked.update { $0 = shop.transport.count } }
            return (number: place + 1, question: try? HistoryQuestion(transactionId: id))
        }
        var first: Int?
        try await shop.backfill.run(
            AnySequence {
                lines.compactMap { line in line.question.map { (number: line.number, question: $0) } }.makeIterator()
            }
        ) { line, _ in
            if first == nil { first = asked.value }
        }
        // The first report came before the line after the 80.
        #expect(first == 0)
    }

    @Test func `one customer on all lines is read by one worker alone`() async throws {
        let shop = try await BackfillTests.Shop(customers: 1, coins: 400)
        let lines = shop.customers[0].transactions.reversed().map(\.self)
        _ = try await shop.run(lines)
        // Twenty pages, and the first page for each of the seven that find the history being read.
        #expect(20...27 ~= shop.transport.count, "\(shop.transport.count)")
        #expect(try await shop.ledger.documents().count == 400)
    }

    @Test func `the workers that wait for a history fail with it, and ask nothing more`() async throws {
        let shop = try await BackfillTests.Shop(customers: 1, coins: 60, laterPages: .malformed)
        // With twenty such lines in a row the backfill would stop.
        let outcomes = try await shop.run(Array(shop.customers[0].transactions.suffix(16)))
        #expect(outcomes.count == 16 && outcomes.allSatisfy { $0.contains("malformedAnswer") })
        // Each line asks for the first page and for the second at most.
        #expect(shop.transport.count <= 32, "\(shop.transport.count)")
    }

    @Test func `a worker that begins to wait after a reading has failed fails with it`() async throws {
        struct Failure: Error {}
        let seen = SeenTransactions()
        let reading = seen.begin()
        let early = Task { try await reading.waitForEnd() }
        seen.end(reading, Failure())
        await #expect(throws: Failure.self) { try await early.value }
        await #expect(throws: Failure.self) { try await reading.waitForEnd() }
    }

    @Test func `the reports of all lines together count each document once`() async throws {
        for seed in Seeds.first(5) {
            var random = SeededRandom(seed: seed)
            let shop = try await BackfillTests.Shop(customers: 1, coins: 100)
            let lines = shop.customers[0].transactions.shuffled(using: &random)
            var recorded = 0
            let questions = try lines.map { (number: 1, question: try HistoryQuestion(transactionId: $0)) }
            try await shop.backfill.run(questions) {
                if case .taken(let report) = $1 { recorded += report.recorded }
            }
            #expect(recorded == 100, "seed \(seed)")
            #expect(5...12 ~= shop.transport.count, "seed \(seed): \(shop.transport.count)")
        }
    }

    @Test(.takesLong, arguments: [0, 50])
    func `the third backfill and those after it store nothing more`(coins: Int) async throws {
        let shop = try await BackfillTests.Shop(customers: 12, coins: coins)
        let lines = shop.customers.map { $0.transactions[0] }
        let renewals = coins == 0 ? 12 : 0
        let transactions = shop.customers.flatMap(\.transactions).count
        var stored: [Int] = []
        for (run, recorded) in [transactions + renewals, transactions, 0, 0].enumerated() {
            shop.clock.update { $0 = $0.advanced(by: .seconds(60)) }
            await shop.simulated.update { $0.world.advance(to: shop.clock.value) }
            let made = Backfill(shop.reconcilers, wall: { shop.clock.value }, sleep: { _ in })
            let backfill = try #require(made)
            var (new, known) = (0, 0)
            try await backfill.run(lines.map { (number: 1, question: try HistoryQuestion(transactionId: $0)) }) {
                guard case .taken(let report) = $1 else { return }
                (new, known) = (new + report.recorded, known + report.alreadyKnown)
            }
            #expect(new == recorded, "run \(run)")
            #expect(new + known >= transactions + renewals, "run \(run)")
            stored.append(try await shop.ledger.documents().count)
            #expect(try await shop.ledger.check(by: shop.verifier).faults == [])
            let rebuilt = try await shop.ledger.rebuild(by: shop.verifier, at: shop.clock.value)
            #expect(rebuilt.differing == [] && rebuilt.faults == [])
        }
        print("four equal backfills store \(stored) documents")
        #expect(stored == [transactions + renewals] + Array(repeating: 2 * transactions + renewals, count: 3))
    }
}
