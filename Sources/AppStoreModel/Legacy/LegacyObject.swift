// SPDX-License-Identifier: Apache-2.0

/// An object in verifyReceipt's format, in which nearly every value is a string and an instant has three members.
///
/// A type lists its members once, in the App Store's order. `LegacyReader` and `LegacyWriter` both follow that list, so
/// that they always agree. Reading accepts every form that has been seen; writing uses the App Store's form only.
public protocol LegacyObject: Codable, Hashable, Sendable {
    /// An object without a member.
    init()

    /// Members that this version does not know.
    var unknownMembers: UnknownMembers { get set }

    /// Visits every known member.
    mutating func visit<Visitor: LegacyVisitor>(_ visitor: inout Visitor)
}

/// Reads or writes the members of a ``LegacyObject``, with a method for each form that values have on the wire.
public protocol LegacyVisitor {
    /// Text.
    mutating func text(_ name: StaticString, _ value: inout String?)
    /// A word of an open vocabulary, as text.
    mutating func word<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == String
    /// A whole number as text: `"1"`.
    mutating func digits(_ name: StaticString, _ value: inout Int64?)
    /// A numeric code of an open vocabulary, as text: `"1"`.
    mutating func digits<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int
    /// A whole number: `1`.
    mutating func number(_ name: StaticString, _ value: inout Int64?)
    /// A numeric code of an open vocabulary: `1`.
    mutating func number<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int
    /// A boolean as text: `"true"`.
    mutating func boolText(_ name: StaticString, _ value: inout Bool?)
    /// A boolean as a digit in text: `"1"`.
    mutating func boolDigit(_ name: StaticString, _ value: inout Bool?)
    /// A boolean: `true`.
    mutating func bool(_ name: StaticString, _ value: inout Bool?)
    /// An identifier that is a number here: `1000000000000000`.
    mutating func identifierNumber(_ name: StaticString, _ value: inout String?)
    /// `status`: a number; `"OK"` has been seen in an old log.
    mutating func status(_ name: StaticString, _ value: inout Open<VerifyReceiptStatus>?)
    /// Another name of a member that was visited before: it is read and never written.
    mutating func alias(_ name: StaticString, _ value: inout Bool?)
    /// An instant as the three members of `names`.
    mutating func dates(_ names: LegacyDateNames, _ value: inout Timestamp?)
    /// An object.
    mutating func object<Object: LegacyObject>(_ name: StaticString, _ value: inout Object?)
    /// An array of objects.
    mutating func objects<Object: LegacyObject>(_ name: StaticString, _ value: inout [Object]?)
}

/// The names of an instant's three members. They are literals, so that no string is built for each date.
public struct LegacyDateNames: Sendable {
    let gmt: StaticString
    let milliseconds: StaticString
    let pacific: StaticString
}
