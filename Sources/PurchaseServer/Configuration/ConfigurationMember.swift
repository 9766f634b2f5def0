// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The configuration file, or a member or array element of the file, with its path. Errors name the path and the line.
struct ConfigurationMember {
    private let text: [UInt8]
    private let path: [Step]
    let value: JSONValue

    private enum Step {
        /// A member, and its index in the object; `nil` if the member is missing.
        case member(String, Int?)
        case element(Int)
    }
}

extension ConfigurationMember {
    /// The byte order mark, which some editors write at the beginning of a file. A reader may ignore the mark (RFC 8259
    /// section 8.1).
    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// Parses the whole file.
    init(parsing text: [UInt8]) throws(ConfigurationError) {
        let text = text.starts(with: Self.byteOrderMark) ? Array(text.dropFirst(Self.byteOrderMark.count)) : text
        do {
            self.init(text: text, path: [], value: try JSONValue(parsing: text))
        } catch {
            throw ConfigurationError(text, offset: error.offset, "The file is not JSON: \(error.message).")
        }
    }

    /// The name of the member; empty for an element of an array.
    var name: String {
        guard case .member(let name, _) = path.last else { return "" }
        return name
    }

    /// A member of this object. The value may be omitted if the member is only used for an error.
    func member(_ name: String, _ value: JSONValue = .null) -> ConfigurationMember {
        member(name, value, at: self.value.members?.lastIndex { $0.name == name })
    }

    private func member(_ name: String, _ value: JSONValue, at index: Int?) -> ConfigurationMember {
        ConfigurationMember(text: text, path: path + [.member(name, index)], value: value)
    }
}

// MARK: - Values

extension ConfigurationMember {
    /// A setting as text. Commas separate the elements of an array.
    func setting(_ name: String) throws(ConfigurationError) -> String? {
        guard let found = value[name] else { return nil }
        let member = member(name, found)
        guard let values = found.array else { return try member.scalar() }
        var texts: [String] = []
        for value in values {
            // An element, such as the name of a file, may itself contain a comma, which is escaped here.
            let text = try self.member(name, value).scalar()
            texts.append(text.replacing("\\", with: "\\\\").replacing(",", with: "\\,"))
        }
        return texts.joined(separator: ",")
    }

    private func scalar() throws(ConfigurationError) -> String {
        switch value {
        case .string(let text): return try required(text, .setting)
        case .number(let literal): return literal
        case .bool(let bool): return bool ? "true" : "false"
        case .null: throw error("null is no value: leave the setting out for its default.")
        case .array, .object: throw error("Expected a string, a number, true or false.")
        }
    }

    func string(_ name: String, _ form: TextForm = .setting) throws(ConfigurationError) -> String? {
        let text = try value[name].read(as: \.text, else: member(name).error("Expected a string."))
        return try text.map { (text) throws(ConfigurationError) in try member(name).required(text, form) }
    }

    /// The text, if it has the form.
    func required(_ text: String, _ form: TextForm) throws(ConfigurationError) -> String {
        if let fault = form.fault(in: text) { throw error(fault) }
        return text
    }

    func number(_ name: String, in range: ClosedRange<Int64>) throws(ConfigurationError) -> Int64? {
        try value[name].read(
            as: { $0.integer(in: range) },
            else: member(name).error("Expected a whole number from \(range.lowerBound) to \(range.upperBound)."))
    }

    /// - Parameter message: The error if an element is not a string or is empty.
    func strings(
        _ name: String, _ message: String, _ form: TextForm = .catalogueName
    ) throws(ConfigurationError) -> Set<String> {
        var strings: Set<String> = []
        for element in try array(name) {
            let text = try element.value.text.require(as: \.self, else: element.error(message))
            strings.insert(try element.required(text, form))
        }
        return strings
    }

