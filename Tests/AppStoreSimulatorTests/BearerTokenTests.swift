// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Testing

/// A bearer token that is valid but for one change.
struct TokenCase: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var header: [String: JSONValue] = [:]
    var claims: [String: JSONValue?] = [:]
    /// Makes the header `Authorization` of the token.
    var authorization: @Sendable (String) -> String? = { "Bearer \($0)" }
    var refusal: TokenRefusal?

    init(_ name: String, _ refusal: TokenRefusal?) {
        testDescription = name
        self.refusal = refusal
    }

    init(_ claim: String, _ value: JSONValue?, _ refusal: TokenRefusal?) {
        self.init("\(claim): \(value?.compactText ?? "absent")", refusal)
        claims[claim] = .some(value)
    }

    init(_ name: String, _ refusal: TokenRefusal?, _ authorization: @escaping @Sendable (String) -> String?) {
        self.init(name, refusal)
        self.authorization = authorization
    }

    init(header name: String, _ value: JSONValue, _ refusal: TokenRefusal?) {
        self.init("\(name): \(value.compactText)", refusal)
        header[name] = value
    }
}

@Suite struct BearerTokenTests {
    private static let now = StoreFixture.wallClock.milliseconds / 1000

    private static func seconds(_ offset: Int64) -> JSONValue { .number("\(now + offset)") }

    static let cases: [TokenCase] = [
        TokenCase("as Apple's libraries make it", nil),
        TokenCase("the scheme in lower case", nil) { "bearer \($0)" },
        TokenCase("no header", .missing) { _ in nil },
        TokenCase("another scheme", .missing) { "Basic \($0)" },
        TokenCase("two parts", .malformed) { "Bearer \($0.split(separator: ".").dropLast().joined(separator: "."))" },
        TokenCase("no token", .malformed) { _ in "Bearer " },
        TokenCase("another signature", .signature) { "Bearer \($0.dropLast(4))AAAA" },
        TokenCase(header: "alg", .string("none"), .algorithm),
        TokenCase(header: "alg", .string("HS256"), .algorithm),
        TokenCase(header: "kid", .string("ABCDEFGHIJ"), .keyId),
        TokenCase(header: "crit", .array([.string("exp")]), .malformed),
        TokenCase("iss", .string(RouteTests.uuid), .issuer),
        TokenCase("iss", nil, .issuer),
        TokenCase("aud", .string("appstoreconnect-v2"), .audience),
        TokenCase("aud", .array([.string("appstoreconnect-v1")]), .audience),
        TokenCase("aud", nil, .audience),
        TokenCase("bid", .string("com.example.other"), .app),
        TokenCase("bid", nil, .app),
        TokenCase("exp", nil, .noExpiry),
        TokenCase("exp", .string("\(now + 60)"), .noExpiry),
        TokenCase("exp", seconds(0), .expired),
        TokenCase("exp", seconds(1), nil),
        TokenCase("exp", seconds(3600), nil),
        TokenCase("exp", seconds(3601), .tooLong),
        TokenCase("exp", .number("1e400"), .tooLong),
        TokenCase("exp", .number("\(now + 60).5"), nil),
        TokenCase("iat", nil, nil),
        TokenCase("iat", seconds(-3301), .tooLong),
        TokenCase("iat", seconds(61), .issuedLater),
        TokenCase("iat", seconds(60), nil),
        TokenCase("iat", .string("\(now)"), .issuedLater),
        TokenCase("nbf", seconds(60), nil),
        TokenCase("nbf", seconds(61), .notYetValid),
        TokenCase("nbf", .string("\(now)"), .notYetValid),
    ]

    @Test(arguments: cases) func `a token is valid or answered with 401 without a body`(test: TokenCase) throws {
        var fixture = try StoreFixture.shop()
        let token = try fixture.store.key.sign(
            Self.object(["alg": .string("ES256"), "kid": .string(fixture.store.key.id)], test.header),
            Self.object(
                [
                    "iss": .string(fixture.store.key.issuer), "iat": Self.seconds(0), "exp": Self.seconds(300),
                    "aud": .string("appstoreconnect-v1"), "bid": .string("com.example"),
                ], test.claims))
        var request = StoreRequest("GET", "/inApps/v1/subscriptions/\(fixture.names["sub"] ?? "")")
        request.headers["authorization"] = test.authorization(token)
        let answer = fixture.store.respond(to: request, in: .production, at: StoreFixture.wallClock)
        #expect(answer.status == (test.refusal == nil ? 200 : 401), "\(answer.note ?? "")")
        #expect(answer.note == test.refusal?.rawValue)
        if test.refusal != nil { #expect(answer.body.isEmpty && answer.headers.isEmpty) }
    }

    private static func object(_ members: [String: JSONValue], _ changes: [String: JSONValue?]) -> JSONValue {
        var members = members
        for (name, value) in changes { members[name] = value }
        return .object(members.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, $0.value) })
    }

    @Test func `every refusal has a case`() {
        #expect(Set(Self.cases.compactMap(\.refusal)) == Set(TokenRefusal.allCases))
    }

    @Test func `the token of another key with the same id is refused`() throws {
        var fixture = try StoreFixture.shop()
        var random = SeededRandom(seed: 99)
        let stranger = try StoreKey(using: &random)
        let forged = try StoreKey(id: fixture.store.key.id, issuer: fixture.store.key.issuer, pem: stranger.pem)
        let token = try forged.bearerToken(for: "com.example", at: StoreFixture.wallClock)
        let request = StoreRequest("GET", "/", headers: ["authorization": "Bearer \(token)"])
        let answer = fixture.store.respond(to: request, in: .production, at: StoreFixture.wallClock)
        #expect(answer.status == 401 && answer.note == TokenRefusal.signature.rawValue)
    }

    @Test func `a key is the same from the same numbers and from its file`() throws {
        var (one, other, third) = (SeededRandom(seed: 5), SeededRandom(seed: 5), SeededRandom(seed: 6))
        let key = try StoreKey(using: &one)
        let same = try StoreKey(using: &other)
        #expect(key.id == same.id && key.issuer == same.issuer && key.pem == same.pem)
        #expect(try StoreKey(using: &third).pem != key.pem)
        #expect(key.id.count == 10 && key.id.allSatisfy { $0.isUppercase || $0.isNumber })
        #expect(key.pem.hasPrefix("-----BEGIN PRIVATE KEY-----"))
        #expect(!"\(key)".contains("PRIVATE"))
        #expect(throws: SimulatorError.self) { try StoreKey(id: "A", issuer: "B", pem: "no key") }
    }
}
