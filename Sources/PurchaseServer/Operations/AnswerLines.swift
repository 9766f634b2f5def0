// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// Makes an answer readable for people: a line with these members of the answer, or of each of its `items`.
///
/// A text stands alone, a time and a number after the name of their member, and a flag that is true as its name. With
/// `no-` before its name, a flag that is false stands so.
func lines(_ names: String...) -> @Sendable (JSONValue) -> String {
    { answer in
        (answer["items"]?.array ?? [answer]).map { item in
            names.compactMap { name in
                guard name.hasPrefix("no-") else { return item[name]?.words(of: name) }
                return item[String(name.dropFirst(3))] == .bool(false) ? name : nil
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}

extension JSONValue {
    /// No number of the API but a time has 12 digits.
    private static let firstTime = 100_000_000_000

    /// The words for a member with this value; `nil` if the member says nothing.
    fileprivate func words(of name: String) -> String? {
        switch self {
        case .null, .bool(false): nil
        case .bool(true): name
        case .string(let text): text.isEmpty ? nil : text
        case .number(let number):
            integer.flatMap { $0 < Self.firstTime ? nil : "\(name) \(Timestamp(milliseconds: $0).iso8601)" }
                ?? "\(name) \(number)"
        case .array([]): nil
        case .array(let values): values.map { $0.string ?? $0.compactText }.joined(separator: ",")
        case .object: compactText
        }
    }
}
