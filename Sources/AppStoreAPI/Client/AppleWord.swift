// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Tells Apple's answers from the answers of proxies, gateways and portals on the way. Only an answer from Apple itself
// counts as a refusal.

extension APIAnswer {
    /// The number of an error, by which Apple's servers are recognised: the member `errorCode` of the JSON. `nil` if
    /// the answer has none.
    ///
    /// Apple's numbers have seven digits, and the first three are the HTTP status. Other servers may also refuse with
    /// JSON and an `errorCode`, but with other numbers.
    var errorCode: Int64? {
        guard isJSON, let number = JSONValue(readable: body)?["errorCode"]?.integer,
            number / 10_000 == Int64(status)
        else { return nil }
        return number
    }

    /// Whether the answer may be Apple's.
    package var mayBeApples: Bool {
        switch status {
        case 200...299: body.isEmpty || isJSON
        // Apple's refusal of a token has no number: its body is empty, or a line of text. An HTML page, or JSON without
        // Apple's number, comes from a gateway, which cannot check the key.
        case 401: errorCode != nil || !["<", "{", "["].contains(firstCharacter)
        default: errorCode != nil
        }
    }

    /// Whether the content type is JSON. Parameters such as a charset are ignored.
    var isJSON: Bool { contentType == "application/json" }

    private var contentType: String? {
        headers["content-type"]?.split(separator: ";").first.map { $0.lowercased().filter { $0 != " " } }
    }

    /// The first character after white space and a byte order mark.
    private var firstCharacter: Unicode.Scalar? {
        body.first { !$0.isWhiteSpace && ![0xef, 0xbb, 0xbf].contains($0) }.map { Unicode.Scalar($0) }
    }
}

extension UInt8 {
    fileprivate var isWhiteSpace: Bool { self == 0x20 || 0x09...0x0d ~= self }
}
