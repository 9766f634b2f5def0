// SPDX-License-Identifier: Apache-2.0

// Decodes `Decodable` payloads from a `JSONValue`, and keeps the members for which the payload has no property.

/// The unread members of an object: the members unknown to this version of the library, and in signed payloads also the
/// members of an unexpected type that affect no decision.
///
/// A payload with a property of this type keeps Apple's later additions. The `Codable` conformance of the payload can
/// still be synthesised: ``JSONValue/decode(_:)`` fills the property, and ``JSONValue/init(encoding:omittingUnknown:)``
/// writes its members.
public struct UnknownMembers: Hashable, Sendable {
    /// The members in the order of the document.
    public var members: [JSONValue.Member]

    /// Unknown members in the given order.
    public init(_ members: [JSONValue.Member] = []) {
        self.members = members
    }

    /// The value of the member called `name`, or `nil` if there is none. Of duplicates the last counts.
    public subscript(name: String) -> JSONValue? {
        members.last { $0.isCalled(name) }?.value
    }
}

/// An object of a signed payload. The members that affect a decision must have the documented type. All other members
/// are informative, and may have any JSON type.
///
/// If a receiver cannot read a document, Apple does not sign it again. Therefore an informative member must not make
/// the document unreadable. If ``JSONValue/decode(_:)`` finds text instead of a number, it reads the number in the
/// text. A value unreadable in both ways stays in ``UnknownMembers``, and its property is `nil`.
protocol LenientPayload {
    /// The names of the members that affect a decision. The object is unreadable if such a member has an unexpected
    /// type.
    static var strictMembers: Set<String> { get }
}

extension UnknownMembers: Codable {
    public init(from decoder: any Decoder) {
        self.init()
    }

    public func encode(to encoder: any Encoder) {}
}

// Synthesised conformances call the methods below. Foundation's coders neither report nor write unknown members, so a
// payload decoded by Foundation has none.

extension KeyedDecodingContainer {
    /// The members without a case in `Key`.
    public func decode(_ type: UnknownMembers.Type, forKey key: Key) throws -> UnknownMembers {
        try decodeIfPresent(type, forKey: key) ?? UnknownMembers()
    }
}

// Overloads for `Open` and `Timestamp`, because the generic method looks up type metadata for each value. The result is
// the same with any coder.

extension KeyedDecodingContainer {
    func decodeIfPresent<Word>(
        _ type: Open<Word>.Type, forKey key: Key
    ) throws -> Open<Word>? where Word.RawValue == String {
        try decodeIfPresent(String.self, forKey: key).map(Open.init(rawValue:))
    }

    func decodeIfPresent<Word>(
        _ type: Open<Word>.Type, forKey key: Key
    ) throws -> Open<Word>? where Word.RawValue == Int {
        try decodeIfPresent(Int.self, forKey: key).map(Open.init(rawValue:))
    }

    func decodeIfPresent(_ type: Timestamp.Type, forKey key: Key) throws -> Timestamp? {
        // Any value but a whole number of milliseconds in the years 0 to 9999 is decoded or refused below.
        if let milliseconds = try? decodeIfPresent(Int64.self, forKey: key) {
            let time = Timestamp(milliseconds: milliseconds)
            if Timestamp.calendar.contains(time) { return time }
        }
        // `Timestamp` itself decodes fractions, and throws for any other value.
        return try contains(key) && !decodeNil(forKey: key) ? decode(type, forKey: key) : nil
    }
}

extension KeyedEncodingContainer {
    /// Writes unknown members beside the known ones.
    public mutating func encode(_ unknown: UnknownMembers, forKey key: Key) throws {
        guard codingPath.first is JSONValueRoot else { return }
        try encodeIfPresent(unknown, forKey: key)
    }
}

/// The coding path of this package's encoder. The method `encode(_:forKey:)` above recognises the encoder by this path.
struct JSONValueRoot: CodingKey {
    static let path: [any CodingKey] = [JSONValueRoot()]

