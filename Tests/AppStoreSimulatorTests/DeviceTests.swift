// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Crypto
import Foundation
import TestData
import TestWorld
import Testing

/// What StoreKit gives the app: `jwsRepresentation` of the control port.
@Suite struct DeviceTests {
    private static let prepared = [
        #"POST /customers {"name":"anna"}"#, #"POST /customers {"name":"bert","environment":"Sandbox"}"#,
        #"POST /customers/bert/buy {"product":"com.example.coins"}"#,
        #"POST /customers/anna/buy {"product":"com.example.lifetime"}"#,
    ]

    private static let verifier = Result {
        try TestStore().verifier(of: .only([AppIdentity(bundleId: "com.example", appAppleId: 7)]))
    }

    private static func transaction(_ token: String, at now: Timestamp) async throws -> JWSTransactionDecodedPayload {
        try await verifier.get().verify(token.utf8, as: JWSTransactionDecodedPayload.self, at: now).payload
    }

    /// Whether a nonce and a proof bind something to a device.
    private static func isBound(_ nonce: String?, _ proof: String?, to device: String?) throws -> Bool {
        let digest = SHA384.hash(data: Data((try #require(nonce) + (try #require(device))).lowercased().utf8))
        return proof == Data(digest).base64EncodedString()
    }

    @Test func `a purchase answers with what StoreKit gives the app, bound to its device`() async throws {
        var session = try ControlTests.Session()
        try session.run(Self.prepared)
        let bought = try session.send(
            "POST /customers/anna/buy", #"{"product":"com.example.pro.monthly"}"#
        ).json
        let token = try #require(bought["jwsRepresentation"]?.string)
        let transaction = try await Self.transaction(token, at: session.simulator.store.world.now)
        #expect(transaction.transactionId == bought["transactionId"]?.string)
        #expect(transaction.productId == "com.example.pro.monthly")
        #expect(transaction.appAccountToken == bought["customer"]?["appAccountToken"]?.string)
        #expect(
            try Self.isBound(
                transaction.deviceVerificationNonce, transaction.deviceVerification,
                to: bought["customer"]?["deviceVerificationID"]?.string))
    }

    @Test func `the App Store's own documents have no device`() throws {
        var session = try ControlTests.Session()
        try session.run(Self.prepared)
        for occurrence in session.simulator.store.world.occurrences {
            #expect(occurrence.transaction?.deviceVerification == nil)
        }
    }

    @Test func `a purchase that waits for a parent has nothing for the app`() throws {
        var session = try ControlTests.Session()
        try session.run(Self.prepared + [#"POST /customers/anna/ask-to-buy"#])
        let asked = try session.send("POST /customers/anna/buy", #"{"product":"com.example.coins"}"#)
        #expect(asked.status == 200 && asked.json["jwsRepresentation"] == nil)
    }

    @Test func `a customer's transactions are those of the device in their present state`() async throws {
        var session = try ControlTests.Session()
        try session.run(
            Self.prepared + [
                #"POST /customers/anna/buy {"product":"com.example.pro.monthly"}"#, #"POST /clock/advance {"days":8}"#,
            ])
        try session.run(["POST /customers/anna/refund {\"transaction\":\"\(try Self.lifetime(session))\"}"])
        let listed = try session.send("GET /customers/anna/transactions").json.array ?? []
        #expect(listed.count == 3)
        var found: [JWSTransactionDecodedPayload] = []
        for one in listed {
            let token = try #require(one["jwsRepresentation"]?.string)
            let transaction = try await Self.transaction(token, at: session.simulator.store.world.now)
            #expect(transaction.transactionId == one["transactionId"]?.string)
            #expect(transaction.environment == .production)
            found.append(transaction)
        }
        #expect(found.map { $0.revocationDate != nil } == [false, false, true])
        #expect(Set(found.map(\.deviceVerificationNonce)).count == 3)
        #expect(try session.send("GET /customers/zoe/transactions").status == 404)
    }

    private static func lifetime(_ session: ControlTests.Session) throws -> String {
        try #require(session.simulator.store.world.customers["anna"]?.purchases.first)
    }

    @Test(.takesLong)
    func `an answer has the newest 500 transactions`() throws {
        var session = try ControlTests.Session()
        try session.run(Self.prepared)
        var ids: [String?] = []
        for _ in 0..<501 {
            ids.append(
                try session.send("POST /customers/anna/buy", #"{"product":"com.example.coins"}"#)
                    .json["transactionId"]?.string)
        }
        let listed = try session.send("GET /customers/anna/transactions").json.array ?? []
        #expect(listed.map { $0["transactionId"]?.string } == ids.suffix(500))
    }

    @Test(arguments: ["anna", "bert"]) func `the app transaction is the device's`(name: String) async throws {
        var session = try ControlTests.Session()
        try session.run(Self.prepared)
        let now = session.simulator.store.world.now
        var nonces: Set<String?> = []
        for _ in 0..<2 {
            let answer = try session.send("GET /customers/\(name)/app-transaction").json
            let token = try #require(answer["jwsRepresentation"]?.string)
            let app = try await Self.verifier.get().verify(token.utf8, as: AppTransaction.self, at: now).payload
            #expect(app.appTransactionId == answer["appTransactionId"]?.string)
            #expect(app.receiptType == Open(name == "anna" ? .production : .sandbox))
            #expect(app.applicationVersion == "1" && app.versionExternalIdentifier != nil)
            let device = session.simulator.store.world.customers[name]?.deviceVerificationID
            #expect(try Self.isBound(app.deviceVerificationNonce, app.deviceVerification, to: device))
            nonces.insert(app.deviceVerificationNonce)
        }
        #expect(nonces.count == 2)
    }
}
