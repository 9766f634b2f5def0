// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import Reconciliation
import Synchronization
import TestData
import Testing
import TestWorld

/// Whole histories of many customers, from a simulated App Store that misbehaves for some of them.
@Suite struct BackfillTests {
    /// Plays another server for the histories of some ids. All else goes to the simulated App Store.
    final class FaultyTransport: AppStoreTransport {
        enum Fault: Sendable {
            case endless, malformed, unreachable, tokenRefused
            /// Answers 429 so many times, with a time an hour from now.
            case limited(Int)
            /// Answers 401 so many times, in whichever environment.
            case tokenRefusedFor(Int)
        }

        private let inner: SimulatedTransport
        private let now: @Sendable () -> Timestamp
        private let state: Mutex<(faults: [String: Fault], count: Int)>

        init(_ inner: SimulatedTransport, _ faults: [String: Fault], now: @escaping @Sendable () -> Timestamp) {
            (self.inner, self.now) = (inner, now)
            state = Mutex((faults, 0))
        }

        /// How many requests there were.
        var count: Int { state.withLock { $0.count } }

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> APIAnswer {
            let id = String(request.target.split(separator: "?")[0].split(separator: "/").last ?? "")
            let (fault, count) = state.withLock { state in
                state.count += 1
                let isLater = request.target.contains("revision=")
                let fault = state.faults[id] ?? state.faults["all"] ?? (isLater ? state.faults["later pages"] : nil)
                switch fault {
                case .limited(let times): state.faults[id] = times > 1 ? .limited(times - 1) : nil
                case .tokenRefusedFor(let times): state.faults[id] = times > 1 ? .tokenRefusedFor(times - 1) : nil
                default: break
                }
                return (fault, state.count)
            }
            let json = ["content-type": "application/json"]
            switch fault {
            case .endless:
                let page = #"{"hasMore": true, "revision": "r\#(count)", "signedTransactions": ["x"]}"#
                return APIAnswer(status: 200, headers: json, body: Array(page.utf8))
            case .malformed: return APIAnswer(status: 200, headers: json, body: Array("{".utf8))
            case .unreachable: throw TransportError.unreachable("no route")
            case .tokenRefused, .tokenRefusedFor: return APIAnswer(status: 401, headers: [:], body: [])
            case .limited:
                let headers = json.merging(["retry-after": "\(now().milliseconds + 3_600_000)"]) { $1 }
                let body = #"{"errorCode": 4290000, "errorMessage": "x"}"#
                return APIAnswer(status: 429, headers: headers, body: Array(body.utf8))
            case nil: return try await inner.answer(to: request, in: environment, within: timeout)
            }
        }
    }

    /// Customers with a subscription each, in both environments, and a ledger that has heard nothing.
    struct Shop {
        static let app = AppIdentity(bundleId: "com.example", appAppleId: 7)
        let transport: FaultyTransport
        let ledger: Ledger
        let backfill: Backfill
        let reconcilers: [Reconciler]
        /// The transactions of each customer, the oldest first.
        let customers: [(transactions: [String], isInSandbox: Bool)]
        let waits: Mutexed<[Timestamp]>
        let clock: Mutexed<Timestamp>
        let simulated: SimulatedTransport
        let verifier: AppStoreVerifier

