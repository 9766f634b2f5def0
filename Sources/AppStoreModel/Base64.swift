// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The two alphabets of RFC 4648, read as strictly as the formats that use them ask for.
///
/// Foundation reads surplus padding and the empty text, knows one alphabet, and copies twice; a look at every character before
/// and after costs more than reading it here.
package enum Base64 {
    /// Decodes standard base64 (section 4): full padding, no white space, nothing around it.
    ///
    /// Set bits behind the last byte are let pass, as Apple lets them pass.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        let text = Array(text)
        guard !text.isEmpty, text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        return decode(text.dropLast(padding), standard)?.bytes
    }

    /// Decodes base64url without padding (section 5), as a compact JWS uses it (RFC 7515 section 2).
    ///
    /// Set bits behind the last byte are refused (section 3.5): there is one text for one token.
    package static func decodeURL(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard let (bytes, spareBits) = decode(Array(text)[...], url), spareBits == 0 else { return nil }
        return bytes
    }

    /// Encodes base64url without padding: what ``decodeURL(_:)`` reads.
    package static func encodeURL(_ bytes: some Collection<UInt8>) -> [UInt8] {
        var text = Array(Data(bytes).base64EncodedData())
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        for index in text.indices {
            switch text[index] {
            case UInt8(ascii: "+"): text[index] = UInt8(ascii: "-")
            case UInt8(ascii: "/"): text[index] = UInt8(ascii: "_")
            default: break
            }
        }
        return text
    }

    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        Data(bytes).base64EncodedString()
    }

    private static let standard = table("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    private static let url = table("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

    private static let notInAlphabet: UInt8 = 0xff

    /// By character, its six bits.
    private static func table(_ alphabet: String) -> [UInt8] {
        var table = [UInt8](repeating: notInAlphabet, count: 256)
        for (bits, character) in alphabet.utf8.enumerated() { table[Int(character)] = UInt8(bits) }
        return table
    }

    /// Decodes text without padding; what the last character has beyond the last byte are spare bits.
    private static func decode(_ text: ArraySlice<UInt8>, _ table: [UInt8]) -> (bytes: [UInt8], spareBits: UInt8)? {
        let rest = text.count % 4
        guard rest != 1 else { return nil }
        var bytes = [UInt8](repeating: 0, count: text.count / 4 * 3 + max(0, rest - 1))
        var index = 0
        var position = text.startIndex
        // Four characters are three bytes.
        while position < text.endIndex - rest {
            let (first, second) = (table[Int(text[position])], table[Int(text[position + 1])])
            let (third, fourth) = (table[Int(text[position + 2])], table[Int(text[position + 3])])
            guard first | second | third | fourth < 64 else { return nil }
            bytes[index] = first << 2 | second >> 4
            bytes[index + 1] = second << 4 | third >> 2
            bytes[index + 2] = third << 6 | fourth
            position += 4
            index += 3
        }
        guard rest > 0 else { return (bytes, 0) }
        let (first, second) = (table[Int(text[position])], table[Int(text[position + 1])])
        let third = rest == 3 ? table[Int(text[position + 2])] : 0
        guard first | second | third < 64 else { return nil }
        bytes[index] = first << 2 | second >> 4
        guard rest == 3 else { return (bytes, second & 0x0f) }
        bytes[index + 1] = second << 4 | third >> 2
        return (bytes, third & 0x03)
    }
}
