// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Base64 in both alphabets of RFC 4648, read as strictly as receipts and tokens demand.
///
/// Foundation accepts surplus padding and empty text, supports only the standard alphabet, and copies the bytes twice.
/// Checking Foundation's input and output would cost more than this decoder.
package enum Base64 {
    /// Decodes standard base64 (section 4): full padding, no white space, no other text around it.
    ///
    /// Non-zero trailing bits are accepted, as Apple accepts them. Empty text is refused.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        let text = Array(text)
        guard !text.isEmpty, text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).reversed().prefix { $0 == UInt8(ascii: "=") }.count
        return decode(text.dropLast(padding), standard)?.bytes
    }

    /// Decodes base64url without padding (section 5), the encoding of a compact JWS (RFC 7515 section 2).
    ///
    /// Non-zero trailing bits are refused (section 3.5), so each token has exactly one encoding.
    package static func decodeURL(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        guard let (bytes, spareBits) = decode(text, url), spareBits == 0 else { return nil }
        return bytes
    }

    /// Encodes as base64url without padding, the inverse of ``decodeURL(_:)``.
    ///
    /// Foundation encodes only with the standard alphabet, so two characters of the alphabet would have to be replaced.
    package static func encodeURL(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        let (blocks, rest) = bytes.count.quotientAndRemainder(dividingBy: 3)
        return bytes.withUnsafeBufferPointer { bytes in
            letters.withUnsafeBufferPointer { letters in
                [UInt8](unsafeUninitializedCapacity: blocks * 4 + 3) { text, count in
                    for block in 0..<blocks {
                        let input = block &* 3
                        let output = block &* 4
                        let bits = Int(bytes[input]) << 16 | Int(bytes[input &+ 1]) << 8 | Int(bytes[input &+ 2])
                        text[output] = letters[bits >> 18]
                        text[output &+ 1] = letters[bits >> 12 & 63]
                        text[output &+ 2] = letters[bits >> 6 & 63]
                        text[output &+ 3] = letters[bits & 63]
                    }
                    count = blocks * 4
                    let last = (0..<rest).reduce(0) { $0 | Int(bytes[blocks * 3 + $1]) << (16 - 8 * $1) }
                    for index in 0..<(rest == 0 ? 0 : rest + 1) {
                        text[count] = letters[last >> (18 - 6 * index) & 63]
                        count += 1
                    }
                }
            }
        }
    }

    /// Encodes as standard base64 with padding.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        Data(bytes).base64EncodedString()
    }

    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    private static let standard = table("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    private static let url = table("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

    /// Marks a character outside the alphabet with bit 24, because three decoded bytes use only bits 0 to 23.
    private static let notInAlphabet: UInt32 = 1 << 24

    /// Four tables, one for each position in a block of four characters. Each table holds the six bits of every
    /// character, shifted to their position in the three decoded bytes. The first byte is the least significant.
    private static func table(_ alphabet: String) -> [UInt32] {
        var table = [UInt32](repeating: notInAlphabet, count: 4 * 256)
        for (bits, character) in zip(UInt32(0)..., alphabet.utf8) {
            let patterns = [
                bits << 2, bits >> 4 | (bits & 0x0f) << 12, (bits >> 2) << 8 | (bits & 0x03) << 22, bits << 16,
            ]
            for (index, bits) in patterns.enumerated() { table[index * 256 + Int(character)] = bits }
        }
        return table
    }

    /// Decodes text without padding. `spareBits` are the trailing bits of the last character, beyond the last whole
    /// byte.
    private static func decode(_ text: ArraySlice<UInt8>, _ table: [UInt32]) -> (bytes: [UInt8], spareBits: UInt8)? {
        let rest = text.count % 4
        guard rest != 1 else { return nil }
        let last = text.suffix(rest).enumerated().reduce(0) { $0 | table[$1.offset * 256 + Int($1.element)] }
        guard last < notInAlphabet, var bytes = decode(blocks: text.dropLast(rest), table) else { return nil }
        for index in 0..<max(0, rest - 1) { bytes.append(UInt8(truncatingIfNeeded: last >> (index * 8))) }
        return (bytes, UInt8(truncatingIfNeeded: last >> (max(0, rest - 1) * 8)))
    }

    /// Decodes blocks of four characters to three bytes each. Two measures together make this loop three times as fast
    /// as a plain loop: buffers, which have no bounds checks in a release build, and a table for each position in a
    /// block. Speed matters, because a notification has 14,000 characters.
    private static func decode(blocks text: ArraySlice<UInt8>, _ table: [UInt32]) -> [UInt8]? {
        let count = text.count / 4
        var found: UInt32 = 0
        let bytes = text.withUnsafeBufferPointer { text in
            table.withUnsafeBufferPointer { table in
                // Two spare bytes: each block writes four bytes instead of three, and the caller appends up to two.
                [UInt8](unsafeUninitializedCapacity: count * 3 + 2) { bytes, initialized in
                    let output = UnsafeMutableRawBufferPointer(bytes)
                    for block in 0..<count {
                        let input = block &* 4
                        let bits =
                            table[Int(text[input])] | table[256 + Int(text[input &+ 1])]
                            | table[512 + Int(text[input &+ 2])] | table[768 + Int(text[input &+ 3])]
                        found |= bits
                        output.storeBytes(of: bits.littleEndian, toByteOffset: block &* 3, as: UInt32.self)
                    }
                    initialized = count * 3
                }
            }
        }
        return found < notInAlphabet ? bytes : nil
    }
}
