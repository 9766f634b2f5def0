// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport
import ReceiptCoding

/// Fuzzes a PKCS#7 receipt, or the payload of one.
///
/// Only signed bytes verify. A receipt that decodes is encoded to bytes that decode to the same receipt, and its
/// verifyReceipt answer reads as the same answer.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzReceipt(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        SignedForm.receipt.requireNoForgery(bytes)
        let payload = (try? SignedReceipt(decoding: bytes))?.payload ?? bytes[...]
        let receipt = try AppReceipt(decoding: payload)
        requireSameEncoded(receipt, payload)
        requireSameAnswered(receipt)
    }
}

private func requireSameEncoded(_ receipt: AppReceipt, _ payload: ArraySlice<UInt8>) {
    let encoded = receipt.encoded
    let returned = requireNoError("a decoded receipt is encoded to bytes that decode") {
        try AppReceipt(decoding: encoded[...])
    }
    // Of duplicates the first counts, and encoding changes their order.
    guard !receipt.hasDuplicates else { return }
    require(returned.encoded == encoded, "a receipt has one encoding")
    require(returned.withoutLists == receipt.withoutLists, "an encoded receipt decodes to the same receipt")
    require(
        AppReceipt.creationDate(in: payload) == receipt.receiptCreationDate, "both ways to the creation date agree")
}

private func requireSameAnswered(_ receipt: AppReceipt) {
    let answer = VerifyReceiptResponse(
        status: .valid, environment: .sandbox, receipt: Receipt(receipt, requestDate: SignedForm.now))
    let returned = requireNoError("an answer can be read") {
        try VerifyReceiptResponse(JSONValue(parsing: answer.json))
    }
    require(returned == answer, "a written answer reads as the same answer")
    _ = answer.modern().value.legacy()
    _ = receipt.modern()
}

extension AppReceipt {
    /// The receipt without its purchases and other attributes.
    fileprivate var withoutLists: AppReceipt {
        var receipt = self
        (receipt.inAppPurchases, receipt.otherAttributes) = ([], [])
        return receipt
    }

    /// Whether an attribute is among `otherAttributes` only because another of its type came before it.
    fileprivate var hasDuplicates: Bool {
        otherAttributes.contains { !Self.isAlwaysKeptAside($0.encoded) }
            || inAppPurchases.flatMap(\.otherAttributes).contains { attribute in
                let purchase = ReceiptAttribute(
                    type: 17, version: 1, value: DEREncoding.setOf([attribute.encoded])[...])
                return !Self.isAlwaysKeptAside(purchase.encoded)
            }
    }

    /// Whether an attribute is among `otherAttributes` even if it is the only one in a receipt.
    private static func isAlwaysKeptAside(_ attribute: [UInt8]) -> Bool {
        let alone = try? AppReceipt(decoding: DEREncoding.setOf([attribute])[...])
        return alone.map { $0.otherAttributes + $0.inAppPurchases.flatMap(\.otherAttributes) }?.count == 1
    }
}
