// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import PurchaseLedger
import PurchaseServer
import Synchronization
import TestWorld
import Testing

/// Tests which environments count in submissions and answers.
@Suite struct EnvironmentTests {
    private typealias World = LedgerRoutesTests.World

    /// A server whose app has a setting for sandbox purchases.
    private static func world(
        _ access: SandboxAccess, listed: Set<String> = [], in environments: Set<AppStoreModel.Environment>? = nil
    ) async throws -> World {
        var world = try await World { if let environments { $0.environments = environments } }
        world.server.ledger?.apps["com.example"]?.sandboxAccess = access
        world.server.ledger?.apps["com.example"]?.sandboxCustomers = listed
        return world
    }

    private static func submit(
        _ world: World, _ id: String, _ environment: AppStoreModel.Environment, by customer: String = "anna",
        until: Double = 30, query: String = ""
    ) async throws -> (HTTPResponse.Status, JSONValue) {
        let token = try world.transaction {
            ($0.transactionId, $0.originalTransactionId) = (id, id)
            $0.environment = Open(environment)
            $0.originalPurchaseDate = $0.purchaseDate
            $0.expiresDate = TestStore.day(until)
        }
        return try await world.submit(token, for: customer, query, key: .client)
    }

    /// What the question for `pro` is answered: whether it is active, by which environment, and where else it is.
    private static func pro(_ world: World, _ query: String = "", of customer: String = "anna") async throws -> String {
        let answer = try await world.send(.get, "/v1/customers/\(customer)/entitlements/pro\(query)", key: .client).1
        let environment = answer["entitlement"]?["environment"]?.string
        let elsewhere = answer["activeIn"]?.array?.compactMap(\.string).joined(separator: ",")
        guard case .bool(let isActive)? = answer["isActive"] else { return answer.compactText }
        return [isActive ? "active" : "inactive", environment, elsewhere.map { "elsewhere \($0)" }]
            .compactMap(\.self).joined(separator: " ")
    }

    /// The answer to the plain question by the setting, for a customer with a purchase in the sandbox.
    struct Access: Sendable {
        var access: SandboxAccess
        var listed: Set<String> = []
        var answer: String
    }

    @Test(arguments: [
        Access(access: .all, answer: "active Sandbox"),
        Access(access: .listed, listed: ["anna"], answer: "active Sandbox"),
        Access(access: .listed, listed: ["bert"], answer: "inactive elsewhere Sandbox"),
        Access(access: .none, answer: "inactive elsewhere Sandbox"),
    ])
    func `a reviewer who buys in the sandbox reads the plain question as sandboxAccess says`(
        _ access: Access
    ) async throws {
        let world = try await Self.world(access.access, listed: access.listed)
        let (status, submitted) = try await Self.submit(world, "1", .sandbox)
        #expect(status == .ok && submitted["recorded"]?.integer == 1)
        #expect(try await Self.pro(world) == access.answer)
        #expect(try await Self.pro(world, "?environment=sandbox") == "active Sandbox", "asked exactly")
        #expect(try await Self.pro(world, "?environment=any") == "active Sandbox")
        #expect(try await Self.pro(world, "?environment=production") == "inactive")
        let isCounted = access.answer.hasPrefix("active")
        let customer = try await world.send(.get, "/v1/customers/anna").1
        #expect(customer["purchases"]?.array?.count == (isCounted ? 1 : 0))
        #expect(customer["activeIn"]?.array?.compactMap(\.string) == (isCounted ? nil : ["Sandbox"]))
        #expect(submitted["customer"]?["entitlements"] == customer["entitlements"], "one rule for both")
    }

