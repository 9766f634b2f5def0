// SPDX-License-Identifier: Apache-2.0

/// Writes JSON in the order of the calls, without an intermediate tree.
///
/// Apple's answers have a fixed order of members. `JSONEncoder` keeps no order, and takes ten times as long.
package struct JSONWriter {
    /// The text so far.
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    /// A writer with room for `capacity` bytes.
    package init(reservingCapacity capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    /// Writes an object. The closure `members` writes its members.
    package mutating func object(_ members: (inout JSONWriter) throws -> Void) rethrows {
        beginObject()
        try members(&self)
        endObject()
    }

    // Each call of a `begin` method needs a matching `end`.

    package mutating func beginObject() { open("{") }
    package mutating func endObject() { close("}") }
    package mutating func beginArray() { open("[") }
    package mutating func endArray() { close("]") }

    /// Writes an array with a value per element.
    package mutating func array<Element>(
        _ elements: some Sequence<Element>, _ write: (inout JSONWriter, Element) throws -> Void
    ) rethrows {
        beginArray()
        for element in elements { try write(&self, element) }
        endArray()
    }

    /// Writes a name that needs no escapes. The caller must write a value next.
    package mutating func name(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a name, with escapes if necessary. The caller must write a value next.
    package mutating func name(_ name: String) {
        separate()
        quote(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a string, with escapes if necessary.
    package mutating func string(_ text: String) {
        separate()
        quote(text)
    }

    /// Writes a whole number.
    package mutating func number(_ number: Int64) {
        separate()
        Self.append(number, to: &bytes)
    }

    /// Writes `true` or `false`.
    package mutating func bool(_ bool: Bool) {
        literal(bool ? "true" : "false")
    }

    /// Writes `null`.
    package mutating func null() {
        literal("null")
    }

    /// Writes text already in the form of a JSON value.
    package mutating func literal(_ text: String) {
        separate()
        bytes.append(contentsOf: text.utf8)
    }

    /// Writes bytes already in the form of a JSON value.
    package mutating func literal(_ json: [UInt8]) {
        separate()
        bytes.append(contentsOf: json)
    }

    /// Writes the members of `object`, which is already JSON and must have no white space around its braces. The text
    /// after the first quote is not checked. Nothing is written if `object` does not begin with `{"` and end with `}`.
    package mutating func members(of object: [UInt8]) {
        guard object.count > 2, object.starts(with: [UInt8(ascii: "{"), UInt8(ascii: "\"")]),
            object.last == UInt8(ascii: "}")
        else { return }
        separate()
        bytes.append(contentsOf: object[1..<object.count - 1])
    }

    /// Writes a string. The closure `text` appends its bytes, which must need no escapes.
    package mutating func plainString(_ text: (inout [UInt8]) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        text(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a whole document.
    package mutating func value(_ value: JSONValue) {
        switch value {
        case .null: null()
        case .bool(let bool): self.bool(bool)
        case .number(let text): literal(text)
        case .string(let text): string(text)
        case .array(let elements): array(elements) { $0.value($1) }
        case .object(let members):
            object { writer in
                for member in members {
                    writer.name(member.name)
                    writer.value(member.value)
                }
            }
        }
    }

    /// Appends the decimal digits of `number`.
    package static func append(_ number: Int64, to bytes: inout [UInt8]) {
        var rest = number.magnitude
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        let start = bytes.count
        repeat {
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            bytes.append(UInt8(ascii: "0") + UInt8(digit))
            rest = quotient
        } while rest != 0
        bytes[start...].reverse()
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func open(_ bracket: Unicode.Scalar) {
        separate()
        bytes.append(UInt8(ascii: bracket))
        needsComma = false
    }

    private mutating func close(_ bracket: Unicode.Scalar) {
        bytes.append(UInt8(ascii: bracket))
        needsComma = true
    }

    private mutating func quote(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        var text = text
        text.withUTF8 { utf8 in
            // Few strings need an escape, so most strings take one scan and one copy.
            let plain = UnsafeRawBufferPointer(utf8).firstIndex(
                from: 0, { $0.ends | $0.equal(to: LoneSurrogate.firstByte) },
                { $0.endsPlainText || $0 == LoneSurrogate.firstByte })
            if plain == utf8.count { bytes.append(contentsOf: utf8) } else { escape(utf8[...]) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ text: Slice<UnsafeBufferPointer<UInt8>>) {
        var rest = text
        while let byte = rest.first {
            if byte == LoneSurrogate.firstByte, rest.starts(with: LoneSurrogate.mark) {
                rest = rest.dropFirst(LoneSurrogate.mark.count)
                rest = rest.dropFirst(escapeMark(before: rest))
            } else {
                escape(byte)
                rest = rest.dropFirst()
            }
        }
    }

    /// Decodes the text after a mark in memory (see ``LoneSurrogate``): writes an escape for a lone surrogate, or a
    /// single mark for a doubled mark.
    ///
    /// - Returns: The number of bytes after the mark that belong to the encoded form.
    private mutating func escapeMark(before text: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
        if let unit = LoneSurrogate.unit(in: text) {
            bytes.append(contentsOf: "\\u\(String(unit, radix: 16))".utf8)
            return 4
        }
        bytes.append(contentsOf: LoneSurrogate.mark)
        return text.starts(with: LoneSurrogate.mark) ? LoneSurrogate.mark.count : 0
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case UInt8(ascii: "\n"): bytes.append(contentsOf: #"\n"#.utf8)
        case UInt8(ascii: "\r"): bytes.append(contentsOf: #"\r"#.utf8)
        case UInt8(ascii: "\t"): bytes.append(contentsOf: #"\t"#.utf8)
        case 0..<0x20:
            // The first hexadecimal digit of a byte below 0x20 is 0 or 1.
            bytes.append(contentsOf: #"\u00"#.utf8)
            bytes.append(UInt8(ascii: "0") + byte >> 4)
            bytes.append((byte & 15) + (byte & 15 < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10))
        default: bytes.append(byte)
        }
    }
}

extension JSONWriter {
    /// Writes a name and a text, if `text` is not `nil`.
    package mutating func member(_ name: StaticString, _ text: String?) {
        guard let text else { return }
        self.name(name)
        string(text)
    }

    /// Writes a name and a number.
    package mutating func member(_ name: StaticString, number: Int64) {
        self.name(name)
        self.number(number)
    }
}

extension JSONValue {
    /// The document as compact JSON on one line.
    public var compactText: String {
        var writer = JSONWriter()
        writer.value(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
