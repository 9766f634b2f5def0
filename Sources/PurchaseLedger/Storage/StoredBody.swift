// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The stored form of an event's body, with a byte in place of each frequent phrase. Most of a body is names of
/// members, so a body without this shortening would take several times the space.
///
/// The byte of a phrase is a control character. JSON contains control characters only as escapes. A body that contains
/// such a byte is therefore no JSON. It is stored unchanged, after a byte 0. Any other body without phrases is stored
/// unchanged, without this byte.
@usableFromInline
package enum StoredBody {
    /// The byte before a body that is stored unchanged although it contains control characters. No other stored form
    /// begins with this byte.
    package static let plain: UInt8 = 0

    /// Line ends and tabs are no phrases, because they also stand between the tokens of JSON.
    private static func isPhrase(_ byte: UInt8) -> Bool {
        byte < 0x20 && byte != UInt8(ascii: "\t") && byte != UInt8(ascii: "\n") && byte != UInt8(ascii: "\r")
    }

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

    /// The body of a stored form. A control character without a phrase stays as it is.
    @usableFromInline
    package static func unpacked(_ stored: [UInt8]) -> [UInt8] {
        guard stored.first != plain else { return Array(stored.dropFirst()) }
        var body: [UInt8] = []
        var start = 0
        for (index, byte) in stored.enumerated() where isPhrase(byte) && !table[Int(byte)].isEmpty {
            if start == 0 { body.reserveCapacity(stored.count * 4) }
            body += stored[start..<index]
            body += table[Int(byte)]
            start = index + 1
        }
        guard start > 0 else { return stored }
        body += stored[start...]
        return body
    }

    // MARK: - Phrases

    /// The phrases, each with its byte. Stored bodies have them, so a change raises the baseline of both storages.
    package static let phrases: [(byte: UInt8, text: String)] = [
        (0x02, #"{"effectiveAt":"#), (0x03, #","transactionId":""#), (0x04, #"","productId":""#),
        (0x05, #"","detail":""#), (0x06, #","detail":""#),
        (0x07, #"","type":"Auto-Renewable Subscription","inAppOwnershipType":"PURCHASED","quantity":1,"price":"#),
        (0x08, #"","type":""#), (0x0b, #"","inAppOwnershipType":"PURCHASED","quantity":"#),
        (0x0c, #","renewal":{"autoRenewProductId":""#), (0x0e, #","price":"#),
        (0x0f, #","currency":""#), (0x10, #"","storefront":""#), (0x11, #"","renewalPrice":"#),
        (0x12, #","before":null,"after":{"status":""#), (0x13, #","before":{"status":""#),
        (0x14, #"","before":{"status":"active","productId":""#), (0x15, #"","hasAccess":true,"until":"#),
        (0x01, #"","hasAccess":false,"until":"#),
        (0x16, #","willRenew":true},"after":{"status":""#), (0x17, #","willRenew":true}"#),
        (0x18, #","willRenew":false}"#), (0x19, #","after":null,"entitlementsBefore":["#),
        (0x1a, #","entitlementsBefore":["#), (0x1b, #"],"entitlementsAfter":["#), (0x1c, #"{"name":""#),
        (0x1d, #"","reason":"subscription","environment":"Production","until":"#),
        (0x1e, #","subscriptionGroup":""#), (0x1f, #"","level":"#),
    ]

    /// The phrases in groups by their third and fourth byte, of each group the longest first. Nearly all phrases begin
    /// with the same two bytes.
    private static let groups: [[(byte: UInt8, bytes: [UInt8])]] = {
        let longestFirst = phrases.map { (byte: $0.byte, bytes: Array($0.text.utf8)) }
            .sorted { $0.bytes.count > $1.bytes.count }
        var groups = [[(byte: UInt8, bytes: [UInt8])]](repeating: [], count: groupCount)
        for phrase in longestFirst { groups[group(phrase.bytes[2], phrase.bytes[3])].append(phrase) }
        return groups
    }()

    /// The bytes of each phrase, by its byte.
    private static let table: [[UInt8]] = {
        var table = [[UInt8]](repeating: [], count: 0x20)
        for (byte, text) in phrases { table[Int(byte)] = Array(text.utf8) }
        return table
    }()

    private static func phrase(in body: [UInt8], at index: Int) -> (byte: UInt8, bytes: [UInt8])? {
        let rest = body.count - index
        // All phrases have more than three bytes.
        guard rest > 3 else { return nil }
        for phrase in groups[group(body[index + 2], body[index + 3])] where phrase.bytes.count <= rest {
            if phrase.bytes.isSame(as: body[index..<index + phrase.bytes.count]) { return phrase }
        }
        return nil
    }

    private static let groupCount = 64

    private static func group(_ third: UInt8, _ fourth: UInt8) -> Int {
        Int((third &* 31) ^ fourth) & (groupCount - 1)
    }
}
