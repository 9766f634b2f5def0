// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import LedgerSQLite
import NIOCore
import PurchaseLedger
import PurchaseServer
import Testing

/// What a client key, which is in every copy of an app, may read and do.
@Suite struct ClientKeyTests {
    private typealias World = LedgerRoutesTests.World

    /// All names of members anywhere in a response.
    private static func names(in json: JSONValue) -> Set<String> {
        if let array = json.array { return array.reduce(into: []) { $0.formUnion(names(in: $1)) } }
        return (json.members ?? []).reduce(into: []) { $0.formUnion(names(in: $1.value).union([$1.name])) }
    }

    @Test(arguments: APIKey.Role.allCases)
    func `a client key reads only the requested id and no evidence, and any other key reads everything`(
        role: APIKey.Role
    ) async throws {
        let world = try await World()
        let body = #"{"document":"\#(try world.transaction())"}"#
        _ = try await world.send(.post, "/v1/customers/anna/purchases", body)
        for alias in ["anna@example.com", "0D6E5C0A-6A52-4A0B-9D4B-0F1F4E3A9B11"] {
            _ = try await world.send(.post, "/v1/customers/anna/aliases", #"{"alias":"\#(alias)"}"#)
        }
        let id = "0D6E5C0A-6A52-4A0B-9D4B-0F1F4E3A9B11"
        let own = [Optional(id.lowercased())]
        let all = ["anna", "anna@example.com"] + own
        let (_, read) = try await world.send(.get, "/v1/customers/\(id)", key: role)
        let (_, submitted) = try await world.send(
            .post, "/v1/customers/\(id)/purchases", body, key: Roles.submitters.contains(role) ? role : .server)
        let (_, entitlement) = try await world.send(.get, "/v1/customers/\(id)/entitlements/pro", key: role)
        for customer in [read, try #require(submitted["customer"])] {
            #expect(customer["ids"]?.array?.map(\.string) == (role == .client ? own : all))
            #expect(customer["purchases"]?.array?.count == 1)
            #expect(Self.names(in: customer).contains("evidence") == (role != .client))
        }
        #expect(entitlement["isActive"] == .bool(true))
        #expect(!Self.names(in: entitlement).contains("evidence"))
    }

    /// The same token with its second valid signature: ECDSA accepts n - s in place of s.
    private static func withOtherSignature(_ token: String) throws -> String {
        let jws = try JWS(token.utf8)
        let order: [UInt8] = [
            0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6,
            0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
        ]
        var (signature, borrow) = (jws.signature, 0)
        for place in order.indices.reversed() {
            let difference = Int(order[place]) - Int(signature[32 + place]) - borrow
            (signature[32 + place], borrow) = (UInt8(truncatingIfNeeded: difference), difference < 0 ? 1 : 0)
        }
        return String(decoding: Array(jws.signingInput) + [UInt8(ascii: ".")], as: UTF8.self)
            + String(decoding: Base64.encodeURL(signature[...]), as: UTF8.self)
    }

    @Test func `documents of a submission that are equal, or differ only in the signature, count once`() async throws {
        let world = try await World()
        let (one, two) = (try world.transaction(), try world.transaction { $0.transactionId = "2" })
        let other = try Self.withOtherSignature(one)
        #expect(one != other)
        let list = [one, two, one, other, two].map { "\"\($0)\"" }.joined(separator: ",")
        let (status, answer) = try await world.send(
            .post, "/v1/customers/anna/purchases", #"{"documents":[\#(list)]}"#, key: .client)
        #expect(status == .ok)
        #expect(answer["recorded"]?.integer == 2)
        #expect(answer["alreadyKnown"]?.integer == 0)
    }

    @Test(arguments: [
        (APIKey.Role.client, 20, "malformed"), (.client, 21, "invalidRequest"), (.server, 21, "malformed"),
        (.server, 1000, "malformed"), (.server, 1001, "invalidRequest"),
    ])
    func `a client key submits at most 20 documents at once, and a server key 1,000`(
        role: APIKey.Role, count: Int, code: String
    ) async throws {
        // These are not documents, but the server counts them before it reads them.
        let list = [String](repeating: "\"x\"", count: count).joined(separator: ",")
        let (status, answer) = try await World().send(
            .post, "/v1/customers/anna/purchases", #"{"documents":[\#(list)]}"#, key: role)
        #expect(status == .badRequest)
        #expect(answer["error"]?["code"]?.string == code)
    }

    @Test func `a client key that moves a purchase too often gets the time to retry, and a server key has no limit`()
        async throws
    {
        let world = try await World(storage: SQLiteLedgerStorage.inMemory(), policy: .transfer)
        let body = #"{"document":"\#(try world.transaction())"}"#
        for number in 0...10 {
            let (status, _) = try await world.send(.post, "/v1/customers/c\(number)/purchases", body, key: .client)
            #expect(status == .ok)
        }
        let (status, answer) = try await world.send(.post, "/v1/customers/c11/purchases", body, key: .client)
        #expect(status == .ok)
        #expect(answer["keptByOthers"]?.array == [.string("1")])
        let claim = answer["tooManyClaims"]?.array?.first
        #expect(claim?["originalTransactionId"]?.string == "1")
        #expect(claim?["retryAt"]?.integer == LedgerRoutesTests.now.milliseconds + 86_400_000)
        #expect(try await world.send(.post, "/v1/customers/c11/purchases", body).0 == .ok)
    }

    @Test(arguments: APIKey.Role.allCases)
    func `a key of an app that is not configured is refused`(role: APIKey.Role) async throws {
        var (world, random) = (try await World(), SeededRandom(seed: 7))
        let (key, text) = APIKey.make(
            name: "x", role: role, bundleId: "com.example.gone", at: LedgerRoutesTests.now, using: &random)
        try await world.ledger.put(key)
        world.keys[role] = text
        for operation in Operation.all.map({ $0.operation }) {
            let path = operation.path.replacing(/\{[^}]*\}/, with: "1")
            let (status, answer) = try await world.send(operation.method, path, key: role)
            #expect(status == .unauthorized && answer["error"]?["code"]?.string == "unauthorized", "\(path)")
            let message = answer["error"]?["message"]?.string
            #expect(message?.contains("not in the server's configuration") == true, "\(path)")
        }
    }

    @Test func `the refusal of another app's document does not name the server's apps to a client without a key`()
        async throws
    {
        let world = try await World()
        let other = try world.notification("TEST") { $0.data?.bundleId = "com.other" }
        let (status, answer) = try await world.send(.post, "/notifications/v2", other, key: nil)
        #expect(status == .badRequest && answer["error"]?["code"]?.string == "otherApp")
        #expect(!answer.compactText.contains("com.example"), "\(answer.compactText)")
        // The holder of a key knows the app of the key.
        let document = #"{"document":"\#(try world.transaction { $0.bundleId = "com.other" })"}"#
        let (_, keyed) = try await world.send(.post, "/v1/customers/anna/purchases", document, key: .client)
        #expect(keyed["error"]?["message"]?.string?.contains("accepted is com.example.") == true)
    }

    @Test func `a refused claim is reported and shows nothing of the purchase`() async throws {
        let world = try await World()
        let id = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
        let body = #"{"document":"\#(try world.transaction { $0.appAccountToken = id })"}"#
        _ = try await world.send(.post, "/v1/customers/\(id)/purchases", body, key: .client)
        let (status, answer) = try await world.send(.post, "/v1/customers/thief/purchases", body, key: .client)
        #expect(status == .ok)
        #expect(answer["keptByOthers"]?.array?.map(\.string) == ["1"])
        for member in ["entitlements", "subscriptions", "purchases"] {
            #expect(answer["customer"]?[member]?.array == [])
        }
    }

    @Test func `a consumable that a claim moved from another customer is marked as transferred`() async throws {
        let world = try await World(storage: SQLiteLedgerStorage.inMemory())
        func coins(_ id: String, account: String? = nil) throws -> String {
            let token = try world.transaction {
                ($0.transactionId, $0.originalTransactionId, $0.productId) = (id, id, "coins")
                ($0.type, $0.expiresDate, $0.appAccountToken) = (Open(.consumable), nil, account)
            }
            return #"{"document":"\#(token)"}"#
        }
        func transferred(_ customer: String) async throws -> [Bool?]? {
            let consumables = try await world.send(.get, "/v1/customers/\(customer)").1["consumables"]?.array
            return consumables?.map { $0["transferred"].map { $0 == .bool(true) } }
        }
        // Purchase 6 names an account that is known only from a token, so that account cannot have used it.
        let bodies = [try coins("5"), try coins("6", account: "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11")]
        let notification = try world.notification(
            "ONE_TIME_CHARGE", transaction: JSONValue(parsing: bodies[1].utf8)["document"]?.string)
        _ = try await world.send(.post, "/notifications/v2", notification, key: nil)
        for body in bodies { _ = try await world.send(.post, "/v1/customers/anna/purchases", body) }
        #expect(try await transferred("anna") == [false, false])
        _ = try await world.send(.post, "/v1/customers/bert/purchases", bodies[0])
        #expect(try await transferred("bert") == [true])
        #expect(try await transferred("anna") == [false])
        _ = try await world.send(.post, "/v1/customers/bert/purchases", bodies[0])
        #expect(try await transferred("bert") == [true])
    }
}
