// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import ReceiptCoding
import Testing

/// verifyReceipt as a route of the simulated App Store, and the receipts that it answers.
@Suite struct VerifyReceiptRouteTests {
    /// Sends a request without a bearer token.
    private static func send(
        _ fixture: inout StoreFixture, _ body: [UInt8], by method: String = "POST",
        in environment: Environment = .production
    ) -> StoreResponse {
        fixture.store.respond(
            to: StoreRequest(method, "/verifyReceipt", body: body), in: environment, at: StoreFixture.wallClock)
    }

    private static func receipt(of name: String, _ fixture: StoreFixture) throws -> [UInt8] {
        try fixture.store.signer.sign(#require(fixture.store.world.receipt(of: name)), at: fixture.store.world.now)
    }

    private static func body(_ receipt: [UInt8]) -> [UInt8] {
        Array(#"{"receipt-data":"\#(Data(receipt).base64EncodedString())"}"#.utf8)
    }

    @Test(arguments: [
        ("ann", Environment.production, 0), ("ann", .sandbox, 21008), ("cid", .sandbox, 0), ("cid", .production, 21007),
    ])
    func `each environment answers its own receipts, without a token`(
        name: String, environment: Environment, status: Int64
    ) throws {
        var fixture = try StoreFixture.shop()
        let answer = Self.send(&fixture, Self.body(try Self.receipt(of: name, fixture)), in: environment)
        #expect(answer.status == 200 && answer.headers["content-type"] == "application/json")
        #expect(answer.json["status"]?.integer == status)
    }

    @Test func `other methods, bytes that are no receipt, and long bodies are refused as Apple refuses them`() throws {
        var fixture = try StoreFixture.shop()
        let receipt = try Self.receipt(of: "ann", fixture)
        #expect(Self.send(&fixture, [], by: "GET").json["status"]?.integer == 21000)
        for document in [Array("no receipt".utf8), receipt.dropLast(8)] {
            #expect(Self.send(&fixture, Self.body(Array(document))).json["status"]?.integer == 21002)
        }
        var altered = receipt
        altered[altered.count / 4] ^= 1
        #expect(Self.send(&fixture, Self.body(altered)).json["status"]?.integer == 21003)
        let longest = 3_145_728
        #expect(Self.send(&fixture, Array(repeating: 0x20, count: longest)).status == 200)
        #expect(Self.send(&fixture, Array(repeating: 0x20, count: longest + 1)).status == 413)
    }

    @Test func `faults of the App Store are statuses in the body`() throws {
        var fixture = try StoreFixture.shop()
        let body = Self.body(try Self.receipt(of: "ann", fixture))
        fixture.store.faults.internalErrors = 1
        #expect(Self.send(&fixture, body).json["status"]?.integer == 21009)
        fixture.store.faults = .none
        fixture.store.faults.timeouts = 1
        #expect(Self.send(&fixture, body).isWithheld)
    }

    @Test(
        arguments: [
            ("ann", nil, nil, 0), ("ann", nil, "any", 0), ("ann", "secret", "secret", 0), ("ann", "secret", nil, 21004),
            ("ann", "secret", "Secret", 21004), ("ann", "secret", "", 21004), ("dan", "secret", nil, 0),
        ] as [(String, String?, String?, Int64)])
    func `receipts with subscriptions need the app's secret, if it has one`(
        name: String, secret: String?, password: String?, status: Int64
    ) throws {
        var fixture = try StoreFixture.shop()
        try fixture.store.world.addCustomer("dan")
        try fixture.store.world.buy("book", by: "dan")
        fixture.store.sharedSecret = secret
        var request = VerifyReceiptRequest()
        request.receiptData = Base64.encode(try Self.receipt(of: name, fixture))
        request.password = password
        let answer = Self.send(&fixture, request.json).json
        #expect(answer["status"]?.integer == status)
        #expect((answer["receipt"] != nil) == (status == 0))
        // Another environment is the earlier fault.
        #expect(Self.send(&fixture, request.json, in: .sandbox).json["status"]?.integer == 21008)
    }

    @Test func `an old transaction receipt is answered in its own style, and 21006 after the subscription`() throws {
        var fixture = try StoreFixture.shop()
        let id = try #require(fixture.names["sub"])
        let info = try #require(fixture.store.world.transactionReceipt(of: id))
        let receipt = try fixture.store.signer.sign(info)
        let running = Self.send(&fixture, Self.body(receipt)).json
        #expect(VerifyTransactionReceiptResponse.isTransactionReceiptStyle(running))
        #expect(running["status"]?.integer == 0 && running["auto_renew_status"]?.integer == 1)
        #expect(running["latest_receipt_info"]?["transaction_id"]?.string != nil)
        let newest = try #require(running["latest_receipt"]?.string.flatMap { Data(base64Encoded: $0) })
        #expect(Self.send(&fixture, Self.body(Array(newest))).json["status"]?.integer == 0)

        try fixture.store.world.cancel(id)
        fixture.wait(minutes: 400 * 1440)
        let over = Self.send(&fixture, Self.body(receipt)).json
        #expect(over["status"]?.integer == 21006 && over["latest_expired_receipt_info"] != nil)
        #expect(over["expiration_intent"]?.string == "1" && over["latest_receipt"] == nil)

        #expect(Self.send(&fixture, Self.body(receipt), in: .sandbox).json["status"]?.integer == 21008)
        fixture.store.sharedSecret = "secret"
        #expect(Self.send(&fixture, Self.body(receipt)).json["status"]?.integer == 21004)
        var altered = info
        altered.productId = "gold.month"
        let parts = try [receipt, fixture.store.signer.sign(altered)].map {
            String(decoding: $0, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        }
        // The signature of one receipt above the purchase of another.
        let mixed = Array((parts[0].prefix(2) + parts[1].dropFirst(2)).joined(separator: "\n").utf8)
        #expect(Self.send(&fixture, Self.body(mixed)).json["status"]?.integer == 21003)
    }

    @Test func `dates have whole seconds`() throws {
        var fixture = try StoreFixture.shop()
        fixture.store.world.advance(to: Timestamp(milliseconds: fixture.store.world.now.milliseconds + 1))
        let id = try #require(try fixture.store.world.buy("coins", by: "bob"))
        #expect((fixture.store.world.transaction(id)?.purchaseDate?.milliseconds ?? 0) % 1000 != 0)
        for name in ["ann", "bob"] {
            let rows = Self.send(&fixture, Self.body(try Self.receipt(of: name, fixture))).json["latest_receipt_info"]
            let dates = (rows?.array ?? []).flatMap { $0.members ?? [] }.filter { $0.name.hasSuffix("_date_ms") }
            #expect(!dates.isEmpty && dates.allSatisfy { $0.value.string?.hasSuffix("000") == true }, "\(dates)")
        }
    }

    @Test func `a consumable that the app's server finished is no longer in the receipt`() throws {
        var fixture = try StoreFixture.shop()
        let coins = try #require(fixture.names["coins"])
        let ids = { (fixture: StoreFixture) in
            fixture.store.world.receipt(of: "ann")?.inAppPurchases.map(\.transactionId) ?? []
        }
        #expect(ids(fixture).contains(coins))
        #expect(try fixture.call("POST /inApps/v1/transactions/{coins}/finish").status == 200)
        #expect(!ids(fixture).contains(coins))
    }
}
