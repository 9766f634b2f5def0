// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import ReceiptCoding

/// A document in the input of a command, recognised by its content.
enum Document {
    /// An app receipt (PKCS#7).
    case receipt([UInt8])
    case transactionReceipt(TransactionReceipt, [UInt8])
    case jws([UInt8])
    /// JSON without a signature, such as a decoded payload or a verifyReceipt response.
    case json(JSONValue)
}

/// Why the input is not a known document.
struct InputError: Error, CustomStringConvertible {
    var description: String
}

extension Document {
    /// Recognises one document.
    init(recognizing bytes: ArraySlice<UInt8>) throws(InputError) {
        let text = bytes.withoutByteOrderMark.trimmingWhiteSpace
        guard let first = text.first else { throw InputError(description: "The input is empty.") }
        if let receipt = Self.transactionReceipt(text) {
            self = .transactionReceipt(receipt, Array(text))
        } else if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
            try self.init(json: text)
        } else if bytes.isBinary {
            self = .receipt(Array(bytes))
        } else if text.countOfDots == 2, text.isBase64OrJWS {
            self = .jws(text.withoutLineEnds)
        } else {
            try self.init(base64: text)
        }
    }

    private init(json text: ArraySlice<UInt8>) throws(InputError) {
        let json: JSONValue
        do {
            json = try JSONValue(parsing: text)
        } catch {
            throw InputError(description: "The input looks like JSON but is not: \(error).")
        }
        // The App Store Server API's response about a notification has more members than the notification.
        if let payload = json["signedPayload"]?.string, payload.count(where: { $0 == "." }) == 2,
            json["sendAttempts"] == nil
        {
            self = .jws(payload.utf8.filter { !$0.isLineEnd })
        } else if let receipt = json["receipt-data"]?.string {
            try self.init(base64: Array(receipt.utf8)[...])
        } else {
            self = .json(json)
        }
    }

    private init(base64 text: ArraySlice<UInt8>) throws(InputError) {
        // Base64 is often wrapped in lines. Line breaks and missing padding do not change the content.
        var compact = text.filter { !$0.isLineEnd }
        while compact.count % 4 != 0, compact.count % 4 != 1 { compact.append(UInt8(ascii: "=")) }
        guard let bytes = Base64.decode(compact) else {
            throw InputError(
                description: """
                    The input is neither a receipt (binary or base64), nor a compact JWS, nor JSON with signedPayload \
                    or receipt-data.
                    """)
        }
        if let receipt = Self.transactionReceipt(bytes[...]) {
            self = .transactionReceipt(receipt, bytes)
        } else if bytes.first == 0x30 {
            self = .receipt(bytes)
        } else {
            throw InputError(description: "This base64 contains \(bytes.count) bytes that are not a receipt.")
        }
    }

    private static func transactionReceipt(_ bytes: ArraySlice<UInt8>) -> TransactionReceipt? {
        guard bytes.first == UInt8(ascii: "{") else { return nil }
        return try? TransactionReceipt(decoding: bytes)
    }
}

extension UInt8 {
    fileprivate var isLineEnd: Bool { self == 0x0a || self == 0x0d }
    var isWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0a || self == 0x0d }
}

extension ArraySlice<UInt8> {
    fileprivate var withoutByteOrderMark: ArraySlice<UInt8> { starts(with: [0xef, 0xbb, 0xbf]) ? dropFirst(3) : self }

    /// Whether this is a receipt in binary form. Its first byte, the tag SEQUENCE, is also the digit 0.
    var isBinary: Bool { first == 0x30 && !isBase64OrJWS }

    var trimmingWhiteSpace: ArraySlice<UInt8> {
        guard let start = firstIndex(where: { !$0.isWhiteSpace }), let end = lastIndex(where: { !$0.isWhiteSpace })
        else {
            return []
        }
        return self[start...end]
    }

    /// These bytes without line ends. Few texts have any.
    fileprivate var withoutLineEnds: [UInt8] {
        indexOfFirst(0x0a) == nil && indexOfFirst(0x0d) == nil ? Array(self) : filter { !$0.isLineEnd }
    }

    /// Whether all bytes are characters of base64, base64url or a compact JWS, or white space. A look into a table for
    /// each byte: a receipt has 100,000.
    fileprivate var isBase64OrJWS: Bool {
        Self.base64OrJWS.withUnsafeBufferPointer { table in
            withUnsafeBufferPointer { bytes in bytes.reduce(1) { $0 & table[Int($1)] } == 1 }
        }
    }

    private static let base64OrJWS: [UInt8] = {
        let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=. \t\r\n"
        return (UInt8.min...UInt8.max).map { letters.utf8.contains($0) ? 1 : 0 }
    }()

    /// How many bytes are dots. A buffer and no branch, so that the compiler can look at many at once.
    fileprivate var countOfDots: Int {
        withUnsafeBufferPointer { bytes in bytes.reduce(0) { $0 &+ ($1 == UInt8(ascii: ".") ? 1 : 0) } }
    }
}
