// SPDX-License-Identifier: Apache-2.0

// Encodes `Encodable` values as JSON text in one pass. Building a `JSONValue` first would take as long as all other
// work on a short answer.

extension JSONWriter {
    /// Encodes a value as compact JSON: its members in the order of encoding, then the unknown members.
    ///
    /// - Parameter omittingUnknown: Whether to leave out unknown members at every level.
    /// - Throws: `EncodingError` for a number without a JSON form, and for a write to a nested container that an
    ///   earlier write to its enclosing container has closed.
    package static func bytes(encoding value: some Encodable, omittingUnknown: Bool = false) throws -> [UInt8] {
        let output = EncodedOutput(omitsUnknown: omittingUnknown)
        try output.encode(value, in: 0)
        output.close(to: 0)
        guard !output.isOutOfOrder else {
            throw EncodingError.invalidValue(
                value, .init(codingPath: [], debugDescription: "A nested container was written to after it was closed.")
            )
        }
        return output.json.bytes
    }
}

extension JSONValue {
    /// Encodes a payload as a document: its members in the order of declaration, then the unknown members.
    ///
    /// - Parameter omittingUnknown: Whether to leave out unknown members at every level.
    /// - Throws: `EncodingError` for a number without a JSON form, and for a write to a nested container that an
    ///   earlier write to its enclosing container has closed.
    public init(encoding payload: some Encodable, omittingUnknown: Bool = false) throws {
        let json = try JSONWriter.bytes(encoding: payload, omittingUnknown: omittingUnknown)
        do {
            try self.init(written: json)
        } catch {
            throw EncodingError.invalidValue(
                payload, .init(codingPath: [], debugDescription: "The encoded text is not JSON: \(error)."))
        }
    }
}

extension CodingUserInfoKey {
    /// Whether to leave out unknown members: true or absent.
    static let omitsUnknown = CodingUserInfoKey(rawValue: "omitsUnknown")
}

/// The JSON text so far, and the open containers. A write to a container closes the containers inside it.
private final class EncodedOutput {
    struct Container {
        let isObject: Bool
        /// Containers are numbered from 1 in the order of opening, so a nested container has a higher number than its
        /// parent.
        let number: Int
    }

    // Most answers fit into this capacity.
    var json = JSONWriter(reservingCapacity: 1024)
    let omitsUnknown: Bool
    /// Whether a write to a closed container made the text invalid.
    private(set) var isOutOfOrder = false
    private var containers: [Container] = []
    /// The number of the last of `containers`, or 0 if there are none.
    private var innermost = 0
    private var opened = 0

    init(omitsUnknown: Bool) {
        self.omitsUnknown = omitsUnknown
        containers.reserveCapacity(8)
    }

    /// Encodes a value inside the container `number`. Writes null if the value encodes nothing.
    func encode(_ value: some Encodable, in number: Int) throws {
        let start = json.bytes.count
        try value.encode(to: JSONTextEncoder(output: self, parent: number))
        if json.bytes.count == start { json.null() }
    }

    /// Opens a container inside the container `parent`, and returns its number. A class and its superclass share a
    /// container.
    func open(object isObject: Bool, in parent: Int) -> Int {
        if let shared = containers.first(where: { $0.number > parent }) {
            resume(shared.number)
            if shared.isObject != isObject { isOutOfOrder = true }
            return shared.number
        }
        if innermost != parent { isOutOfOrder = true }
        if isObject { json.beginObject() } else { json.beginArray() }
        opened += 1
        innermost = opened
        containers.append(Container(isObject: isObject, number: opened))
        return opened
    }

    /// Closes containers until the container `number` is the innermost.
    func resume(_ number: Int) {
        guard innermost != number else { return }
        close(to: number)
        if innermost != number { isOutOfOrder = true }
    }

    /// Closes all containers inside the container `number`. The number 0 closes all containers.
    func close(to number: Int) {
        while let container = containers.last, container.number > number {
            containers.removeLast()
            if container.isObject { json.endObject() } else { json.endArray() }
        }
        innermost = containers.last?.number ?? 0
    }

    /// The number of the container around the container `number`, or 0 if there is none.
    func parent(of number: Int) -> Int {
        containers.last { $0.number < number }?.number ?? 0
    }

    func number(_ value: Double, of key: (any CodingKey)? = nil) throws {
        guard value.isFinite else {
            let path = key.map { [$0] } ?? []
            throw EncodingError.invalidValue(
                value, .init(codingPath: path, debugDescription: "JSON has no number for \(value)."))
        }
        json.literal("\(value)")
    }
}

/// Encodes one value inside a container.
struct JSONTextEncoder: Encoder {
    fileprivate let output: EncodedOutput
    /// The number of the enclosing container, or 0 if there is none.
    fileprivate let parent: Int

    // Only keyed containers need a coding path; see `JSONValueRoot`.
    var codingPath: [any CodingKey] { [] }

