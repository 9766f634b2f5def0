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
        } else if text.count(where: { $0 == UInt8(ascii: ".") }) == 2, text.isBase64OrJWS {
            self = .jws(text.filter { !$0.isLineEnd })
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
        // With `sendAttempts`, this is not a notification but the App Store Server API's response about one.
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

/// Reads the documents of a file or of standard input.
enum Input {
    /// A document, or why it cannot be recognised.
    struct Item {
        /// The line number, if the input has many documents.
        var line: Int?
        var document: Result<Document, InputError>

        /// `line 7: `, or nothing if the input is one document.
        var place: String { line.map { "line \($0): " } ?? "" }
    }

    /// The most bytes of an input: some hundred thousand receipts.
    static let sizeLimit = 1 << 30

    /// Reads the documents of a file, or of standard input if `path` is `-` or `nil`: one document, or one per line.
    static func documents(_ path: String?) -> [Item] {
        do {
            return documents(in: try read(path))
        } catch {
            return [Item(line: nil, document: .failure(error))]
        }
    }

    /// Reads all of a file, a pipe or standard input.
    static func read(_ path: String?) throws(InputError) -> [UInt8] {
        let name = path == nil || path == "-" ? "standard input" : path ?? ""
        let file = path == nil || path == "-" ? STDIN_FILENO : open(name, O_RDONLY)
        guard file >= 0 else {
            throw InputError(description: "Cannot read \(name): \(String(cString: strerror(errno))).")
        }
        defer { close(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = chunk.withUnsafeMutableBytes { Foundation.read(file, $0.baseAddress, $0.count) }
            if count == 0 { return bytes }
            guard count > 0 || errno == EINTR else {
                throw InputError(description: "Cannot read \(name): \(String(cString: strerror(errno))).")
            }
            bytes += chunk.prefix(max(0, count))
            guard bytes.count <= sizeLimit else {
                throw InputError(description: "The input is larger than \(sizeLimit >> 20) MiB: split it by lines.")
            }
        }
    }

    private static func documents(in bytes: [UInt8]) -> [Item] {
        let whole = Item(line: nil, document: recognize(bytes[...]))
        guard !bytes[...].isBinary, (try? JSONValue(parsing: bytes)) == nil else { return [whole] }
        let lines = bytes.split(separator: 0x0a, omittingEmptySubsequences: false)
        let texts = lines.enumerated().filter { !$1.trimmingWhiteSpace.isEmpty }
        // One document may have many lines, such as wrapped base64; then no line is a document by itself. The first ten
        // lines are checked, so that a list is recognised even if it starts with a few invalid lines.
        guard texts.count > 1, texts.prefix(10).contains(where: { isComplete($1) }) else { return [whole] }
        return texts.map { Item(line: $0 + 1, document: recognize($1)) }
    }

    private static func isComplete(_ line: ArraySlice<UInt8>) -> Bool {
        switch try? Document(recognizing: line) {
        case .receipt(let receipt): (try? SignedReceipt(decoding: receipt)) != nil
        case .some: true
        case nil: false
        }
    }

    private static func recognize(_ bytes: ArraySlice<UInt8>) -> Result<Document, InputError> {
        do {
            return .success(try Document(recognizing: bytes))
        } catch {
            return .failure(error)
        }
    }
}

extension UInt8 {
    fileprivate var isLineEnd: Bool { self == 0x0a || self == 0x0d }
    fileprivate var isWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0a || self == 0x0d }
}

extension ArraySlice<UInt8> {
    fileprivate var withoutByteOrderMark: ArraySlice<UInt8> { starts(with: [0xef, 0xbb, 0xbf]) ? dropFirst(3) : self }

    /// Whether this is a receipt in binary form. Its first byte, the tag SEQUENCE, is also the digit 0.
    fileprivate var isBinary: Bool { first == 0x30 && !isBase64OrJWS }

    fileprivate var trimmingWhiteSpace: ArraySlice<UInt8> {
        guard let start = firstIndex(where: { !$0.isWhiteSpace }), let end = lastIndex(where: { !$0.isWhiteSpace })
        else {
            return []
        }
        return self[start...end]
    }

    /// Whether all bytes are characters of base64, base64url or a compact JWS, or white space.
    fileprivate var isBase64OrJWS: Bool {
        allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "-"),
                UInt8(ascii: "_"), UInt8(ascii: "="), UInt8(ascii: "."):
                true
            default: byte.isWhiteSpace
            }
        }
    }
}
