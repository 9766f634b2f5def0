// SPDX-License-Identifier: Apache-2.0

// JSON in the layout that people write.

import AppStoreModel

extension JSONValue {
    /// The document for people who edit it. Below the outermost level, an object or array that fits on a line takes one
    /// line. Any other object or array has a line per member.
    var indentedText: String { text(indentedBy: 0) }

    /// The maximum length of a line in characters.
    private static let width = 100

    private func text(indentedBy depth: Int) -> String {
        let line = lineText
        let inner = String(repeating: " ", count: depth + 4)
        guard depth == 0 || depth + line.count > Self.width else { return line }
        func block(_ open: String, _ lines: [String], _ close: String) -> String {
            let text = lines.map { inner + $0 }.joined(separator: ",\n")
            return "\(open)\n\(text)\n\(String(repeating: " ", count: depth))\(close)"
        }
        return switch self {
        case .object(let members) where !members.isEmpty:
            block("{", members.map { "\(Self.quoted($0.name)): \($0.value.text(indentedBy: depth + 4))" }, "}")
        case .array(let elements) where !elements.isEmpty:
            block("[", elements.map { $0.text(indentedBy: depth + 4) }, "]")
        default: line
        }
    }

    private var lineText: String {
        switch self {
        case .object(let members):
            "{" + members.map { "\(Self.quoted($0.name)): \($0.value.lineText)" }.joined(separator: ", ") + "}"
        case .array(let elements): "[" + elements.map(\.lineText).joined(separator: ", ") + "]"
        default: compactText
        }
    }

    private static func quoted(_ name: String) -> String { JSONValue.string(name).compactText }
}
