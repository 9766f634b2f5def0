// SPDX-License-Identifier: Apache-2.0

/// An object in verifyReceipt's format. In this format nearly every value is a string, and an instant has three
/// members.
///
/// A type lists its members once, in the App Store's order. `LegacyReader` and `LegacyWriter` both follow this list, so
/// they always agree. The reader accepts every form seen so far. The writer uses only the App Store's form.
public protocol LegacyObject: Codable, Hashable, Sendable {
    /// An object without members.
    init()

    /// Members unknown to this version.
    var unknownMembers: UnknownMembers { get set }

    /// Visits every known member.
    mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor)
}

/// Reads or writes the members of a ``LegacyObject``, with a method for each form of a value in the JSON.
public protocol LegacyVisitor {
    /// Text.
    mutating func text(_ name: StaticString, _ value: inout String?)
    /// A word of a vocabulary that Apple may extend (``Open``), as text.
    mutating func word<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == String
    /// A whole number as text: `"1"`.
    mutating func digits(_ name: StaticString, _ value: inout Int64?)
    /// A numeric code of a vocabulary that Apple may extend (``Open``), as text: `"1"`.
    mutating func digits<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int
    /// A whole number: `1`.
    mutating func number(_ name: StaticString, _ value: inout Int64?)
    /// A numeric code of a vocabulary that Apple may extend (``Open``): `1`.
    mutating func number<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int
    /// A boolean as text: `"true"`.
    mutating func boolText(_ name: StaticString, _ value: inout Bool?)
    /// A boolean as a digit in text: `"1"`.
    mutating func boolDigit(_ name: StaticString, _ value: inout Bool?)
    /// A boolean: `true`.
    mutating func bool(_ name: StaticString, _ value: inout Bool?)
    /// An identifier written as a number: `1000000000000000`.
    mutating func identifierNumber(_ name: StaticString, _ value: inout String?)
    /// `status`: a number; `"OK"` has been seen in an old log.
    mutating func status(_ name: StaticString, _ value: inout Open<VerifyReceiptStatus>?)
    /// An alternative name of a member visited before. The reader accepts the name, and the writer never uses it.
    mutating func alias(_ name: StaticString, _ value: inout Bool?)
    /// An instant as the three members of `names`.
    mutating func dates(_ names: LegacyDateNames, _ value: inout Timestamp?)
    /// An object.
    mutating func object<Object: LegacyObject>(_ name: StaticString, _ value: inout Object?)
    /// An array of objects.
    mutating func objects<Object: LegacyObject>(_ name: StaticString, _ value: inout [Object]?)
}

/// The names of an instant's three members. The names are literals, so no date needs a new string.
public struct LegacyDateNames: Sendable {
    let gmt: StaticString
    let milliseconds: StaticString
    let pacific: StaticString
}
