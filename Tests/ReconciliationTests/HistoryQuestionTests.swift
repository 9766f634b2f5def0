// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import ReceiptCoding
import Reconciliation
import Testing
import TestWorld

/// Which customer a line of a list names.
@Suite struct HistoryQuestionTests {
    @Test(
        arguments: [
            ("410000000000001", nil, ["410000000000001"]), ("  2000000123456789\r", nil, ["2000000123456789"]),
            ("700000000000000020", nil, ["700000000000000020"]), ("MV5G8XK2PQ", "MV5G8XK2PQ", []),
            ("M000000001", "M000000001", []),
        ] as [(String, String?, [String])])
    func `a short line is a transaction id or an order id`(line: String, order: String?, ids: [String]) throws {
        let question = try HistoryQuestion(recognizing: Array(line.utf8))
        #expect(question.order == order)
        #expect(question.transactions == ids)
    }

    @Test(arguments: [
        "", "id", "order-1", "m000000001", "41000 0001", "-1", "４１０", "transactionId,orderId",
        String(repeating: "1", count: 70), String(repeating: "A", count: 2000),
        String(repeating: "=", count: 100), String(repeating: ".", count: 100), String(repeating: "\u{0}", count: 100),
    ])
    func `anything else is a sentence`(line: String) {
        let error = #expect(throws: HistoryQuestionError.self) { try HistoryQuestion(recognizing: Array(line.utf8)) }
        #expect(error?.description.hasPrefix("The ") == true, "\(error?.description ?? "")")
    }

    @Test func `a receipt names the purchases in it, each once, and no more than twenty`() throws {
        let store = try TestStore()
        var receipt = AppReceipt()
        for number in 0..<60 {
            var purchase = InAppPurchase()
            (purchase.transactionId, purchase.originalTransactionId) = ("\(1000 + number)", "\(100 + number / 2)")
            receipt.inAppPurchases.append(purchase)
        }
        let text = Base64.encode(try store.sign(receipt))
        #expect(try HistoryQuestion(recognizing: Array(text.utf8)).transactions == (100..<120).map { "\($0)" })
        // Without its padding, it is the same.
        let bare = text.filter { $0 != "=" }
        #expect(try HistoryQuestion(document: Array(bare.utf8)).transactions.count == 20)
        let empty = Base64.encode(try store.sign(AppReceipt()))
        #expect(throws: HistoryQuestionError.self) { try HistoryQuestion(document: Array(empty.utf8)) }
    }

    @Test func `a signed transaction names its purchase, whoever signed it`() throws {
        let token = try TestStore().sign(TestStore.transaction("7") { $0.originalTransactionId = "3" })
        #expect(try HistoryQuestion(recognizing: Array(token.utf8)).transactions == ["3", "7"])
    }
}
