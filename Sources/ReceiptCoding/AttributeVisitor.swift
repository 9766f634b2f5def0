// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// A type encoded as a set of attributes: a receipt, or a purchase in a receipt.
///
/// A type lists its attributes once, in ``visit(_:)``. ``ReceiptAttribute`` reads by this list and ``AttributeWriter``
/// writes by the same list, so that reading and writing always agree.
protocol AttributeSet {
    /// The range of the attribute types known to ``visit(_:)``. An attribute outside the range goes to
    /// `otherAttributes` undecoded, so a range that is too small loses no data.
    static var types: ClosedRange<Int64> { get }

    /// The attributes that set no property, undecoded, such as attributes of unknown types and attributes without a
    /// value.
    var otherAttributes: [ReceiptAttribute] { get set }

    init()

    /// Passes the property of the attribute `visitor.type` to the visitor.
    ///
    /// - Returns: The visitor's result; false if the type has no property for the attribute.
    mutating func visit<Visitor: AttributeVisitor>(_ visitor: Visitor) throws(Visitor.Failure) -> Bool
}

/// Reads or writes one attribute at a time. Each method returns whether it transferred a value: from the attribute to
/// the property when reading, in the other direction when writing.
///
/// No method is mutating: a mutable visitor would be copied for each value, and a receipt has thousands of values.
protocol AttributeVisitor {
    associatedtype Failure: Error

    /// The attribute's type.
    var type: Int64 { get }

    /// Visits a value in one of the forms in `AttributeForms.swift`.
    func value<Form: AttributeForm>(_ property: inout Form.Value?, _ form: Form.Type) throws(Failure) -> Bool

    /// Visits a text. Its DER is kept in `encoded`, because a hash covers exactly these bytes.
    func text(_ property: inout String?, encoded: inout ArraySlice<UInt8>) throws(Failure) -> Bool

    /// Visits bytes that are not DER; an empty slice means no value.
    func bytes(_ property: inout ArraySlice<UInt8>, version: Int64) -> Bool

    /// Visits nested sets of attributes, such as purchases. Reading appends one set, and writing writes all sets.
    func sets<Element: AttributeSet>(_ property: inout [Element]) throws(Failure) -> Bool
}

// MARK: - Reading

// The attribute itself is the visitor that reads it. A separate visitor would retain and release each of thousands of
// attributes.
extension ReceiptAttribute: AttributeVisitor {
    @inline(__always)
    func value<Form: AttributeForm>(
        _ property: inout Form.Value?, _ form: Form.Type
    ) throws(ReceiptDecodingError) -> Bool {
        // If a type has several attributes with a value, the first value counts.
        guard let value = try Form.decode(self), property == nil else { return false }
        property = value
        return true
    }

    func text(_ property: inout String?, encoded: inout ArraySlice<UInt8>) throws(ReceiptDecodingError) -> Bool {
        guard try value(&property, TextForm.self) else { return false }
        encoded = value
        return true
    }

    func bytes(_ property: inout ArraySlice<UInt8>, version: Int64) -> Bool {
        guard property.isEmpty, !value.isEmpty else { return false }
        property = value
        return true
    }

    func sets<Element: AttributeSet>(_ property: inout [Element]) throws(ReceiptDecodingError) -> Bool {
        property.append(try Element(attributesOf: value))
        return true
    }
}

extension AttributeSet {
    /// Decodes `SET OF ReceiptAttribute`.
    init(attributesOf payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        var attributes = try BERReader.attributes(of: payload)
        self.init()
        // A subscription's purchase has eight empty or unknown attributes, and a receipt about as many.
        otherAttributes.reserveCapacity(8)
        var count = 0
        while !attributes.isAtEnd {
            count += 1
            guard count <= Limits.attributes else {
                throw ReceiptDecodingError("More than \(Limits.attributes) attributes in one set")
            }
            let attribute = try attributes.attribute(in: payload)
            let isKnown = Self.types.contains(attribute.type)
            let isRead = try isKnown ? visit(attribute) : false
            if !isRead { otherAttributes.append(attribute) }
        }
    }
}

extension BERReader {
    /// The attributes of a set. The set may be wrapped in one OCTET STRING, as some tools for test receipts write it.
    static func attributes(of payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> BERReader {
        var outer = BERReader(payload)
        if outer.nextTag(in: payload) == BERTag.octetString { outer = BERReader(in: try outer.next(in: payload)) }
        return BERReader(in: try outer.next(BERTag.set, "set of receipt attributes", in: payload))
    }
}

// MARK: - Writing

/// Writes an attribute for each property that has a value.
private final class AttributeWriter: AttributeVisitor {
    typealias Failure = Never

    var type: Int64 = 0
    private(set) var attributes: [ReceiptAttribute] = []

    private func append(_ value: ArraySlice<UInt8>, version: Int64 = 1) -> Bool {
        attributes.append(ReceiptAttribute(type: type, version: version, value: value))
        return true
    }

    func value<Form: AttributeForm>(_ property: inout Form.Value?, _ form: Form.Type) -> Bool {
        property.map { append(Form.encode($0)[...]) } ?? false
    }

    func text(_ property: inout String?, encoded: inout ArraySlice<UInt8>) -> Bool {
        encoded.isEmpty ? value(&property, TextForm.self) : append(encoded)
    }

    func bytes(_ property: inout ArraySlice<UInt8>, version: Int64) -> Bool {
        property.isEmpty ? false : append(property, version: version)
    }

    func sets<Element: AttributeSet>(_ property: inout [Element]) -> Bool {
        property.reduce(false) { append($1.encodedSet[...]) || $0 }
    }
}

extension AttributeSet {
    /// All attributes as a set in DER.
    var encodedSet: [UInt8] {
        var set = self
        let writer = AttributeWriter()
        for type in Self.types {
            writer.type = type
            _ = set.visit(writer)
        }
        return DEREncoding.setOf((writer.attributes + otherAttributes).map(\.encoded))
    }
}

extension ReceiptAttribute {
    /// The attribute in DER.
    package var encoded: [UInt8] {
        DEREncoding.sequence(
            DEREncoding.integer(type), DEREncoding.integer(version), DEREncoding.octetString(value))
    }
}
