// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

extension Store {
    var others: [Case] { requests + notificationsV1 + transactionReceipts }

    private func request(_ name: String, _ make: @escaping @Sendable (Int) throws -> String) -> Case {
        Case("request: \(name)", verify(request:)) { Array(try make(min($0, Limits.verifyReceiptRequest - 64)).utf8) }
    }

    /// `part`, repeated as often as it fits into `count` bytes and into the bound on values.
    ///
    /// - Parameter values: How many values `part` has; 0 if they do not count.
    private static func filling(_ count: Int, _ part: String, values: Int = 0) -> String {
        let most = values == 0 ? .max : (Limits.jsonValues - 100) / values
        return String(repeating: part, count: max(1, min(count / part.utf8.count, most)))
    }

    private static func nest(_ depth: Int) -> String {
        String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }

    private var requests: [Case] {
        [
            request("a member of digits") { #"{"x":["# + Self.filling($0, "0,", values: 1) + "0]}" },
            request("a member of arrays") { #"{"x":["# + Self.filling($0, "[0],", values: 2) + "0]}" },
            request("a member of nested arrays") {
                #"{"x":["# + Self.filling($0, Self.nest(60) + ",", values: 60) + "0]}"
            },
            request("more values than are read") {
                #"{"x":["# + String(repeating: Self.nest(60) + ",", count: max(1, $0 / 121)) + "0]}"
            },
            request("a member of objects") { #"{"x":["# + Self.filling($0, #"{"":0},"#, values: 2) + "0]}" },
            request("many members") { "{" + Self.filling($0, #""":0,"#, values: 1) + #""x":0}"# },
            request("many receipts") { "{" + Self.filling($0, #""receipt-data":"","#, values: 1) + #""x":0}"# },
            request("base64 of nothing") { #"{"receipt-data":""# + Self.filling($0, "AAAA") + #""}"# },
            request("base64 in unicode escapes") { #"{"receipt-data":""# + Self.filling($0, #"\u0041"#) + #""}"# },
            request("a text of escapes") { #"{"x":""# + Self.filling($0, #"\n"#) + #""}"# },
            request("a signed receipt with many purchases") { count in
                let purchase = DER.attribute(17, DER.set(DER.attribute(1704, DER.date("2025-06-15T12:00:00Z"))))
                let payload = DER.payload(
                    DER.filling(min(count / 4 * 3 - 9_000, purchase.count * 19_990), with: purchase))
                let receipt = try authority.sign(receiptPayload: payload)
                return #"{"receipt-data":"\#(Data(receipt).base64EncodedString())"}"#
            },
        ]
    }

    private func notificationV1(_ name: String, _ make: @escaping @Sendable (Int) throws -> String) -> Case {
        Case("notification v1: \(name)", verify(notificationV1:)) {
            Array(try make(min($0, Limits.notificationV1 - 64)).utf8)
        }
    }

    private var notificationsV1: [Case] {
        let receipt = #""unified_receipt":{"latest_receipt":"AAAA"}"#
        /// `part`, repeated as often as it fits beside a receipt. The parser does not keep these values, so the bound
        /// on values does not apply.
        @Sendable func beside(_ part: String, _ count: Int) -> String {
            #"{"x":["# + String(repeating: part, count: max(1, (count - 64) / part.utf8.count)) + "0],\(receipt)}"
        }
        return [
            notificationV1("arrays beside the receipt") { beside("[],", $0) },
            notificationV1("objects with a member beside the receipt") { beside(#"{"":0},"#, $0) },
            notificationV1("nested arrays beside the receipt") { beside(Self.nest(60) + ",", $0) },
            notificationV1("texts beside the receipt") { beside(#""a text of 21 letters.","#, $0) },
            notificationV1("unicode escapes beside the receipt") { beside(#""\u00e9\u00e9\u00e9\u00e9","#, $0) },
            notificationV1("many receipts") { count in
                "{" + String(repeating: receipt + ",", count: max(1, count / (receipt.utf8.count + 1) - 1)) + receipt
                    + "}"
            },
            notificationV1("a signed receipt with many purchases") { count in
                let purchase = DER.attribute(17, DER.set(DER.attribute(1704, DER.date("2025-06-15T12:00:00Z"))))
                let payload = DER.payload(DER.filling(max(0, count / 4 * 3 - 9_000), with: purchase))
                let receipt = try authority.sign(receiptPayload: payload)
                return #"{"unified_receipt":{"latest_receipt":"\#(Data(receipt).base64EncodedString())"}}"#
            },
        ]
    }

    private func transactionReceipt(
        _ name: String, _ make: @escaping @Sendable (Int) throws -> [UInt8]
    ) -> Case {
        Case("transaction receipt, \(name)", verify(transactionReceipt:)) {
            try make(min($0, Limits.transactionReceipt))
        }
    }

    private var transactionReceipts: [Case] {
        [
            transactionReceipt("unsigned: many entries") { count in
                let entries = (0..<count / 14).map { "\"\($0)\"=\"\";" }
                return Array("{\(entries.joined())}".utf8)
            },
            transactionReceipt("unsigned: a text of escapes") { count in
                Array(#"{"x"=""#.utf8) + [UInt8](repeating: UInt8(ascii: "\\"), count: (count - 16) & ~1)
                    + Array(#"";}"#.utf8)
            },
            transactionReceipt("signed: many entries") { count in
                let entries = (0..<max(0, count - 4_000) / 26).map { (key: "\($0)", value: "") }
                return try authority.sign(transactionReceipt: Self.purchaseInfo + entries)
            },
        ]
    }

    private static let purchaseInfo = [
        (key: "bid", value: "com.example.notes"), (key: "purchase-date-ms", value: "\(now.milliseconds)"),
        (key: "product-id", value: "com.example.notes.premium"), (key: "transaction-id", value: "1"),
    ]
}
