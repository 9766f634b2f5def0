// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport
import ReceiptCoding

/// Fuzzes the body of a verifyReceipt request, from the endpoint's parsing to its answer.
///
/// Requests, answers and base64 are written to texts that read as the same. Only signed bytes verify.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzVerifyReceiptRequest(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let request = try VerifyReceiptRequest(parsing: bytes)
        let returned = requireNoError("a request that was read can be written") {
            try VerifyReceiptRequest(parsing: request.json)
        }
        require(returned.json == request.json, "a written request reads as the same request")
        guard let receipt = Base64.decode((request.receiptData ?? "").utf8) else { return }
        require(Base64.decode(Base64.encode(receipt).utf8) == receipt, "encoded base64 decodes to the same bytes")
        SignedForm.receipt.requireNoForgery(receipt)
        let decoded = try AppReceipt(decoding: SignedReceipt(decoding: receipt).payload)
        let answer = VerifyReceiptResponse(
            status: .valid, environment: .production, receipt: Receipt(decoded, requestDate: SignedForm.now))
        let read = requireNoError("an answer can be read") {
            try VerifyReceiptResponse(JSONValue(parsing: answer.json))
        }
        require(read == answer, "a written answer reads as the same answer")
    }
}
