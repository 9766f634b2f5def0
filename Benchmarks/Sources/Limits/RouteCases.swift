// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import Foundation
import PurchaseLedger
import ReceiptCoding

/// A request to a route that needs no key, and the ledger that it meets.
struct RouteCase: Sendable {
    let name: String
    /// How many periods the ledger has of the subscription that the request is about.
    let periods: Int
    let path: String
    let body: @Sendable (Store) throws -> String

    /// The request with its head.
    func request(_ store: Store) throws -> [UInt8] {
        let body = try body(store)
        return Array("POST \(path) HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
    }

    /// Where the subscription was bought. The simulator's old receipts say Sandbox.
    var scope: LedgerScope {
        let isSandbox = path.hasPrefix("/sandbox")
        return LedgerScope(bundleId: Store.scope.bundleId, environment: isSandbox ? .sandbox : .production)
    }

    /// The name of the case with which a child process is started.
    var id: String { "route: \(name), \(periods) periods" }

    static let all: [RouteCase] =
        [12, 120, 520, 1000, 3000].flatMap { periods in
            [
                RouteCase(name: "verifyReceipt", periods: periods, path: "/verifyReceipt") {
                    #"{"receipt-data":"\#(try $0.shortReceipt)"}"#
                },
                RouteCase(name: "verifyReceipt, newest only", periods: periods, path: "/verifyReceipt") {
                    #"{"receipt-data":"\#(try $0.shortReceipt)","exclude-old-transactions":true}"#
                },
                RouteCase(name: "verifyReceipt, an old receipt", periods: periods, path: "/sandbox/verifyReceipt") {
                    #"{"receipt-data":"\#(try $0.oldReceipt)"}"#
                },
                RouteCase(name: "a notification that is known", periods: periods, path: "/notifications/v2") {
                    #"{"signedPayload":"\#(try $0.notification)"}"#
                },
                RouteCase(name: "a notification of version 1", periods: periods, path: "/notifications/v1") {
                    #"{"unified_receipt":{"latest_receipt":"\#(try $0.shortReceipt)"}}"#
                },
            ]
        } + [
            RouteCase(name: "verifyReceipt, nothing", periods: 0, path: "/verifyReceipt") { _ in "{}" },
            RouteCase(name: "a notification of nothing", periods: 0, path: "/notifications/v2") { _ in "{}" },
            RouteCase(name: "a retention request of nothing", periods: 0, path: "/retention") { _ in "{}" },
            RouteCase(name: "no route", periods: 0, path: "/nowhere") { _ in "{}" },
        ]
}

extension Store {
    static let scope = LedgerScope(bundleId: "com.example.notes", environment: .production)

    private static func day(_ days: Int) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds + Int64(days) * 86_400_000)
    }

    /// A receipt of the first period alone: some 4 KB.
    fileprivate var shortReceipt: String {
        get throws {
            var purchase = InAppPurchase()
            (purchase.transactionId, purchase.originalTransactionId) = ("1", "1")
            (purchase.productId, purchase.quantity) = ("com.example.notes.premium", 1)
            (purchase.purchaseDate, purchase.originalPurchaseDate) = (Self.day(-1), Self.day(-1))
            purchase.expiresDate = Self.day(0)
            var receipt = AppReceipt()
            receipt.receiptType = Open(.production)
            receipt.bundleId = Self.scope.bundleId
            receipt.receiptCreationDate = Self.now
            receipt.inAppPurchases = [purchase]
            return Base64.encode(try authority.sign(receipt))
        }
    }

    fileprivate var oldReceipt: String {
        get throws {
            let info = [
                (key: "bid", value: Self.scope.bundleId), (key: "purchase-date-ms", value: "\(Self.now.milliseconds)"),
                (key: "product-id", value: "com.example.notes.premium"), (key: "transaction-id", value: "1"),
                (key: "original-transaction-id", value: "1"), (key: "expires-date", value: "\(Self.now.milliseconds)"),
            ]
            return Base64.encode(try authority.sign(transactionReceipt: info))
        }
    }

    fileprivate var notification: String {
        get throws {
            var transaction = JWSTransactionDecodedPayload()
            (transaction.transactionId, transaction.originalTransactionId) = ("1", "1")
            (transaction.bundleId, transaction.environment) = (Self.scope.bundleId, Open(.production))
            (transaction.productId, transaction.type) = ("com.example.notes.premium", Open(.autoRenewableSubscription))
            (transaction.purchaseDate, transaction.expiresDate) = (Self.day(-1), Self.day(0))
            transaction.signedDate = Self.now
            var data = NotificationData()
            (data.bundleId, data.environment) = (Self.scope.bundleId, Open(.production))
            data.signedTransactionInfo = try authority.sign(transaction)
            var payload = ResponseBodyV2DecodedPayload()
            payload.notificationType = Open(rawValue: "DID_RENEW")
            (payload.notificationUUID, payload.signedDate, payload.data) = ("u", Self.now, data)
            return try authority.sign(payload)
        }
    }

    /// What a subscription of a day each leaves in a ledger.
    static func history(periods: Int, in scope: LedgerScope) -> ChainRecord {
        var record = ChainRecord(ChainKey("1", in: scope))
        for number in 0..<periods {
            let (start, id) = (day(number - periods), number == 0 ? "1" : "\(2_000_000_000_000_000 + number)")
            let provenance = Provenance(signedDate: start, digest: DocumentDigest(Array("\(number)".utf8)))
            var statement = TransactionStatement(
                source: .signedTransaction, provenance: provenance, transactionId: id, chain: "1",
                productId: "com.example.notes.premium")
            statement.type = Open(.autoRenewableSubscription)
            statement.subscriptionGroup = "21000001"
            (statement.purchaseDate, statement.expiresDate) = (start, day(number - periods + 1))
            statement.ownership = Open(.purchased)
            statement.appAccountToken = "7e3fb20b-4cdb-47cc-936d-99d65f608138"
            statement.webOrderLineItemId = "\(2_000_000_000_000_000 + number)"
            statement.transactionReason = Open(number == 0 ? .purchase : .renewal)
            (statement.price, statement.currency, statement.storefront) = (9990, "USD", "USA")
            record.chain.merge(statement)
        }
        return record
    }
}
