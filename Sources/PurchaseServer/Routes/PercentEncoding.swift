// SPDX-License-Identifier: Apache-2.0

// Decodes ids in paths and queries.

extension StringProtocol {
    /// The text without its percent encoding (RFC 3986 section 2.1); `nil` if the text has a `%` without two
    /// hexadecimal digits, or is not UTF-8.
    ///
    /// Foundation's own decoding drops a byte order mark at the beginning, so that two ids would become one customer.
    var percentDecoded: String? {
        guard utf8.contains(UInt8(ascii: "%")) else { return String(self) }
        var bytes: [UInt8] = []
        var rest = Substring(self).utf8
        while let byte = rest.popFirst() {
            guard let decoded = byte == UInt8(ascii: "%") ? rest.popEscaped() : byte else { return nil }
            bytes.append(decoded)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

extension Substring.UTF8View {
    /// Takes the two hexadecimal digits after a `%`, and returns the byte for the digits (RFC 3986 section 2.1); `nil`
    /// if two digits are missing.
    mutating func popEscaped() -> UInt8? {
        let digits = prefix(2)
        // `UInt8` would also accept a sign.
        guard digits.count == 2, digits.allSatisfy(\.isLetterOrDigit), let value = UInt8(Substring(digits), radix: 16)
        else { return nil }
        self = dropFirst(2)
        return value
    }
}

extension UInt8 {
    /// Whether the byte is an ASCII letter or digit.
    var isLetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: false
        }
    }
}
