// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import FuzzSupport
import ReceiptCoding

/// An old transaction receipt, or its signature with the purchase after it, which are put into one here.
///
/// Nothing verifies but what was signed; the signature's parts make up the signature; the purchase is written to JSON that
/// reads as the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzTransactionReceipt(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let document = bytes.first.map { $0 < 0x08 } == true ? propertyList(bytes) : bytes
        SignedForm.transactionReceipt.requireNoForgery(document)
        let receipt = try TransactionReceipt(decoding: document)
        if let parts = try? receipt.signatureParts() {
            let length = withUnsafeBytes(of: UInt32(parts.certificate.count).bigEndian) { Array($0) }
            require(
                receipt.signature == [parts.version] + parts.signature + length + parts.certificate,
                "a signature consists of its parts")
        }
        let info = try receipt.info()
        let returned = requireNoError("a purchase can be read") {
            try TransactionReceiptInfo(JSONValue(parsing: info.json))
        }
        require(returned == info, "a purchase reads as what it was made of")
        _ = try? receipt.modern().value.legacy()
    }
}

/// A receipt of version, signature, length of the certificate, certificate, and the purchase.
private func propertyList(_ parts: [UInt8]) -> [UInt8] {
    let lengthStart = parts.first == 2 ? 129 : 257
    let length = parts.dropFirst(lengthStart).prefix(4).reduce(0) { $0 << 8 | Int($1) }
    let signature = parts.prefix(lengthStart + 4 + length)
    let purchase = Base64.encode(parts.dropFirst(signature.count))
    let text = #"{ "signature" = "\#(Base64.encode(signature))"; "purchase-info" = "\#(purchase)"; "pod" = "1"; }"#
    return Array(text.utf8)
}
