// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Properties that stand in one set of attributes: those of a receipt, or of a purchase in it.
///
/// A type lists its attributes once, in ``visit(_:)``. ``AttributeReader`` and ``AttributeWriter`` go through that
/// list, so that reading and writing cannot drift apart.
protocol AttributeSet {
    /// The range of the types that ``visit(_:)`` knows. An attribute outside it is kept aside unread, so that a range
    /// that is too small loses nothing.
    static var types: ClosedRange<Int64> { get }

    /// The attributes that no property carries.
    var otherAttributes: [ReceiptAttribute] { get set }

    init()

    /// Hands the property of the attribute `visitor.type` to the visitor, if there is one.
    mutating func visit<Visitor: AttributeVisitor>(_ visitor: inout Visitor) throws(Visitor.Failure)
}

/// Reads or writes one attribute at a time.
protocol AttributeVisitor {
    associatedtype Failure: Error

    /// The attribute's type.
    var type: Int64 { get }

    /// A value in one of the forms of `AttributeForms.swift`.
    mutating func value<Form: AttributeForm>(_ property: inout Form.Value?, _ form: Form.Type) throws(Failure)

    /// Text whose DER is kept beside it.
    mutating func text(_ property: inout String?, encoded: inout ArraySlice<UInt8>) throws(Failure)

    /// Bytes that are no DER; none is an empty slice.
    mutating func bytes(_ property: inout ArraySlice<UInt8>, version: Int64)

    /// One purchase of many.
    mutating func purchases(_ property: inout [InAppPurchase]) throws(Failure)
}

// MARK: - Reading

/// Reads one attribute into its property.
struct AttributeReader: AttributeVisitor {
    let attribute: ReceiptAttribute
    /// Whether a property has taken the value. If not, the attribute is kept aside.
    private(set) var isTaken = false

    init(_ attribute: ReceiptAttribute) {
        self.attribute = attribute
    }

    var type: Int64 { attribute.type }

    mutating func value<Form: AttributeForm>(
        _ property: inout Form.Value?, _ form: Form.Type
    ) throws(ReceiptDecodingError) {
        // Of two attributes of one type the first counts.
        guard let value = try Form.decode(attribute), property == nil else { return }
        property = value
        isTaken = true
    }

    mutating func text(
        _ property: inout String?, encoded: inout ArraySlice<UInt8>
    ) throws(ReceiptDecodingError) {
        try value(&property, TextForm.self)
        if isTaken { encoded = attribute.value }
    }

    mutating func bytes(_ property: inout ArraySlice<UInt8>, version: Int64) {
        guard property.isEmpty, !attribute.value.isEmpty else { return }
        property = attribute.value
        isTaken = true
    }

    mutating func purchases(_ property: inout [InAppPurchase]) throws(ReceiptDecodingError) {
        property.append(try InAppPurchase(attributesOf: attribute.value))
        isTaken = true
    }
}

extension AttributeSet {
    /// Decodes `SET OF ReceiptAttribute`.
    init(attributesOf payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) {
        var attributes = try BERReader.attributes(of: payload)
        self.init()
        // A subscription's purchase has eight that are empty or unknown, and a receipt about as many.
        otherAttributes.reserveCapacity(8)
        var count = 0
        while !attributes.isAtEnd {
            count += 1
            guard count <= Limits.attributes else {
                throw ReceiptDecodingError("More than \(Limits.attributes) attributes in one set")
            }
            var reader = AttributeReader(try attributes.attribute(in: payload))
            if Self.types.contains(reader.type) { try visit(&reader) }
            if !reader.isTaken { otherAttributes.append(reader.attribute) }
        }
    }
}

extension BERReader {
    /// The attributes of a set. One octet string around it is accepted, since some writers of test receipts add one.
    static func attributes(of payload: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> BERReader {
        var outer = BERReader(payload)
        if outer.nextTag(in: payload) == BERTag.octetString { outer = BERReader(in: try outer.next(in: payload)) }
        return BERReader(in: try outer.next(BERTag.set, "set of receipt attributes", in: payload))
    }
}

// MARK: - Writing

/// Writes the attributes of the properties that have a value.
private struct AttributeWriter: AttributeVisitor {
    typealias Failure = Never

    var type: Int64 = 0
    private(set) var attributes: [ReceiptAttribute] = []

    private mutating func append(_ value: ArraySlice<UInt8>, version: Int64 = 1) {
        attributes.append(ReceiptAttribute(type: type, version: version, value: value))
    }

    mutating func value<Form: AttributeForm>(_ property: inout Form.Value?, _ form: Form.Type) {
        if let property { append(Form.encode(property)[...]) }
    }

    mutating func text(_ property: inout String?, encoded: inout ArraySlice<UInt8>) {
        if encoded.isEmpty { value(&property, TextForm.self) } else { append(encoded) }
    }

    mutating func bytes(_ property: inout ArraySlice<UInt8>, version: Int64) {
        if !property.isEmpty { append(property, version: version) }
    }

    mutating func purchases(_ property: inout [InAppPurchase]) {
        for purchase in property { append(purchase.encodedSet[...]) }
    }
}

extension AttributeSet {
    /// All attributes as a set in DER.
    var encodedSet: [UInt8] {
        var (set, writer) = (self, AttributeWriter())
        for type in Self.types {
            writer.type = type
            set.visit(&writer)
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
