// SPDX-License-Identifier: Apache-2.0

/// The form of a text that a client, a backend or a configuration chooses: its length and its characters.
///
/// No form allows control characters, noncharacters or halves of surrogate pairs (RFC 9839), nor marks that change the
/// direction of a text. JSON parsers and databases refuse some of them, such as PostgreSQL all texts with U+0000, and
/// a program that stores published texts would stop at the first.
package struct TextForm: Hashable, Sendable {
    package enum Characters: Hashable, Sendable {
        /// All characters of a text on one line.
        case line
        /// Also tabs and line ends.
        case lines
        /// The letters and digits of ASCII, and these characters.
        case letters(String)
        /// These characters, with their name in sentences.
        case only(String, String)
    }

    package enum Unit: String, Sendable {
        case bytes
        /// Unicode scalars.
        case characters
    }

    /// The subject of ``rule``, such as `A bundle id`.
    package let name: String
    /// A text may be blank only if it may be empty.
    package let length: ClosedRange<Int>
    package let unit: Unit
    package let characters: Characters

    package init(
        _ name: String, _ length: ClosedRange<Int>, _ unit: Unit = .bytes, _ characters: Characters = .line
    ) {
        self.name = name
        self.length = length
        self.unit = unit
        self.characters = characters
    }

    /// The length, such as `1 to 256`.
    package var size: String {
        if length.lowerBound == 0 { return "at most \(length.upperBound)" }
        return length.count == 1 ? "\(length.lowerBound)" : "\(length.lowerBound) to \(length.upperBound)"
    }

    /// The form as a sentence.
    package var rule: String {
        switch characters {
        case .line: "\(name) has \(size) \(unit.rawValue) on one line, and no direction marks or control characters."
        case .lines:
            "\(name) has \(size) \(unit.rawValue), and no direction marks or control characters except tabs and line "
                + "ends."
        case .letters(let others): "\(name) has \(size) letters (A to Z, a to z), digits and characters of “\(others)”."
        case .only(_, let characters): "\(name) has \(size) \(characters)."
        }
    }

    package func allows(_ text: String) -> Bool { fault(in: text) == nil }

    /// The reason why a text is refused, with the position of a wrong character, in sentences; `nil` if it is allowed.
    package func fault(in text: String) -> String? {
        let scalars = text.unicodeScalars
        if let wrong = scalars.firstIndex(where: { !characters.allow($0) }) {
            let code = LoneSurrogate.unit(at: scalars[wrong...]) ?? scalars[wrong].value
            let digits = String(code, radix: 16, uppercase: true)
            let padding = String(repeating: "0", count: max(0, 4 - digits.count))
            return "U+\(padding)\(digits) at position \(scalars[...wrong].count) is not allowed. \(rule)"
        }
        guard length.lowerBound == 0 || !text.allSatisfy(\.isWhitespace) else { return "The text is blank. \(rule)" }
        let count = unit == .bytes ? text.utf8.count : scalars.count
        return length.contains(count) ? nil : "The text has \(count) \(unit.rawValue). \(rule)"
    }
}

extension TextForm.Characters {
    func allow(_ scalar: Unicode.Scalar) -> Bool {
        switch self {
        case .line: !scalar.isRefused
        case .lines: !scalar.isRefused || "\t\n\r".unicodeScalars.contains(scalar)
        case .letters(let others):
            "0"..."9" ~= scalar || "A"..."Z" ~= scalar || "a"..."z" ~= scalar || others.unicodeScalars.contains(scalar)
        case .only(let characters, _): characters.unicodeScalars.contains(scalar)
        }
    }
}

extension Unicode.Scalar {
    /// Whether no text on one line may have the character. In memory, the mark of a ``LoneSurrogate`` is such a
    /// character.
    fileprivate var isRefused: Bool {
        // Most texts are ASCII, which needs no search in Unicode's tables.
        guard value > 0x7e else { return value < 0x20 }
        let isSeparator = [.control, .lineSeparator, .paragraphSeparator].contains(properties.generalCategory)
        return isSeparator || properties.isBidiControl || properties.isNoncharacterCodePoint
    }
}

// MARK: - Publication

extension JSONWriter {
    /// Encodes an answer or an event, with U+FFFD in place of each character that no ``TextForm`` allows. Documents
    /// signed by Apple may have any characters.
    package static func bytes(publishing value: some Encodable) throws -> [UInt8] {
        let json = try bytes(encoding: value)
        guard needsReplacements(json) else { return json }
        var writer = JSONWriter(reservingCapacity: json.count)
        writer.value(try JSONValue(written: json).published)
        return writer.bytes
    }

    /// Whether JSON may have a refused character. No stranger can choose such a text, so that strangers cannot make
    /// answers cost the memory of a parsed document.
    private static func needsReplacements(_ json: [UInt8]) -> Bool {
        let plain = json.withUnsafeBytes { bytes in
            bytes.firstIndex(from: 0, { $0.beyondASCII | $0.equal(to: UInt8(ascii: "\\")) }) {
                $0 > 0x7e || $0 == UInt8(ascii: "\\")
            }
        }
        guard plain < json.count else { return false }
        var isEscaped = false
        for scalar in String(decoding: json, as: UTF8.self).unicodeScalars {
            // Controls and halves of surrogate pairs are written as \u….
            guard isEscaped ? scalar != "u" : TextForm.Characters.lines.allow(scalar) else { return true }
            isEscaped = scalar == "\\" && !isEscaped
        }
        return false
    }
}

extension JSONValue {
    fileprivate var published: JSONValue {
        switch self {
        case .null, .bool, .number: self
        case .string(let text): .string(text.published)
        case .array(let elements): .array(elements.map(\.published))
        case .object(let members): .object(members.map { Member($0.name.published, $0.value.published) })
        }
    }
}

extension String {
    fileprivate var published: String {
        let characters = TextForm.Characters.lines
        guard !unicodeScalars.allSatisfy(characters.allow) else { return self }
        var scalars = String.UnicodeScalarView()
        var rest = Substring(self).unicodeScalars
        while let scalar = rest.popFirst() {
            scalars.append(characters.allow(scalar) ? scalar : "\u{fffd}")
            // Two scalars in memory stand for one character of the document.
            if scalar.value == LoneSurrogate.markValue { rest = rest.dropFirst() }
        }
        return String(scalars)
    }
}
