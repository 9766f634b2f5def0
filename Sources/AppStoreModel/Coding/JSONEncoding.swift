// SPDX-License-Identifier: Apache-2.0

extension JSONValue {
    /// Encodes a payload as a document: its members in the order in which they are declared, then the unknown ones.
    ///
    /// - Parameter omittingUnknown: Leaves the unknown members out, wherever they are.
    /// - Throws: `EncodingError` for a number that JSON cannot write.
    public init(encoding payload: some Encodable, omittingUnknown: Bool = false) throws {
        let encoder = JSONValueEncoder(omitsUnknown: omittingUnknown, codingPath: [JSONValueRoot()])
        try encoder.encode(payload)
        self = encoder.node.value
    }
}

extension CodingUserInfoKey {
    /// Whether unknown members are left out: true or nothing.
    static let omitsUnknown = CodingUserInfoKey(rawValue: "omitsUnknown")
}

/// A value that is being built. Containers outlive the call that made them, so they share it by reference.
private final class Node {
    enum Content {
        case leaf(JSONValue)
        case array([Node])
        case object([(name: String, node: Node)])
    }

    var content: Content = .leaf(.null)

    var value: JSONValue {
        switch content {
        case .leaf(let value): value
        case .array(let nodes): .array(nodes.map(\.value))
        case .object(let members): .object(members.map { .init($0.name, $0.node.value) })
        }
    }

    func append(name: String) -> Node {
        let node = Node()
        var members: [(name: String, node: Node)] = []
        if case .object(let others) = content { members = others }
        // Holds the only reference, or every append would copy all that is there.
        content = .leaf(.null)
        members.append((name, node))
        content = .object(members)
        return node
    }

    func append() -> Node {
        let node = Node()
        var nodes: [Node] = []
        if case .array(let others) = content { nodes = others }
        content = .leaf(.null)
        nodes.append(node)
        content = .array(nodes)
        return node
    }
}

private struct JSONValueEncoder: Encoder {
    let node: Node
    let omitsUnknown: Bool
    let codingPath: [any CodingKey]

    init(node: Node = Node(), omitsUnknown: Bool, codingPath: [any CodingKey]) {
        self.node = node
        self.omitsUnknown = omitsUnknown
        self.codingPath = codingPath
    }

    var userInfo: [CodingUserInfoKey: Any] {
        guard omitsUnknown, let key = CodingUserInfoKey.omitsUnknown else { return [:] }
        return [key: true]
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        if case .leaf = node.content { node.content = .object([]) }
        return KeyedEncodingContainer(MemberEncoder(node: node, omitsUnknown: omitsUnknown, codingPath: codingPath))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        if case .leaf = node.content { node.content = .array([]) }
        return ElementEncoder(node: node, omitsUnknown: omitsUnknown, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }
}

extension JSONValueEncoder: SingleValueEncodingContainer {
    func encodeNil() { node.content = .leaf(.null) }
    func encode(_ value: Bool) { node.content = .leaf(.bool(value)) }
    func encode(_ value: String) { node.content = .leaf(.string(value)) }

    func encode(_ value: Double) throws {
        guard value.isFinite else {
            throw EncodingError.invalidValue(
                value, .init(codingPath: codingPath, debugDescription: "JSON has no number for \(value)."))
        }
        node.content = .leaf(.number("\(value)"))
    }

    func encode(_ value: Float) throws { try encode(Double(value)) }
    func encode(_ value: Int) { number(value) }
    func encode(_ value: Int8) { number(value) }
    func encode(_ value: Int16) { number(value) }
    func encode(_ value: Int32) { number(value) }
    func encode(_ value: Int64) { number(value) }
    func encode(_ value: UInt) { number(value) }
    func encode(_ value: UInt8) { number(value) }
    func encode(_ value: UInt16) { number(value) }
    func encode(_ value: UInt32) { number(value) }
    func encode(_ value: UInt64) { number(value) }

    private func number(_ value: some FixedWidthInteger) { node.content = .leaf(.number("\(value)")) }

    func encode(_ value: some Encodable) throws {
        try value.encode(to: self)
    }
}

private struct MemberEncoder<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let node: Node
    let omitsUnknown: Bool
    let codingPath: [any CodingKey]

    private func encoder(_ key: Key) -> JSONValueEncoder {
        JSONValueEncoder(
            node: node.append(name: key.stringValue), omitsUnknown: omitsUnknown, codingPath: codingPath + [key])
    }

    func encodeNil(forKey key: Key) { encoder(key).encodeNil() }
    func encode(_ value: Bool, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: String, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: Double, forKey key: Key) throws { try encoder(key).encode(value) }
    func encode(_ value: Float, forKey key: Key) throws { try encoder(key).encode(value) }
    func encode(_ value: Int, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: Int8, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: Int16, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: Int32, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: Int64, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: UInt, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: UInt8, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: UInt16, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: UInt32, forKey key: Key) { encoder(key).encode(value) }
    func encode(_ value: UInt64, forKey key: Key) { encoder(key).encode(value) }

    func encode(_ value: some Encodable, forKey key: Key) throws {
        if let unknown = value as? UnknownMembers {
            guard !omitsUnknown else { return }
            for member in unknown.members { node.append(name: member.name).content = .leaf(member.value) }
        } else {
            try encoder(key).encode(value)
        }
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        encoder(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { encoder(key).unkeyedContainer() }
    func superEncoder() -> any Encoder {
        JSONValueEncoder(node: node, omitsUnknown: omitsUnknown, codingPath: codingPath)
    }

    func superEncoder(forKey key: Key) -> any Encoder { encoder(key) }
}

private struct ElementEncoder: UnkeyedEncodingContainer {
    let node: Node
    let omitsUnknown: Bool
    let codingPath: [any CodingKey]
    private(set) var count = 0

    init(node: Node, omitsUnknown: Bool, codingPath: [any CodingKey]) {
        self.node = node
        self.omitsUnknown = omitsUnknown
        self.codingPath = codingPath
    }

    private mutating func next() -> JSONValueEncoder {
        count += 1
        return JSONValueEncoder(node: node.append(), omitsUnknown: omitsUnknown, codingPath: codingPath)
    }

    mutating func encodeNil() { next().encodeNil() }
    mutating func encode(_ value: some Encodable) throws { try next().encode(value) }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { next().unkeyedContainer() }
    mutating func superEncoder() -> any Encoder { next() }
}

extension JSONValue: Encodable {
    /// Encodes to any coder; to ``init(encoding:)`` without loss.
    public func encode(to encoder: any Encoder) throws {
        if let encoder = encoder as? JSONValueEncoder {
            encoder.node.content = .leaf(self)
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
