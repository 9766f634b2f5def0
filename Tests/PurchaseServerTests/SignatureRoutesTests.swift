// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import Crypto
import HTTPTypes
import PurchaseLedger
import PurchaseServer
import Testing

/// What the routes sign, for server keys and for client keys.
@Suite struct SignatureRoutesTests {
    private typealias World = LedgerRoutesTests.World

    private static let privateKey = P256.Signing.PrivateKey()
    private static let nonce = "5b1f8f0e-0c0f-4f0e-8a57-2c8f4c9d1e01"
    private static let account = "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11"

    static func signing(keyId: String = "ABCDEF1234") throws -> AppSigning {
        let key = try InAppPurchaseKey(id: keyId, issuer: "issuer", pem: privateKey.pemRepresentation)
        return AppSigning(keys: ["com.example": key]) { nonce }
    }

    /// A server with a key, on which the customer `anna` owns transaction 1 and may have the offer `stay3`.
    private static func world(refused: Set<String> = [], proof: CustomerProof? = nil) async throws -> World {
        var world = try await World(refused: refused, proof: proof)
        world.server.ledger?.signing = try Self.signing()
        world.server.ledger?.apps["com.example"]?.clientOffers = ["month": ["stay3"]]
        try await world.submit()
        return world
    }

    private static func claims(_ answer: JSONValue) throws -> JSONValue {
        let token = try JWS(try #require(answer["compactJWS"]?.string).utf8)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: token.signature)
        #expect(privateKey.publicKey.isValidSignature(signature, for: Array(token.signingInput)))
        return try JSONValue(parsing: token.payload)
    }

    private static let offer = #""productId":"month","offerIdentifier":"stay3""#

    @Test func `a server key has an offer, an eligibility and a request signed`() async throws {
        let world = try await Self.world()
        let (status, offer) = try await world.send(
            .post, "/v1/signatures/promotional-offer", "{\(Self.offer),\"transactionId\":\"7\"}")
        #expect(status == .ok)
        #expect(try Self.claims(offer)["transactionId"]?.string == "7")
        #expect(try Self.claims(offer)["nonce"]?.string == Self.nonce)
        #expect(try Self.claims(offer)["iat"]?.integer == LedgerRoutesTests.now.milliseconds / 1000)
        let (_, old) = try await world.send(
            .post, "/v1/signatures/promotional-offer",
            "{\(Self.offer),\"version\":1,\"appAccountToken\":\"\(Self.account.uppercased())\"}")
        #expect(old["appAccountToken"]?.string == Self.account)
        #expect(old["encodedSignature"]?.string?.isEmpty == false && old["nonce"]?.string == Self.nonce)
        let (_, introductory) = try await world.send(
            .post, "/v1/signatures/introductory-offer",
            #"{"productId":"month","allowIntroductoryOffer":true,"transactionId":"7"}"#)
        #expect(try Self.claims(introductory)["allowIntroductoryOffer"] == .bool(true))
        let (_, commerce) = try await world.send(
            .post, "/v1/signatures/advanced-commerce",
            #"{"operation":"REACTIVATE_SUBSCRIPTION","version":"1","requestInfo":{"requestReferenceId":"\#(Self.account)"},"transactionId":"7"}"#
        )
        #expect(try Self.claims(commerce)["aud"]?.string == "advanced-commerce-api")
    }

    @Test(arguments: [
        (
            "promotional-offer", #"{"productId":"m","offerIdentifier":"s","version":1,"transactionId":"7"}"#,
            "for version 2"
        ),
        ("advanced-commerce", "{}", "operation"), ("advanced-commerce", "x", "not JSON"),
    ])
    func `an invalid request is refused with the member that is wrong`(
        route: String, body: String, message: String
    ) async throws {
        let (status, answer) = try await Self.world().send(.post, "/v1/signatures/\(route)", body)
        #expect(status == .badRequest)
        #expect(answer["error"]?["code"]?.string == "invalidRequest")
        #expect(answer["error"]?["message"]?.string?.contains(message) == true, "\(answer.compactText)")
    }

    @Test(
        arguments: [
            ("{\(offer),\"transactionId\":\"1\"}", 200, nil), ("{\(offer)}", 400, "invalidRequest"),
            ("{\(offer),\"transactionId\":\"2\"}", 403, "otherCustomer"),
            (#"{"productId":"month","offerIdentifier":"free","transactionId":"1"}"#, 403, "offerNotAllowed"),
            (#"{"productId":"year","offerIdentifier":"stay3","transactionId":"1"}"#, 403, "offerNotAllowed"),
            ("{\(offer),\"version\":1}", 200, nil),
            ("{\(offer),\"version\":1,\"appAccountToken\":\"anna\"}", 200, nil),
            ("{\(offer),\"version\":1,\"appAccountToken\":\"bert\"}", 403, "otherCustomer"),
        ] as [(String, Int, String?)])
    func `a client key has only an allowed offer signed, and only for its customer`(
        body: String, status: Int, code: String?
    ) async throws {
        let path = "/v1/customers/anna/signatures/promotional-offer"
        let (found, answer) = try await Self.world().send(.post, path, body, key: .client)
        #expect(found.code == status, "\(answer.compactText)")
        #expect(answer["error"]?["code"]?.string == code)
    }

    @Test func `an app need not know the environment of the purchase for which it wants an offer`() async throws {
        let world = try await Self.world()
        let token = try world.transaction {
            ($0.transactionId, $0.originalTransactionId, $0.environment) = ("9", "9", Open(.sandbox))
        }
        try await world.submit(token, key: .client)
        let path = "/v1/customers/anna/signatures/promotional-offer"
        let body = "{\(Self.offer),\"transactionId\":\"9\"}"
        #expect(try await world.send(.post, path, body, key: .client).0 == .ok)
        #expect(try await world.send(.post, path + "?environment=production", body, key: .client).0 == .forbidden)
    }

    @Test func `a client key has no offer signed for a purchase that the configuration refuses`() async throws {
        let (path, body) = (
            "/v1/customers/anna/signatures/promotional-offer", "{\(Self.offer),\"transactionId\":\"1\"}"
        )
        let (status, answer) = try await Self.world(refused: ["1"]).send(.post, path, body, key: .client)
        #expect(status == .forbidden && answer["error"]?["code"]?.string == "offerNotAllowed")
        #expect(answer["error"]?["message"]?.string?.contains("refusedPurchases") == true)
    }

    @Test func `a client key cannot speak for an unknown or unproven customer`() async throws {
        let body = "{\(Self.offer),\"transactionId\":\"1\"}"
        let world = try await Self.world()
        let path = "/v1/customers/anna/signatures/promotional-offer"
        #expect(try await world.send(.post, path, body, key: nil).0 == .unauthorized)
        #expect(
            try await world.send(.post, "/v1/customers/carl/signatures/promotional-offer", body, key: .client).0
                == .notFound)
        let proven = try await Self.world(proof: CustomerProof(secret: "a secret of enough bytes: 0123456789"))
        #expect(try await proven.send(.post, path, body, key: .client).0 == .unauthorized)
        // A server key may have any offer signed on this route too.
        #expect(try await world.send(.post, path, "{\"productId\":\"year\",\"offerIdentifier\":\"x\"}").0 == .ok)
    }

    @Test func `without a key nothing is signed, and a replaced key signs from then on`() async throws {
        let none = try await World()
        let (status, answer) = try await none.send(.post, "/v1/signatures/promotional-offer", "{\(Self.offer)}")
        #expect(status == .notFound && answer["error"]?["code"]?.string == "noSigningKey")
        let world = try await Self.world()
        let other = try #require(try Self.signing(keyId: "NEWKEY1234").key(of: "com.example"))
        world.server.ledger?.signing?.replaceKeys(["com.example": other])
        let (_, signed) = try await world.send(.post, "/v1/signatures/promotional-offer", "{\(Self.offer)}")
        #expect(try JWS(try #require(signed["compactJWS"]?.string).utf8).header().kid == "NEWKEY1234")
    }
}
