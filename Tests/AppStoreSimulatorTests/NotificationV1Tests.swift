// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import TestData
import TestWorld
import Testing

/// Notifications of version 1: which are sent, what they say, and that the code of our server reads them.
@Suite struct NotificationV1Tests {
    private static let opened = Result { try open() }

    private static func shop() throws -> StoreFixture { try opened.get() }

    private static func open() throws -> StoreFixture {
        var fixture = try StoreFixture.shop()
        for delivery in try fixture.store.takeDeliveries() { fixture.store.record(.success, of: delivery) }
        fixture.store.notificationVersions = [.production: .one, .sandbox: .one]
        return fixture
    }

    /// What is sent now: the types of version 1, and `2` for each notification of version 2.
    private static func types(_ fixture: inout StoreFixture) throws -> [String] {
        try fixture.store.takeDeliveries().map { delivery in
            fixture.store.record(.success, of: delivery)
            return try JSONValue(parsing: delivery.body)["notification_type"]?.string ?? "2"
        }
    }

    @Test(.takesLong)
    func `the code of the server reads the notifications of a life, and their receipts verify`() async throws {
        let world = try RandomWorld(seed: 3, customers: 3, actions: 6).world
        var fixture = try StoreFixture(world)
        let verifier = try fixture.verifier()
        let ledger = Ledger(storage: MemoryLedgerStorage())
        fixture.store.sharedSecret = "secret"
        var count = 0
        // Each has a receipt of its own, so some of the whole life are enough for every form.
        let step = max(1, world.occurrences.count / 10)
        for index in stride(from: 0, to: world.occurrences.count, by: step) {
            let occurrence = world.occurrences[index]
            let bodies = world.notificationsV1(of: occurrence, password: "secret", signer: fixture.store.signer)
            for body in bodies {
                count += 1
                let json = try JSONValue(parsing: body.json)
                let read = try json.decode(ResponseBodyV1.self)
                #expect(read == body && read.unknownMembers.members.isEmpty)
                #expect(read.modernEnvironment == occurrence.environment && read.password == "secret")
                let receipt = try #require(ResponseBodyV1.latestReceipt(in: body.json))
                let verified = try await verifier.verify(receipt: receipt, at: world.now)
                let evidence = try #require(Evidence(verified))
                _ = try await ledger.record([evidence], at: world.now)
                let id = try #require(occurrence.transaction?.originalTransactionId)
                #expect(json["original_transaction_id"]?.integer == Int64(id))
                if occurrence.status != nil {
                    let scope = LedgerScope(bundleId: "com.example", environment: occurrence.environment)
                    #expect(try await ledger.chain(ChainKey(id, in: scope)) != nil)
                }
            }
        }
        #expect(count > 0)
    }

    @Test func `every type but the one that Apple no longer sends occurs`() throws {
        var found: Set<NotificationTypeV1> = []
        for seed in 1...6 as ClosedRange<UInt64> {
            let world = try RandomWorld(seed: seed, actions: 120).world
            for occurrence in world.occurrences {
                let types = world.typesV1(of: occurrence)
                found.formUnion(types)
                if occurrence.environment == .sandbox {
                    #expect(Set(types).isDisjoint(with: Self.notInSandbox), "\(occurrence.topic) \(types)")
                }
                if occurrence.transaction?.inAppOwnershipType == .familyShared {
                    #expect(Set(types).isDisjoint(with: Self.notForMembers), "\(occurrence.topic) \(types)")
                }
            }
        }
        #expect(found == Set(NotificationTypeV1.allCases).subtracting([.renewal]))
    }

    private static let notInSandbox: Set<NotificationTypeV1> = [
        .didRecover, .renewal, .didFailToRenew, .revoke, .consumptionRequest, .priceIncreaseConsent,
    ]
    private static let notForMembers: Set<NotificationTypeV1> = [
        .cancel, .initialBuy, .priceIncreaseConsent, .refund, .consumptionRequest,
    ]

    /// An event, and Apple's types for it.
    struct Event: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var types: [String]
        var act: @Sendable (inout StoreFixture) throws -> Void

