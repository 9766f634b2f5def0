// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Recognises compact tokens (JWS: three parts of base64url with dots between them), and incomplete tokens.
enum TokenText {
    /// The number of characters of an ES256 signature: 64 bytes in base64url.
    private static let signatureLength = 86

    private static let dot = UInt8(ascii: ".")

    /// The token in base64url, and the steps that led there: removed white space, replaced alphabet, removed padding.
    /// `nil` if the text is neither a token nor the beginning of a token with at least one dot.
    ///
    /// The last character of a part may have trailing bits beyond the last byte. If these bits are not zero, they are
    /// not corrected, and the verifier refuses the token.
    ///
    /// - Throws: A fault that names the missing or incomplete part.
    static func document(
        _ text: ArraySlice<UInt8>, _ characters: TextCharacters
    ) throws(InputFault) -> (InputDocument, [InputStep])? {
        guard !characters.contains(.other), characters.contains(.dot), beginsLikeToken(text) else { return nil }
        let isPlain = characters.isSubset(of: [.alphanumeric, .url, .dot])
        guard let token = isPlain ? Array(text) : canonical(text) else { return nil }
        switch token[...].countOfDots {
        case 1: throw fault(ofTwoParts: token)
        case 2:
            let end = token.count - 1 - (token.lastIndex(of: dot) ?? 0)
            guard end > 0 else { throw .tokenWithoutSignature }
            guard end >= signatureLength else { throw .signatureCut(end * 3 / 4) }
            return (.token(token), isPlain ? [] : spelling(characters))
        default: return nil
        }
    }

    /// Whether a text begins like base64 of a JSON object: `{`, then a quote or white space. A header is a JSON object.
    private static func beginsLikeToken(_ text: ArraySlice<UInt8>) -> Bool {
        guard text.first == UInt8(ascii: "e"), let second = text.dropFirst().first else { return false }
        return UInt8(ascii: "w")...UInt8(ascii: "z") ~= second
    }

    /// The text without white space and padding, in the alphabet of base64url. `nil` if padding occurs inside a part.
    private static func canonical(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        var token: [UInt8] = []
        token.reserveCapacity(text.count)
        var isPadded = false
        for byte in text where !byte.isWhiteSpace {
            if byte == UInt8(ascii: "=") {
                isPadded = true
                continue
            }
            guard !isPadded || byte == dot else { return nil }
            isPadded = false
            switch byte {
            case UInt8(ascii: "+"): token.append(UInt8(ascii: "-"))
            case UInt8(ascii: "/"): token.append(UInt8(ascii: "_"))
            default: token.append(byte)
            }
        }
        return token
    }

    private static func spelling(_ characters: TextCharacters) -> [InputStep] {
        let names: [(TextCharacters, InputStep)] = [
            (.whiteSpace, .whiteSpace), (.standard, .standardAlphabet), (.padding, .padding),
        ]
        return names.filter { !characters.isDisjoint(with: $0.0) }.map(\.1)
    }

    private static func fault(ofTwoParts token: [UInt8]) -> InputFault {
        let payload = token.split(separator: dot, omittingEmptySubsequences: false).last ?? []
        guard let json = payload.looseBase64 else { return .tokenCut(in: .payload) }
        // Any error means that the payload is cut off.
        return JSONValue(readable: json) == nil ? .tokenCut(in: .payload) : .tokenWithoutSignature
    }

    /// Whether JSON, or the beginning of JSON, is the header of a token.
    static func isHeader(_ json: ArraySlice<UInt8>) -> Bool {
        let start = json.prefix(200)
        return ["\"alg\"", "\"x5c\""].contains { start.includes(Array($0.utf8)) }
    }
}