        init(
            customers count: Int, months: Int = 3, coins: Int = 0, faults: [Int: FaultyTransport.Fault] = [:],
            all: FaultyTransport.Fault? = nil, laterPages: FaultyTransport.Fault? = nil, trusting: Bool = true
        ) async throws {
            let start = Timestamp(milliseconds: 1_769_851_800_000)
            let store = try TestStore()
            var world = World(
                selling: [
                    .subscription("month", Period(1, .month)),
                    StoreProduct(id: "coin", type: .consumable, price: StorePrice(milliunits: 990)),
                ], in: Self.app, at: start)
            for number in 0..<count {
                let environment: AppStoreModel.Environment = Self.isInSandbox(number, coins) ? .sandbox : .production
                try world.addCustomer("c\(number)", environment: environment)
                for _ in 0..<coins { _ = try world.buy("coin", by: "c\(number)") }
                if coins == 0 { _ = try world.buy("month", by: "c\(number)") }
            }
            world.advance(to: start.advanced(by: .seconds(months * 31 * 86_400)))
            customers = (0..<count).map { number in
                let history = world.history(of: "c\(number)").map(\.transaction)
                return (history.compactMap(\.transactionId), Self.isInSandbox(number, coins))
            }
            let key = try StoreKey(seed: 1)
            let clock = Mutexed(world.now)
            self.clock = clock
            let simulated = SimulatedTransport(SimulatedStore(world, store.signer, key), wall: { clock.value })
            self.simulated = simulated
            var wrong = Dictionary(uniqueKeysWithValues: faults.map { ("\($0)", $1) })
            for (number, fault) in faults where number < count { wrong[customers[number].transactions[0]] = fault }
            if let all { wrong["all"] = all }
            if let laterPages { wrong["later pages"] = laterPages }
            let transport = FaultyTransport(simulated, wrong, now: { clock.value })
            self.transport = transport
            let ledger = Ledger(storage: MemoryLedgerStorage())
            self.ledger = ledger
            var verifier = store.verifier(of: .only([Self.app]))
            if !trusting { verifier.roots = .apple }
            self.verifier = verifier
            let client = AppStoreClient(
                bundleId: Self.app.bundleId, key: try InAppPurchaseKey(id: key.id, issuer: key.issuer, pem: key.pem),
                share: 50, transport: transport, now: { clock.value },
                sleep: { pause in clock.update { $0 = $0.advanced(by: pause) } }, random: SeededRandom(seed: 1))
            reconcilers = [.production, .sandbox].map { [verifier] environment in
                Reconciler(
                    ledger: ledger, verifier: verifier, client: client,
                    scope: LedgerScope(bundleId: Self.app.bundleId, environment: environment),
                    now: { clock.value })
            }
            let waits = Mutexed<[Timestamp]>([])
            self.waits = waits
            let made = Backfill(
                reconcilers, wall: { clock.value },
                sleep: { pause in clock.update { $0 = $0.advanced(by: pause) } })
            var backfill = try #require(made)
            backfill.onWait = { time in waits.update { $0.append(time) } }
            self.backfill = backfill
        }

        /// Every third customer with a subscription buys in the sandbox.
        private static func isInSandbox(_ number: Int, _ coins: Int) -> Bool { coins == 0 && number % 3 == 2 }

        /// Asks about all lines, and returns what became of each.
        func run(_ lines: [String]) async throws -> [String] {
            let questions = try lines.enumerated().map { ($0 + 1, try HistoryQuestion(recognizing: Array($1.utf8))) }
            var outcomes: [Int: String] = [:]
            try await backfill.run(questions.map { (number: $0, question: $1) }) { line, outcome in
                #expect(outcomes[line.number] == nil)
                switch outcome {
                case .taken(let report): outcomes[line.number] = report.refusal ?? "taken"
                case .covered: outcomes[line.number] = "covered"
                case .failed(let reason): outcomes[line.number] = reason
                }
            }
            return outcomes.sorted { $0.key < $1.key }.map(\.value)
        }

        /// Of how many customers the ledger has the whole history.
        func complete() async throws -> Int {
            var count = 0
            for customer in customers {
                let scope = LedgerScope(
                    bundleId: Self.app.bundleId, environment: customer.isInSandbox ? .sandbox : .production)
                let chain = try await ledger.chain(ChainKey(customer.transactions[0], in: scope))
                let known = Set(chain?.purchases.map(\.transactionId) ?? [])
                if known == Set(customer.transactions), chain?.renewal != nil { count += 1 }
            }
            return count
        }
    }

    @Test(.takesLong)
    func `some hundred customers with all their transactions cost hardly more than two requests each`()
        async throws
    {
        let shop = try await Shop(customers: 300, months: 7)
        let lines = shop.customers.flatMap(\.transactions)
        #expect(lines.count > 2000)
        let outcomes = try await shop.run(lines)
        #expect(Set(outcomes) == ["taken", "covered"])
        #expect(try await shop.complete() == 300)
        // At least a history and a status for each, and one more for the hundred that production does not know.
        #expect(700...840 ~= shop.transport.count, "\(shop.transport.count)")
        // A history or more, but of a transaction one document alone, and of a subscription one renewal info.
        #expect(try await shop.ledger.documents().count == lines.count + 300)
    }

    @Test func `the payments of a backfill say so, and a second run records nothing new`() async throws {
        let shop = try await Shop(customers: 7)
        let lines = shop.customers.map { $0.transactions[1] }
        _ = try await shop.run(lines)
        let events = try await shop.ledger.events(of: "com.example", limit: 1000).events
        let payments = events.filter { $0.kind.known?.isAboutPayment == true }
        #expect(!payments.isEmpty && payments.allSatisfy { $0.content?.details?.backfilled == true })
        let made = Backfill(shop.reconcilers, wall: { Timestamp(milliseconds: 0) }, sleep: { _ in })
        let again = try #require(made)
        var known = 0
        let questions = try lines.map { (number: 1, question: try HistoryQuestion(transactionId: $0)) }
        try await again.run(questions) { _, outcome in
            if case .taken(let report) = outcome { known += report.alreadyKnown }
        }
        #expect(known > 0)
        #expect(try await shop.ledger.events(of: "com.example", limit: 1000).events.count == events.count)
    }

