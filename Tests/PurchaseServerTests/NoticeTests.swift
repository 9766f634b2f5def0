// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import Logging
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// Tests what the operator learns of purchases whose products the configuration lacks.
@Suite struct NoticeTests {
    private typealias World = LedgerRoutesTests.World

    private static let warning = "A purchase is of a product that the configuration lacks"

    private static func buy(_ product: String, _ id: String, from: Double = 0, in world: World) async throws {
        let token = try world.transaction {
            ($0.transactionId, $0.originalTransactionId, $0.productId) = (id, id, product)
            $0.purchaseDate = TestStore.day(from)
        }
        try await world.submit(token)
    }

    /// Runs one round of what the server does each second.
    private static func round(
        _ world: World, _ lines: LogLines, at now: Timestamp, products: [String] = []
    ) async throws {
        let service = try #require(world.server.ledger)
        var ledger = service.ledger
        for product in products { ledger.rules.catalogues["com.example"]?.products[product] = .init(entitlements: []) }
        var housekeeping = Housekeeping(
            ledger: ledger, now: { now }, clock: VirtualClock(cancelsSleepingTasks: true),
            logger: Logger(label: "test") { _ in lines })
        housekeeping.board = service.board
        housekeeping.apps = service.apps
        let task = Task { [housekeeping] in try await housekeeping.run() }
        _ = await task.result
    }

    private static func concern(_ world: World) async throws -> String? {
        try await world.send(.get, "/health/ready", key: nil).1["concern"]?.string
    }

    private static func warnings(_ lines: LogLines) -> [String] { lines.text.filter { $0.hasPrefix(warning) } }

    @Test func `an unknown product is a warning, a concern, and named in the answer`() async throws {
        let (world, lines) = (try await World(), LogLines())
        try await Self.buy("mnoth", "1", in: world)
        try await Self.round(world, lines, at: TestStore.day(0))
        #expect(Self.warnings(lines).count == 1)
        #expect(Self.warnings(lines)[0].contains("mnoth"))
        #expect(try await Self.concern(world)?.contains("mnoth (Production)") == true)
        let answer = try await world.send(.get, "/v1/customers/anna/entitlements/pro", key: .client).1
        #expect(answer["isActive"] == .bool(false) && answer["unknownProducts"]?.compactText == #"["mnoth"]"#)
    }

    @Test func `the thousand and first product is a warning too, once the others were logged`() {
        let board = NoticeBoard()
        let scope = LedgerScope(bundleId: "com.example", environment: .production)
        func note(_ numbers: Range<Int>) {
            for number in numbers { board.note([Notice(.unknownProduct, "\(number)", in: scope): 1]) }
        }
        note(0..<1000)
        #expect(board.takeDue(at: TestStore.day(0)).count == 1000)
        note(1000..<1001)
        #expect(board.takeDue(at: TestStore.day(0)).isEmpty, "the bound holds within the hour")
        _ = board.takeDue(at: TestStore.day(1))
        note(1001..<1002)
        #expect(board.takeDue(at: TestStore.day(1)).map(\.notice.subject) == ["1001"])
    }

    @Test func `readiness is public, so it has no id of a contested purchase`() async throws {
        let (world, lines) = (try await World(policy: .keep), LogLines())
        let body =
            #"{"document":"\#(try world.transaction { ($0.transactionId, $0.originalTransactionId) = ("77701", "77701") })"}"#
        for customer in ["a", "b", "c", "d"] {
            _ = try await world.send(.post, "/v1/customers/\(customer)/purchases", body)
        }
        try await Self.round(world, lines, at: TestStore.day(0))
        let concern = try #require(try await Self.concern(world))
        #expect(concern.contains("1 of them") && !concern.contains("77701"), "\(concern)")
        #expect(lines.text.contains { $0.hasPrefix("More customers than usual") && $0.contains("77701") })
    }

    @Test func `an answer that is active names no unknown product`() async throws {
        let world = try await World()
        try await Self.buy("mnoth", "1", in: world)
        try await Self.buy("month", "2", in: world)
        let answer = try await world.send(.get, "/v1/customers/anna/entitlements/pro", key: .client).1
        #expect(answer["isActive"] == .bool(true) && answer["unknownProducts"] == nil)
    }

    @Test func `the warning comes once, then hourly with a count`() async throws {
        let (world, lines) = (try await World(), LogLines())
        for id in 1...3 { try await Self.buy("mnoth", "\(id)", in: world) }
        try await Self.round(world, lines, at: TestStore.day(0))
        for id in 4...5 { try await Self.buy("mnoth", "\(id)", in: world) }
        try await Self.round(world, lines, at: TestStore.day(0).advanced(by: .seconds(3599)))
        #expect(Self.warnings(lines).count == 1 && Self.warnings(lines)[0].contains(#""times": 3"#))
        try await Self.round(world, lines, at: TestStore.day(0).advanced(by: .seconds(3600)))
        #expect(Self.warnings(lines).count == 2 && Self.warnings(lines)[1].contains(#""times": 2"#))
    }

    @Test func `a product that is listed without entitlements is known, and never named`() async throws {
        let (world, lines) = (try await World(), LogLines())
        try await Self.buy("coins", "1", in: world)
        try await Self.round(world, lines, at: TestStore.day(0), products: ["coins"])
        #expect(try await Self.concern(world) == nil)
    }

    @Test func `the concern outlives a restart, and ends after 30 days without such a purchase`() async throws {
        let storage = MemoryLedgerStorage()
        let (world, lines) = (try await World(storage: storage), LogLines())
        try await Self.buy("mnoth", "1", in: world)
        let restarted = try await World(storage: storage)
        try await Self.round(restarted, lines, at: TestStore.day(29))
        #expect(try await Self.concern(restarted) != nil)
        #expect(Self.warnings(lines).isEmpty, "nothing new arrived")
        try await Self.round(restarted, lines, at: TestStore.day(30))
        #expect(try await Self.concern(restarted) == nil)
        let records = try await storage.records(RecordSelection(), limit: 10)
        #expect(!records.contains { $0.key.kind.rawValue == "unknownProduct" })
    }

    @Test func `a product that the configuration lost is a concern once a customer is denied`() async throws {
        let (world, lines) = (try await World(), LogLines())
        var earlier = world.ledger
        earlier.rules.catalogues["com.example"]?.products["lost"] = .init(entitlements: ["pro"])
        let verifier = try #require(world.server.ledger).verifier
        let token = try world.transaction { $0.productId = "lost" }
        let evidence = try #require(
            Evidence(
                try await verifier.verify(
                    token.utf8, as: JWSTransactionDecodedPayload.self, at: LedgerRoutesTests.now)))
        _ = try await earlier.record([evidence], claimedBy: "anna", at: LedgerRoutesTests.now)
        try await Self.round(world, lines, at: TestStore.day(0))
        #expect(try await Self.concern(world) == nil, "nobody asked")
        let answer = try await world.send(.get, "/v1/customers/anna/entitlements/pro", key: .client).1
        #expect(answer["unknownProducts"]?.compactText == #"["lost"]"#)
        try await Self.round(world, lines, at: TestStore.day(0))
        #expect(try await Self.concern(world)?.contains("lost (Production)") == true)
        #expect(Self.warnings(lines).count == 1)
    }

    @Test func `old purchases that a backfill brings are no concern`() async throws {
        let (world, lines) = (try await World(), LogLines())
        try await Self.buy("retired", "1", from: -31, in: world)
        try await Self.round(world, lines, at: TestStore.day(0))
        #expect(try await Self.concern(world) == nil && Self.warnings(lines).isEmpty)
    }
}