    @Test func `a listed customer counts by each of its ids, and a UUID in either case`() async throws {
        let id = "7ad4b2a8-1111-4222-8333-444455556666"
        let world = try await Self.world(.listed, listed: [id.uppercased()])
        _ = try await Self.submit(world, "1", .sandbox)
        #expect(try await Self.pro(world) == "inactive elsewhere Sandbox")
        _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"\#(id)"}"#)
        #expect(try await Self.pro(world) == "active Sandbox")
    }

    @Test func `of one name production counts first, even if the sandbox lasts longer`() async throws {
        let world = try await Self.world(.all)
        _ = try await Self.submit(world, "1", .sandbox, until: 300)
        _ = try await Self.submit(world, "2", .production, until: 30)
        #expect(try await Self.pro(world) == "active Production")
        let customer = try await world.send(.get, "/v1/customers/anna").1
        #expect(customer["entitlements"]?.array?.map { $0["environment"]?.string } == ["Production"])
        #expect(customer["subscriptions"]?.array?.map { $0["environment"]?.string } == ["Production", "Sandbox"])
        #expect(customer["environments"]?.array?.map(\.string) == ["Production", "Sandbox"])
        #expect(customer["nextChange"]?.integer == TestStore.day(30).milliseconds)
    }

    @Test func `a change of what does not count is no next change`() async throws {
        let world = try await Self.world(.none)
        _ = try await Self.submit(world, "1", .sandbox, until: 10)
        _ = try await Self.submit(world, "2", .production, until: 30)
        let answer = try await world.send(.get, "/v1/customers/anna/entitlements/pro").1
        #expect(answer["nextChange"]?.integer == TestStore.day(30).milliseconds)
    }

    @Test func `facts of two environments are never combined`() async throws {
        let world = try await Self.world(.all)
        _ = try await Self.submit(world, "1", .production, until: 30)
        let refunded = try world.transaction {
            $0.environment = Open(.sandbox)
            $0.revocationDate = $0.purchaseDate
        }
        let body = #"{"documents":["\#(refunded)"]}"#
        _ = try await world.send(.post, "/v1/customers/anna/purchases", body, key: .client)
        #expect(try await Self.pro(world) == "active Production")
        #expect(try await Self.pro(world, "?environment=sandbox") == "inactive")
    }

    @Test func `one request may bring documents of both environments`() async throws {
        let world = try await Self.world(.all)
        let tokens = try [AppStoreModel.Environment.production, .sandbox].map { environment in
            try world.transaction { $0.environment = Open(environment) }
        }
        let body = #"{"documents":["\#(tokens[0])","\#(tokens[1])"]}"#
        let (status, answer) = try await world.send(.post, "/v1/customers/anna/purchases", body, key: .client)
        #expect(status == .ok && answer["recorded"]?.integer == 2)
        #expect(answer["customer"]?["purchases"]?.array?.count == 2)
        #expect(
            try await world.send(.post, "/v1/customers/anna/purchases?environment=sandbox", body).0 == .badRequest,
            "a request that names an environment takes documents of that one")
    }

    @Test func `purchases of Xcode count only if they are asked for by name`() async throws {
        let world = try await Self.world(.all, in: [.production, .sandbox, .xcode])
        #expect(try await Self.submit(world, "0", .xcode).0 == .ok)
        #expect(try await Self.pro(world) == "inactive elsewhere Xcode")
        #expect(try await Self.pro(world, "?environment=any") == "inactive")
        #expect(try await Self.pro(world, "?environment=xcode") == "active Xcode")
    }

    @Test func `without the sandbox in the configuration its purchases do not count`() async throws {
        let storage = MemoryLedgerStorage()
        let open = try await World(storage: storage)
        _ = try await Self.submit(open, "1", .sandbox)
        #expect(try await Self.pro(open) == "active Sandbox")
        let closed = try await World(storage: storage) { $0.environments = [.production] }
        #expect(try await Self.pro(closed) == "inactive elsewhere Sandbox")
        let (status, answer) = try await Self.submit(closed, "2", .sandbox, query: "?environment=sandbox")
        #expect(status == .badRequest)
        #expect(answer["error"]?["message"]?.string?.contains("records nothing of Sandbox") == true)
    }

    @Test func `an id is looked up in production, then in the sandbox if it counts for all`() async throws {
        for (access, status) in [(SandboxAccess.all, HTTPResponse.Status.ok), (.none, .notFound)] {
            let world = try await Self.world(access)
            _ = try await Self.submit(world, "1", .sandbox)
            for path in ["/v1/subscriptions/1", "/v1/transactions/1"] {
                #expect(try await world.send(.get, path).0 == status, "\(path) \(access)")
                let answer = try await world.send(.get, path + "?environment=any").1
                #expect((answer["subscription"] ?? answer)["environment"]?.string == "Sandbox")
            }
        }
    }

    /// App Review buys in the sandbox with the app of the App Store. A tester of TestFlight does too, and later buys
    /// the app's subscription in production. The questions are those of an app that knows no environments.
    @Test(arguments: SandboxAccess.allCases)
    func `a tester's purchase counts as configured until it ends, and one in production counts for all`(
        _ access: SandboxAccess
    ) async throws {
        let now = Mutex(TestStore.start)
        var world = try await Self.world(access, listed: access == .listed ? ["anna"] : [])
        world.server.now = { now.withLock { $0 } }
        let month = StoreProduct.subscription("month", Period(1, .month))
        var shop = AppStoreSimulator.World(
            selling: [month], in: AppIdentity(bundleId: "com.example"), at: TestStore.start)

        _ = try shop.addCustomer("tester", environment: .sandbox)
        let tested = try await Self.buy(&shop, by: "tester", for: "anna", in: world)
        #expect(try await Self.pro(world) == (access == .none ? "inactive elsewhere Sandbox" : "active Sandbox"))

        _ = try shop.addCustomer("buyer")
        let bought = try await Self.buy(&shop, by: "buyer", for: "anna", in: world)
        #expect(try await Self.pro(world) == "active Production")
        #expect(bought > tested, "the sandbox is faster")
        now.withLock { $0 = tested.advanced(by: .seconds(3600)) }
        #expect(try await Self.pro(world, "?environment=sandbox") == "inactive")
        #expect(try await Self.pro(world) == "active Production")
        now.withLock { $0 = bought.advanced(by: .seconds(3600)) }
        #expect(try await Self.pro(world) == "inactive")
    }

    /// Lets a customer of the App Store buy, and submits the purchase without an environment.
    ///
    /// - Returns: The end of the purchase.
    private static func buy(
        _ shop: inout AppStoreSimulator.World, by name: String, for customer: String, in world: World
    ) async throws -> Timestamp {
        try shop.buy("month", by: name)
        let transaction = try #require(shop.occurrences.last?.transaction)
        let body = #"{"document":"\#(try world.store.sign(transaction))"}"#
        #expect(try await world.send(.post, "/v1/customers/\(customer)/purchases", body, key: .client).0 == .ok)
        return try #require(transaction.expiresDate)
    }

    // MARK: - Refusals

    @Test func `a refusal names the environment and the cure, and warns only if the configuration lacks it`()
        async throws
    {
        for (environments, isConfigured) in [([.production, .sandbox], true), ([.production], false)]
            as [(Set<AppStoreModel.Environment>, Bool)]
        {
            let lines = LogLines()
            var world = try await Self.world(.all, in: environments)
            world.server.logger = Logger(label: "test") { _ in lines }
            let query = isConfigured ? "?environment=production" : ""
            let (status, answer) = try await Self.submit(world, "1", .sandbox, query: query)
            #expect(status == .badRequest && answer["error"]?["environment"]?.string == "Sandbox")
            let message = answer["error"]?["message"]?.string ?? ""
            #expect(message.contains(isConfigured ? "Omit the parameter" : "in environments"), "\(message)")
            #expect(lines.text.contains { $0.hasPrefix("A genuine document was refused") } == !isConfigured)
        }
    }

    @Test func `the log says once a day that purchases of the sandbox do not count`() async throws {
        let (lines, clock) = (LogLines(), VirtualClock())
        var world = try await World(clock: clock)
        world.server.ledger?.apps["com.example"]?.sandboxAccess = .none
        world.server.logger = Logger(label: "test") { _ in lines }
        _ = try await Self.submit(world, "1", .sandbox)
        let router = checkedApplication(of: world.server)
        let key = world.keys[.client] ?? ""
        func ask() async throws {
            _ = try await router.test(.router) { client in
                try await client.execute(
                    uri: "/v1/customers/anna/entitlements/pro", method: .get,
                    headers: [.authorization: "Bearer \(key)"])
            }
        }
        let warning = "With sandboxAccess none App Review reads isActive false"
        let before = lines.text.count { $0.hasPrefix(warning) }
        for _ in 0..<3 { try await ask() }
        #expect(lines.text.count { $0.hasPrefix(warning) } == before + 1)
        try await clock.sleep(for: .seconds(86_401))
        try await ask()
        #expect(lines.text.count { $0.hasPrefix(warning) } == before + 2)
    }

    // MARK: - Customers and names that the ledger does not know

    @Test func `a customer who never bought has nothing, and a question makes no customer`() async throws {
        let world = try await Self.world(.all)
        let (status, zed) = try await world.send(.get, "/v1/customers/zed", key: .client)
        #expect(status == .ok && zed["id"]?.string == "zed" && zed["ids"]?.array == [])
        #expect(zed["entitlements"]?.array == [] && zed["purchases"]?.array == [] && zed["nextChange"] == .null)
        #expect(try await Self.pro(world, of: "zed") == "inactive")
        #expect(try await world.storage.customers(after: nil, limit: 10).items.isEmpty)
        #expect(try await world.send(.delete, "/v1/customers/zed").0 == .notFound)
        #expect(try await world.send(.post, "/v1/customers/zed/aliases", #"{"alias":"x"}"#).0 == .notFound)
    }

    @Test func `a misspelt entitlement is an error, with the known names for a server key only`() async throws {
        let world = try await Self.world(.all)
        for key in [APIKey.Role.client, .server] {
            let (status, answer) = try await world.send(.get, "/v1/customers/anna/entitlements/por", key: key)
            #expect(status == .notFound && answer["error"]?["code"]?.string == "unknownEntitlement")
            let message = answer["error"]?["message"]?.string ?? ""
            #expect(message.contains("gold, pro") == (key == .server), "\(message)")
        }
        #expect(try await world.send(.get, "/v1/customers/anna/entitlements/gold").0 == .ok, "of the list")
    }

    @Test func `a token for a customer is judged by the machine's clock, not by a simulator's`() async throws {
        let proof = try #require(CustomerProof(secret: String(repeating: "s", count: 32)))
        let wall = TestStore.day(1000)
        let token = try #require(proof.token(for: "anna", expires: wall.advanced(by: .seconds(60))))
        var world = try await World(proof: proof)
        world.server.wall = { wall }
        let path = "/v1/customers/anna"
        #expect(try await world.send(.get, path, key: .client, token: token).0 == .ok)
        world.server.wall = nil
        #expect(try await world.send(.get, path, key: .client, token: token).0 == .unauthorized)
    }
}
