// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A way to wrap a text, and the function that undoes the wrapping.
struct Wrapping: Sendable {
    let step: InputStep
    /// The text inside, or `nil` if the text does not have this wrapping. The inner text is not longer than the outer
    /// text, unless a JSON string contains U+FDD0 or lone surrogates.
    let undo: @Sendable (ArraySlice<UInt8>) -> [UInt8]?

    /// All wrappings, in the order of the attempts. Each attempt first looks for a prefix, a suffix or a character of
    /// the wrapping, so most failed attempts are cheap.
    static let all = [
        Wrapping(step: .pem, undo: pem),
        Wrapping(step: .dataURL, undo: dataURL),
        Wrapping(step: .propertyList, undo: propertyList),
        Wrapping(step: .dataDescription, undo: dataDescription),
        Wrapping(step: .postgresHex) { $0.begins(with: "\\x") ? $0.dropFirst(2).hexadecimal : nil },
        Wrapping(step: .quotes, undo: quotes),
        Wrapping(step: .escapes, undo: escapes),
        Wrapping(step: .bearer, undo: bearer),
        Wrapping(step: .formBody, undo: formBody),
        Wrapping(step: .percentEncoding, undo: percentEncoding),
        Wrapping(step: .ellipsis, undo: ellipsis),
        Wrapping(step: .hexadecimal, undo: hexadecimal),
    ]

    private static func pem(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        let dashes = Array("-----".utf8)
        guard text.begins(with: "-----BEGIN "), let start = end(of: dashes, in: text.dropFirst(dashes.count)) else {
            return nil
        }
        let rest = text[start...]
        return Array(rest.prefix(upTo: rest.indexOfFirst(UInt8(ascii: "-")) ?? rest.endIndex))
    }

    /// The index after the first `part` within the head of a PEM file.
    private static func end(of part: [UInt8], in text: ArraySlice<UInt8>) -> Int? {
        let head = text.prefix(80)
        return head.indices.first { head[$0...].starts(with: part) }.map { $0 + part.count }
    }

    private static func dataURL(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.begins(with: "data:"), let comma = text.indexOfFirst(UInt8(ascii: ",")) else { return nil }
        return Array(text[(comma + 1)...])
    }

    private static func propertyList(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        if text.begins(with: "<string>"), text.ends(with: "</string>") { return Array(text.dropFirst(8).dropLast(9)) }
        if text.begins(with: "<data>"), text.ends(with: "</data>") { return Array(text.dropFirst(6).dropLast(7)) }
        return nil
    }

    private static func dataDescription(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        text.begins(with: "<") && text.ends(with: ">") ? text.dropFirst().dropLast().hexadecimal : nil
    }

    private static func quotes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.count >= 2, let quote = text.first, text.last == quote else { return nil }
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { return nil }
        // A text in single quotes, or with line ends inside, is not JSON. Only its quotes are removed.
        if case .string(let inner) = JSONValue(readable: text) { return Array(inner.utf8) }
        return Array(text.dropFirst().dropLast())
    }

    /// Undoes the escapes of string literals in programming languages. `nil` if the text has no escapes, or has unknown
    /// escapes.
    private static func escapes(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.indexOfFirst(UInt8(ascii: "\\")) != nil else { return nil }
        var result: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                result.append(byte)
                continue
            }
            guard let character = escaped(&rest) else { return nil }
            result.append(character)
        }
        return result
    }

    private static func escaped(_ rest: inout ArraySlice<UInt8>) -> UInt8? {
        switch rest.popFirst() {
        case UInt8(ascii: "n"): return UInt8(ascii: "\n")
        case UInt8(ascii: "r"): return UInt8(ascii: "\r")
        case UInt8(ascii: "t"): return UInt8(ascii: "\t")
        case UInt8(ascii: "u"):
            // JSON writers of some languages write + and = as such escapes.
            guard rest.begins(with: "00"), let code = rest.prefix(4).hexadecimal, code.count == 2 else { return nil }
            rest = rest.dropFirst(4)
            return code[1] < 0x80 ? code[1] : nil
        case let character?:
            return Array("\\/\"'".utf8).contains(character) ? character : nil
        case nil: return nil
        }
    }

    private static func bearer(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        text.begins(with: "Bearer ") || text.begins(with: "bearer ") ? Array(text.dropFirst(7)) : nil
    }

    /// The most fields of a form body before the field with the document. Real form bodies have only a few fields.
    private static let fields = 16

    private static func formBody(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        for pair in text.split(separator: UInt8(ascii: "&"), maxSplits: fields) {
            guard let end = pair.indexOfFirst(UInt8(ascii: "=")) else { continue }
            let name = pair[..<end]
            guard WrappedJSON.members.contains(where: { name.elementsEqual($0.utf8) }) else { continue }
            let value = pair[(end + 1)...]
            return percentEncoding(value) ?? Array(value)
        }
        return nil
    }

    private static func percentEncoding(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard text.indexOfFirst(UInt8(ascii: "%")) != nil else { return nil }
        var result: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                result.append(byte)
                continue
            }
            guard rest.count >= 2, let code = rest.prefix(2).hexadecimal, code.count == 1 else { return nil }
            rest = rest.dropFirst(2)
            result += code
        }
        return result
    }

    private static func ellipsis(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        if text.ends(with: "…") { return Array(text.dropLast(3)) }
        guard text.ends(with: "..."), let last = text.lastIndex(where: { $0 != UInt8(ascii: ".") }) else { return nil }
        return Array(text[...last])
    }

    /// Decodes hexadecimal. A text of hexadecimal digits may have a different meaning, so the first byte must be the
    /// first byte of a receipt or of gzip.
    private static func hexadecimal(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard let first = text.prefix(2).hexadecimal, first == [0x30] || first == [0x1f] else { return nil }
        return text.hexadecimal
    }
}
