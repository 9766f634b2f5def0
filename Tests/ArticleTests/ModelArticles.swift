// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Testing

/// The code in the articles about payloads.
@Suite struct ModelArticles {
    @Test func `translate old and new`() throws {
        let text =
            #"{"status":0,"environment":"Production","latest_receipt":"MA==","receipt":{"bundle_id":"com.example.notes"},"#
            + #""latest_receipt_info":[{"product_id":"pro","transaction_id":"1","original_transaction_id":"1"}]}"#
        let body = Array(text.utf8)
        let answer = try JSONValue(parsing: body).decode(VerifyReceiptResponse.self)
        let modern = answer.modern()
        let products = modern.value.transactions.compactMap(\.productId)
        let lost = modern.leftovers.map(\.path)
        #expect(products == ["pro"])
        #expect(lost.contains("latest_receipt"))

        let legacy = modern.value.legacy()
        let json: [UInt8] = legacy.value.json
        #expect(String(decoding: json, as: UTF8.self).contains(#""product_id":"pro""#))

        var transaction = JWSTransactionDecodedPayload()
        transaction.productId = "pro"
        let purchase: LatestReceiptInfo = transaction.legacy().value
        #expect(purchase.productId == "pro")
    }
}
