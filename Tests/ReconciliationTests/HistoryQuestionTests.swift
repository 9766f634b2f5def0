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

    /// Lines of lists as spreadsheets and databases write them.
    @Test(arguments: [
        ("410000000000001,410000000000002", "has commas"), ("410000000000001;anna", "has semicolons"),
        ("transactionId,orderId", "has commas"), (String(repeating: "410000000000001,", count: 40), "has commas"),
        ("410000000000001\t2026-01-01", "has tabs"), ("\"410000000000001\"", "has quotes"),
        ("'410000000000001'", "has quotes"), ("transaction_id", "looks like a header"),
        ("Original Transaction ID", "looks like a header"), ("4\u{0}1\u{0}", "is in UTF-16"),
        ("\u{0}4\u{0}1\u{0}0\u{0}", "is in UTF-16"), ("410000000000001\u{0}", "has NUL (U+0000)"),
        ("\u{0}", "has NUL (U+0000)"), ("4100\u{0}\u{0}01", "has NUL (U+0000)"), ("order-1", nil),
        ("what?", nil), ("", nil), (String(repeating: "A", count: 2000), nil),
    ])
    func `a line of a table is named as such`(line: String, form: String?) throws {
        let error = try #require(
            #expect(throws: HistoryQuestionError.self) { try HistoryQuestion(recognizing: Array(line.utf8)) })
        let advice = "write one id a line, in UTF-8, and nothing else."
        #expect(form.map { error.description.hasSuffix(" It \($0): \(advice)") } ?? !error.description.contains(advice))
        // The first line of a file in UTF-16 has a byte order mark.
        let marked: [UInt8] = [0xff, 0xfe] + line.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
        guard (1...31).contains(line.utf16.count) else { return }
        let other = #expect(throws: HistoryQuestionError.self) { try HistoryQuestion(recognizing: marked) }
        #expect(other?.description.contains("It is in UTF-16") == true)
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
