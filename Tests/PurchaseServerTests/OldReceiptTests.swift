// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import PurchaseLedger
import PurchaseServer
import TestWorld
import Testing

/// Old transaction receipts at verifyReceipt: answered in the form for iOS 6 if the ledger knows the transaction.
@Suite struct OldReceiptTests {
    private static let day: Int64 = 86_400_000
    private static let start = TestStore.start.milliseconds
    private static let authority = Result { try CertificateAuthority(from: Timestamp(milliseconds: start - day)) }

    private static func ask(
        _ path: String, _ receipt: [UInt8], password: String = "s", refused: Set<String> = [], at now: Int64,
        knowing history: [(JWSTransactionDecodedPayload) -> JWSTransactionDecodedPayload]
    ) async throws -> JSONValue {
        let authority = try authority.get()
        var app = AppConfiguration(AppIdentity(bundleId: "com.example"))
        app.sharedSecret = "s"
        app.refusedPurchases = refused
        var configuration = ServerConfiguration()
        configuration.apps = [app]
        var verifier = AppStoreVerifier(apps: .any, environments: [], roots: try authority.trust)
        verifier.intermediates = try authority.intermediates.reduce(Intermediates()) {
            $0.union(try Intermediates(reading: $1))
        }
        let service = LedgerService(configuration, storage: MemoryLedgerStorage(), verifier: verifier)
        for change in history {
            let token = try authority.sign(change(TestStore.transaction()))
            let document = try await service.verifier.evidence(transaction: token, at: Timestamp(milliseconds: start))
            _ = try await service.ledger.record([document], at: Timestamp(milliseconds: start))
        }
        let server = ServerApplication(
            ledger: service, requestSeed: 1, now: { Timestamp(milliseconds: now) }, logger: .quiet)
        return try await checkedApplication(of: server).test(.router) { client in
            let body = #"{"receipt-data":"\#(Base64.encode(receipt))","password":"\#(password)"}"#
            let response = try await client.execute(uri: path, method: .post, body: ByteBuffer(string: body))
            return try JSONValue(parsing: response.body.readableBytesView)
        }
    }

    /// The transaction of the renewal, which is not in the receipt.
    private static func renewed(_ payload: JWSTransactionDecodedPayload) -> JWSTransactionDecodedPayload {
        var payload = payload
        payload.transactionId = "2"
        payload.purchaseDate = Timestamp(milliseconds: start + 30 * day)
        payload.expiresDate = Timestamp(milliseconds: start + 60 * day)
        return payload
    }

    private static func inSandbox(_ payload: JWSTransactionDecodedPayload) -> JWSTransactionDecodedPayload {
        var payload = payload
        payload.environment = Open(.sandbox)
        return payload
    }

    /// A receipt. Its unsigned entry for the environment is missing if `environment` is `nil`.
    private static func receipt(version: UInt8 = 3, environment: String? = nil) throws -> [UInt8] {
        var plan = try TransactionReceiptPlan(
            version: version,
            [
                ("bid", "com.example"), ("bvrs", "1"), ("item-id", "7"), ("product-id", "month"), ("quantity", "1"),
                ("transaction-id", "1"), ("original-transaction-id", "1"), ("purchase-date-ms", "\(start)"),
                ("original-purchase-date-ms", "\(start)"), ("expires-date", "\(start + 30 * day)"),
            ], by: authority.get())
        plan.otherEntries = environment.map { [("environment", $0)] } ?? []
        return try plan.signed()
    }

    @Test(arguments: [UInt8(2), 3])
    func `an active subscription is answered with its newest renewal, and an expired one with 21006`(
        version: UInt8
    ) async throws {
        let receipt = try Self.receipt(version: version)
        let history = [{ $0 }, Self.renewed]
        let active = try await Self.ask("/verifyReceipt", receipt, at: Self.start + 45 * Self.day, knowing: history)
        #expect(active["status"]?.integer == 0)
        #expect(active["receipt"]?["transaction_id"]?.string == "1")
        #expect(active["latest_receipt_info"]?["transaction_id"]?.string == "2")
        #expect(active["latest_receipt_info"]?["expires_date"]?.string == "\(Self.start + 60 * Self.day)")
        #expect(active["latest_expired_receipt_info"] == nil)
        let over = try await Self.ask("/verifyReceipt", receipt, at: Self.start + 90 * Self.day, knowing: history)
        #expect(over["status"]?.integer == 21006)
        #expect(over["receipt"]?["bid"]?.string == "com.example")
        #expect(over["latest_expired_receipt_info"]?["transaction_id"]?.string == "2")
        #expect(over["latest_receipt_info"] == nil)
    }

    @Test(
        arguments: [
            ("/verifyReceipt", nil, [false], 0), ("/verifyReceipt", "Sandbox", [false], 21007),
            ("/sandbox/verifyReceipt", "Sandbox", [true], 0), ("/sandbox/verifyReceipt", "Sandbox", [false], 21008),
            ("/verifyReceipt", nil, [true], 21007), ("/sandbox/verifyReceipt", nil, [true], 0),
            ("/sandbox/verifyReceipt", nil, [false], 21008), ("/verifyReceipt", nil, [], 21010),
        ] as [(String, String?, [Bool], Int)])
    func `the ledger decides the environment, and the receipt's own word can only refuse`(
        path: String, environment: String?, sandboxed: [Bool], status: Int
    ) async throws {
        let history = sandboxed.map { $0 ? Self.inSandbox : { $0 } }
        let answer = try await Self.ask(
            path, Self.receipt(environment: environment), at: Self.start + Self.day, knowing: history)
        #expect(answer["status"]?.integer == Int64(status))
    }

    @Test(arguments: ["1", "2"])
    func `an old receipt of a refused purchase is answered with 21010, also by an id that only the ledger knows`(
        refused: String
    ) async throws {
        let answer = try await Self.ask(
            "/verifyReceipt", Self.receipt(), refused: [refused], at: Self.start + Self.day,
            knowing: [{ $0 }, Self.renewed])
        #expect(answer.compactText == #"{"status":21010}"#)
    }

    @Test func `an old receipt needs the shared secret and a valid signature`() async throws {
        let now = Self.start + Self.day
        let wrong = try await Self.ask("/verifyReceipt", Self.receipt(), password: "x", at: now, knowing: [{ $0 }])
        #expect(wrong["status"]?.integer == 21004)
        var changed = try Self.receipt()
        // Changes a letter of the signature.
        let place = try #require(changed.firstRange(of: Array("signature\" = \"".utf8))).upperBound + 20
        changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        let forged = try await Self.ask("/verifyReceipt", changed, at: now, knowing: [{ $0 }])
        #expect(forged["status"]?.integer == 21003)
    }
}
