// SPDX-License-Identifier: Apache-2.0

/// Writes DER, and BER of indefinite length on request.
enum DER {
    static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        [tag] + length(content.count) + content
    }

    /// A constructed element of indefinite length (ITU-T X.690 section 8.1.3.6).
    static func indefinite(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        [tag | 0x20, 0x80] + content + [0, 0]
    }

    static func sequence(_ elements: [UInt8]...) -> [UInt8] { element(0x30, Array(elements.joined())) }
    static func set(_ elements: [UInt8]...) -> [UInt8] { element(0x31, Array(elements.joined())) }
    static func context0(_ content: [UInt8]) -> [UInt8] { element(0xa0, content) }
    static func octets(_ content: [UInt8]) -> [UInt8] { element(0x04, content) }
    static func text(_ text: String) -> [UInt8] { element(0x0c, Array(text.utf8)) }
    static func date(_ text: String) -> [UInt8] { element(0x16, Array(text.utf8)) }

    static func integer(_ number: Int) -> [UInt8] {
        var bytes = [UInt8(truncatingIfNeeded: number)]
        var rest = number >> 8
        while rest > 0 || bytes[0] & 0x80 != 0 {
            bytes.insert(UInt8(truncatingIfNeeded: rest), at: 0)
            rest >>= 8
        }
        return element(0x02, bytes)
    }

    private static func length(_ count: Int) -> [UInt8] {
        guard count >= 0x80 else { return [UInt8(count)] }
        let bytes = (0..<4).map { UInt8(truncatingIfNeeded: count >> (24 - 8 * $0)) }.drop { $0 == 0 }
        return [0x80 | UInt8(bytes.count)] + bytes
    }
}

extension DER {
    /// A receipt's attribute.
    static func attribute(_ type: Int, _ value: [UInt8]) -> [UInt8] {
        sequence(integer(type), integer(1), octets(value))
    }

    /// The attributes that every receipt must have.
    static let essentials =
        attribute(0, text("Production")) + attribute(2, text("com.example.notes"))
        + attribute(12, date("2025-06-15T12:00:00Z"))

    /// A payload with the essential attributes, and these.
    static func payload(_ attributes: [UInt8]) -> [UInt8] { set(essentials + attributes) }

    /// `part`, repeated as often as it fits into `count` bytes.
    static func filling(_ count: Int, with part: [UInt8]) -> [UInt8] {
        Array(repeatElement(part, count: max(1, count / part.count)).joined())
    }
}