        init(_ name: String, _ types: [String], _ act: @escaping @Sendable (inout StoreFixture) throws -> Void) {
            (testDescription, self.types, self.act) = (name, types, act)
        }
    }

    /// Dan has a subscription of silver for a month, whose trial is over.
    static let events = [
        Event("renewal", ["DID_RENEW"]) { $0.wait(minutes: 31 * 1440) },
        Event("cancellation", ["DID_CHANGE_RENEWAL_STATUS"]) { try $0.store.world.cancel($0.dan) },
        Event("upgrade", ["DID_CHANGE_RENEWAL_STATUS", "INTERACTIVE_RENEWAL"]) {
            try $0.store.world.buy("gold.month", by: "dan")
        },
        Event("downgrade", ["DID_CHANGE_RENEWAL_PREF"]) { try $0.store.world.buy("silver.week", by: "dan") },
        Event("refund", ["CANCEL", "DID_CHANGE_RENEWAL_STATUS"]) {
            try $0.store.world.refund($0.store.world.subscriptions[$0.dan]?.current.transactionId ?? "")
        },
        Event("refund of the trial", ["CANCEL"]) { try $0.store.world.refund($0.dan) },
        Event("return to the same product", ["DID_CHANGE_RENEWAL_STATUS", "DID_CHANGE_RENEWAL_STATUS"]) {
            try $0.store.world.cancel($0.dan)
            $0.wait(minutes: 40 * 1440)
            try $0.store.world.buy("silver.month", by: "dan")
        },
        Event("return to another", ["DID_CHANGE_RENEWAL_STATUS", "INTERACTIVE_RENEWAL", "DID_CHANGE_RENEWAL_STATUS"]) {
            try $0.store.world.cancel($0.dan)
            $0.wait(minutes: 40 * 1440)
            try $0.store.world.buy("gold.month", by: "dan")
        },
        Event("failure and recovery", ["DID_FAIL_TO_RENEW", "DID_RECOVER"]) {
            try $0.store.world.breakBilling(of: "dan")
            $0.wait(minutes: 31 * 1440)
            try $0.store.world.fixBilling(of: "dan")
        },
        Event("failure without end", ["DID_FAIL_TO_RENEW", "DID_CHANGE_RENEWAL_STATUS"]) {
            try $0.store.world.breakBilling(of: "dan")
            $0.wait(minutes: 100 * 1440)
        },
        Event("price increase", ["PRICE_INCREASE_CONSENT"]) {
            try $0.store.world.increasePrice(of: $0.dan, to: 12_990, needsConsent: true)
            try $0.store.world.consent($0.dan)
        },
        Event("refund request and refund of coins", ["CONSUMPTION_REQUEST", "REFUND"]) {
            let coins = try $0.store.world.buy("coins", by: "dan") ?? ""
            try $0.store.world.requestRefund(coins)
            try $0.store.world.refund(coins)
        },
        Event("test", ["2"]) { $0.store.world.sendTestNotification(in: .production) },
    ]

    @Test(.takesLong, arguments: events) func `an event has Apple's types`(event: Event) throws {
        var fixture = try Self.shop()
        try fixture.store.world.addCustomer("dan")
        fixture.dan = try #require(try fixture.store.world.buy("silver.month", by: "dan"))
        #expect(try Self.types(&fixture) == ["INITIAL_BUY"])
        fixture.wait(minutes: 8 * 1440)
        #expect(try Self.types(&fixture).last == "DID_RENEW")
        // The others of the shop renew too.
        let others = ["ann", "bob", "cid"].flatMap { fixture.store.world.subscriptions(of: $0) }
        try event.act(&fixture)
        let sent = try fixture.store.takeDeliveries().compactMap { delivery -> String? in
            let body = try JSONValue(parsing: delivery.body)
            guard !others.contains(body["original_transaction_id"].map(\.compactText) ?? "") else { return nil }
            return body["notification_type"]?.string ?? "2"
        }
        #expect(sent == event.types)
    }

    @Test func `a notification has the members of Apple's page, in their forms`() throws {
        var fixture = try Self.shop()
        fixture.store.sharedSecret = "secret"
        let id = fixture.names["sub"] ?? ""
        try fixture.store.world.cancel(id)
        let delivery = try #require(try fixture.store.takeDeliveries().first)
        let json = try JSONValue(parsing: delivery.body)
        #expect(
            json.members?.map(\.name) == [
                "notification_type", "password", "environment", "auto_renew_product_id", "auto_renew_adam_id",
                "auto_renew_status", "auto_renew_status_change_date", "auto_renew_status_change_date_ms",
                "auto_renew_status_change_date_pst", "bid", "bvrs", "original_transaction_id", "unified_receipt",
            ])
        #expect(json["environment"]?.string == "PROD" && json["password"]?.string == "secret")
        #expect(json["auto_renew_status"]?.string == "false" && json["auto_renew_product_id"]?.string == "gold.year")
        #expect(json["original_transaction_id"] == .number(id))
        let unified = try #require(json["unified_receipt"])
        #expect(unified["environment"]?.string == "Production" && unified["status"] == .number("0"))
        #expect(unified["pending_renewal_info"]?.array?.first?["auto_renew_status"]?.string == "0")
        #expect(unified["latest_receipt_info"]?.array?.isEmpty == false)
    }

    @Test func `each of two notifications on one turn of the clock has the receipt of its instant`() throws {
        var fixture = try Self.shop()
        let id = fixture.names["sub"] ?? ""
        let now = fixture.store.world.now.milliseconds
        try fixture.store.advance(to: Timestamp(milliseconds: now + 800 * 86_400_000))
        let rows = try fixture.store.takeDeliveries().compactMap { delivery -> Int? in
            let json = try JSONValue(parsing: delivery.body)
            guard json["original_transaction_id"] == .number(id) else { return nil }
            let all = json["unified_receipt"]?["latest_receipt_info"]?.array ?? []
            return all.count { $0["original_transaction_id"]?.string == id }
        }
        #expect(rows == [2, 3])
    }

    @Test(arguments: [(Environment.production, [0, 6, 30, 78] as [Int64]), (.sandbox, [0])])
    func `a notification is sent again after Apple's hours, and is in no history`(
        environment: Environment, hours: [Int64]
    ) throws {
        var fixture = try Self.shop()
        let customer = environment == .production ? "ann" : "cid"
        try fixture.store.world.cancel(fixture.store.world.subscriptions(of: customer)[0])
        let start = fixture.store.world.now
        var (attempts, bodies): ([Int64], Set<[UInt8]>) = ([], [])
        for _ in 0..<200 {
            for delivery in try fixture.store.takeDeliveries(in: environment) {
                attempts.append((fixture.store.world.now.milliseconds - start.milliseconds) / 3_600_000)
                bodies.insert(delivery.body)
                fixture.store.record(.timedOut, of: delivery)
            }
            fixture.wait(minutes: 30)
        }
        #expect(attempts == hours && bodies.count == 1)
        let now = fixture.store.world.now.milliseconds
        let body = #"{"startDate":\#(start.milliseconds),"endDate":\#(now)}"#
        let history = try fixture.call("POST /inApps/v1/notifications/history", body, in: environment)
        #expect(history.json["notificationHistory"]?.array == [])
    }

    @Test func `unknown words and members come beside what a server needs`() throws {
        var fixture = try Self.shop()
        fixture.store.faults.unknownTypes = 1
        fixture.store.faults.unknownMembers = 1
        try fixture.store.world.cancel(fixture.names["sub"] ?? "")
        let bodies = try fixture.store.takeDeliveries().map { try JSONValue(parsing: $0.body) }
        #expect(
            bodies.map { $0["notification_type"]?.string } == ["DID_CHANGE_RENEWAL_STATUS", "SIMULATED_NEW_TYPE"])
        #expect(bodies.allSatisfy { $0["simulatedNewMember"] != nil && $0["unified_receipt"] != nil })
    }
}

extension StoreFixture {
    /// The original transaction id of Dan's subscription.
    fileprivate var dan: String {
        get { names["dan"] ?? "" }
        set { names["dan"] = newValue }
    }
}
