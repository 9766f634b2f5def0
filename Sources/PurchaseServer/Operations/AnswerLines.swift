// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Makes an answer readable for people: a line with these members of the answer, or of each of its `items`.
///
/// A text stands alone, a time and a number after the name of their member, and a flag that is true as its name. With
/// `no-` before its name, a flag that is false stands so. With `:` behind its name, a text stands after the name; with
/// words behind the `:`, these words stand for a member that says nothing.
func lines(_ names: String...) -> @Sendable (JSONValue) -> String {
    { answer in
        (answer["items"]?.array ?? [answer]).map { item in
            names.compactMap { name in
                if name.hasPrefix("no-") { return item[String(name.dropFirst(3))] == .bool(false) ? name : nil }
                let member = String(name.prefix { $0 != ":" })
                let words = item[member]?.words(of: member)
                guard member != name else { return words }
                let rest = name.dropFirst(member.count + 1)
                return rest.isEmpty ? words.map { "\(member) \($0)" } : words ?? String(rest)
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}

extension JSONValue {
    /// The words for a member with this value; `nil` if the member says nothing.
    fileprivate func words(of name: String) -> String? {
        switch self {
        case .null, .bool(false): nil
        case .bool(true): name
        case .string(let text): text.isEmpty ? nil : text
        case .number(let number):
            "\(name) \(Self.isTime(name) ? integer.map { Timestamp(milliseconds: $0).iso8601 } ?? number : number)"
        case .array([]): nil
        case .array(let values): values.map { $0.string ?? $0.compactText }.joined(separator: ",")
        case .object: compactText
        }
    }

    /// Whether the member is a time, not a number.
    private static func isTime(_ name: String) -> Bool {
        name.hasSuffix("At") || name.hasSuffix("Since") || ["at", "from", "until", "nextChange"].contains(name)
    }
}
