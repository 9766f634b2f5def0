// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation
import ReceiptCoding

/// One thing that somebody handed to the command line, recognised by its content.
enum Document {
    case receipt([UInt8])
    case transactionReceipt(TransactionReceipt)
    case jws([UInt8])
    /// JSON that is signed nowhere, such as a decoded payload or an answer of verifyReceipt.
    case json(JSONValue)
}

/// Why input is none of the documents that are known.
struct InputError: Error, CustomStringConvertible {
    var description: String
}

extension Document {
    /// Recognises one document.
    init(recognizing bytes: ArraySlice<UInt8>) throws(InputError) {
        let text = bytes.trimmingWhiteSpace
        guard let first = text.first else { throw InputError(description: "The input is empty.") }
        if let receipt = Self.transactionReceipt(text) {
            self = .transactionReceipt(receipt)
        } else if first == UInt8(ascii: "{") {
            try self.init(json: text)
        } else if bytes.isBinary {
            self = .receipt(Array(bytes))
        } else if text.count(where: { $0 == UInt8(ascii: ".") }) == 2, text.isBase64OrJWS {
            self = .jws(Array(text))
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
        if let payload = json["signedPayload"]?.string, payload.count(where: { $0 == "." }) == 2 {
            self = .jws(Array(payload.utf8))
        } else if let receipt = json["receipt-data"]?.string {
            try self.init(base64: Array(receipt.utf8)[...])
        } else {
            self = .json(json)
        }
    }

    private init(base64 text: ArraySlice<UInt8>) throws(InputError) {
        // People wrap base64 in lines; neither line ends nor padding that got lost change what it says.
        var compact = text.filter { $0 != 0x0a && $0 != 0x0d }
        while compact.count % 4 != 0, compact.count % 4 != 1 { compact.append(UInt8(ascii: "=")) }
        guard let bytes = Base64.decode(compact) else {
            throw InputError(
                description: """
                    Not recognised: neither a receipt (binary or base64), nor a compact JWS, nor JSON with \
                    signedPayload or receipt-data.
                    """)
        }
        if let receipt = Self.transactionReceipt(bytes[...]) {
            self = .transactionReceipt(receipt)
        } else if bytes.first == 0x30 {
            self = .receipt(bytes)
        } else {
            throw InputError(description: "This base64 holds \(bytes.count) bytes that are no receipt.")
        }
    }

    private static func transactionReceipt(_ bytes: ArraySlice<UInt8>) -> TransactionReceipt? {
        guard bytes.first == UInt8(ascii: "{") else { return nil }
        return try? TransactionReceipt(decoding: bytes)
    }
}

/// The documents of one input, each with the line that it stands on where there are many.
enum Input {
    /// The most that is read at once: some hundred thousand receipts.
    static let sizeLimit = 1 << 30

    /// Reads a file, or standard input where `path` is `-` or missing.
    static func read(_ path: String?) throws(InputError) -> [UInt8] {
        let data: Data
        do {
            if let path, path != "-" {
                data = try Data(contentsOf: URL(fileURLWithPath: path))
            } else {
                data = try FileHandle.standardInput.read(upToCount: sizeLimit + 1) ?? Data()
            }
        } catch {
            throw InputError(description: "Cannot read \(path ?? "standard input"): \(error.localizedDescription)")
        }
        guard data.count <= sizeLimit else {
            throw InputError(description: "The input is larger than \(sizeLimit >> 20) MiB: split it by lines.")
        }
        return Array(data)
    }

    /// Splits an input into its documents: one, or one a line.
    static func documents(in bytes: [UInt8]) -> [Result<Document, InputError>] {
        guard !bytes[...].isBinary else { return [recognize(bytes[...])] }
        let lines = bytes.split { $0 == 0x0a || $0 == 0x0d }.filter { !$0.trimmingWhiteSpace.isEmpty }
        // One document may have many lines, wrapped base64 or laid-out JSON; then no line is a document of its own. Ten
        // lines tell, so that a few bad ones at the start of a list do not hide it.
        guard lines.count > 1, lines.prefix(10).contains(where: isComplete) else { return [recognize(bytes[...])] }
        return lines.map(recognize)
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
    fileprivate var isWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0a || self == 0x0d }
}

extension ArraySlice<UInt8> {
    /// Whether it is a receipt that nobody wrapped in text. SEQUENCE, with which every receipt begins, is also the digit 0.
    fileprivate var isBinary: Bool { first == 0x30 && !isBase64OrJWS }

    fileprivate var trimmingWhiteSpace: ArraySlice<UInt8> {
        guard let start = firstIndex(where: { !$0.isWhiteSpace }), let end = lastIndex(where: { !$0.isWhiteSpace })
        else {
            return []
        }
        return self[start...end]
    }

    /// Whether all of it is letters of base64, base64url or a compact JWS, or white space.
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
