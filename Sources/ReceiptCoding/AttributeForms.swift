// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Decodes and encodes the value of an attribute.
protocol AttributeForm {
    associatedtype Value

    /// The value, or `nil` if the attribute has no value.
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Value?

    /// The bytes of the attribute's value, as written by the App Store.
    static func encode(_ value: Value) -> [UInt8]

    /// The value as text for people.
    static func text(_ value: Value) -> String
}

extension AttributeForm {
    static func text(_ value: Value) -> String { "\(value)" }
}

/// Like `Form`, but an unexpected form is not an error: the attribute is kept undecoded in
/// ``AttributeSet/otherAttributes``.
enum Lenient<Form: AttributeForm>: AttributeForm {
    // An attribute that `Form` cannot read is kept unchanged.
    static func decode(_ attribute: ReceiptAttribute) -> Form.Value? { try? Form.decode(attribute) }
    static func encode(_ value: Form.Value) -> [UInt8] { Form.encode(value) }
    static func text(_ value: Form.Value) -> String { Form.text(value) }
}

// MARK: - Texts

/// Text that the App Store writes as UTF8String.
enum TextForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> String? { try attribute.text() }
    static func encode(_ value: String) -> [UInt8] { DEREncoding.utf8String(value) }
}

/// Text that the App Store writes as IA5String.
enum ASCIIForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> String? { try attribute.text() }
    static func encode(_ value: String) -> [UInt8] { DEREncoding.ia5String(value) }
}

/// A word of a vocabulary that Apple may extend. A word unknown to this version is kept as text.
enum WordForm<Known: RawRepresentable & Sendable>: AttributeForm where Known.RawValue == String {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Open<Known>? {
        try attribute.text().map(Open.init(rawValue:))
    }

    static func encode(_ value: Open<Known>) -> [UInt8] { DEREncoding.utf8String(value.rawValue) }
}

/// An instant in ISO 8601.
enum DateForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Timestamp? {
        try attribute.date()
    }
    static func encode(_ value: Timestamp) -> [UInt8] { DEREncoding.ia5String(value.iso8601) }
    static func text(_ value: Timestamp) -> String { value.iso8601 }
}

/// An instant, or Xcode's 4001-01-01T00:00:00Z for none.
enum ExpirationForm: AttributeForm {
    private static let never = Timestamp(milliseconds: 64_092_211_200_000)

    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Timestamp? {
        let date = try attribute.date()
        return date == never ? nil : date
    }

    static func encode(_ value: Timestamp) -> [UInt8] { DateForm.encode(value) }
    static func text(_ value: Timestamp) -> String { DateForm.text(value) }
}

// MARK: - Numbers

/// A whole number, including 0.
enum NumberForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Int64? { try attribute.integer() }
    static func encode(_ value: Int64) -> [UInt8] { DEREncoding.integer(value) }
}

/// A whole number; 0 means no identifier.
enum IdentifierForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Int64? {
        let number = try attribute.integer()
        return number == 0 ? nil : number
    }

    static func encode(_ value: Int64) -> [UInt8] { DEREncoding.integer(value) }
}

/// A numeric code of a vocabulary that Apple may extend. A code unknown to this version is kept as a number.
enum NumberedWordForm<Known: RawRepresentable & Sendable>: AttributeForm where Known.RawValue == Int64 {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Open<Known>? {
        Open(rawValue: try attribute.integer())
    }

    static func encode(_ value: Open<Known>) -> [UInt8] { DEREncoding.integer(value.rawValue) }
}

/// A boolean: 0 or 1.
enum FlagForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Bool? {
        switch try attribute.integer() {
        case 0: return false
        case 1: return true
        default: throw attribute.error("is neither 0 nor 1")
        }
    }

    static func encode(_ value: Bool) -> [UInt8] { DEREncoding.integer(value ? 1 : 0) }
}

/// The reason for a refund, as a number or as the text of a number. The App Store's form is not known.
enum ReasonForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> Open<RevocationReason>? {
        // A value that is no integer is read as text.
        if let number = try? attribute.integer() { return Int(exactly: number).map(Open.init(rawValue:)) }
        return try attribute.text().flatMap { Int($0) }.map(Open.init(rawValue:))
    }

    static func encode(_ value: Open<RevocationReason>) -> [UInt8] { DEREncoding.integer(Int64(value.rawValue)) }
}

/// A number whose four bytes are ASCII characters.
enum CharactersForm: AttributeForm {
    static func decode(_ attribute: ReceiptAttribute) throws(ReceiptDecodingError) -> String? {
        guard let code = UInt32(exactly: try attribute.integer()) else { return nil }
        let characters = [24, 16, 8, 0].map { UInt8(code >> UInt32($0) & 0xff) }
        guard characters.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else { return nil }
        return String(decoding: characters, as: UTF8.self)
    }

    static func encode(_ value: String) -> [UInt8] {
        DEREncoding.integer(value.utf8.reduce(0) { $0 << 8 | Int64($1) })
    }
}
