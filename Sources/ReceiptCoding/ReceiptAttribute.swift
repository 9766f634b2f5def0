// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// An attribute of a receipt's payload, with its value undecoded.
public struct ReceiptAttribute: Hashable, Sendable {
    /// The attribute's number, such as 2 for the bundle id.
    public var type: Int64
    /// 2 for type 4, and 1 for every other type. Apple does not document the meaning.
    public var version: Int64
    /// The bytes of the value: for nearly every type, the bytes are again DER.
    public var value: ArraySlice<UInt8>

    /// Creates an attribute with these parts.
    public init(type: Int64, version: Int64, value: ArraySlice<UInt8>) {
        self.type = type
        self.version = version
        self.value = value
    }
}

extension BERReader {
    /// Reads the next element as a `ReceiptAttribute ::= SEQUENCE { type INTEGER, version INTEGER, value OCTET STRING
    /// }`.
    mutating func attribute(in bytes: ArraySlice<UInt8>) throws(ReceiptDecodingError) -> ReceiptAttribute {
        var sequence = BERReader(in: try next(BERTag.sequence, "receipt attribute", in: bytes))
        return ReceiptAttribute(
            type: try sequence.integer("attribute type", in: bytes),
            version: try sequence.integer("attribute version", in: bytes),
            value: try sequence.octetString("attribute value", in: bytes))
    }
}

// MARK: - Reading values

extension ReceiptAttribute {
    /// The text of a UTF8String or IA5String; `nil` if the text is empty, because an empty text means no value.
    func text() throws(ReceiptDecodingError) -> String? {
        let bytes = try characters()
        guard !bytes.isEmpty else { return nil }
        guard let text = bytes.withUnsafeBufferPointer(String.init(utf8:)) else { throw error("is not UTF-8") }
        return text
    }

    /// The instant of a text in ISO 8601; `nil` if the text is empty.
    func date() throws(ReceiptDecodingError) -> Timestamp? {
        let bytes = try characters()
        guard !bytes.isEmpty else { return nil }
        guard let date = Timestamp(iso8601: bytes) else { throw error("is no date") }
        return date
    }

    /// A whole number of at most 64 bits.
    func integer() throws(ReceiptDecodingError) -> Int64 {
        do {
            var reader = BERReader(value)
            return try reader.integer("value", in: value)
        } catch {
            throw self.error("is no whole number of 64 bits")
        }
    }

    private func characters() throws(ReceiptDecodingError) -> ArraySlice<UInt8> {
        var reader = BERReader(value)
        let tag = reader.nextTag(in: value)
        // The reader's error is replaced by one that names the attribute.
        guard tag == BERTag.utf8String || tag == BERTag.ia5String, let element = try? reader.next(in: value) else {
            throw error("is no text")
        }
        return value[element.content]
    }

    /// An error that names this attribute.
    func error(_ fault: String) -> ReceiptDecodingError { ReceiptDecodingError("Attribute \(type) \(fault)") }
}