    var stringValue: String { "" }
    var intValue: Int? { nil }
    init() {}
    init?(stringValue: String) { nil }
    init?(intValue: Int) { nil }
}

extension JSONValue {
    /// Decodes a payload from this document.
    ///
    /// - Throws: `DecodingError`, with the path of the missing or mistyped member.
    public func decode<Payload: Decodable>(_ type: Payload.Type) throws -> Payload {
        try JSONValueDecoder(self).decode(type)
    }
}

extension DecodingError {
    /// The path of the member and its fault, without a full stop at the end.
    package var sentence: String {
        let context =
            switch self {
            case .typeMismatch(_, let context), .valueNotFound(_, let context), .keyNotFound(_, let context),
                .dataCorrupted(let context):
                context
            @unknown default: DecodingError.Context(codingPath: [], debugDescription: "\(self)")
            }
        let path = context.codingPath.map(\.stringValue).joined(separator: ".").replacing(".[", with: "[")
        let text =
            context.debugDescription.hasSuffix(".")
            ? String(context.debugDescription.dropLast()) : context.debugDescription
        return path.isEmpty ? text : "\(path): \(text)"
    }
}

/// Decodes one value. The decoder is a class, because the standard library passes it as `any Decoder` several times per
/// value, and a struct would be boxed each time.
private final class JSONValueDecoder: Decoder {
    let value: JSONValue
    private let parent: JSONValueDecoder?
    private let key: (any CodingKey)?
    /// The type to decode from the object.
    private(set) var type: Any.Type?

    init(_ value: JSONValue, at key: (any CodingKey)? = nil, in parent: JSONValueDecoder? = nil) {
        self.value = value
        self.parent = parent
        self.key = key
    }

    /// Built only on demand, since only errors need the path.
    var codingPath: [any CodingKey] {
        guard let key else { return parent?.codingPath ?? [] }
        return (parent?.codingPath ?? []) + [key]
    }

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        // Strings and JSON values make up most payloads, and need no container.
        if type == String.self, case .string(let text) = value, let result = text as? T { return result }
        if type == JSONValue.self, let result = value as? T { return result }
        self.type = type
        return try T(from: self)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw mismatch([String: JSONValue].self, "an object") }
        return KeyedDecodingContainer(Members(table: MemberTable(members, of: self)))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else { throw mismatch([JSONValue].self, "an array") }
        return Elements(elements, of: self)
    }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { self }

    func mismatch(_ type: any Any.Type, _ expected: String) -> DecodingError {
        .typeMismatch(
            type, .init(codingPath: codingPath, debugDescription: "Expected \(expected), found \(value.kind)."))
    }
}

extension JSONValue {
    fileprivate var isNull: Bool {
        guard case .null = self else { return false }
        return true
    }

    /// The number in a text, or `nil` if the value is not a text with a JSON number.
    fileprivate var numberInText: JSONValue? {
        // A text that is not JSON is not a number either.
        guard case .string(let text) = self, case .number(let literal) = JSONValue(readable: text.utf8) else {
            return nil
        }
        return .number(literal)
    }

    /// The type of the value, for error messages.
    fileprivate var kind: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .number(let literal): "the number \(literal.prefix(40))"
        case .string: "text"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSONValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard case .bool(let bool) = value else { throw mismatch(type, "a boolean") }
        return bool
    }

    func decode(_ type: String.Type) throws -> String {
        guard case .string(let text) = value else { throw mismatch(type, "text") }
        return text
    }

    func decode(_ type: Double.Type) throws -> Double {
        guard case .number(let literal) = value, let number = Double(literal), number.isFinite else {
            throw mismatch(type, "a number")
        }
        return number
    }

    func decode(_ type: Float.Type) throws -> Float { Float(try decode(Double.self)) }

    func decode<Integer: FixedWidthInteger & Decodable>(_ type: Integer.Type) throws -> Integer {
        guard case .number(let literal) = value else {
            throw mismatch(Integer.self, "a whole number of \(Integer.bitWidth) bits")
        }
        // A whole number may be written with a point or an exponent (RFC 8259 section 6).
        if let number = Integer(literal) { return number }
        guard let number = Double(literal).flatMap({ Integer(exactly: $0) }),
            literal.contains(where: \.isPointOrExponent)
        else { throw mismatch(Integer.self, "a whole number of \(Integer.bitWidth) bits") }
        return number
    }
}

