// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport
import ReceiptCoding

/// Fuzzes an old transaction receipt. The input is the receipt, or its signature followed by its purchase.
///
/// Only signed bytes verify. The signature is the concatenation of its parts. The purchase is written to JSON that
/// reads as the same purchase.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzTransactionReceipt(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let document = bytes.first.map { $0 < 0x08 } == true ? propertyList(bytes) : bytes
        SignedForm.transactionReceipt.requireNoForgery(document)
        let receipt = try TransactionReceipt(decoding: document)
        if let parts = try? receipt.signatureParts() {
            let length = withUnsafeBytes(of: UInt32(parts.certificate.count).bigEndian) { Array($0) }
            require(
                receipt.signatureBlob == [parts.version] + parts.signature + length + parts.certificate,
                "a signature consists of its parts")
        }
        let info = try receipt.info()
        let returned = requireNoError("a purchase can be read") {
            try TransactionReceiptInfo(JSONValue(parsing: info.json))
        }
        require(returned == info, "a written purchase reads as the same purchase")
        _ = try? receipt.modern().value.legacy()
    }
}

/// A receipt made of version, signature, length of the certificate, certificate and purchase.
private func propertyList(_ parts: [UInt8]) -> [UInt8] {
    let lengthStart = parts.first == 2 ? 129 : 257
    let length = parts.dropFirst(lengthStart).prefix(4).reduce(0) { $0 << 8 | Int($1) }
    let signature = parts.prefix(lengthStart + 4 + length)
    let purchase = Base64.encode(parts.dropFirst(signature.count))
    let text = #"{ "signature" = "\#(Base64.encode(signature))"; "purchase-info" = "\#(purchase)"; "pod" = "1"; }"#
    return Array(text.utf8)
}