    var userInfo: [CodingUserInfoKey: Any] {
        guard output.omitsUnknown, let key = CodingUserInfoKey.omitsUnknown else { return [:] }
        return [key: true]
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(MemberEncoder(output: output, number: output.open(object: true, in: parent)))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        ElementEncoder(output: output, number: output.open(object: false, in: parent))
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    /// Encodes a value already written as JSON.
    func encode(json: [UInt8]) { output.json.literal(json) }
}

extension JSONTextEncoder: SingleValueEncodingContainer {
    func encodeNil() { output.json.null() }
    func encode(_ value: Bool) { output.json.bool(value) }
    func encode(_ value: String) { output.json.string(value) }
    func encode(_ value: Int) { output.json.number(Int64(value)) }
    func encode(_ value: Int64) { output.json.number(value) }
    func encode(_ value: some FixedWidthInteger & Encodable) { output.json.literal("\(value)") }
    func encode(_ value: some BinaryFloatingPoint & Encodable) throws { try output.number(Double(value)) }
    func encode(_ value: some Encodable) throws { try value.encode(to: self) }
}

private struct MemberEncoder<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let output: EncodedOutput
    let number: Int

    var codingPath: [any CodingKey] { JSONValueRoot.path }

    private func name(_ key: Key) {
        output.resume(number)
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

    func encode(_ value: some FixedWidthInteger & Encodable, forKey key: Key) {
        name(key)
        output.json.literal("\(value)")
    }

    func encode(_ value: some BinaryFloatingPoint & Encodable, forKey key: Key) throws {
        name(key)
        try output.number(Double(value), of: key)
    }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        // The types are compared first, because a cast takes as long as the rest of the work on a short member.
        if Value.self == UnknownMembers.self, let unknown = value as? UnknownMembers { return encode(unknown) }
        if Value.self == WrittenMembers.self, let written = value as? WrittenMembers {
            output.resume(number)
            return output.json.members(of: written.object)
        }
        name(key)
        try output.encode(value, in: number)
    }

    private func encode(_ unknown: UnknownMembers) {
        guard !output.omitsUnknown else { return }
        output.resume(number)
        for member in unknown.members {
            output.json.name(member.name)
            output.json.value(member.value)
        }
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        name(key)
        return JSONTextEncoder(output: output, parent: number).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        name(key)
        return JSONTextEncoder(output: output, parent: number).unkeyedContainer()
    }

    /// A superclass writes its members into the object of its subclass.
    func superEncoder() -> any Encoder { JSONTextEncoder(output: output, parent: output.parent(of: number)) }

    func superEncoder(forKey key: Key) -> any Encoder {
        name(key)
        return JSONTextEncoder(output: output, parent: number)
    }
}

private struct ElementEncoder: UnkeyedEncodingContainer {
    let output: EncodedOutput
    let number: Int
    private(set) var count = 0

    init(output: EncodedOutput, number: Int) {
        self.output = output
        self.number = number
    }

    var codingPath: [any CodingKey] { [] }

    private mutating func next() -> JSONTextEncoder {
        output.resume(number)
        count += 1
        return JSONTextEncoder(output: output, parent: number)
    }

    mutating func encodeNil() { next().encodeNil() }

    mutating func encode(_ value: some Encodable) throws {
        try output.encode(value, in: next().parent)
    }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { next().unkeyedContainer() }
    mutating func superEncoder() -> any Encoder { next() }
}

/// The members of an object already written as JSON. They are copied into the enclosing object.
package struct WrittenMembers: Encodable, Sendable {
    /// The object, without white space around its braces. Empty if there are no members.
    package var object: [UInt8]

    package init(of object: [UInt8] = []) {
        self.object = object
    }

    /// Encodes the members as an object of their own. In a keyed container, the encoder of
    /// ``JSONWriter/bytes(encoding:omittingUnknown:)`` does not call this method, but copies the members into the
    /// enclosing object.
    package func encode(to encoder: any Encoder) throws {
        try (object.isEmpty ? .object([]) : JSONValue(parsing: object)).encode(to: encoder)
    }
}

extension JSONValue: Encodable {
    /// Encodes to any encoder. Only the encoder of ``init(encoding:omittingUnknown:)`` keeps the order of members and
    /// every digit.
    public func encode(to encoder: any Encoder) throws {
        if let encoder = encoder as? JSONTextEncoder {
            encoder.output.json.value(self)
            return
        }
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let bool): try container.encode(bool)
        case .number(let literal):
            if let integer = Int64(literal) {
                try container.encode(integer)
            } else {
                try container.encode(Double(literal))
            }
        case .string(let text): try container.encode(text)
        case .array(let elements): try container.encode(elements)
        case .object(let members):
            try container.encode(Dictionary(members.map { ($0.name, $0.value) }) { _, last in last })
        }
    }
}
