// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import Reconciliation
import ReceiptCoding
import Synchronization
import TestWorld
import Testing

/// Tests what verifyReceipt asks the App Store about a receipt: receipts have no renewal info.
@Suite struct ReceiptQuestionTests {
    private static let now = LedgerRoutesTests.now

    /// Counts the requests to a simulated App Store, and lets time pass while it is silent.
    private final class Line: AppStoreTransport {
        let store: SimulatedTransport
        private let time: Mutex<Timestamp>
        private let sent = Mutex<[String]>([])
        private let silence = Mutex(false)

        init(_ store: SimulatedTransport, _ time: Timestamp) {
            self.store = store
            self.time = Mutex(time)
        }

        var now: Timestamp { time.withLock { $0 } }
        var requests: [String] { sent.withLock { $0 } }

        var isSilent: Bool {
            get { silence.withLock { $0 } }
            set { silence.withLock { $0 = newValue } }
        }

        func pass(_ duration: Duration) { time.withLock { $0 = $0.advanced(by: duration) } }

        func answer(
            to request: APIRequest, in environment: AppStoreModel.Environment, within timeout: Duration
        ) async throws -> APIAnswer {
            sent.withLock { $0.append(request.target) }
            guard !isSilent else {
                pass(timeout)
                throw TransportError.timedOut
            }
            return try await store.answer(to: request, in: environment, within: timeout)
        }
    }

    /// A server that knows nothing, and an App Store with subscribers in their second month.
    private struct Shop {
        var server: LedgerRoutesTests.World
        let line: Line
        let environment: AppStoreModel.Environment
        let reconciler: Reconciler

        init(
            customers: Int = 1, in environment: AppStoreModel.Environment = .production, hasWrongKey: Bool = false
        ) async throws {
            self.environment = environment
            server = try await LedgerRoutesTests.World()
            let service = try #require(server.server.ledger)
            var other = StoreProduct.subscription("other", Period(1, .month))
            other.plan?.group = "2"
            var world = AppStoreSimulator.World(
                selling: [.subscription("month", Period(1, .month)), other],
                in: AppIdentity(bundleId: "com.example", appAppleId: 7), at: now.advanced(by: .seconds(-40 * 86_400)))
            for number in 0..<customers {
                try world.addCustomer("c\(number)", environment: environment)
                for product in ["month", "other"] { try world.buy(product, by: "c\(number)") }
            }
            world.advance(to: now)
            let (key, wrong) = (try StoreKey(seed: 1), try StoreKey(seed: 2))
            let signing = hasWrongKey ? wrong : key
            let line = Line(
                SimulatedTransport(SimulatedStore(world, server.store.signer, key), wall: { now }), now)
            let reconcilers = Reconcilers(
                service.ledger, service.verifier,
                keys: ["com.example": try InAppPurchaseKey(id: signing.id, issuer: signing.issuer, pem: signing.pem)],
                apps: service.apps, over: line, now: { line.now }, wall: { line.now }, sleep: { line.pass($0) },
                random: SeededRandom(seed: 1))
            server.server.ledger?.reconcilers = reconcilers
            self.line = line
            reconciler = try #require(
                reconcilers.all[LedgerScope(bundleId: "com.example", environment: environment)])
        }

        func receipt(of name: String = "c0") async throws -> [UInt8] {
            let receipt = try #require(await line.store.store.world.receipt(of: name))
            return try server.store.signer.sign(receipt, at: now)
        }

        func ask(_ receipt: [UInt8]) async throws -> JSONValue {
            let path = environment == .production ? "/verifyReceipt" : "/sandbox/verifyReceipt"
            let body = #"{"receipt-data":"\#(Base64.encode(receipt))"}"#
            return try await server.send(.post, path, body, key: nil).1
        }

