// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Foundation
import PurchaseServer
import ReceiptCoding
import Testing

/// The code in the articles about verification and the simulator.
@Suite struct TrustArticles {
    private let store: SimulatedStore
    private let now: Timestamp

    init() throws {
        store = try SimulatedStore()
        now = store.now
    }

    private static func verifierOfTheArticle() -> AppStoreVerifier {
        let verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example.notes", appAppleId: 1_234_567_890)]),
            environments: [.production, .sandbox])
        return verifier
    }

    /// The calls of `unlock`, `keep` and `refuse` that a transaction causes.
    private func outcome(_ jws: String, _ verifier: AppStoreVerifier) async -> [String] {
        var done: [String] = []
        func unlock(_ product: String?, in environment: Environment) { done.append("unlock \(product ?? "")") }
        func keep(_ document: [UInt8]) { done.append("keep \(String(decoding: document, as: UTF8.self) == jws)") }
        func refuse(_ code: VerificationError.Code, because reason: String, mayBeRetried: Bool) {
            done.append("refuse \(code), retry \(mayBeRetried)")
        }
        do {
            let transaction = try await verifier.verify(jws.utf8, as: JWSTransactionDecodedPayload.self, at: now)
            unlock(transaction.payload.productId, in: transaction.environment)
            keep(transaction.document)
        } catch {
            refuse(error.code, because: error.message, mayBeRetried: error.isRetryable)
        }
        return done
    }

    @Test func `verify a transaction`() async throws {
        let jws = try store.transaction()
        var verifier = Self.verifierOfTheArticle()
        #expect(await outcome(jws, verifier) == ["refuse untrustedChain, retry false"])
        verifier.roots = try store.roots
        #expect(await outcome(jws, verifier) == ["unlock com.example.notes.pro.annual", "keep true"])
    }

    @Test func `trust test data`() async throws {
        let rootCertificate = store.rootCertificate
        var verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: "com.example.notes")]), environments: [.sandbox])
        verifier.roots = try TrustRoots(reading: rootCertificate)
        let (now, yesterday) = (now, Timestamp(milliseconds: now.milliseconds - 86_400_000))
        #expect(try await signed(from: yesterday, at: now).count > 1000)
        let jws = try store.transaction()
        #expect(await outcome(jws, verifier) == ["refuse otherEnvironment, retry false"])
    }

    private func signed(from yesterday: Timestamp, at now: Timestamp) async throws -> String {
        let authority = try CertificateAuthority(from: yesterday)
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = "1"
        payload.originalTransactionId = "1"
        payload.bundleId = "com.example.notes"
        payload.productId = "com.example.notes.pro.annual"
        payload.environment = Open(.sandbox)
        payload.signedDate = now
        let jws = try authority.sign(payload)
        return jws
    }

    @Test func `verify a receipt`() async throws {
        struct BadRequest: Error {}
        let (verifier, receiptData) = (store.verifier, Data(try store.receipt()).base64EncodedString())
        guard let bytes = Data(base64Encoded: receiptData) else { throw BadRequest() }
        let receipt = try await verifier.verify(receipt: bytes, at: now)
        let products = Set(receipt.payload.inAppPurchases.compactMap(\.productId))
        #expect(products == ["com.example.notes.pro.annual"])
        let answer = VerifyReceiptResponse(
            status: .valid, environment: receipt.environment, receipt: Receipt(receipt.payload, requestDate: now))
        let body: [UInt8] = answer.json
        #expect(String(decoding: body, as: UTF8.self).contains(#""product_id":"com.example.notes.pro.annual""#))
    }

    @Test func `verify a notification`() async throws {
        var store = store
        try store.refund()
        let (verifier, notification) = (store.verifier, try store.notification())
        let request = Array(#"{"signedPayload":"\#(notification)"}"#.utf8)
        var revoked: [String?] = []
        func revoke(_ transactionId: String?) { revoked.append(transactionId) }
        let body = try JSONValue(parsing: request).decode(ResponseBodyV2.self)
        let parts = try await verifier.verify(notification: (body.signedPayload ?? "").utf8, at: now)
        if let transaction = parts.transaction?.payload, transaction.revocationDate != nil {
            revoke(transaction.transactionId)
        }
        #expect(revoked == [store.id])
    }

    @Test func `ask about revocation`() throws {
        var verifier = store.verifier
        verifier.revocation = .checked(by: RevocationChecker(transport: HTTPOCSPTransport()), acceptsUnknown: true)
        guard case .checked = verifier.revocation else { throw CocoaError(.featureUnsupported) }
    }
}
