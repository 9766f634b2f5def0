// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import HTTPTypes
import HummingbirdTesting
import PurchaseLedger
import PurchaseLedgerTesting
import PurchaseServer
import TestWorld
import Testing

/// Tests the answers for people who look after an app: the overview, a customer in words, and a document's checks.
@Suite struct OverviewTests {
    private typealias World = LedgerRoutesTests.World

    @Test func `the overview has the notifications of each hour, failed jobs and unknown products`() async throws {
        let world = try await World()
        let now = LedgerRoutesTests.now
        let (status, empty) = try await world.send(.get, "/v1/overview")
        #expect(status == .ok && empty["asOf"]?.integer == now.milliseconds)
        #expect(empty["newestNotificationAt"] == nil && empty["failedJobs"]?.integer == 0)
        let hour = now.milliseconds / 3_600_000 * 3_600_000
        let hours = empty["notifications"]?.array ?? []
        let expected: [Int64] = (0..<48).map { ago in hour - Int64(47 - ago) * 3_600_000 }
        #expect(hours.compactMap { $0["from"]?.integer } == expected)
        #expect(hours.allSatisfy { $0["count"]?.integer == 0 })

        let sent = try world.notification("SUBSCRIBED", transaction: world.transaction())
        #expect(try await world.respond(.post, "/notifications/v2", sent, key: nil).status == .ok)
        let gems = TestStore.transaction("9", product: "gems", type: .consumable, until: nil)
        try await world.submit(world.store.sign(gems))
        let id = Job.ID(.customerHistory, "x", in: LedgerScope(bundleId: "com.example", environment: .sandbox))
        try await world.ledger.add(Job(id, dueAt: now, failure: "no answer"), at: now)
        let overview = try await world.send(.get, "/v1/overview").1
        #expect(overview["newestNotificationAt"]?.integer == now.milliseconds)
        #expect(overview["notifications"]?.array?.last?["count"]?.integer == 1)
        #expect(overview["failedJobs"]?.integer == 1 && overview["failedJobsArePartial"] == .bool(false))
        #expect(overview["unknownProducts"]?.array?.map { $0["productId"]?.string } == ["gems"])
        #expect(overview["waitingEndpoints"] == .array([]) && overview["concerns"] == .array([]))
    }

    @Test(
        arguments: [
            ("user-0999", "user-0990"), ("USER-0042", "user-0042"), ("user-042", "user-0420"), ("9999", nil),
            ("user-0420x", "user-0420"), ("nobody", nil), ("bertram", "Bertram"), ("Brtram", "Bertram"),
            ("bBertram", "Bertram"),
        ])
    func `an unknown id costs no more with each customer, and the nearest are named`(
        id: String, near: String?
    ) async throws {
        let storage = CountingStorage()
        let world = try await World(storage: storage)
        let ids = (0..<999).map { number in "user-" + String("000\(number)".suffix(4)) } + ["Bertram"]
        let keys = ids.map { LedgerKey.customerID(CustomerID($0, of: "com.example")) }
        try await storage.commit(LedgerQuery(keys)) { snapshot in
            var changes = LedgerChanges()
            changes.customers = ids.map { id in
                let number = snapshot.newNumbers[CustomerID(id, of: "com.example")] ?? 0
                return CustomerRecord(Customer(number: number, bundleId: "com.example"), ids: [id], isEstablished: true)
            }
            return .commit(changes, ())
        }
        let (status, answer) = try await world.send(.get, "/v1/support/\(id)")
        let message = answer["error"]?["message"]?.string ?? ""
        #expect(status == .notFound && message.contains("Did you mean") == (near != nil), "\(message)")
        #expect(message.contains("“\(near ?? "")”") == (near != nil), "\(message)")
        #expect(storage.customers <= 200, "\(storage.customers) customers were read")
    }

    @Test func `the support answer has sentences and a time line, and other answers have neither`() async throws {
        let world = try await World()
        try await world.submit()
        let support = try await world.send(.get, "/v1/support/anna").1
        let environment = try #require(support["items"]?.array?.first?["environments"]?.array?.first)
        #expect(environment["sentences"]?.array?.first?.string?.hasPrefix("pro until 14 December 2023: ") == true)
        let line = try #require(environment["timeline"]?.array?.first)
        let day: Int64 = 86_400_000
        let from = LedgerRoutesTests.now.milliseconds
        #expect(
            line["bands"]?.compactText
                == #"[{"state":"paid","from":\#(from),"to":\#(from + 30 * day),"transactionId":"1"}]"#)
        #expect(line["kind"]?.string == "subscription" && line["entitlement"]?.string == "pro")
        let customer = try await world.send(.get, "/v1/customers/anna").1
        #expect(customer["sentences"] == nil && customer["timeline"] == nil)
    }

    @Test func `a document is explained by its checks and its payload, with those of the parts in it`() async throws {
        let world = try await World()
        let sent = try world.notification("SUBSCRIBED", transaction: world.transaction())
        #expect(try await world.respond(.post, "/notifications/v2", sent, key: nil).status == .ok)
        let support = try await world.send(.get, "/v1/support/1").1
        let documents = support["items"]?.array?.first?["documents"]?.array ?? []
        let name = documents.first { $0["kind"]?.string == "notification" }?["id"]?.string ?? ""
        let plain = try await world.send(.get, "/v1/evidence/\(name)").1
        #expect(plain["document"]?.string != nil && plain["checks"] == nil && plain["payload"] == nil)
        let explained = try await world.send(.get, "/v1/evidence/\(name)?explain=true").1
        let checks = explained["checks"]?.array ?? []
        let names = Set(checks.compactMap { $0["name"]?.string })
        #expect(names.isSuperset(of: ["chain", "signature", "app"]))
        #expect(checks.contains { $0["part"]?.string == "data.signedTransactionInfo" })
        #expect(checks.allSatisfy { $0["passed"] == .bool(true) || $0["name"]?.string == "revocation" })
        #expect(checks.last?["passed"] == nil)
        #expect(explained["payload"]?["data"]?["signedTransactionInfo"]?["transactionId"]?.string == "1")

        // A verifier that no longer trusts the root says so.
        var server = world.server
        var service = try #require(server.ledger)
        service.verifier.roots = .apple
        server.ledger = service
        var other = world
        other.server = server
        let refused = try await other.send(.get, "/v1/evidence/\(name)?explain=true").1
        #expect(refused["payload"] == nil)
        #expect(refused["checks"]?.array?.contains { $0["passed"] == .bool(false) } == true, "\(refused)")
    }
}
