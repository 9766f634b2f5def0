// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Tells an answer of Apple's from that of a proxy, a gateway or a portal on the way. Only Apple's word decides.

extension APIAnswer {
    /// The number of a refusal, by which Apple's servers are known: the member `errorCode` of their JSON. `nil` if the
    /// answer has none.
    ///
    /// In all lists of Apple's the first three of the seven digits are the HTTP status. Other servers refuse with JSON
    /// and an `errorCode` too, but with numbers of their own.
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
        // Apple refuses a token without a number: with no body, or with a line of text. A page or an object without a
        // number of Apple's is a gateway's, which knows nothing of the key.
        case 401: errorCode != nil || !["<", "{", "["].contains(firstCharacter)
        default: errorCode != nil
        }
    }

    /// Whether the body is a page for people, which no endpoint answers with.
    var isPage: Bool {
        guard !body.isEmpty else { return false }
        return firstCharacter == "<" || contentType == "text/html"
    }

    /// Whether the header says that the body is JSON. Parameters such as a charset do not matter.
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