/// The members of an object, looked up by name.
private final class MemberTable {
    let members: [JSONValue.Member]
    let decoder: JSONValueDecoder
    /// The last position of each name, if the object has too many members for a linear search; otherwise `nil`.
    private let positions: [[UInt8]: Int]?
    /// A bit per member, set when the member is looked up, if there are at most 64 members.
    private var askedFor: UInt64 = 0
    /// The names of members that were looked up but not read, because their values have an unexpected type.
    private(set) var unread: Set<String> = []

    init(_ members: [JSONValue.Member], of decoder: JSONValueDecoder) {
        self.members = members
        self.decoder = decoder
        // Apple's largest payload has 38 members.
        positions =
            members.count > 64
            ? Dictionary(members.enumerated().map { (Array($1.name.utf8), $0) }) { _, last in last } : nil
    }

    func value(_ name: String) -> JSONValue? {
        if let positions { return positions[Array(name.utf8)].map { members[$0].value } }
        guard let index = members.lastIndex(where: { $0.isCalled(name) }) else { return nil }
        askedFor |= 1 << index
        return members[index].value
    }

    /// Whether a member may have any type. Called only after an error, so that members without errors do not pay for
    /// the check.
    func isLenient(_ name: String) -> Bool {
        guard let payload = decoder.type as? any LenientPayload.Type else { return false }
        return !payload.strictMembers.contains(name)
    }

    func leaveUnread(_ name: String) { unread.insert(name) }

    /// The members that were not looked up, or not read. In an object of more than 64 members, look-ups are not
    /// recorded, and the result has all members.
    var rest: [JSONValue.Member] {
        members.enumerated().filter { askedFor & 1 << $0.offset == 0 || unread.contains($0.element.name) }
            .map(\.element)
    }
}

/// The keyed container of an object. The container holds a single reference, since the standard library copies the
/// container for each member.
private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let table: MemberTable

    var codingPath: [any CodingKey] { table.decoder.codingPath }

    var allKeys: [Key] { table.members.compactMap { Key(stringValue: $0.name) } }

    private func value(_ key: Key) -> JSONValue? { table.value(key.stringValue) }

    private func decoder(_ key: Key) throws -> JSONValueDecoder {
        guard let value = value(key) else {
            throw DecodingError.keyNotFound(
                key, .init(codingPath: codingPath, debugDescription: "The member \(key.stringValue) is missing."))
        }
        return JSONValueDecoder(value, at: key, in: table.decoder)
    }

    func contains(_ key: Key) -> Bool { value(key) != nil }

    // Only the decoding of optionals calls this method, and an optional treats a missing member as null.
    func decodeNil(forKey key: Key) -> Bool { value(key)?.isNull ?? true }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        try decoder(key).decode(type)
    }

    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? {
        if type == UnknownMembers.self, let unknown = unknownMembers(besides: key) as? T { return unknown }
        guard let value = value(key), !value.isNull else { return nil }
        return try read(type, from: value, key)
    }

    /// Reads an existing member.
    ///
    /// - Returns: `nil` if the value has an unexpected type and the member is lenient.
    private func read<T: Decodable>(_ type: T.Type, from value: JSONValue, _ key: Key) throws -> T? {
        do {
            return try JSONValueDecoder(value, at: key, in: table.decoder).decode(type)
        } catch {
            guard table.isLenient(key.stringValue) else { throw error }
        }
        // The second attempt reads a number in a text. If this attempt fails too, its error is of no use: the value is
        // left unread.
        if let number = value.numberInText,
            let read = try? JSONValueDecoder(number, at: key, in: table.decoder).decode(type)
        {
            return read
        }
        table.leaveUnread(key.stringValue)
        return nil
    }

    // Without the methods below, the standard library looks up each member three times.

    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        switch value(key) {
        case .string(let text): return text
        case nil, .null: return nil
        case .some(let value): return try read(type, from: value, key)
        }
    }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        switch value(key) {
        case .bool(let bool): return bool
        case nil, .null: return nil
        case .some(let value): return try read(type, from: value, key)
        }
    }

    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try integer(key) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try integer(key) }

    // Inlined so that the compiler specialises the method for the two types above.
    @inline(__always)
    private func integer<Integer: FixedWidthInteger & Decodable>(_ key: Key) throws -> Integer? {
        switch value(key) {
        case nil, .null: return nil
        case .some(let value):
            if case .number(let literal) = value, let number = Integer(literal) { return number }
            return try read(Integer.self, from: value, key)
        }
    }

    /// The members without a case in `Key`, and the unread members. A member that happens to have the name of `key`
    /// itself is also unknown.
    private func unknownMembers(besides key: Key) -> UnknownMembers {
        UnknownMembers(
            table.rest.filter {
                Key(stringValue: $0.name) == nil || $0.name == key.stringValue || table.unread.contains($0.name)
            })
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try decoder(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder(key).unkeyedContainer()
    }

    func superDecoder() -> any Decoder { table.decoder }
    func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }
}

