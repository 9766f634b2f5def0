// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import ReceiptCoding
import TestWorld
import Testing

/// What a long history costs: its rows are counted before an answer is made, and the answer counts until it was read.
@Suite(.timeLimit(.minutes(60))) struct LongAnswerTests {
    private typealias World = LedgerRoutesTests.World
    private static let scope = LedgerScope(bundleId: "com.example", environment: .production)

    /// A world that knows a subscription with many periods, and the body of a request with a receipt of its first one.
    private static func world(periods: Int) async throws -> (World, String) {
        let world = try await World()
        try await LongHistory.put(LongHistory.chain(periods: periods, in: scope), into: world.storage)
        let receipt = try world.store.sign(LongHistory.receipt())
        return (world, #"{"receipt-data":"\#(Base64.encode(receipt))"}"#)
    }

    private static func post(_ body: String) -> String {
        "POST /verifyReceipt HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    /// Bounds whose timeouts are longer than the test. Loopback is a client like any other.
    private static func bounds(_ bytes: Int) -> ServerBounds {
        var bounds = ServerBounds()
        bounds.bodyBytesInFlight = bytes
        (bounds.bodyTimeout, bounds.requestTimeout) = (.seconds(3600), .seconds(3600))
        bounds.writeTimeout = .seconds(3600)
        bounds.trustsLoopback = false
        return bounds
    }

    // MARK: verifyReceipt

    @Test func `a row from facts has what the document about it says, in the same form`() async throws {
        let storage = MemoryLedgerStorage()
        try await FilledLedger.fill(storage, of: try TestStore(), days: 365)
        let world = try await World(storage: storage)
        var compared = 0
        for key in try await storage.chains(.all, limit: 10_000) where key.scope == FilledLedger.scope {
            guard let chain = try await world.ledger.chain(key), chain.key == key else { continue }
            let signed = chain.transactions.values.compactMap(\.signed)
            let documents = try await world.ledger.documents(signed.map(\.provenance))
            let payloads = try signed.compactMap { documents[$0.provenance] }
                .map { try JSONValue(parsing: JWS($0.document).payload).decode(JWSTransactionDecodedPayload.self) }
            let original = payloads.compactMap(\.originalPurchaseDate)
            // That of a chain is the same in all of its documents, so that of the receipt stands for all.
            #expect(Set(original).count <= 1)
            var purchase = TestStore.purchase(key.originalTransactionId)
            purchase.originalPurchaseDate = original.first
            let receipt = try world.store.sign(TestStore.receipt([purchase]))
            let body = #"{"receipt-data":"\#(Base64.encode(receipt))"}"#
            let answer = try await world.send(.post, "/verifyReceipt", body, key: nil).1
            let present = try #require(try await world.ledger.chain(key))
            for row in answer["latest_receipt_info"]?.array ?? [] {
                guard let payload = payloads.first(where: { $0.transactionId == row["transaction_id"]?.string }) else {
                    continue
                }
                var document = payload.legacy().value
                // A migrated purchase has the id of its chain now.
                document.originalTransactionId = key.originalTransactionId
                if document.quantity == nil { document.quantity = 1 }
                // The App Store's receipts have dates in whole seconds.
                let date = row["original_purchase_date_ms"]?.string.flatMap(Int64.init)
                #expect(date.map { $0 / 1000 } == original.first.map { $0.milliseconds / 1000 })
                document.originalPurchaseDate = date.map { Timestamp(milliseconds: $0) }
                // A receipt that is newer than the document may say other dates.
                let current = payload.transactionId.flatMap { present.transactions[$0] }.flatMap(present.current)
                document.expiresDate = current?.expiresDate
                if current?.isUpgraded == false { document.cancellationDate = current?.revocation?.date }
                if document.cancellationDate == nil { document.cancellationReason = nil }
                let expected = try JSONValue(encoding: document)
                #expect(row == expected, "expected \(expected.compactText)")
                compared += 1
            }
        }
        #expect(compared > 20)
    }

    @Test func `the receipt in the request and a newer one about further purchases are answered in full`()
        async throws
    {
        let (world, body) = try await Self.world(periods: 100)
        try await LongHistory.put(LongHistory.chain("2", periods: 100, in: Self.scope), into: world.storage)
        var both = LongHistory.receipt()
        both.inAppPurchases += LongHistory.receipt("2").inAppPurchases
        both.receiptCreationDate = TestStore.day(1)
        let newer = try world.store.sign(both)
        let full = try await world.send(
            .post, "/verifyReceipt", #"{"receipt-data":"\#(Base64.encode(newer))"}"#, key: nil
        ).1
        #expect(full["latest_receipt_info"]?.array?.count == 200)
        let answer = try await world.send(.post, "/verifyReceipt", body, key: nil).1
        #expect(answer["latest_receipt_info"] == full["latest_receipt_info"])
        #expect(answer["latest_receipt"] == full["latest_receipt"])
    }

    @Test func `an answer that is not read counts until its client is gone, and one that is read no longer`()
        async throws
    {
        let (world, body) = try await Self.world(periods: 3000)
        try await withServer(Self.bounds(256 << 20), ledger: world.server.ledger) { running in
            let silent = try await RawClient(port: running.port, isReading: false)
            await silent.send(Self.post(body))
            // First the rows are reserved, then the bytes of the answer.
            let reserved = 3001 * ServerBounds.answerRow
            while running.server.bodyBytesInFlight == 0 || running.server.bodyBytesInFlight >= reserved {
                try await pause()
            }
            let held = running.server.bodyBytesInFlight
            #expect(held > 3000 * 700)
            let reader = try await RawClient(port: running.port)
            await reader.send(Self.post(body))
            #expect(await reader.answer(endingWith: #""status":0}"#).utf8.count > 3000 * 700)
            while running.server.bodyBytesInFlight > held { try await pause() }
            #expect(running.server.bodyBytesInFlight == held)
            try await silent.reset()
            while running.server.bodyBytesInFlight > 0 { try await pause() }
        }
    }

    @Test(arguments: [2 << 20, 1 << 20, 64 << 10])
    func `an answer is refused only while others hold the budget, however long it is`(budget: Int) async throws {
        // Some 820 KB are reserved: more than a client's quarter, or more than all.
        let (world, body) = try await Self.world(periods: 400)
        try await withServer(Self.bounds(budget), ledger: world.server.ledger) { running in
            // A client for each request: the server ends connections that are idle for long.
            func ask(_ end: String) async throws -> String {
                let client = try await RawClient(port: running.port)
                await client.send(Self.post(body))
                return await client.answer(endingWith: end)
            }
            #expect(try await ask(#""status":0}"#).hasPrefix("HTTP/1.1 200"))
            while running.server.bodyBytesInFlight > 0 { try await pause() }
            // Others hold so much that 820 KB are not free.
            var holders: [RawClient] = []
            let length = ServerBounds.shortBody + budget / 4
            for number in 2...5 where running.server.bodyBytesInFlight < budget - 600_000 || number == 2 {
                let before = running.server.bodyBytesInFlight
                let holder = try await RawClient(port: running.port, from: "127.0.0.\(number)")
                await holder.post("/verifyReceipt", length: length + 1, sent: length)
                while running.server.bodyBytesInFlight < before + budget / 4 { try await pause() }
                holders.append(holder)
            }
            let refused = try await ask("}")
            #expect(refused.hasPrefix("HTTP/1.1 503"), "\(refused)")
            #expect(refused.hasSuffix(#"{"status":21005}"#) && refused.contains("\r\nRetry-After: 5\r\n"))
            for holder in holders { try await holder.reset() }
            while running.server.bodyBytesInFlight > 0 { try await pause() }
            #expect(try await ask(#""status":0}"#).hasPrefix("HTTP/1.1 200"))
        }
    }

    // MARK: Our routes

    @Test func `a subscription has its newest 500 periods, and a cursor to those before, also if it renews meanwhile`()
        async throws
    {
        let (world, _) = try await Self.world(periods: 1201)
        var (pages, cursor) = ([[String]](), String?.none)
        repeat {
            let query = cursor.map { "?periods=\($0)" } ?? ""
            let (status, answer) = try await world.send(.get, "/v1/subscriptions/1\(query)")
            #expect(status == .ok && answer["subscription"]?["originalTransactionId"]?.string == "1")
            pages.append((answer["transactions"]?.array ?? []).compactMap { $0["transactionId"]?.string })
            cursor = answer["periodsCursor"]?.string
            if pages.count == 1 {
                try await LongHistory.put(LongHistory.chain(periods: 1202, in: Self.scope), into: world.storage)
            }
        } while cursor != nil
        #expect(pages.map(\.count) == [500, 500, 201])
        let expected = (0..<1201).map { $0 == 0 ? "1" : LongHistory.period($0, of: "1") }
        #expect(pages.reversed().flatMap(\.self) == expected)
        for wrong in ["x", "", "2"] {
            let (status, answer) = try await world.send(.get, "/v1/subscriptions/1?periods=\(wrong)")
            #expect(status == .badRequest && answer["error"]?["code"]?.string == "invalidCursor")
        }
    }

    @Test func `a short history has no cursor, and a customer has all periods of a long one`() async throws {
        let (world, _) = try await Self.world(periods: 500)
        #expect(try await world.send(.get, "/v1/subscriptions/1").1["periodsCursor"] == nil)
        try await LongHistory.put(LongHistory.chain(periods: 1201, in: Self.scope), into: world.storage)
        let receipt = try world.store.sign(TestStore.receipt([TestStore.purchase()]))
        let body = #"{"document":"\#(Base64.encode(receipt))"}"#
        let (status, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body)
        #expect(status == .ok && answer["customer"]?["purchases"]?.array?.count == 1201)
        #expect(try await world.send(.get, "/v1/customers/anna").1 == answer["customer"])
    }

    @Test func `our routes too are refused while others hold the budget`() async throws {
        let (world, _) = try await Self.world(periods: 400)
        let key = world.keys[.server] ?? ""
        try await withServer(Self.bounds(1 << 20), ledger: world.server.ledger) { running in
            let holder = try await RawClient(port: running.port, from: "127.0.0.2")
            await holder.post("/verifyReceipt", length: 3 << 20, sent: ServerBounds.shortBody + 256 << 10)
            while running.server.bodyBytesInFlight < 256 << 10 { try await pause() }
            let client = try await RawClient(port: running.port)
            let request = "GET /v1/subscriptions/1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(key)\r\n\r\n"
            await client.send(request)
            let refused = await client.answer(endingWith: "}}")
            #expect(refused.hasPrefix("HTTP/1.1 503") && refused.contains(#""code":"overloaded""#), "\(refused)")
            try await holder.reset()
            while running.server.bodyBytesInFlight > 0 { try await pause() }
            await client.send(request)
            #expect(await client.answer(endingWith: "}").hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test func `a document is found in the environments that the request is about`() async throws {
        let world = try await World()
        let token = try world.transaction { $0.environment = Open(.sandbox) }
        #expect(try await world.submit(token).0 == .ok)
        let name = "\(LedgerRoutesTests.now.milliseconds)-\(DocumentDigest(Array(token.utf8), .transaction))"
        for (query, status) in [
            ("", 200), ("?environment=sandbox", 200), ("?environment=any", 200), ("?environment=production", 404),
            ("?environment=xcode", 404),
        ] {
            let found = try await world.send(.get, "/v1/evidence/\(name)\(query)").0
            #expect(found.code == status, "\(query)")
        }
    }
}
