// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The checked values of an operation's fields. A field that the input lacks has no value.
package struct FieldValues: Sendable {
    private var values: [(field: Field, value: JSONValue)] = []

    package init() {}

    package subscript(field: Field) -> JSONValue? {
        values.first { $0.field.name == field.name && $0.field.place == field.place }?.value
    }

    mutating func removeBody() { values.removeAll { $0.field.place == .body } }

    /// The members of the body.
    package var body: JSONValue {
        .object(values.filter { $0.field.place == .body }.map { JSONValue.Member($0.field.name, $0.value) })
    }

    /// The parameters of the query, as texts.
    package var query: [(name: String, value: String)] {
        values.filter { $0.field.place == .query }.map { field, value in
            let texts = value.array?.compactMap(\.string).joined(separator: ",")
            return (field.name, texts ?? value.string ?? value.compactText)
        }
    }

    /// The segments of a path, with the values in the place of their names in braces.
    package func path(_ template: String) -> [String] {
        template.split(separator: "/").map { part in
            let value = values.first { $0.field.place == .path && part == "{\($0.field.name)}" }?.value
            return value?.string ?? String(part)
        }
    }

    /// - Parameter isOption: Whether a fault names the field as the command line does.
    package mutating func set(_ field: Field, to value: JSONValue, isOption: Bool = false) throws(FieldFault) {
        try field.check(value, isOption: isOption)
        guard self[field] == nil else { throw .twice(field.name(isOption: isOption)) }
        values.append((field, value))
    }

    /// Requires the fields that must have a value.
    @inline(never)
    package func require(_ fields: [Field], isOption: Bool = false) throws(FieldFault) {
        for field in fields where field.isRequired && self[field] == nil {
            throw .missing(field.name(isOption: isOption))
        }
    }
}

// MARK: - HTTP

extension FieldValues {
    /// Reads the fields of the path and of the query. An unknown parameter is refused: if the server ignored a misspelt
    /// filter, the answer would include more than the client expects.
    ///
    /// - Parameters:
    ///   - path: Returns a part of the path as it was sent.
    ///   - query: The query as sent, such as `after=x&limit=5`.
    @inline(never)
    init(_ fields: [Field], path: (String) throws -> String, query: String?) throws {
        for part in (query ?? "").split(separator: "&") {
            let end = part.firstIndex(of: "=") ?? part.endIndex
            guard let name = part[..<end].percentDecoded, let text = part[end...].dropFirst().percentDecoded else {
                throw FieldFault.escape(in: "“\(part[..<end].prefix(FieldFault.shown))”")
            }
            let field = try Self.field(name, in: .query, of: fields)
            var value = field.value(ofText: text)
            // Some clients repeat the parameter for each word.
            if case .words = field.form, let index = values.firstIndex(where: { $0.field == field }) {
                value = .array((values.remove(at: index).value.array ?? []) + (value.array ?? []))
            }
            try set(field, to: value)
        }
        for field in fields where field.place == .path {
            let encoded = try path(field.name)
            // RFC 3986 section 2.1. Without decoding, `@` and `%40` would be different, and clients send both.
            guard let text = encoded.percentDecoded else { throw FieldFault.escape(in: field.name(isOption: false)) }
            try set(field, to: .string(text))
        }
    }

    /// Adds the members of a body. An unknown member is refused: the server would otherwise act on an incomplete
    /// request. A member that is `null` counts as absent, unless `null` is a value of the field.
    @inline(never)
    mutating func add(_ body: JSONValue?, _ fields: [Field], isOpen: Bool) throws(FieldFault) {
        guard let members = body?.members else { throw FieldFault("The body", " is not a JSON object.") }
        for member in members where !isOpen || fields.contains(where: { $0.place == .body && $0.name == member.name }) {
            let field = try Self.field(member.name, in: .body, of: fields)
            if member.value != .null || field.isNullable { try set(field, to: member.value) }
        }
        try require(fields)
    }

    private static func field(_ name: String, in place: Field.Place, of fields: [Field]) throws(FieldFault) -> Field {
        let named = fields.filter { $0.name == name && $0.place != .path }
        if let field = named.first(where: { $0.place == place }) { return field }
        let other = place == .body ? "query" : "body"
        guard named.isEmpty else { throw FieldFault("“\(name)”", " belongs in the \(other).") }
        let known = fields.filter { $0.place == place }.map(\.name)
        throw .unknown(name, known: known)
    }
}

// MARK: - The command line

extension FieldValues {
    /// Reads the fields from a command line.
    ///
    /// - Parameter words: Returns the texts that a field was given: `true` or `false` for a flag.
    package init(
        _ fields: [Field], at now: Timestamp, words: (Field) throws -> [String]
    ) throws {
        for field in fields {
            let texts = try words(field)
            if texts.isEmpty, field.name == Field.isNew.name { try set(field, to: .bool(false)) }
            switch field.form {
            case .list where !texts.isEmpty: try set(field, to: .array(texts.map { .string($0) }), isOption: true)
            case .object where !texts.isEmpty: try set(field, to: .object(texts.map(Self.pair)), isOption: true)
            default:
                for text in texts { try set(field, to: field.value(ofWord: text, at: now), isOption: true) }
            }
        }
        try require(fields, isOption: true)
    }

    /// The member of an object for an argument such as `plan=gold`.
    private static func pair(_ text: String) throws(FieldFault) -> JSONValue.Member {
        guard let end = text.firstIndex(of: "=") else {
            throw FieldFault("“\(text.prefix(FieldFault.shown))”", " is not of the form name=value.")
        }
        let value = String(text[text.index(after: end)...])
        return JSONValue.Member(String(text[..<end]), .object([.init("value", value.isEmpty ? .null : .string(value))]))
    }
}

extension Field {
    /// The value of a word on the command line.
    fileprivate func value(ofWord text: String, at now: Timestamp) -> JSONValue {
        guard form == .time else { return isNullable && text == "all" ? .null : value(ofText: text) }
        let time = Timestamp(iso8601: text) ?? Timestamp(iso8601: text + "T00:00:00Z") ?? time(text, from: now)
        return time.map { .number("\($0.milliseconds)") } ?? .string(text)
    }

    /// The midnight in UTC some days, such as `30d`, after the next or before the last one: the same all day.
    private func time(_ text: String, from now: Timestamp) -> Timestamp? {
        guard text.hasSuffix("d"), let days = Int64(text.dropLast()), (0...100_000).contains(days) else { return nil }
        let today = now.milliseconds / 86_400_000
        return Timestamp(milliseconds: (isPast ? today - days : today + 1 + days) * 86_400_000)
    }
}
