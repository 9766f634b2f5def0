// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import Synchronization
import TestData
import TestWorld
import Testing

/// What keys may do, as the declarations of the operations say, and until when.
@Suite struct RoleTests {
    private typealias World = LedgerRoutesTests.World

    private static let now = LedgerRoutesTests.now

    /// A key of another app than that of the world.
    private static func key(
        _ role: APIKey.Role, of app: String = "com.example", expiring end: Timestamp? = nil, in world: World
    ) async throws -> String {
        var random = SystemRandomNumberGenerator()
        let (key, text) = APIKey.make(
            name: "other", role: role, bundleId: app, at: now, expiring: end, using: &random)
        try await world.ledger.put(key)
        return text
    }

    // MARK: - Roles

    @Test(.takesLong, arguments: APIKey.Role.allCases)
    func `an operation takes the keys of its roles, and refuses all others`(role: APIKey.Role) async throws {
        let world = try await World(clock: VirtualClock())
        for operation in Operation.all.map({ $0.operation }) {
            let request = OperationTests.Request(operation)
            let body = operation.bodyLimit == nil ? "" : JSONValue.object(request.members).compactText
            let (status, answer) = try await world.send(operation.method, request.path, body, key: role)
            let isRefused = status == .forbidden && answer["error"]?["code"]?.string == "forbidden"
            #expect(isRefused != operation.roles.contains(role), "\(operation.path): \(answer)")
            #expect(status != .unauthorized, "\(operation.path)")
            guard isRefused else { continue }
            let message = answer["error"]?["message"]?.string ?? ""
            #expect(operation.roles.allSatisfy { message.contains($0.rawValue) }, "\(message)")
        }
    }

