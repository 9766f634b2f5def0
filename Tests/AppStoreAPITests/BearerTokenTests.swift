// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Testing

/// When a client signs a new token, and what it says.
@Suite struct BearerTokenTests {
    private static let start = Timestamp(milliseconds: 1_900_000_000_000)

    private static func claims(_ token: String) throws -> JSONValue {
        try JSONValue(parsing: try JWS(token.utf8).payload)
    }

    private static func later(_ seconds: Int64) -> Timestamp {
        Timestamp(milliseconds: start.milliseconds + seconds * 1000)
    }

    @Test func `a token has Apple's claims, and is valid for less than an hour`() throws {
        let key = try ClientFixture.key.get()
        var token = BearerToken(key, for: "com.example")
        let claims = try Self.claims(try token.text(at: Self.start))
        #expect(claims.members?.map(\.name) == ["iss", "iat", "exp", "aud", "bid"])
        #expect(claims["iss"]?.string == key.issuer)
        #expect(claims["aud"]?.string == "appstoreconnect-v1")
        #expect(claims["bid"]?.string == "com.example")
        let times = [claims["iat"]?.integer, claims["exp"]?.integer].compactMap(\.self)
        #expect(times.count == 2 && times[0] == 1_899_999_940)
        #expect(times[1] - times[0] <= 3600)
    }

    /// Seconds after the first request, and whether its token is used again.
    @Test(
        arguments: [
            (0, true), (1, true), (1619, true), (1620, false), (1740, false), (1_000_000, false), (-1, false),
            (-100_000, false),
        ] as [(Int64, Bool)]) func `a token is used until shortly before it expires`(
            seconds: Int64, isSame: Bool
        ) throws
    {
        var token = BearerToken(try ClientFixture.key.get(), for: "com.example")
        let first = try token.text(at: Self.start)
        let second = try token.text(at: Self.later(seconds))
        #expect((first == second) == isSame)
        let expiry = try #require(try Self.claims(second)["exp"]?.integer)
        #expect(expiry * 1000 - Self.later(seconds).milliseconds >= 120_000)
    }

    @Test func `a refused token is not sent again`() async throws {
        let fixture = try ClientFixture(production: [.answer(401, "", headers: [:]), .answer(200, #"{"data":[]}"#)])
        _ = try? await fixture.client.send(.subscriptionStatuses("1"), to: .production)
        for _ in 0..<2 { _ = try await fixture.client.send(.subscriptionStatuses("1"), to: .production) }
        let tokens = fixture.transport.calls.map { $0.request.headers["authorization"] }
        #expect(tokens.allSatisfy { $0?.hasPrefix("Bearer ey") == true })
        #expect(tokens[0] != tokens[1])
        #expect(tokens[1] == tokens[2])
    }
}
