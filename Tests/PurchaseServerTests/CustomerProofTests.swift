// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Crypto
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import Testing

/// Tokens that an app's backend creates for a customer, and texts that differ from a valid token in one point.
@Suite struct CustomerProofTests {
    private typealias World = LedgerRoutesTests.World

    private static let secret = "correct horse battery staple, and more of it"
    private static let now = LedgerRoutesTests.now.milliseconds / 1000
    private static let id = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"
    private static let good = #"{"sub":"anna","exp":\#(now + 60)}"#

    private static func encoded(_ text: String) -> String {
        String(decoding: Base64.encodeURL(Array(text.utf8)[...]), as: UTF8.self)
    }

    /// A token that is made without the server's code.
    private static func token(
        _ claims: String, header: String = #"{"alg":"HS256"}"#, secret: String = secret
    ) -> String {
        let input = encoded(header) + "." + encoded(claims)
        let code = HMAC<SHA256>.authenticationCode(
            for: Array(input.utf8), using: SymmetricKey(data: Array(secret.utf8)))
        return input + "." + String(decoding: Base64.encodeURL(Array(code)[...]), as: UTF8.self)
    }

    private static func world(_ proof: CustomerProof? = CustomerProof(secret: secret)) async throws -> World {
        let world = try await World(proof: proof)
        for id in ["anna", Self.id] { try await world.submit(for: id) }
        return world
    }

    /// Reads a customer with a client key, and returns the status, and the code and message if there is an error.
    private static func read(
        _ world: World, _ token: String?, of id: String = "anna"
    ) async throws -> (Int, String?, String?) {
        let (status, json) = try await world.send(.get, "/v1/customers/\(id)", key: .client, token: token)
        return (status.code, json["error"]?["code"]?.string, json["error"]?["message"]?.string)
    }