extension Character {
    fileprivate var isPointOrExponent: Bool { self == "." || self == "e" || self == "E" }
}

private struct Elements: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    private let decoder: JSONValueDecoder
    private(set) var currentIndex = 0

    init(_ elements: [JSONValue], of decoder: JSONValueDecoder) {
        self.elements = elements
        self.decoder = decoder
    }

    var codingPath: [any CodingKey] { decoder.codingPath }
    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    private struct Index: CodingKey {
        let intValue: Int?
        var stringValue: String { "[\(intValue ?? 0)]" }
        init(intValue: Int) { self.intValue = intValue }
        init?(stringValue: String) { nil }
    }

    private mutating func next() throws -> JSONValueDecoder {
        guard !isAtEnd else {
            throw DecodingError.valueNotFound(
                JSONValue.self, .init(codingPath: codingPath, debugDescription: "The array has no more elements."))
        }
        defer { currentIndex += 1 }
        return JSONValueDecoder(elements[currentIndex], at: Index(intValue: currentIndex), in: decoder)
    }

    mutating func decodeNil() -> Bool {
        guard !isAtEnd, elements[currentIndex].isNull else { return false }
        currentIndex += 1
        return true
    }

    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T { try next().decode(type) }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }
    mutating func superDecoder() throws -> any Decoder { try next() }
}

extension JSONValue: Decodable {
    /// Decodes from any decoder. Only the decoder of ``decode(_:)`` keeps the order of members and every digit.
    public init(from decoder: any Decoder) throws {
        if let decoder = decoder as? JSONValueDecoder {
            self = decoder.value
            return
        }
        let container = try decoder.singleValueContainer()
        // A decoder reports a value of an unexpected type only by an error.
        if container.decodeNil() {
            self = .null
        } else if let bool = try? container.decode(Bool.self) {
            self = .bool(bool)
        } else if let integer = try? container.decode(Int64.self) {
            self = .number("\(integer)")
        } else if let number = try? container.decode(Double.self) {
            self = .number("\(number)")
        } else if let text = try? container.decode(String.self) {
            self = .string(text)
        } else if let elements = try? container.decode([JSONValue].self) {
            self = .array(elements)
        } else {
            let members = try container.decode([String: JSONValue].self)
            self = .object(members.sorted { $0.key < $1.key }.map { .init($0.key, $0.value) })
        }
    }
}
