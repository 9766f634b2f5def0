// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import TestWorld

/// A simulated App Store with some customers, called as a client calls it.
struct StoreFixture: Sendable {
    /// Years away from the world's time, which no bearer token depends on.
    static let wallClock = Timestamp(iso8601: "2031-05-05T12:00:00Z") ?? Timestamp(milliseconds: 0)

    var store: SimulatedStore
    var wallClock = Self.wallClock
    /// What names in braces stand for in requests.
    var names: [String: String] = [:]
    /// The bearer token of the present time.
    private var token: (date: Timestamp, text: String)?

    init(_ world: World, faults: Faults = .none) throws {
        var random = SeededRandom(seed: 7)
        store = SimulatedStore(
            world, try TestStore().signer, try StoreKey(using: &random), faults: faults, seed: 1)
    }

    private static let opened = Result { try open() }

    /// Ann buys all kinds of products, Bob is her family, Cid tests in the sandbox.
    static func shop() throws -> StoreFixture { try opened.get() }

    private static func open() throws -> StoreFixture {
        var fixture = try StoreFixture(RandomWorld(seed: 1, customers: 0).world)
        for name in ["ann", "bob"] { try fixture.store.world.addCustomer(name) }
        try fixture.store.world.addCustomer("cid", environment: .sandbox)
        fixture.store.notificationURLs = [
            .production: "https://example.com/notifications", .sandbox: "https://example.com/sandbox",
        ]
        try fixture.buyAll()
        return fixture
    }

    private mutating func buyAll() throws {
        try store.world.makeFamily(of: ["ann", "bob"])
        for (name, product, customer) in [
            ("coins", "coins", "ann"), ("refunded", "coins", "ann"), ("book", "book", "ann"),
            ("season", "season", "ann"), ("sub", "gold.year", "ann"), ("sandbox", "gold.month", "cid"),
            ("toys", "coins", "cid"),
        ] {
            names[name] = try store.world.buy(product, by: customer)
        }
        try store.world.refund(names["refunded"] ?? "")
        names["shared"] = store.world.subscriptions(of: "bob").first
        names["order"] = store.world.orderId(ofTransaction: names["sub"] ?? "")
        for customer in ["ann", "cid"] { names["\(customer) app"] = store.world.customers[customer]?.appTransactionId }
        names["now"] = "\(store.world.now.milliseconds)"
        names["earlier"] = "\(store.world.now.milliseconds - 60_000)"
        names["later"] = "\(store.world.now.milliseconds + 60_000)"
        names["long ago"] = "\(store.world.now.milliseconds - 181 * 86_400_000)"
    }

    /// Turns the world's clock.
    mutating func wait(minutes: Int64) {
        store.world.advance(to: Timestamp(milliseconds: store.world.now.milliseconds + minutes * 60_000))
    }

    /// Sends a request such as `GET /inApps/v1/history/{sub}`, with a valid bearer token.
    mutating func call(
        _ request: String, _ body: String = "", in environment: Environment = .production
    ) throws
        -> StoreResponse
    {
        try call(request, Array(named(body).utf8), in: environment)
    }

    mutating func call(_ request: String, _ body: [UInt8], in environment: Environment) throws -> StoreResponse {
        let parts = named(request).split(separator: " ", maxSplits: 1)
        if token?.date != wallClock {
            token = (wallClock, try store.key.bearerToken(for: store.world.catalogue.bundleId, at: wallClock))
        }
        return store.respond(
            to: StoreRequest(
                String(parts[0]), String(parts[1]), headers: ["authorization": "Bearer \(token?.text ?? "")"],
                body: body),
            in: environment, at: wallClock)
    }

    private func named(_ text: String) -> String {
        names.reduce(text) { $0.replacing("{\($1.key)}", with: $1.value) }
    }

    /// A verifier that trusts the store's authority only.
    func verifier() throws -> AppStoreVerifier { try TestStore().verifier(of: .only([RandomWorld.app])) }
}

extension StoreResponse {
    /// The body, or null if it is empty.
    var json: JSONValue { body.isEmpty ? .null : JSONValue(readable: body) ?? .string("not JSON") }

    /// `errorCode` of the body.
    var code: Int64? { json["errorCode"]?.integer }

    /// The transaction ids of `signedTransactions`, not verified.
    var transactionIds: [String] {
        (json["signedTransactions"]?.array ?? []).compactMap { token in
            guard let jws = try? JWS(Array((token.string ?? "").utf8)),
                let payload = JSONValue(readable: jws.payload)
            else { return nil }
            return payload["transactionId"]?.string
        }
    }
}
