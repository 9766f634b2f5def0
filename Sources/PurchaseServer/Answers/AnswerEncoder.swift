// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The JSON of an answer: its members in the order in which they are encoded, and absent if they are `nil`, unless they are
/// ``Nullable``.
///
/// Written at once, since half the time of a short answer would else go into a tree or a dictionary.
struct AnswerEncoder: Encoder {
    private let output: AnswerOutput
    /// How many containers are around the value.
    private let depth: Int

    /// - Throws: `EncodingError` if a value is no text, truth value or whole number, nor made of such.
    static func encode(_ answer: some Encodable) throws -> [UInt8] {
        let output = AnswerOutput()
        try answer.encode(to: AnswerEncoder(output, depth: 0))
        output.close(to: 0)
        return output.json.bytes
    }

    fileprivate init(_ output: AnswerOutput, depth: Int) {
        (self.output, self.depth) = (output, depth)
    }

    // No answer has a reason to look at these.
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        output.open(.object, at: depth)
        return KeyedEncodingContainer(Members(output: output, depth: depth + 1))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        output.open(.array, at: depth)
        return Elements(output: output, depth: depth + 1)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { SingleValue(output: output, depth: depth) }
}

/// What is written so far. A container ends when something is written to one around it.
private final class AnswerOutput {
    enum Container {
        case object
        case array
    }

    // What most answers have room in.
    var json = JSONWriter(reservingCapacity: 1024)
    private var containers: [Container] = []

    func open(_ container: Container, at depth: Int) {
        close(to: depth)
        switch container {
        case .object: json.beginObject()
        case .array: json.beginArray()
        }
        containers.append(container)
    }

    func close(to depth: Int) {
        while containers.count > depth, let container = containers.popLast() {
            switch container {
            case .object: json.endObject()
            case .array: json.endArray()
            }
        }
    }

    func number(_ value: some FixedWidthInteger & Encodable) throws {
        guard let number = Int64(exactly: value) else { throw unsupported(value) }
        json.number(number)
    }

    func unsupported(_ value: some Encodable) -> EncodingError {
        EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: "Answers have no such numbers."))
    }
}

private struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let output: AnswerOutput
    let depth: Int
    var codingPath: [any CodingKey] { [] }

    private func name(_ key: Key) {
        output.close(to: depth)
        output.json.name(key.stringValue)
    }

    func encodeNil(forKey key: Key) {
        name(key)
        output.json.null()
    }

    func encode(_ value: Bool, forKey key: Key) {
        name(key)
        output.json.bool(value)
    }

    func encode(_ value: String, forKey key: Key) {
        name(key)
        output.json.string(value)
    }

    func encode(_ value: Int, forKey key: Key) { encode(Int64(value), forKey: key) }

    func encode(_ value: Int64, forKey key: Key) {
        name(key)
        output.json.number(value)
    }

    func encode(_ value: some FixedWidthInteger & Encodable, forKey key: Key) throws {
        name(key)
        try output.number(value)
    }

    func encode(_ value: some BinaryFloatingPoint & Encodable, forKey key: Key) throws {
        throw output.unsupported(value)
    }

    func encode(_ value: some Encodable, forKey key: Key) throws {
        name(key)
        try value.encode(to: AnswerEncoder(output, depth: depth))
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        name(key)
        return AnswerEncoder(output, depth: depth).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        name(key)
        return AnswerEncoder(output, depth: depth).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { AnswerEncoder(output, depth: depth) }
    func superEncoder(forKey key: Key) -> any Encoder {
        name(key)
        return AnswerEncoder(output, depth: depth)
    }
}

private struct Elements: UnkeyedEncodingContainer {
    let output: AnswerOutput
    let depth: Int
    private(set) var count = 0
    var codingPath: [any CodingKey] { [] }

    private mutating func next() -> AnswerEncoder {
        output.close(to: depth)
        count += 1
        return AnswerEncoder(output, depth: depth)
    }

    mutating func encodeNil() {
        _ = next()
        output.json.null()
    }

    mutating func encode(_ value: some Encodable) throws { try value.encode(to: next()) }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { next().unkeyedContainer() }
    mutating func superEncoder() -> any Encoder { next() }
}

private struct SingleValue: SingleValueEncodingContainer {
    let output: AnswerOutput
    let depth: Int
    var codingPath: [any CodingKey] { [] }

    func encodeNil() { output.json.null() }
    func encode(_ value: Bool) { output.json.bool(value) }
    func encode(_ value: String) { output.json.string(value) }
    func encode(_ value: Int) { output.json.number(Int64(value)) }
    func encode(_ value: Int64) { output.json.number(value) }
    func encode(_ value: some FixedWidthInteger & Encodable) throws { try output.number(value) }
    func encode(_ value: some BinaryFloatingPoint & Encodable) throws { throw output.unsupported(value) }
    func encode(_ value: some Encodable) throws { try value.encode(to: AnswerEncoder(output, depth: depth)) }
}

/// A member that is `null` if there is no value, which says that there is known to be none.
@propertyWrapper
struct Nullable<Value: Encodable & Sendable>: Encodable, Sendable {
    var wrappedValue: Value?

    func encode(to encoder: any Encoder) throws {
        if let wrappedValue {
            try wrappedValue.encode(to: encoder)
        } else {
            var container = encoder.singleValueContainer()
            try container.encodeNil()
        }
    }
}
