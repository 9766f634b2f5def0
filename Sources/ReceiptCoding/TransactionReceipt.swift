// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// An old transaction receipt (`SKPaymentTransaction.transactionReceipt`, before iOS 7), decoded but not verified. The
/// receipt describes a single purchase, in an old-style property list. Apple never documented this format.
public struct TransactionReceipt: Hashable, Sendable {
    /// `signature`: a version byte, the RSA signature and the signer's certificate. `nil` in unsigned test data.
    public let signatureBlob: [UInt8]?

    /// `purchase-info`: a second property list. The RSA signature covers the version byte and these bytes.
    public let purchaseInfo: [UInt8]

    /// The entries of `purchaseInfo`, such as `product-id` or `transaction-id`. Names have hyphens here and underscores
    /// in verifyReceipt answers. Every value is text.
    public let purchase: [String: String]

    /// `environment`: `Sandbox`, or `nil` in production. The environment is not signed and proves nothing.
    public let environment: String?

    /// All other unsigned entries, such as `pod` and `signing-status`. Their meaning is unknown.
    public let otherEntries: [String: String]
}

extension TransactionReceipt {
    /// Decodes a receipt like `init(decoding:)`, but returns `nil` instead of an error.
    package init?(validating bytes: some Sequence<UInt8>) {
        do { try self.init(decoding: bytes) } catch { return nil }
    }

    /// Decodes a transaction receipt: the property list, not its base64.
    ///
    /// - Throws: ``ReceiptDecodingError`` if the bytes are no such list, or if the list has no purchase.
    public init(decoding bytes: some Sequence<UInt8>) throws(ReceiptDecodingError) {
        var entries = try PropertyList.dictionary(Array(bytes))
        guard let info = entries.removeValue(forKey: "purchase-info") else {
            throw ReceiptDecodingError("The transaction receipt has no purchase-info")
        }
        purchaseInfo = try Self.base64(info, "purchase-info")
        signatureBlob =
            if let text = entries.removeValue(forKey: "signature") { try Self.base64(text, "signature") } else { nil }
        purchase = try PropertyList.dictionary(purchaseInfo)
        environment = entries.removeValue(forKey: "environment")
        otherEntries = entries
    }

    /// The parts of ``signatureBlob``.
    public struct SignatureParts: Sendable {
        /// 2 (seen until 2015) or 3 (seen in 2022). The version is the first signed byte, followed by ``purchaseInfo``.
        public let version: UInt8
        /// An RSA signature: 128 bytes in version 2, 256 in version 3.
        public let signature: ArraySlice<UInt8>
        /// The signer's certificate as DER.
        public let certificate: ArraySlice<UInt8>
    }

    /// Decodes ``signatureBlob``: version, signature, length of the certificate in four bytes, certificate.
    ///
    /// - Throws: ``ReceiptDecodingError`` if there is no signature, if its version is unknown, or if the certificate
    ///   does not have its stated length.
    public func signatureParts() throws(ReceiptDecodingError) -> SignatureParts {
        guard let signatureBlob, let version = signatureBlob.first else {
            throw ReceiptDecodingError("The transaction receipt has no signature")
        }
        let sizes: [UInt8: Int] = [2: 128, 3: 256]
        guard let size = sizes[version] else {
            throw ReceiptDecodingError("The signature has version \(version) instead of 2 or 3")
        }
        let rest = signatureBlob.dropFirst(1 + size)
        let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        let certificate = rest.dropFirst(4)
        guard rest.count > 4, certificate.count == length else {
            throw ReceiptDecodingError("The signature's certificate does not have its stated length")
        }
        return SignatureParts(
            version: version, signature: signatureBlob.dropFirst().prefix(size), certificate: certificate)
    }

    private static func base64(_ text: String, _ name: String) throws(ReceiptDecodingError) -> [UInt8] {
        guard let bytes = Base64.decode(text.utf8) else { throw ReceiptDecodingError("The \(name) is not base64") }
        return bytes
    }
}

/// A parser for `{ "key" = "value"; … }`, the subset of old-style (NeXTSTEP) property lists that transaction receipts
/// use.
private struct PropertyList {
    private let bytes: [UInt8]
    private var position = 0

    static func dictionary(_ bytes: [UInt8]) throws(ReceiptDecodingError) -> [String: String] {
        guard bytes.count <= Limits.transactionReceipt else {
            throw ReceiptDecodingError("\(bytes.count) bytes are more than a transaction receipt may have")
        }
        var list = PropertyList(bytes: bytes)
        var entries: [String: String] = [:]
        try list.expect("{")
        while !list.take("}") {
            let key = try list.string()
            try list.expect("=")
            let value = try list.string()
            try list.expect(";")
            guard entries.updateValue(value, forKey: key) == nil else {
                throw ReceiptDecodingError("The entry \(key) occurs twice")
            }
        }
        list.skipWhiteSpace()
        guard list.position == bytes.count else { throw list.error("Something follows the property list") }
        return entries
    }

    private mutating func skipWhiteSpace() {
        while position < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[position]) { position += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipWhiteSpace()
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    private mutating func expect(_ character: Unicode.Scalar) throws(ReceiptDecodingError) {
        guard take(character) else { throw error("Expected '\(character)'") }
    }

    private mutating func string() throws(ReceiptDecodingError) -> String {
        try expect("\"")
        var text: [UInt8] = []
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let text = String(validating: text, as: UTF8.self) else { throw error("A string is not UTF-8") }
                return text
            case UInt8(ascii: "\\"):
                guard position < bytes.count else { throw error("A string is not terminated") }
                text.append(bytes[position])
                position += 1
            default:
                text.append(byte)
            }
        }
        throw error("A string is not terminated")
    }

    private func error(_ message: String) -> ReceiptDecodingError { ReceiptDecodingError(message, offset: position) }
}
