// SPDX-License-Identifier: Apache-2.0

import AppStoreAPI
import AppStoreModel
import AppStoreSimulator
import Testing

/// Reading a private key, and what it signs.
@Suite struct InAppPurchaseKeyTests {
    private static let storeKey = Result { () throws -> StoreKey in
        var random = SystemRandomNumberGenerator()
        return try StoreKey(using: &random)
    }

    @Test func `a token has Apple's header and the claims as they are`() throws {
        let store = try Self.storeKey.get()
        let key = try InAppPurchaseKey(id: "ABCDEF1234", issuer: "issuer", pem: store.pem)
        let token = try JWS(try key.token(.object([.init("iss", .string("issuer"))])).utf8)
        #expect(
            token.encodedHeader == Array("eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQ0RFRjEyMzQiLCJ0eXAiOiJKV1QifQ".utf8)[...])
        #expect(token.payload == Array(#"{"iss":"issuer"}"#.utf8))
        #expect(token.signature.count == 64)
    }

    @Test(arguments: [
        "", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
    ])
    func `a text that is no key is refused`(text: String) {
        #expect(throws: InAppPurchaseKeyError.self) { try InAppPurchaseKey(id: "A", issuer: "B", pem: text) }
    }

    @Test func `a printed key does not show its secret`() throws {
        let store = try Self.storeKey.get()
        let key = try InAppPurchaseKey(id: "ABCDEF1234", issuer: "issuer", pem: store.pem)
        #expect("\(key)" == "InAppPurchaseKey ABCDEF1234")
        #expect(!String(reflecting: key).contains("PRIVATE"))
    }
}
