// SPDX-License-Identifier: Apache-2.0

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
    fileprivate static func isPhrase(_ byte: UInt8) -> Bool {
        byte < 0x20 && byte != UInt8(ascii: "\t") && byte != UInt8(ascii: "\n") && byte != UInt8(ascii: "\r")
    }

    /// The stored form of a body.
    package static func packed(_ body: [UInt8], with phrases: BodyPhrases = .first) -> [UInt8] {
        guard !body.contains(where: isPhrase) else { return [plain] + body }
        var packed = phrases.mark.map { [$0] } ?? []
        packed.reserveCapacity(body.count)
        var index = 0
        while index < body.count {
            let first = body[index]
            // Every phrase begins with a comma, a quotation mark or a brace.
            let begins = first == UInt8(ascii: ",") || first == UInt8(ascii: "\"") || first == UInt8(ascii: "{")
            if begins, let phrase = phrases.phrase(in: body, at: index) {
                packed.append(phrase.byte)
                index += phrase.bytes.count
            } else {
                packed.append(first)
                index += 1
            }
        }
        return packed
    }

    /// The body of a stored form, whichever phrases it has. A control character without a phrase stays as it is.
    @usableFromInline
    package static func unpacked(_ stored: [UInt8]) -> [UInt8] {
        guard stored.first != plain else { return Array(stored.dropFirst()) }
        guard stored.contains(where: isPhrase) else { return stored }
        let phrases = stored.first == BodyPhrases.second.mark ? BodyPhrases.second : .first
        var body: [UInt8] = []
        body.reserveCapacity(stored.count * 4)
        for byte in stored.dropFirst(phrases.mark == nil ? 0 : 1) {
            if let phrase = phrases.bytes(of: byte) { body += phrase } else { body.append(byte) }
        }
        return body
    }
}

/// A list of phrases, each with its byte. No list ever changes, because stored bodies have the phrases.
package struct BodyPhrases: Sendable {
    /// The byte before a body with these phrases; `nil` without such a byte. It is the byte of no phrase.
    package let mark: UInt8?
    /// The phrases.
    package let list: [(byte: UInt8, text: String)]

    /// The phrases in groups by their third and fourth byte, of each group the longest first. Nearly all phrases begin
    /// with the same two bytes.
    private let groups: [[(byte: UInt8, bytes: [UInt8])]]
    /// The bytes of each phrase, by its byte.
    private let table: [[UInt8]]

    private init(_ list: [(byte: UInt8, text: String)], mark: UInt8? = nil) {
        self.mark = mark
        self.list = list
        let longestFirst = list.map { (byte: $0.byte, bytes: Array($0.text.utf8)) }
            .sorted { $0.bytes.count > $1.bytes.count }
        var groups = [[(byte: UInt8, bytes: [UInt8])]](repeating: [], count: Self.groupCount)
        for phrase in longestFirst { groups[Self.group(phrase.bytes[2], phrase.bytes[3])].append(phrase) }
        self.groups = groups
        var table = [[UInt8]](repeating: [], count: 0x20)
        for (byte, text) in list { table[Int(byte)] = Array(text.utf8) }
        self.table = table
    }

    fileprivate func bytes(of byte: UInt8) -> [UInt8]? {
        guard StoredBody.isPhrase(byte), !table[Int(byte)].isEmpty else { return nil }
        return table[Int(byte)]
    }

    fileprivate func phrase(in body: [UInt8], at index: Int) -> (byte: UInt8, bytes: [UInt8])? {
        let rest = body.count - index
        // All phrases have more than three bytes.
        guard rest > 3 else { return nil }
        for phrase in groups[Self.group(body[index + 2], body[index + 3])] where phrase.bytes.count <= rest {
            if phrase.bytes.elementsEqual(body[index..<(index + phrase.bytes.count)]) { return phrase }
        }
        return nil
    }

    private static let groupCount = 64

    private static func group(_ third: UInt8, _ fourth: UInt8) -> Int {
        Int((third &* 31) ^ fourth) & (groupCount - 1)
    }

    /// The phrases of bodies in PostgreSQL, where servers of different versions read the same rows. Earlier versions
    /// also used them in SQLite.
    package static let first = BodyPhrases([
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
    ])

    /// The phrases of bodies in SQLite, with phrases of entitlements and details. An earlier version does not open a
    /// file with such bodies.
    package static let second = BodyPhrases(
        [
            (0x02, #"{"effectiveAt":"#), (0x03, #","transactionId":""#), (0x04, #"","productId":""#),
            (0x05, #"","detail":""#), (0x06, #","detail":""#),
            (
                0x07,
                #"","type":"Auto-Renewable Subscription","inAppOwnershipType":"PURCHASED","quantity":1,"price":"#
            ), (0x08, #"","type":""#), (0x0b, #"","inAppOwnershipType":"PURCHASED","quantity":"#),
            (0x0c, #"","inAppOwnershipType":"FAMILY_SHARED","quantity":"#), (0x0e, #","price":"#),
            (0x0f, #","currency":""#), (0x10, #"","storefront":""#), (0x11, #","expirationIntent":"#),
            (0x12, #","before":null,"after":{"status":""#), (0x13, #","before":{"status":""#),
            (0x14, #"","before":{"status":"active","productId":""#), (0x15, #"","until":"#),
            (0x16, #","willRenew":true},"after":{"status":""#), (0x17, #","willRenew":true}"#),
            (0x18, #","willRenew":false}"#), (0x19, #","after":null,"entitlementsBefore":["#),
            (0x1a, #","entitlementsBefore":["#), (0x1b, #"],"entitlementsAfter":["#),
            (0x1c, #"{"name":""#), (0x1d, #"","reason":"subscription","environment":"Production","until":"#),
            (0x1e, #","subscriptionGroup":""#), (0x1f, #"","level":"#),
        ], mark: 0x01)
}
