// SPDX-License-Identifier: Apache-2.0

/// Reads a ``LegacyObject`` from JSON.
struct LegacyReader: LegacyVisitor {
    private let members: [JSONValue.Member]
    /// Whether each member was looked up, by index in `members`.
    private var isKnown: [Bool]
    /// The error for the first member with an unexpected form.
    private(set) var error: DecodingError?
    private let codingPath: [any CodingKey]

    init(_ members: [JSONValue.Member], codingPath: [any CodingKey]) {
        self.members = members
        self.codingPath = codingPath
        isKnown = Array(repeating: false, count: members.count)
    }

    var unknownMembers: UnknownMembers {
        UnknownMembers(zip(members, isKnown).filter { !$1 }.map(\.0))
    }

    /// The value called `name`. Of duplicates the last counts, and null counts as missing.
    private mutating func take(_ name: StaticString) -> JSONValue? {
        var found: JSONValue?
        for (index, member) in members.enumerated() where name == member.name {
            isKnown[index] = true
            found = member.value
        }
        return found == .null ? nil : found
    }

    private mutating func read<Value>(
        _ name: StaticString, _ value: inout Value?, _ expected: String, _ convert: (JSONValue) -> Value?
    ) {
        guard let json = take(name) else { return }
        value = convert(json)
        if value == nil { fail(name, expected) }
    }

    private mutating func fail(_ name: StaticString, _ expected: String) {
        guard error == nil else { return }
        let path = codingPath + [MemberKey(stringValue: "\(name)")]
        error = .dataCorrupted(.init(codingPath: path, debugDescription: "\(name) is not \(expected)."))
    }

    mutating func text(_ name: StaticString, _ value: inout String?) {
        // In version 1 notifications, some identifiers are numbers.
        read(name, &value, "text") { $0.string ?? $0.literal }
    }

    mutating func word<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == String {
        read(name, &value, "text") { $0.string.map(Open.init(rawValue:)) }
    }

    mutating func digits(_ name: StaticString, _ value: inout Int64?) {
        read(name, &value, "a whole number") { $0.looseInteger }
    }

    mutating func digits<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int {
        read(name, &value, "a whole number") { $0.looseInteger.flatMap(Int.init(exactly:)).map(Open.init(rawValue:)) }
    }

    mutating func number(_ name: StaticString, _ value: inout Int64?) { digits(name, &value) }

    mutating func number<Word>(_ name: StaticString, _ value: inout Open<Word>?) where Word.RawValue == Int {
        digits(name, &value)
    }

    mutating func boolText(_ name: StaticString, _ value: inout Bool?) { bool(name, &value) }
    mutating func boolDigit(_ name: StaticString, _ value: inout Bool?) { bool(name, &value) }

    mutating func bool(_ name: StaticString, _ value: inout Bool?) {
        read(name, &value, "true or false") { $0.looseBool }
    }

    mutating func identifierNumber(_ name: StaticString, _ value: inout String?) { text(name, &value) }

    mutating func status(_ name: StaticString, _ value: inout Open<VerifyReceiptStatus>?) {
        read(name, &value, "a whole number") { json in
            if json.string == "OK" { return Open(.valid) }
            return json.looseInteger.flatMap(Int.init(exactly:)).map(Open.init(rawValue:))
        }
    }

    mutating func alias(_ name: StaticString, _ value: inout Bool?) {
        if value == nil { bool(name, &value) }
    }

    mutating func dates(_ names: LegacyDateNames, _ value: inout Timestamp?) {
        let gmt = take(names.gmt)
        let milliseconds = take(names.milliseconds)
        let pacific = take(names.pacific)
        // Only the milliseconds are exact. The Pacific text is ambiguous for one hour a year.
        if let milliseconds {
            value = milliseconds.looseInstant
            if value == nil { fail(names.milliseconds, "a time in milliseconds") }
        } else if let text = gmt ?? pacific {
            // In answers about receipts from before iOS 7 (``TransactionReceiptInfo``), the member for the text may
            // hold milliseconds instead.
            value = text.looseInstant ?? text.string.flatMap(LegacyDate.instant(of:))
            if value == nil { fail(gmt == nil ? names.pacific : names.gmt, "a date") }
        }
    }

    mutating func object<Object: LegacyObject>(_ name: StaticString, _ value: inout Object?) {
        guard let json = take(name) else { return }
        value = object(json, codingPath + [MemberKey(stringValue: "\(name)")])
    }

    mutating func objects<Object: LegacyObject>(_ name: StaticString, _ value: inout [Object]?) {
        guard let json = take(name) else { return }
        guard let elements = json.array else { return fail(name, "an array") }
        let path = codingPath + [MemberKey(stringValue: "\(name)")]
        var objects: [Object] = []
        for (index, element) in elements.enumerated() {
            guard let object: Object = object(element, path + [MemberKey(stringValue: "[\(index)]")]) else { return }
            objects.append(object)
        }
        value = objects
    }

    private mutating func object<Object: LegacyObject>(_ json: JSONValue, _ path: [any CodingKey]) -> Object? {
        do {
            return try Object(json, codingPath: path)
        } catch {
            self.error = self.error ?? error
            return nil
        }
    }

    private struct MemberKey: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

extension JSONValue {
    /// The digits of a number.
    fileprivate var literal: String? {
        guard case .number(let literal) = self else { return nil }
        return literal
    }

    /// The number, or the number in a text.
    fileprivate var looseInteger: Int64? { (string ?? literal).flatMap { Int64($0) } }

    /// The instant, if the value is a number of milliseconds in the years 0 to 9999.
    fileprivate var looseInstant: Timestamp? {
        looseInteger.map(Timestamp.init(milliseconds:)).flatMap { Timestamp.calendar.contains($0) ? $0 : nil }
    }

    /// The boolean, if the value is a boolean, 0 or 1, or the text of one of these.
    fileprivate var looseBool: Bool? {
        if case .bool(let bool) = self { return bool }
        return switch (string ?? literal)?.lowercased() {
        case "true", "1": true
        case "false", "0": false
        default: nil
        }
    }
}

private func == (name: StaticString, text: String) -> Bool {
    name.withUTF8Buffer { $0.elementsEqual(text.utf8) }
}

extension LegacyObject {
    init(_ json: JSONValue, codingPath: [any CodingKey]) throws(DecodingError) {
        guard case .object(let members) = json else {
            throw .typeMismatch(
                [String: JSONValue].self, .init(codingPath: codingPath, debugDescription: "Expected an object."))
        }
        self.init()
        var reader = LegacyReader(members, codingPath: codingPath)
        visit(&reader)
        if let error = reader.error { throw error }
        unknownMembers = reader.unknownMembers
    }

    /// Reads the object from JSON.
    ///
    /// - Throws: `DecodingError` with the name of the first member of an unexpected form.
    public init(_ json: JSONValue) throws(DecodingError) {
        try self.init(json, codingPath: [])
    }

    /// Reads the object from any decoder that can decode a ``JSONValue``.
    public init(from decoder: any Decoder) throws {
        try self.init(JSONValue(from: decoder), codingPath: decoder.codingPath)
    }
}