    @Test func `the sets of the operations are those that the roles promise`() {
        let operations = Operation.all.map { $0.operation }
        func paths(_ condition: (PurchaseServer.Operation) -> Bool) -> Set<String> {
            Set(operations.filter(condition).map { "\($0.method.rawValue) \($0.path)" })
        }
        for operation in operations {
            // Each role but that of apps may do what the one before it may.
            #expect(operation.roles.contains(.server), "\(operation.path)")
            #expect(operation.roles.contains(.support) || !operation.roles.contains(.read), "\(operation.path)")
            // A person who only looks changes nothing.
            #expect(operation.isRead || !operation.roles.contains(.read), "\(operation.path)")
        }
        #expect(
            paths { $0.roles.contains(.client) } == [
                "GET /v1/key", "GET /v1/customers/{id}", "GET /v1/customers/{id}/entitlements/{name}",
                "POST /v1/customers/{id}/purchases", "POST /v1/customers/{id}/signatures/promotional-offer",
            ])
        #expect(
            paths { $0.roles.contains(.support) && !$0.isRead } == [
                "POST /v1/customers/{id}/grants", "POST /v1/customers/{id}/grants/{grant}/end",
                "PATCH /v1/customers/{id}/attributes", "POST /v1/transactions/{id}/move",
                "POST /v1/transactions/{id}/deny", "POST /v1/transactions/{id}/allow",
                "POST /v1/customers/{id}/unlink", "POST /v1/customers/{id}/unmerge", "POST /v1/backfill",
                "POST /v1/subscriptions/{id}/extension",
            ])
        #expect(paths { $0.isRead && !$0.roles.contains(.support) } == ["GET /v1/webhooks/{id}/secret"])
        // What asks the App Store costs a share of Apple's rates.
        #expect(operations.allSatisfy { !$0.roles.contains(.read) || $0.errors.isDisjoint(with: [.noSigningKey]) })
    }

    @Test(.takesLong, arguments: APIKey.Role.allCases)
    func `a key of another app reads and changes nothing of this app`(role: APIKey.Role) async throws {
        var world = try await World()
        try await world.submit()
        for (method, path, body) in [
            (.post, "aliases", #"{"alias":"marker-alias"}"#),
            (.patch, "attributes", #"{"attributes":{"$email":{"value":"marker@example.com"}}}"#),
            (.post, "grants", #"{"id":"1","entitlement":"gold","forever":true,"why":"marker"}"#),
        ] as [(HTTPRequest.Method, String, String)] {
            let (status, answer) = try await world.send(method, "/v1/customers/anna/\(path)", body)
            #expect(status.code < 300, "\(answer)")
        }
        let questions = [
            "/v1/customers/anna", "/v1/customers/anna/grants", "/v1/customers/anna/attributes", "/v1/events?limit=500",
            "/v1/subscriptions/1", "/v1/webhooks", "/v1/customers", "/v1/support/anna",
        ]
        func state(_ world: World) async throws -> [JSONValue] {
            var answers: [JSONValue] = []
            for path in questions { answers.append(try await world.send(.get, path).1) }
            return answers
        }
        let before = try await state(world)
        let own = world.keys[.server]
        let other = try await Self.key(role, of: "com.example.two", in: world)
        for operation in Operation.all.map({ $0.operation }) {
            world.keys[role] = other
            let id = operation.path.hasPrefix("/v1/customers/") || operation.path.contains("support") ? "anna" : "1"
            let path = operation.path.replacing("{id}", with: id).replacing(/\{[^}]*\}/, with: "1")
            let members = OperationTests.Request(operation).members
            let body = operation.bodyLimit == nil ? "" : JSONValue.object(members).compactText
            let (_, answer) = try await world.send(operation.method, path, body, key: role)
            // The id in the path comes back, and nothing else of the customer.
            #expect(!answer.compactText.contains("marker"), "\(path): \(answer)")
            world.keys[.server] = own
            #expect(try await state(world) == before, "\(operation.method) \(path)")
        }
    }

    @Test(arguments: APIKey.Role.allCases)
    func `a person's page learns from the key itself what it may do`(role: APIKey.Role) async throws {
        var world = try await World()
        let end = Self.now.advanced(by: .seconds(60))
        world.keys[role] = try await Self.key(role, expiring: end, in: world)
        let (status, answer) = try await world.send(.get, "/v1/key", key: role)
        #expect(status == .ok && answer["name"]?.string == "other" && answer["role"]?.string == role.rawValue)
        #expect(answer["bundleId"]?.string == "com.example" && answer["expiresAt"]?.integer == end.milliseconds)
        #expect(answer["entitlements"]?.array?.isEmpty == (role == .client ? nil : false))
    }

    // MARK: - The end of a key

    /// A time that a test moves.
    private final class MovedTime: Sendable {
        private let time = Mutex(RoleTests.now)

        var now: Timestamp { time.withLock { $0 } }
        func advance(_ milliseconds: Int64) {
            time.withLock { $0 = $0.advanced(by: .milliseconds(milliseconds)) }
        }
    }

    @Test(arguments: APIKey.Role.allCases)
    func `a key is refused from the millisecond at which it expires, though a server has it in memory`(
        role: APIKey.Role
    ) async throws {
        var world = try await World()
        let time = MovedTime()
        world.server.wall = { time.now }
        world.keys[role] = try await Self.key(role, expiring: Self.now.advanced(by: .milliseconds(500)), in: world)
        #expect(try await world.send(.get, "/v1/key", key: role).0 == .ok)
        time.advance(499)
        #expect(try await world.send(.get, "/v1/key", key: role).0 == .ok)
        time.advance(1)
        let (status, answer) = try await world.send(.get, "/v1/key", key: role)
        #expect(status == .unauthorized && answer["error"]?["message"]?.string?.contains("has expired") == true)
    }

    @Test func `a revoked key is refused within a second, though a server has it in memory`() async throws {
        var world = try await World()
        let time = MovedTime()
        world.server.wall = { time.now }
        let text = try await Self.key(.support, in: world)
        world.keys[.support] = text
        #expect(try await world.send(.get, "/v1/key", key: .support).0 == .ok)
        let id = try #require(APIKey.parts(of: text)).id
        var key = try #require(try await world.ledger.apiKey(id))
        key.revokedAt = time.now
        try await world.ledger.put(key)
        time.advance(1000)
        #expect(try await world.send(.get, "/v1/key", key: .support).0 == .unauthorized)
    }

    @Test(arguments: APIKey.Role.allCases)
    func `a key that expires is stored with a role that no older version knows`(role: APIKey.Role) throws {
        var random = SystemRandomNumberGenerator()
        for end in [nil, Self.now] {
            let (key, _) = APIKey.make(
                name: "x", role: role, bundleId: "com.example", at: Self.now, expiring: end, using: &random)
            let text = String(decoding: key.record.payload, as: UTF8.self)
            #expect(text.contains(#""role":"\#(role.rawValue)""#) == (end == nil), "\(text)")
            #expect(try APIKey(key.record) == key)
        }
    }

    @Test(arguments: [
        (#""expiresAt":1600000000000"#, #""expiresAt":"soon""#), (#"expiring "#, ""),
        (#","expiresAt":1600000000000"#, ""),
    ])
    func `a key whose end is damaged is unreadable, and so accepted nowhere`(part: String, damage: String) throws {
        var random = SystemRandomNumberGenerator()
        var (key, _) = APIKey.make(
            name: "x", role: .server, bundleId: "com.example", at: Self.now,
            expiring: Timestamp(milliseconds: 1_600_000_000_000), using: &random)
        // As a text, so that the test can change it.
        key.secretHash = Array("secret".utf8)
        var record = key.record
        let text = String(decoding: record.payload, as: UTF8.self)
        #expect(text.contains(part), "\(text)")
        record.payload = Array(text.replacing(part, with: damage).utf8)
        #expect(throws: LedgerStorageError.self) { try APIKey(record) }
    }
}
