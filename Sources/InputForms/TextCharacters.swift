// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The kinds of characters in a text. They are found in a single pass, because a receipt has 100,000 characters.
struct TextCharacters: OptionSet {
    let rawValue: UInt8

    /// Letters and digits.
    static let alphanumeric = TextCharacters(rawValue: 1)
    /// `+` and `/`.
    static let standard = TextCharacters(rawValue: 2)
    /// `-` and `_`.
    static let url = TextCharacters(rawValue: 4)
    static let padding = TextCharacters(rawValue: 8)
    static let dot = TextCharacters(rawValue: 16)
    static let blank = TextCharacters(rawValue: 32)
    /// Line ends and tabs.
    static let lineEnd = TextCharacters(rawValue: 64)
    /// All other characters. Neither base64 nor a token contains them.
    static let other = TextCharacters(rawValue: 128)

    static let whiteSpace: TextCharacters = [.blank, .lineEnd]

    init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    init(_ text: ArraySlice<UInt8>) {
        rawValue = Self.table.withUnsafeBufferPointer { table in
            text.withUnsafeBufferPointer { bytes in bytes.reduce(0) { $0 | table[Int($1)] } }
        }
    }

    private static let table: [UInt8] = {
        var table = [UInt8](repeating: other.rawValue, count: 256)
        let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
        let kinds: [(String, TextCharacters)] = [
            (letters, .alphanumeric), ("+/", .standard), ("-_", .url), ("=", .padding), (".", .dot), (" ", .blank),
            ("\t\r\n", .lineEnd),
        ]
        for (characters, kind) in kinds {
            // The loop is over scalars, because CR LF is a single `Character`.
            for scalar in characters.unicodeScalars { table[Int(scalar.value)] = kind.rawValue }
        }
        return table
    }()
}

extension UInt8 {
    /// Whether the byte is a blank, a tab or a line end.
    package var isWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0a || self == 0x0d }

    /// The value of a hexadecimal digit, or `nil` for any other byte.
    var hexValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

extension ArraySlice<UInt8> {
    /// These bytes without white space at both ends.
    package var trimmingWhiteSpace: ArraySlice<UInt8> {
        guard let start = firstIndex(where: { !$0.isWhiteSpace }), let end = lastIndex(where: { !$0.isWhiteSpace })
        else {
            return []
        }
        return self[start...end]
    }

    /// Whether the bytes are not text in UTF-8, but a receipt, gzip or text in UTF-16.
    ///
    /// A receipt's first byte, the tag SEQUENCE, is also the ASCII digit 0, so the first byte alone does not decide.
    package var isBinary: Bool {
        first == 0x30 && TextCharacters(self).contains(.other) || isGzip || isUTF16
    }

    var isGzip: Bool { starts(with: [0x1f, 0x8b]) }
    var isUTF16: Bool { starts(with: [0xff, 0xfe]) || starts(with: [0xfe, 0xff]) }

    /// The number of dots. The buffer and the absence of branches let the compiler compare many bytes at once.
    var countOfDots: Int {
        withUnsafeBufferPointer { bytes in bytes.reduce(0) { $0 &+ ($1 == UInt8(ascii: ".") ? 1 : 0) } }
    }

    func begins(with text: StaticString) -> Bool { text.withUTF8Buffer { starts(with: $0) } }

    func ends(with text: StaticString) -> Bool { text.withUTF8Buffer { suffix($0.count).elementsEqual($0) } }

    /// Whether `part` occurs in these bytes. The search is slow for long texts, so callers pass at most 200 bytes.
    func includes(_ part: [UInt8]) -> Bool { indices.contains { self[$0...].starts(with: part) } }

    /// Decodes base64 in any spelling: both alphabets, with or without padding, with white space inside. A single last
    /// character, left over if a text was cut off, is dropped.
    ///
    /// - Returns: `nil` for any other character, for padding before the end, and for an empty text.
    var looseBase64: [UInt8]? {
        var text = filter { !$0.isWhiteSpace }
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        for index in text.indices {
            if text[index] == UInt8(ascii: "-") { text[index] = UInt8(ascii: "+") }
            if text[index] == UInt8(ascii: "_") { text[index] = UInt8(ascii: "/") }
        }
        if text.count % 4 == 1 { text.removeLast() }
        while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return Base64.decode(text)
    }

    /// Decodes hexadecimal digits, with white space between them. A single last digit is dropped.
    ///
    /// - Returns: `nil` for any other character.
    var hexadecimal: [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        for byte in self where !byte.isWhiteSpace {
            guard let digit = byte.hexValue else { return nil }
            if let first = high { bytes.append(first << 4 | digit) }
            high = high == nil ? digit : nil
        }
        return bytes
    }
}