        func ask(_ name: String = "c0") async throws -> JSONValue { try await ask(receipt(of: name)) }
    }

    /// The rows of an answer, and whether it is valid.
    private static func rows(_ answer: JSONValue) -> Int? {
        answer["status"]?.integer == 0 ? answer["pending_renewal_info"]?.array?.count : nil
    }

    @Test(arguments: [AppStoreModel.Environment.production, .sandbox])
    func `the first answer about a receipt has the renewal info of each subscription, by one question`(
        environment: AppStoreModel.Environment
    ) async throws {
        let shop = try await Shop(in: environment)
        let first = try await shop.ask()
        #expect(Self.rows(first) == 2, "\(first.compactText)")
        for row in first["pending_renewal_info"]?.array ?? [] {
            // In the sandbox a subscription ends after some renewals.
            let willRenew = environment == .production ? "1" : "0"
            #expect(row["auto_renew_status"]?.string == willRenew && row["original_transaction_id"]?.string != nil)
        }
        #expect(shop.line.requests.count == 1 && shop.line.requests[0].contains("/inApps/v1/subscriptions/"))
        #expect(try await shop.ask()["pending_renewal_info"] == first["pending_renewal_info"])
        #expect(shop.line.requests.count == 1)
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
    }

    @Test func `a receipt whose subscriptions are known, or that has none, makes no question`() async throws {
        let shop = try await Shop()
        #expect(Self.rows(try await shop.ask()) == 2)
        // A later receipt of the same customer is new, but all of its subscriptions have renewal info.
        await shop.line.store.update { $0.world.advance(to: Self.now.advanced(by: .seconds(60))) }
        shop.line.pass(.seconds(60))
        #expect(Self.rows(try await shop.ask()) == 2)
        let book = TestStore.receipt([TestStore.purchase("5", product: "book", until: nil)])
        #expect(try await shop.ask(shop.server.store.sign(book))["status"]?.integer == 0)
        #expect(shop.line.requests.count == 1)
    }

    @Test func `concurrent requests with receipts of one customer make one question`() async throws {
        let shop = try await Shop()
        var receipts: [[UInt8]] = []
        for second in 1...4 {
            let later = Self.now.advanced(by: .seconds(Int64(second)))
            await shop.line.store.update { $0.world.advance(to: later) }
            receipts.append(try await shop.receipt())
        }
        try await withThrowingTaskGroup(of: Int64?.self) { group in
            for receipt in receipts { group.addTask { try await shop.ask(receipt)["status"]?.integer } }
            for try await status in group { #expect(status == 0) }
        }
        #expect(shop.line.requests.count == 1)
        #expect(Self.rows(try await shop.ask(receipts[0])) == 2)
    }

    @Test func `a silent App Store makes an answer wait a second, and later ones not at all; a job asks again`()
        async throws
    {
        let shop = try await Shop(customers: 3)
        shop.line.isSilent = true
        let start = shop.line.now
        #expect(Self.rows(try await shop.ask()) == 0)
        let waited = shop.line.now.milliseconds - start.milliseconds
        #expect(waited == 1000)
        #expect(Self.rows(try await shop.ask("c1")) == 0)
        #expect(shop.line.now.milliseconds - start.milliseconds == waited && shop.line.requests.count == 1)
        let jobs = try await shop.server.ledger.jobs().items
        #expect(jobs.map(\.id.kind) == [.subscriptionStatus])

        shop.line.isSilent = false
        shop.line.pass(.seconds(30))
        #expect(Self.rows(try await shop.ask("c2")) == 2)
        shop.line.pass(.seconds(30))
        while try await shop.reconciler.workOnce() {}
        #expect(shop.line.requests.count == 3)
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
        #expect(Self.rows(try await shop.ask()) == 2)
    }

    @Test(arguments: [(AppStoreModel.Environment.production, 5), (.sandbox, 1)])
    func `no more questions are asked at once than a tenth of Apple's rate limit, and the rest waits for nothing`(
        environment: AppStoreModel.Environment, most: Int
    ) async throws {
        let shop = try await Shop(customers: 9, in: environment)
        var found: [Int?] = []
        for number in 0..<7 { found.append(Self.rows(try await shop.ask("c\(number)"))) }
        #expect(found == (0..<7).map { $0 < most ? 2 : 0 })
        #expect(shop.line.requests.count == most && shop.line.now == Self.now)
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
        // The time in which one more may be asked.
        shop.line.pass(.milliseconds(environment == .production ? 201 : 2002))
        #expect(Self.rows(try await shop.ask("c7")) == 2)
        #expect(Self.rows(try await shop.ask("c8")) == 0)
        // A receipt that came too early is asked about when it comes again.
        shop.line.pass(.milliseconds(environment == .production ? 201 : 2002))
        #expect(Self.rows(try await shop.ask("c6")) == 2)
    }

    @Test func `a subscription without renewal info makes answers wait once a day`() async throws {
        let shop = try await Shop(hasWrongKey: true)
        // Each question is two requests: after a refused token there is one with a new token.
        for (pause, count) in [(0, 2), (3600, 2), (82_799, 2), (1, 4)] as [(Int64, Int)] {
            shop.line.pass(.seconds(pause))
            #expect(Self.rows(try await shop.ask()) == 0)
            #expect(shop.line.requests.count == count, "after \(pause) more seconds")
        }
    }

    @Test func `with a wrong key the answer stays as it is, and no job is stored`() async throws {
        let shop = try await Shop(customers: 2, hasWrongKey: true)
        #expect(Self.rows(try await shop.ask()) == 0)
        #expect(Self.rows(try await shop.ask("c1")) == 0)
        // One question: a request, and one with a new token.
        #expect(shop.line.requests.count == 2)
        #expect(try await shop.server.ledger.jobs().items.isEmpty)
    }

    @Test func `without a key there is no row, and an answer that is not the App Store's adds none`() async throws {
        var shop = try await Shop(customers: 2)
        let stranger = WorldSigner(try StoreAuthority(from: Self.now.advanced(by: .seconds(-86_400))))
        await shop.line.store.update { $0.signer = stranger }
        #expect(Self.rows(try await shop.ask()) == 0)
        #expect(shop.line.requests.count == 1)
        shop.server.server.ledger?.reconcilers = nil
        #expect(Self.rows(try await shop.ask("c1")) == 0)
        #expect(shop.line.requests.count == 1)
    }
}