    @Test func `reading and claiming need a token with a client key, but not with any other key`() async throws {
        let world = try await Self.world()
        let body = #"{"document":"\#(try world.transaction())"}"#
        for (method, path) in [
            (.get, "/v1/customers/anna"), (.get, "/v1/customers/anna/entitlements/pro"),
            (.post, "/v1/customers/anna/purchases"), (.post, "/v1/customers/new/purchases"),
        ] as [(HTTPRequest.Method, String)] {
            let (status, answer) = try await world.send(method, path, body, key: .client)
            #expect(status == .unauthorized, "\(path)")
            #expect(answer["error"]?["code"]?.string == "customerTokenRequired")
            #expect(answer["error"]?["message"]?.string?.contains("Quittance-Customer-Token") == true)
            let known = path.contains("anna")
            let token = Self.token(known ? Self.good : Self.good.replacing("anna", with: "new"))
            #expect(try await world.send(method, path, body, key: .client, token: token).0 == .ok, "\(path)")
            // The key is still required.
            #expect(try await world.send(method, path, body, key: nil, token: token).0 == .unauthorized)
        }
        for key in APIKey.Role.allCases where key != .client {
            #expect(try await world.send(.get, "/v1/customers/anna", key: key).0 == .ok, "\(key)")
        }
        #expect(try await world.send(.get, "/v1/key", key: .client).0 == .ok)
        // A token does not give more rights than a client key has.
        #expect(
            try await world.send(.get, "/v1/events", key: .client, token: Self.token(Self.good)).0 == .forbidden)
    }

    @Test(arguments: [
        ("anna", "anna", 200), ("bert", "anna", 403), ("Anna", "anna", 403), ("anna ", "anna", 403),
        (id, id.uppercased(), 200), (id.uppercased(), id, 200),
        // Both ids exist and claimed the same purchase, but the token is only for the id in it.
        ("anna", id, 403),
        // Two ids that look alike are different ids, as in the ledger.
        ("e\u{301}", "%C3%A9", 403), ("\u{e9}", "e%CC%81", 403), ("\u{e9}", "%C3%A9", 200), ("a/b", "a%2Fb", 200),
    ])
    func `a token is for exactly the id in it, but a UUID may be in upper or lower case`(
        subject: String, path: String, status: Int
    ) async throws {
        let world = try await Self.world()
        let token = Self.token(#"{"sub":"\#(subject)","exp":\#(Self.now + 60)}"#)
        let (found, code, _) = try await Self.read(world, token, of: path)
        #expect(found == status)
        #expect(code == [403: "otherCustomer"][status])
    }

    @Test(
        arguments: [
            // A backend's clock may be a minute ahead.
            (#"{"sub":"anna","exp":\#(now + 86_460)}"#, nil), (#"{"sub":"anna","exp":\#(now + 86_461)}"#, "24 hours"),
            (#"{"sub":"anna","exp":\#(now + 1)}"#, nil), (#"{"sub":"anna","exp":\#(now)}"#, "expired"),
            (#"{"sub":"anna","exp":0}"#, "expired"), (#"{"sub":"anna","exp":-1}"#, "expired"),
            (#"{"sub":"anna"}"#, "exp is not"), (#"{"sub":"anna","exp":null}"#, "exp is not"),
            (#"{"sub":"anna","exp":"\#(now + 60)"}"#, "exp is not"), (#"{"sub":"anna","exp":\#(now + 60).5}"#, nil),
            (#"{"sub":"anna","exp":\#(now).999}"#, "expired"), (#"{"sub":"anna","exp":1.7e9}"#, "exp is not"),
            (#"{"sub":"anna","exp":1e300}"#, "exp is not"),
            (#"{"sub":"anna","exp":9223372036854775807}"#, "exp is not"),
            (#"{"sub":"anna","exp":9223372036854775}"#, "24 hours"),
            (#"{"sub":"anna","exp":\#(now - 1),"exp":\#(now + 60)}"#, "distinct members"),
            (#"{"sub":"bert","s\u0075b":"anna","exp":\#(now + 60)}"#, "distinct members"),
            (#"{"exp":\#(now + 60)}"#, "sub is not"), (#"{"sub":"","exp":\#(now + 60)}"#, "sub is not"),
            (#"{"sub":["anna"],"exp":\#(now + 60)}"#, "sub is not"),
            (#"{"sub":"\#(String(repeating: "a", count: 257))","exp":\#(now + 60)}"#, "sub is not"),
            (#"{"sub":"anna","exp":\#(now + 60),"iat":\#(now + 5000),"jti":"x"}"#, nil),
            (#"{"sub":"anna","exp":\#(now + 60),"nbf":\#(now + 60)}"#, nil),
            (#"{"sub":"anna","exp":\#(now + 60),"nbf":\#(now + 61)}"#, "nbf"),
            (#"{"sub":"anna","exp":\#(now + 60),"nbf":"now"}"#, "nbf"),
            (#"{"sub":"anna","exp":\#(now + 60),"aud":"com.example"}"#, nil),
            (#"{"sub":"anna","exp":\#(now + 60),"aud":["x","com.example"]}"#, nil),
            (#"{"sub":"anna","exp":\#(now + 60),"aud":"com.example.two"}"#, "aud"),
            (#"{"sub":"anna","exp":\#(now + 60),"aud":[]}"#, "aud"),
            (#"["anna"]"#, "distinct members"), ("anna", "distinct members"),
        ] as [(String, String?)])
    func `a token must have valid claims`(claims: String, reason: String?) async throws {
        let (status, code, message) = try await Self.read(Self.world(), Self.token(claims))
        #expect(status == (reason == nil ? 200 : 401))
        #expect(code == reason.map { _ in "customerTokenInvalid" })
        if let reason { #expect(message?.contains(reason) == true, "\(message ?? "")") }
    }

    @Test(arguments: [
        #"{"alg":"none"}"#, #"{"alg":"None"}"#, #"{"alg":"hs256"}"#, #"{"alg":"HS512"}"#, #"{"alg":"EdDSA"}"#, "{}",
        #"{"alg":"none","alg":"HS256"}"#, #"{"alg":"HS256","crit":["b64"],"b64":false}"#, #"["HS256"]"#, "HS256",
    ])
    func `the configuration, not the token, decides the algorithm`(header: String) async throws {
        let world = try await Self.world()
        let token = Self.token(Self.good, header: header)
        for text in [token, token.prefix { $0 != "." } + "." + Self.encoded(Self.good) + "."] {
            #expect(try await Self.read(world, String(text)).1 == "customerTokenInvalid")
        }
    }

    @Test
    func `a token without a valid signature is refused, as is a valid one that was cut, extended or changed anywhere`()
        async throws
    {
        let world = try await Self.world()
        let token = Self.token(Self.good)
        let others = [
            Self.token(Self.good, secret: "another secret of more than 32 bytes"), "", " ", ".", "..", "...",
            token + ".", "." + token, token + "A", token + "=", token + ", " + token, "Bearer " + token,
            token.uppercased(),
            token.replacing(".", with: ".."), String(token.dropLast()), String(token.dropFirst()),
            String(repeating: "a", count: 4097), token + String(repeating: "A", count: 5000),
        ]
        for other in others { #expect(try await Self.read(world, other).1 == "customerTokenInvalid", "\(other)") }
        for place in token.indices where token[place] != "." {
            let letter = token[place] == "A" ? "B" : "A"
            let changed = token.replacingCharacters(at: place, with: letter)
            #expect(try await Self.read(world, changed).1 == "customerTokenInvalid", "\(changed)")
        }
        #expect(try await Self.read(world, token).0 == 200)
    }

    @Test func `a public key admits what its private key signed, and nothing else`() async throws {
        let key = Curve25519.Signing.PrivateKey()
        let der: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]
        let base64 = Base64.encode(der + key.publicKey.rawRepresentation)
        let pem = "-----BEGIN PUBLIC KEY-----\n\(base64)\n-----END PUBLIC KEY-----\n"
        func token(_ key: Curve25519.Signing.PrivateKey, _ header: String = #"{"alg":"EdDSA"}"#) throws -> String {
            let input = Self.encoded(header) + "." + Self.encoded(Self.good)
            let signature = Array(try key.signature(for: Array(input.utf8)))
            return input + "." + String(decoding: Base64.encodeURL(signature[...]), as: UTF8.self)
        }
        for text in [base64, pem] {
            let proof = try #require(CustomerProof(publicKey: text))
            let world = try await Self.world(proof)
            #expect(try await Self.read(world, token(key)).0 == 200)
            #expect(try await Self.read(world, token(.init())).1 == "customerTokenInvalid")
            #expect(try await Self.read(world, token(key, #"{"alg":"HS256"}"#)).1 == "customerTokenInvalid")
            // The public key is no secret: an HMAC with it proves nothing.
            for header in [#"{"alg":"HS256"}"#, #"{"alg":"EdDSA"}"#] {
                let forged = Self.token(Self.good, header: header, secret: text)
                #expect(try await Self.read(world, forged).1 == "customerTokenInvalid")
            }
            #expect(proof.token(for: "anna", expires: LedgerRoutesTests.now) == nil)
        }
    }

    @Test(arguments: ["", "x", "AAAA", Base64.encode([UInt8](repeating: 7, count: 32)), secret])
    func `an invalid public key is refused`(text: String) {
        #expect(CustomerProof(publicKey: text) == nil)
    }

    @Test func `an app with customer proof requires a token in every environment, and its secret is never shown`()
        async throws
    {
        let proof = try #require(CustomerProof(secret: Self.secret))
        #expect(CustomerProof(secret: String(repeating: "a", count: 31)) == nil)
        var shown = "\(proof) \(String(reflecting: proof))"
        dump(proof, to: &shown)
        #expect(!shown.contains("horse"))
        let world = try await Self.world()
        let path = "/v1/customers/anna?environment=sandbox"
        #expect(try await world.send(.get, path, key: .client).0 == .unauthorized)
        #expect(try await world.send(.get, path, key: .client, token: Self.token(Self.good)).0 == .ok)
        // A refusal contains neither the secret nor the token.
        let (_, _, message) = try await Self.read(world, Self.token(Self.good, secret: "x"))
        #expect(message?.contains("eyJ") == false && message?.contains("horse") == false)
        let own = proof.token(for: "anna", expires: Timestamp(milliseconds: (Self.now + 60) * 1000))
        #expect(own == Self.token(Self.good, header: #"{"alg":"HS256","typ":"JWT"}"#))
    }
}

extension String {
    fileprivate func replacingCharacters(at place: Index, with letter: String) -> String {
        String(self[..<place]) + letter + String(self[index(after: place)...])
    }
}