    func array(_ name: String) throws(ConfigurationError) -> [ConfigurationMember] {
        guard let found = value[name] else { return [] }
        let list = member(name, found)
        guard let elements = found.array else { throw list.error("Expected an array.") }
        return elements.enumerated().map { index, element in
            ConfigurationMember(text: text, path: list.path + [.element(index)], value: element)
        }
    }

    /// A member whose value should be an object. `requireMembers(in:)` on the result throws for any other value.
    func object(_ name: String) throws(ConfigurationError) -> ConfigurationMember? {
        guard let found = value[name] else { return nil }
        return member(name, found)
    }

    func members(_ name: String) throws(ConfigurationError) -> [ConfigurationMember] {
        guard let object = try object(name) else { return [] }
        return try object.distinctMembers().map { object.member($0.name, $0.value) }
    }

    /// - Throws: ``ConfigurationError`` if this value is not an object, or has a member that is not in `known`.
    func requireMembers(in known: Set<String>) throws(ConfigurationError) {
        for found in try distinctMembers() where !known.contains(found.name) {
            throw member(found.name, found.value).error(
                "Unknown setting. The known settings are \(known.sorted().joined(separator: ", ")).")
        }
    }

    /// The members of this object. A duplicate name is an error, because parsers differ about which of the two members
    /// counts.
    private func distinctMembers() throws(ConfigurationError) -> [JSONValue.Member] {
        guard let members = value.members else { throw error("Expected an object.") }
        var names: Set<String> = []
        for (index, found) in members.enumerated() where !names.insert(found.name).inserted {
            throw member(found.name, found.value, at: index).error("It occurs twice.")
        }
        return members
    }
}

// MARK: - Errors

/// An error in a configuration: the setting, and its line in the file.
public struct ConfigurationError: Error, CustomStringConvertible {
    /// The line in the file, counted from 1; `nil` if the error is not in the file.
    public var line: Int?
    /// A sentence for people, beginning with the name of the setting.
    public var message: String

    /// The message, with the line in front if it is known.
    public var description: String { (line.map { "line \($0): " } ?? "") + message }

    init(_ message: String) {
        self.message = message
    }

    fileprivate init(_ text: [UInt8], offset: Int, _ message: String) {
        line = 1 + text.prefix(offset).count { $0 == UInt8(ascii: "\n") }
        self.message = message
    }
}

extension ConfigurationMember {
    /// An error about this value. The path leads to its line step by step. A missing member has the line of its object.
    func error(_ message: String) -> ConfigurationError {
        let offset = path.reduce(0) { offset, step in
            switch step {
            case .member(_, let index): index.map { self.offset(ofItem: $0, from: offset) } ?? offset
            case .element(let index): self.offset(ofItem: index, from: offset)
            }
        }
        let reference = path.reduce(into: "") { reference, step in
            switch step {
            case .member(let given, _):
                // The operator may by mistake have put a database's address, with its password, in the place of a
                // setting's name. The error then hides the text.
                let name = given.mayHavePassword ? "…" : given
                reference += reference.isEmpty ? name : ".\(name)"
            case .element(let index): reference += "[\(index)]"
            }
        }
        return ConfigurationError(text, offset: offset, (reference.isEmpty ? "" : reference + ": ") + message)
    }

    /// The offset of an item in the first array or object that begins at `start` or later. The text is valid JSON, so
    /// counting the brackets and commas outside strings is enough.
    private func offset(ofItem index: Int, from start: Int) -> Int {
        var depth = 0
        var rest = index
        var isString = false
        var isEscaped = false
        for (offset, byte) in text.enumerated().dropFirst(start) {
            defer { isEscaped = byte == UInt8(ascii: "\\") && !isEscaped }
            if depth == 1, rest == 0, !" \t\r\n".utf8.contains(byte) { return offset }
            if byte == UInt8(ascii: "\""), !isEscaped { isString.toggle() }
            guard !isString else { continue }
            switch byte {
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ",") where depth == 1: rest -= 1
            default: break
            }
        }
        return start
    }
}
