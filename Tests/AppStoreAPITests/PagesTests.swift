// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import Testing

/// Lists in pages: of a simulated App Store in the same process, and of servers that do not end.
@Suite struct PagesTests {
    private static func page(_ next: String?, hasMore: Bool = true) -> ScriptedTransport.Step {
        let revision = next.map { #""revision":"\#($0)","# } ?? ""
        return .answer(200, #"{\#(revision)"hasMore":\#(hasMore),"signedTransactions":["x"]}"#)
    }

    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var pages: [ScriptedTransport.Step]
        var read: Int
        var code: AppStoreAPIError.Code?
        var cursor: String?
        var requests: Int?

        var testDescription: String { name }
    }

    static let cases = [
        Case(name: "one page", pages: [page("a", hasMore: false)], read: 1),
        Case(name: "three pages", pages: [page("a"), page("b"), page("c", hasMore: false)], read: 3),
        Case(name: "a last page without a token", pages: [page("a"), page(nil, hasMore: false)], read: 2),
        Case(name: "a last page with the same token", pages: [page("a"), page("a", hasMore: false)], read: 2),
        Case(
            name: "the same token for ever", pages: [page("a")], read: 1, code: .contradiction, requests: 2),
        Case(
            name: "two tokens in a circle", pages: [page("a"), page("b"), page("a")], read: 2, code: .contradiction,
            requests: 3),
        Case(
            name: "back to where the caller began", pages: [page("a"), page("z")], read: 1, code: .contradiction,
            cursor: "z", requests: 2),
        Case(name: "no token", pages: [page(nil)], read: 0, code: .malformedAnswer, requests: 1),
        Case(name: "an empty token", pages: [page("")], read: 0, code: .malformedAnswer, requests: 1),
        Case(
            name: "a token too long for an address", pages: [page(String(repeating: "a", count: 4097))], read: 0,
            code: .malformedAnswer, requests: 1),
        Case(
            name: "always another token", pages: (0..<20).map { page("\($0)") }, read: 9, code: .endlessPages,
            requests: 10),
        Case(
            name: "a failure in the middle", pages: [page("a"), .code(.invalidRequestRevision)], read: 1,
            code: .contradiction, requests: 6),
        Case(
            name: "an expired token", pages: [page("a"), .code(.paginationTokenExpired)], read: 1, code: .refused,
            requests: 2),
        Case(
            name: "nothing, although there was more",
            pages: [page("a"), .answer(200, #"{"revision":"b","hasMore":false,"signedTransactions":[]}"#)], read: 1,
            code: .contradiction, requests: 6),
        Case(
            name: "nothing once, although there was more",
            pages: [
                page("a"), .answer(200, #"{"revision":"b","hasMore":false,"signedTransactions":[]}"#),
                page("b", hasMore: false),
            ], read: 2, requests: 3),
        Case(
            name: "an id that nobody knows", pages: [.code(.transactionIdNotFound)], read: 0, code: .refused,
            requests: 1),
        Case(
            name: "an id that nobody knows days later", pages: [.code(.transactionIdNotFound)], read: 0, code: .refused,
            cursor: "z", requests: 1),
        Case(
            name: "a failure that passes", pages: [page("a"), .code(.generalInternal), page("b", hasMore: false)],
            read: 2, requests: 3),
    ]

    @Test(arguments: cases) func `a list ends`(example: Case) async throws {
        let fixture = try ClientFixture(production: example.pages)
        var read = 0
        var found: AppStoreAPIError?
        let pages = fixture.client.pages(
            .transactionHistory("1"), after: example.cursor, in: .production, atMost: 10)
        do throws(AppStoreAPIError) {
            for try await page in pages {
                #expect(page.signedTransactions == ["x"])
                read += 1
            }
        } catch {
            found = error
        }
        #expect(found?.code == example.code, "\(found?.description ?? "")")
        #expect(read == example.read)
        #expect(fixture.transport.calls.count == example.requests ?? example.read)
    }

    /// A page of each list, and a second one that is refused as if Apple had never known the list.
    private static let lists: [(body: String, read: @Sendable (AppStoreClient) async throws -> Int)] = [
        (
            #""signedTransactions":["x"],"revision":"a""#,
            { try await count($0.pages(.transactionHistory("1"), in: .production)) }
        ),
        (
            #""signedTransactions":["x"],"revision":"a""#,
            { try await count($0.pages(.refundHistory("1"), in: .production)) }
        ),
        (
            #""notificationHistory":[],"paginationToken":"a""#,
            { client in
                let request = NotificationHistoryRequest(startDate: ClientClock.start, endDate: ClientClock.start)
                return try await count(client.pages(.notificationHistory(request), in: .production))
            }
        ),
    ]

    private static func count(_ pages: Pages<some APIPage>) async throws -> Int {
        var count = 0
        for try await _ in pages { count += 1 }
        return count
    }

    @Test(
        arguments: [
            .accountNotFound, .appNotFound, .originalTransactionIdNotFound, .transactionIdNotFound,
            .invalidAppIdentifier,
            .invalidTransactionId, .invalidOriginalTransactionId, .generalBadRequest,
        ] as [APIErrorCode])
    func `a refusal after the first page is asked again, and if it lasts it is a contradiction`(
        code: APIErrorCode
    ) async throws {
        for (body, read) in Self.lists {
            let (more, last) = (
                ScriptedTransport.Step.answer(200, #"{\#(body),"hasMore":true}"#),
                ScriptedTransport.Step.answer(200, #"{\#(body),"hasMore":false}"#)
            )
            let passing = try ClientFixture(production: [more, .code(code), last])
            #expect(try await read(passing.client) == 2)
            #expect(passing.transport.calls.count == 3)
            let lasting = try ClientFixture(production: [more, .code(code)])
            let error = await #expect(throws: AppStoreAPIError.self) { _ = try await read(lasting.client) }
            #expect(error?.code == .contradiction && error?.errorCode == Open(code) && error?.isRetryable == true)
            #expect(error?.isUnknownTransaction == false)
            // The page before, and five attempts.
            #expect(lasting.transport.calls.count == 6)
        }
    }

    @Test func `each page is asked for with the token of the one before, and the same filter`() async throws {
        let fixture = try ClientFixture(production: [Self.page("a b"), Self.page("c"), Self.page("d", hasMore: false)])
        var filter = TransactionHistoryFilter()
        filter.productIds = ["p"]
        for try await _ in fixture.client.pages(.transactionHistory("1", filter), in: .production) {}
        #expect(
            fixture.transport.calls.map(\.request.target) == [
                "/inApps/v2/history/1?productId=p", "/inApps/v2/history/1?productId=p&revision=a%20b",
                "/inApps/v2/history/1?productId=p&revision=c",
            ])
    }

    @Test func `after an error there are no more pages`() async throws {
        let fixture = try ClientFixture(production: [.code(.generalBadRequest)])
        var iterator = fixture.client.pages(.refundHistory("1"), in: .production).makeAsyncIterator()
        await #expect(throws: AppStoreAPIError.self) { _ = try await iterator.next() }
        #expect(try await iterator.next() == nil)
        #expect(fixture.transport.calls.count == 1)
    }

    // MARK: - A simulated App Store

    /// An App Store in which anna bought 45 times, and 25 of that was refunded.
    private static func store(
        _ clock: ClientClock
    ) throws -> (transport: SimulatedTransport, key: StoreKey, id: String) {
        let world = World(seed: 1, catalogue: .example(bundleId: "com.example", appAppleId: 7), now: clock.now)
        let key = try StoreKey(seed: 1)
        var store = SimulatedStore(world, WorldSigner(try StoreAuthority.fixture()), key)
        store.notificationURLs[.sandbox] = "https://example.com/"
        try store.world.addCustomer("anna", environment: .sandbox)
        var ids: [String] = []
        for _ in 0..<45 {
            if let id = try store.world.buy("com.example.coins", by: "anna") { ids.append(id) }
            store.world.advance(to: Timestamp(milliseconds: store.world.now.milliseconds + 60_000))
        }
        for id in ids.prefix(25) { try store.world.refund(id) }
        // Only what was sent is in the history.
        for delivery in try store.takeDeliveries() { store.record(.noResponse, of: delivery) }
        return (SimulatedTransport(store, wall: { clock.now }), key, ids.first ?? "")
    }

    @Test func `a simulated App Store's lists are complete`() async throws {
        let clock = ClientClock()
        let (transport, key, id) = try Self.store(clock)
        let client = ClientFixture.client(over: transport, clock, try ClientFixture.key(of: key))
        let found = try await client.find(.transactionInfo(id))
        #expect(found.environment == .sandbox)
        let statuses = try await client.send(.subscriptionStatuses(id), to: found.environment)
        #expect(statuses.data?.isEmpty == true)

        var transactions: [[String]] = []
        var cursor: String?
        for try await page in client.pages(.transactionHistory(id), in: found.environment) {
            transactions.append(page.signedTransactions ?? [])
            cursor = page.next
        }
        #expect(transactions.map(\.count) == [20, 20, 5])
        #expect(Set(transactions.joined()).count == 45)

        // Days later only what is new.
        let new = try await transport.update { store in try store.world.buy("com.example.coins", by: "anna") }
        #expect(new != nil)
        var later: [String] = []
        for try await page in client.pages(.transactionHistory(id), after: cursor, in: found.environment) {
            later += page.signedTransactions ?? []
        }
        #expect(later.count == 1)

        var refunds: [Int] = []
        for try await page in client.pages(.refundHistory(id), in: found.environment) {
            refunds.append(page.signedTransactions?.count ?? 0)
        }
        #expect(refunds == [20, 5])
    }

    @Test func `a simulated App Store's notifications are complete`() async throws {
        let clock = ClientClock()
        let (transport, key, _) = try Self.store(clock)
        let client = ClientFixture.client(over: transport, clock, try ClientFixture.key(of: key))
        let end = await transport.store.world.now
        let request = NotificationHistoryRequest(
            startDate: ClientClock.start, endDate: Timestamp(milliseconds: end.milliseconds + 1000))
        var payloads: [String] = []
        for try await page in client.pages(.notificationHistory(request), in: .sandbox) {
            payloads += (page.notificationHistory ?? []).compactMap(\.signedPayload)
        }
        // 45 purchases and 25 refunds.
        #expect(payloads.count == 70)
        #expect(Set(payloads).count == 70)
    }
}
