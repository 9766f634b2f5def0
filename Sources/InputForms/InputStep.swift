// SPDX-License-Identifier: Apache-2.0

/// A difference of an input from the plain form of a document (a token as is, a receipt as bytes or in base64), undone
/// before verification. Logs contain the name.
package enum InputStep: String, CaseIterable, Sendable {
    // MARK: Spellings of base64

    /// White space around the text or inside the text.
    case whiteSpace
    /// Blanks in place of `+`, the result of decoding a form body twice.
    case blanksForPlus
    /// A receipt in the alphabet of base64url.
    case base64url
    /// A token in the standard alphabet.
    case standardAlphabet
    /// A receipt without its padding, or a token with padding.
    case padding

    // MARK: Wrappings

    /// A byte order mark before UTF-8.
    case byteOrderMark
    case utf16
    case gzip
    /// Base64 of text or gzip, in contrast to base64 of a receipt.
    case base64
    case hexadecimal
    /// Hexadecimal after `\x`, as PostgreSQL writes `bytea`.
    case postgresHex
    /// `<3082 …>`: a description of `NSData`.
    case dataDescription
    case percentEncoding
    case formBody
    case dataURL
    case pem
    /// `<string>` or `<data>` of a property list.
    case propertyList
    case quotes
    /// Backslashes: `\n` between lines, `\/`, `\"`.
    case escapes
    /// `Bearer ` before the text.
    case bearer
    /// Dots at the end, written by a program to mark a shortened text.
    case ellipsis

    // MARK: JSON

    /// A member of an object, such as `receipt-data` or `signedPayload`.
    case jsonMember
    /// A JWS in the flattened JSON serialization (RFC 7515 section 7.2.2).
    case jsonToken
    case verifyReceiptAnswer
    case list
    /// `signedTransactions` of the App Store Server API.
    case history
    /// `data[].lastTransactions[]` of the App Store Server API.
    case statuses
    case notificationHistory
}
