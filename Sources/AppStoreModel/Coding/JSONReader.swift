// SPDX-License-Identifier: Apache-2.0

/// The reason why a text is not JSON.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The description of the fault.
    public var message: String
    /// The number of bytes before the fault.
    public var offset: Int

    public var description: String { "\(message) at byte \(offset)" }
}

extension JSONValue {
    /// Reads one JSON document. Only white space may surround the document.
    ///
    /// - Throws: ``JSONError`` if the text is not JSON by RFC 8259, is not UTF-8, nests deeper than
    ///   ``Limits/jsonDepth``, or has more values than ``Limits/jsonValues``.
    public init(parsing text: some Sequence<UInt8>) throws(JSONError) {
        try self.init(parsing: text, atMost: Limits.jsonValues)
    }

    /// Reads a JSON document, for callers that treat all invalid texts alike.
    ///
    /// - Returns: `nil` if ``init(parsing:)`` throws.
    @inline(never)
    package init?(readable text: some Sequence<UInt8>) {
        do { try self.init(parsing: text) } catch { return nil }
    }

    /// Reads a JSON document with at most `values` values.
    package init(parsing text: some Sequence<UInt8>, atMost values: Int) throws(JSONError) {
        var reader = JSONReader(Array(text), atMost: values)
        self = try reader.document()
    }

    /// Reads JSON written by this package. No limits apply, since a value in memory produced the text.
    init(written text: [UInt8]) throws(JSONError) {
        var reader = JSONReader(text, atMost: .max, maximumDepth: .max)
        self = try reader.document()
    }
}

extension JSONValue {
    /// Reads the string at a path of members, and keeps no other value in memory. Of duplicates the last counts.
    ///
    /// - Returns: `nil` if the member is missing or is not a string.
    /// - Throws: ``JSONError`` if the text is not JSON, or nests deeper than ``Limits/jsonDepth``.
    package static func string(at path: [String], in text: [UInt8]) throws(JSONError) -> String? {
        var reader = JSONReader(text, atMost: .max)
        return try reader.document(keeping: path)
    }

    /// The names of an object's members, as they are written, and without their quotes; `nil` if the text is no object,
    /// or if ``init(parsing:)`` throws. Keeps no value in memory, and takes a fraction of the time.
    @inline(never)
    package static func names(in text: [UInt8]) -> [Range<Int>]? {
        var reader = JSONReader(text, atMost: Limits.jsonValues)
        do { _ = try reader.document(keeping: nil) } catch { return nil }
        return text.first { $0 > 0x20 } == UInt8(ascii: "{") ? reader.names : nil
    }
}

private struct JSONReader {
    private let text: [UInt8]
    private var position = 0
    /// The number of further values allowed in the document.
    private var remaining: Int
    /// The highest number of nested levels.
    private let maximumDepth: Int
    /// The places of the names of the outermost object's members, if the document is skipped.
    private(set) var names: [Range<Int>] = []

    init(_ text: [UInt8], atMost values: Int, maximumDepth: Int = Limits.jsonDepth) {
        self.text = text
        self.maximumDepth = maximumDepth
        remaining = values
    }

    mutating func document() throws(JSONError) -> JSONValue {
        let value = try value(depth: 0)
        skipWhiteSpace()
        guard position == text.count else { throw misplaced("Something follows the document") }
        return value
    }

    private func error(_ message: String) -> JSONError { JSONError(message: message, offset: position) }

    /// The error at what is not expected here. People write a comma too many, and comments.
    private func misplaced(_ message: String) -> JSONError {
        guard let next else { return error(message) }
        if "/#".utf8.contains(next) { return error("JSON has no comments") }
        guard ",}]".utf8.contains(next), let comma = text[..<position].lastIndex(where: { $0 > 0x20 }),
            text[comma] == UInt8(ascii: ",")
        else { return error(message) }
        if next == UInt8(ascii: ",") { return error("Two commas") }
        return JSONError(message: "A comma before “\(Unicode.Scalar(next))”", offset: comma)
    }

    private var next: UInt8? { position < text.count ? text[position] : nil }

