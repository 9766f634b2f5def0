// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// One attribute of a receipt's payload, as it stands there.
public struct ReceiptAttribute: Hashable, Sendable {
    public var type: Int64
    /// 1 for everything but attribute 4, which has 2. Apple does not say what it means.
    public var version: Int64
    /// The octets of the value: for nearly every type DER in its turn.
    public var value: ArraySlice<UInt8>

    public init(type: Int64, version: Int64, value: ArraySlice<UInt8>) {
        self.type = type
        self.version = version
        self.value = value
    }
}

extension BERReader {
    /// Reads the next element as a `ReceiptAttribute ::= SEQUENCE { type INTEGER, version INTEGER, value OCTET STRING }`.
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
    /// The text of a UTF8String or IA5String; `nil` for the empty one, by which receipts say that there is none.
    func text() throws(ReceiptDecodingError) -> String? {
        let octets = try characters()
        guard !octets.isEmpty else { return nil }
        guard let text = octets.withUnsafeBufferPointer(String.init(utf8:)) else { throw error("is not UTF-8") }
        return text
    }

    /// The instant that an IA5String in ISO 8601 names; `nil` for the empty one.
    func date() throws(ReceiptDecodingError) -> Timestamp? {
        let octets = try characters()
        guard !octets.isEmpty else { return nil }
        guard let date = Timestamp(iso8601: octets) else { throw error("is no date") }
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

    /// A whole number; `nil` for 0, by which receipts say that there is no such identifier.
    func identifier() throws(ReceiptDecodingError) -> Int64? {
        let number = try integer()
        return number == 0 ? nil : number
    }

    private func characters() throws(ReceiptDecodingError) -> ArraySlice<UInt8> {
        var reader = BERReader(value)
        let tag = reader.nextTag(in: value)
        guard tag == BERTag.utf8String || tag == BERTag.ia5String, let element = try? reader.next(in: value) else {
            throw error("is no text")
        }
        return value[element.content]
    }

    func error(_ fault: String) -> ReceiptDecodingError {
        ReceiptDecodingError("Attribute \(type) \(fault)")
    }
}