    @Test func `a line that fails says why, and the rest goes on, with a bounded number of requests`() async throws {
        let shop = try await Shop(
            customers: 8, faults: [0: .endless, 1: .malformed, 3: .limited(1), 4: .unreachable, 99: .endless])
        let outcomes = try await shop.run(shop.customers.map { $0.transactions[0] } + ["123456", "MZZZZZZZZZ"])
        let expected = [
            "endlessPages", "malformedAnswer", "taken", "taken", "unreachable", "taken", "taken", "taken",
            "4040010", "does not know this order",
        ]
        #expect(outcomes.count == expected.count)
        for (outcome, word) in zip(outcomes, expected) { #expect(outcome.contains(word), "\(outcome)") }
        #expect(try await shop.complete() == 5)
        // A thousand pages of the list without an end, which is begun anew if the rate limit interrupts it.
        #expect(shop.transport.count < 2100, "\(shop.transport.count)")
    }

    @Test func `the backfill waits until the time that the App Store names, and gives a line up after the third`()
        async throws
    {
        let shop = try await Shop(customers: 2, faults: [0: .limited(1000)])
        let outcomes = try await shop.run(shop.customers.map { $0.transactions[0] })
        #expect(outcomes[0].contains("rateLimited") || outcomes[0].contains("overBudget"), "\(outcomes)")
        #expect(outcomes[1] == "taken")
        // The second line waits once, for the limit that the first one met.
        #expect(3...4 ~= shop.waits.value.count)
        #expect(shop.transport.count < 20)
    }

    @Test(arguments: [(FaultyTransport.Fault.unreachable, "none of the last 20 lines"), (.tokenRefused, "credentials")])
    func `an outage, or a key that is refused, ends the backfill`(
        fault: FaultyTransport.Fault, words: String
    ) async throws {
        let shop = try await Shop(customers: 300, months: 0, all: fault)
        let error = await #expect(throws: Backfill.Stopped.self) {
            _ = try await shop.run(shop.customers.map { $0.transactions[0] })
        }
        #expect(error?.description.contains(words) == true, "\(error?.description ?? "")")
        // Five attempts of each line that was begun.
        #expect(shop.transport.count <= 5 * 100 * 2)
    }

    @Test func `of a token that is refused once no line learns anything`() async throws {
        let shop = try await Shop(customers: 60, months: 0, faults: [4: .tokenRefusedFor(1)])
        let outcomes = try await shop.run(shop.customers.map { $0.transactions[0] })
        #expect(outcomes.count { $0 == "taken" } == 60, "\(Set(outcomes))")
    }

    /// Both tokens of the first request are refused, before production has accepted any. The sandbox knows none of the
    /// customers.
    @Test func `while production refuses the key, no line is unknown because the sandbox does not know it`()
        async throws
    {
        let shop = try await Shop(customers: 2, months: 0, faults: [0: .tokenRefusedFor(2)])
        let ids = shop.customers.map { $0.transactions[0] }
        // One after the other: else the two refusals may be for the first and the third line, which ask about the same.
        var outcomes: [String] = []
        for id in [ids[0], ids[1], ids[0]] { outcomes += try await shop.run([id]) }
        #expect(outcomes[0].hasPrefix("credentials: Production refused"), "\(outcomes)")
        #expect(outcomes.dropFirst() == ["taken", "taken"])
    }

    @Test func `a portal that answers all with its page ends the backfill, as an outage does`() async throws {
        let shop = try await Shop(customers: 40, months: 0, all: .malformed)
        let error = await #expect(throws: Backfill.Stopped.self) {
            _ = try await shop.run(shop.customers.map { $0.transactions[0] })
        }
        #expect(error?.description.contains("none of the last 20 lines") == true)
    }

    @Test func `documents that are not valid are counted, and nothing is recorded`() async throws {
        let shop = try await Shop(customers: 1, trusting: false)
        let outcomes = try await shop.run([shop.customers[0].transactions[0]])
        #expect(outcomes[0].contains("untrustedChain"), "\(outcomes)")
        #expect(try await shop.complete() == 0)
    }
}

/// A value that several tasks change.
final class Mutexed<Value: Sendable>: Sendable {
    private let state: Mutex<Value>
    init(_ value: Value) { state = Mutex(value) }
    var value: Value { state.withLock { $0 } }
    func update(_ change: (inout sending Value) -> Void) { state.withLock { change(&$0) } }
}

extension Ledger {
    /// All stored documents.
    func documents() async throws -> [StoredDocument] {
        var (all, cursor) = ([StoredDocument](), ScanCursor?.none)
        repeat {
            let page = try await storage.documents(.all, after: cursor, limit: 1000)
            all += page.items
            cursor = page.next
        } while cursor != nil
        return all
    }
}