    private mutating func skipWhiteSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { position += 1 }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard let byte = next, UInt32(byte) == character.value else { return false }
        position += 1
        return true
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        skipWhiteSpace()
        guard remaining > 0 else { throw error("Too many values") }
        remaining -= 1
        switch next {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case .some: return .number(try number())
        case nil: throw error("The document ends early")
        }
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        guard depth < maximumDepth else { throw error("Nested deeper than \(maximumDepth) levels") }
        position += 1
        var members: [JSONValue.Member] = []
        skipWhiteSpace()
        if take("}") { return .object(members) }
        // Apple's payloads have 20 to 40 members. Inner objects reserve no capacity: a document may have 200,000
        // objects with a single member.
        if depth == 0 { members.reserveCapacity(40) }
        repeat {
            skipWhiteSpace()
            guard next == UInt8(ascii: "\"") else { throw misplaced("Expected the name of a member") }
            let name = try string()
            skipWhiteSpace()
            guard take(":") else { throw error("Expected ':' after a name") }
            members.append(.init(name, try value(depth: depth + 1)))
            skipWhiteSpace()
        } while take(",")
        guard take("}") else { throw misplaced("Expected ',' or '}'") }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        guard depth < maximumDepth else { throw error("Nested deeper than \(maximumDepth) levels") }
        position += 1
        var elements: [JSONValue] = []
        skipWhiteSpace()
        if take("]") { return .array(elements) }
        repeat {
            elements.append(try value(depth: depth + 1))
            skipWhiteSpace()
        } while take(",")
        guard take("]") else { throw misplaced("Expected ',' or ']'") }
        return .array(elements)
    }

    /// Reads a document, and returns the string at `path`. If `path` is `nil`, skips the document.
    mutating func document(keeping path: [String]?) throws(JSONError) -> String? {
        let text = try value(keeping: path?[...], depth: 0)
        skipWhiteSpace()
        guard position == self.text.count else { throw misplaced("Something follows the document") }
        return text
    }

    /// Reads a value, and returns the string at `path` inside the value. If `path` is `nil`, skips the value.
    private mutating func value(keeping path: ArraySlice<String>?, depth: Int) throws(JSONError) -> String? {
        skipWhiteSpace()
        guard remaining > 0 else { throw error("Too many values") }
        remaining -= 1
        guard let next else { throw error("The document ends early") }
        switch next {
        case UInt8(ascii: "{"): return try member(at: path, depth: depth)
        case UInt8(ascii: "["): try skipArray(depth: depth)
        case UInt8(ascii: "\""):
            if path?.isEmpty == true { return try string() }
            try skipString()
        case UInt8(ascii: "t"): _ = try word("true", .null)
        case UInt8(ascii: "f"): _ = try word("false", .null)
        case UInt8(ascii: "n"): _ = try word("null", .null)
        default: try skipNumber()
        }
        return nil
    }

    private mutating func member(at path: ArraySlice<String>?, depth: Int) throws(JSONError) -> String? {
        guard depth < maximumDepth else { throw error("Nested deeper than \(maximumDepth) levels") }
        position += 1
        skipWhiteSpace()
        if take("}") { return nil }
        var found: String?
        repeat {
            skipWhiteSpace()
            guard next == UInt8(ascii: "\"") else { throw misplaced("Expected the name of a member") }
            let start = position + 1
            var isOnPath = false
            if let name = path?.first {
                isOnPath = JSONValue.Member(try string(), .null).isCalled(name)
            } else {
                try skipString()
            }
            if depth == 0 { names.append(start..<position - 1) }
            skipWhiteSpace()
            guard take(":") else { throw error("Expected ':' after a name") }
            let text = try value(keeping: isOnPath ? path?.dropFirst() : nil, depth: depth + 1)
            if isOnPath { found = text }
            skipWhiteSpace()
        } while take(",")
        guard take("}") else { throw misplaced("Expected ',' or '}'") }
        return found
    }

    private mutating func skipArray(depth: Int) throws(JSONError) {
        guard depth < maximumDepth else { throw error("Nested deeper than \(maximumDepth) levels") }
        position += 1
        skipWhiteSpace()
        if take("]") { return }
        repeat {
            _ = try value(keeping: nil, depth: depth + 1)
            skipWhiteSpace()
        } while take(",")
        guard take("]") else { throw misplaced("Expected ',' or ']'") }
    }

    private mutating func word(_ word: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        let matches = word.withUTF8Buffer { text[position...].starts(with: $0) }
        guard matches else { throw error("Not a JSON value") }
        position += word.utf8CodeUnitCount
        return value
    }

    // number = [ "-" ] int [ frac ] [ exp ], RFC 8259 section 6
    private mutating func number() throws(JSONError) -> String {
        let start = position
        try skipNumber()
        return try utf8(from: start)
    }

    private mutating func skipNumber() throws(JSONError) {
        _ = take("-")
        if !take("0"), digits() == 0 { throw misplaced("Not a JSON value") }
        if take("."), digits() == 0 { throw error("Expected a digit after '.'") }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            guard digits() > 0 else { throw error("Expected a digit in the exponent") }
        }
    }

    private mutating func digits() -> Int {
        let start = position
        while let byte = next, byte >= 0x30, byte <= 0x39 { position += 1 }
        return position - start
    }

    private mutating func string() throws(JSONError) -> String {
        position += 1
        let start = position
        skipPlainText()
        switch next {
        case UInt8(ascii: "\""):
            defer { position += 1 }
            return try utf8(from: start)
        case UInt8(ascii: "\\"): return try escapedString(from: start)
        case .some: throw error("Control character in a string")
        case nil: throw error("A string does not end")
        }
    }

    /// Skips the text before the next quote, backslash or control character. Long strings are common: a notification
    /// holds tokens of 5,000 bytes, and a request holds a receipt of 100,000 bytes.
    private mutating func skipPlainText() {
        position = text.withUnsafeBytes { $0.firstIndex(from: position, { $0.ends }) { $0.endsPlainText } }
    }

    /// Skips a string, with the checks of ``string()``.
    private mutating func skipString() throws(JSONError) {
        let start = position
        position += 1
        skipPlainText()
        let isPlain = text.withUnsafeBufferPointer { UnsafeBufferPointer(rebasing: $0[start..<position]).isASCII }
        if isPlain, take("\"") { return }
        position = start
        _ = try string()
    }

    /// The text from `start` to the current position. A payload has a hundred strings, so the bytes are read through a
    /// buffer, which unlike a slice needs no reference counting.
    private func utf8(from start: Int) throws(JSONError) -> String {
        let string = text.withUnsafeBufferPointer { text in
            let bytes = UnsafeBufferPointer(rebasing: text[start..<position])
            return bytes.isASCII ? String(decoding: bytes, as: UTF8.self) : LoneSurrogate.text(bytes)
        }
        guard let string else { throw error("A string is not UTF-8") }
        return string
    }

    /// Reads a string with escapes. The string began at `start`.
    private mutating func escapedString(from start: Int) throws(JSONError) -> String {
        var bytes: [UInt8] = []
        position = start
        while let byte = next {
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = bytes.withUnsafeBufferPointer(String.init(utf8:)) else {
                    throw error("A string is not UTF-8")
                }
                return string
            case UInt8(ascii: "\\"):
                try appendEscape(to: &bytes)
            case 0..<0x20: throw error("Control character in a string")
            default: LoneSurrogate.append(byte, to: &bytes)
            }
        }
        throw error("A string does not end")
    }

    private mutating func appendEscape(to bytes: inout [UInt8]) throws(JSONError) {
        let code = take("u") ? try unicodeEscape() : try escape().value
        guard let scalar = Unicode.Scalar(code) else {
            bytes += LoneSurrogate.encoded(code)
            return
        }
        for byte in UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter {
            LoneSurrogate.append(byte, to: &bytes)
        }
    }

    private mutating func escape() throws(JSONError) -> Unicode.Scalar {
        guard let byte = next else { throw error("A string does not end") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        default: throw error("Unknown escape")
        }
    }

    /// Reads a code point, or an unpaired surrogate.
    private mutating func unicodeEscape() throws(JSONError) -> UInt32 {
        let unit = try fourHexDigits()
        guard unit >= 0xd800, unit < 0xdc00 else { return unit }
        let end = position
        if take("\\"), take("u") {
            let low = try fourHexDigits()
            if low >= 0xdc00, low <= 0xdfff { return 0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00) }
        }
        position = end
        return unit
    }

    private mutating func fourHexDigits() throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = Self.hexDigit(byte) else {
                throw error("Expected four hexadecimal digits")
            }
            position += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

extension String {
    /// The text of these bytes, or `nil` if they are not UTF-8. Nearly all text is ASCII, which is always valid UTF-8.
    /// ASCII is read without validation, in a third of the time.
    package init?(utf8 bytes: UnsafeBufferPointer<UInt8>) {
        if bytes.isASCII {
            self.init(decoding: bytes, as: UTF8.self)
        } else {
            self.init(validating: bytes, as: UTF8.self)
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether all bytes are ASCII. The loop has no branch per byte, so the compiler can test many bytes at once.
    fileprivate var isASCII: Bool { reduce(0, |) < 0x80 }
}
