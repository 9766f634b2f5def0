// SPDX-License-Identifier: Apache-2.0

/// The stored form of an event's body, with a byte in place of each frequent phrase. Half of a body is names of
/// members, so a body without this shortening would take twice the space.
///
/// The byte of a phrase is a control character. JSON contains control characters only as escapes. A body that contains
/// such a byte is therefore no JSON. It is stored unchanged, after a byte 0. Any other body without phrases is stored
/// unchanged, without this byte.
@usableFromInline
package enum StoredBody {
    /// The byte before a body that is stored unchanged although it contains control characters. No other stored form
    /// begins with this byte.
    package static let plain: UInt8 = 0

    /// The phrases, each with its byte. Servers of different versions read the same bodies, so no phrase is ever added
    /// or changed. A different list of phrases would need a first byte of its own.
    package static let phrases: [(byte: UInt8, text: String)] = [
        (0x02, #"{"effectiveAt":"#), (0x03, #","transactionId":""#), (0x04, #"","productId":""#),
        (0x05, #","detail":""#), (0x06, #"","detail":""#), (0x07, #","detail":"appAccountToken""#),
        (0x08, #","detail":"claim""#), (0x0b, #","before":null"#), (0x0c, #"","before":null"#),
        (0x0e, #","before":{"status":""#), (0x0f, #"","before":{"status":""#),
        (0x10, #"","before":{"status":"active","productId":""#), (0x11, #","after":null}"#),
        (0x12, #","after":{"status":""#), (0x13, #","after":{"status":"active","productId":""#),
        (0x14, #"","until":"#), (0x15, #"","until":null"#), (0x16, #","willRenew":true}"#),
        (0x17, #","willRenew":false}"#), (0x18, #","willRenew":null}"#),
        (0x19, #","willRenew":true,"commitmentWillRenew":"#), (0x1a, #","willRenew":false,"commitmentWillRenew":"#),
        (0x1b, #","willRenew":true},"after":{"status":""#), (0x1c, #","willRenew":false},"after":{"status":""#),
        (0x1d, #","willRenew":true},"after":{"status":"active","productId":""#),
    ]

    /// Line ends and tabs are no phrases, because they also stand between the tokens of JSON.
    private static func isPhrase(_ byte: UInt8) -> Bool {
        byte < 0x20 && byte != UInt8(ascii: "\t") && byte != UInt8(ascii: "\n") && byte != UInt8(ascii: "\r")
    }

    /// The bytes of each phrase, the longest first.
    private static let longestFirst = phrases.map { (byte: $0.byte, bytes: Array($0.text.utf8)) }
        .sorted { $0.bytes.count > $1.bytes.count }

    /// The bytes of each phrase, by its byte.
    private static let table: [[UInt8]] = {
        var table = [[UInt8]](repeating: [], count: 0x20)
        for (byte, text) in phrases { table[Int(byte)] = Array(text.utf8) }
        return table
    }()

    /// The stored form of a body.
    package static func packed(_ body: [UInt8]) -> [UInt8] {
        guard !body.contains(where: isPhrase) else { return [plain] + body }
        var packed: [UInt8] = []
        packed.reserveCapacity(body.count)
        var index = 0
        while index < body.count {
            let first = body[index]
            // Every phrase begins with a comma, a quotation mark or a brace.
            let begins = first == UInt8(ascii: ",") || first == UInt8(ascii: "\"") || first == UInt8(ascii: "{")
            if begins, let phrase = phrase(in: body, at: index) {
                packed.append(phrase.byte)
                index += phrase.bytes.count
            } else {
                packed.append(first)
                index += 1
            }
        }
        return packed
    }

    private static func phrase(in body: [UInt8], at index: Int) -> (byte: UInt8, bytes: [UInt8])? {
        let rest = body.count - index
        // A comparison ends at the first differing byte, usually within three bytes.
        return longestFirst.first { phrase in
            phrase.bytes.count <= rest && phrase.bytes.indices.allSatisfy { body[index + $0] == phrase.bytes[$0] }
        }
    }

    /// The body of a stored form. A control character without a phrase stays as it is.
    @usableFromInline
    package static func unpacked(_ stored: [UInt8]) -> [UInt8] {
        guard stored.first != plain else { return Array(stored.dropFirst()) }
        guard stored.contains(where: isPhrase) else { return stored }
        var body: [UInt8] = []
        body.reserveCapacity(stored.count * 2)
        for byte in stored {
            if isPhrase(byte), !table[Int(byte)].isEmpty { body += table[Int(byte)] } else { body.append(byte) }
        }
        return body
    }
}
