// SPDX-License-Identifier: Apache-2.0

// Ids in paths and queries.

extension StringProtocol {
    /// The text without its percent encoding (RFC 3986 section 2.1); `nil` if it has a `%` without two hexadecimal
    /// digits, or is not UTF-8.
    ///
    /// Foundation leaves out a byte order mark at the beginning, so that two ids would be one customer.
    var percentDecoded: String? {
        var (bytes, rest) = ([UInt8](), Substring(self).utf8)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            // A number may also have a sign.
            guard digits.count == 2, digits.allSatisfy(\.isHexDigit), let value = UInt8(Substring(digits), radix: 16)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
