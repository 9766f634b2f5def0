// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The two alphabets of RFC 4648, read as strictly as the formats that use them ask for.
package enum Base64 {
    /// Decodes standard base64 (section 4): full padding, no white space, nothing around it.
    ///
    /// Set bits behind the last byte are let pass, as Apple lets them pass.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        // Foundation also takes surplus padding and the empty text; Apple takes neither.
        guard !text.isEmpty, text.count % 4 == 0 else { return nil }
        let padding = text.suffix(2).count { $0 == UInt8(ascii: "=") }
        guard text.dropLast(padding).allSatisfy({ $0 != UInt8(ascii: "=") }) else { return nil }
        return Data(base64Encoded: Data(text)).map(Array.init)
    }

    /// Decodes base64url without padding (section 5), as a compact JWS uses it (RFC 7515 section 2).
    ///
    /// Set bits behind the last byte are refused (section 3.5): there is one text for one token.
    package static func decodeURL(_ text: some Collection<UInt8>) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var standard: [UInt8] = []
        standard.reserveCapacity(text.count + 2)
        for byte in text {
            switch byte {
            case UInt8(ascii: "-"): standard.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): standard.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            default: standard.append(byte)
            }
        }
        while standard.count % 4 != 0 { standard.append(UInt8(ascii: "=")) }
        guard let bytes = Data(base64Encoded: Data(standard)).map(Array.init) else { return nil }
        let last = Data(bytes.suffix(bytes.count % 3)).base64EncodedString().utf8
        guard standard.suffix(last.count).elementsEqual(last) else { return nil }
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
}
