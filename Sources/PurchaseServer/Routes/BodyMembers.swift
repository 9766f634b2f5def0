// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The members of a body. A member with an unknown name is refused: the server would otherwise ignore a misspelt member
/// and act on an incomplete request.
struct BodyMembers {
    let json: JSONValue

    /// - Parameter known: The route's description of its body.
    init(parsing body: [UInt8], known: APIBody) throws(Refusal) {
        guard let json = JSONValue(readable: body), let members = json.members else {
            throw .invalid("The body is not a JSON object.")
        }
        guard members.allSatisfy({ known.members.contains($0.name) }), Set(members.map(\.name)).count == members.count
        else {
            throw .invalid(
                "The body may have \(known.members.sorted().joined(separator: ", ")), each once, and no other members.")
        }
        try known.requireForms(in: json)
        self.json = json
    }

    /// - Returns: `nil` if the member is missing.
    func text(_ name: String) throws(Refusal) -> String? {
        try json[name].read(as: \.text, else: Refusal.invalid("\(name) is not a string, or is empty."))
    }

    /// - Returns: `nil` if the member is missing.
    func flag(_ name: String) throws(Refusal) -> Bool? {
        try json[name].read(as: \.bool, else: Refusal.invalid("\(name) is neither true nor false."))
    }

    /// A time in milliseconds since 1970.
    ///
    /// - Returns: `nil` if the member is missing or `null`.
    func time(_ name: String) throws(Refusal) -> Timestamp? {
        guard let value = json[name], value != .null else { return nil }
        guard let time = value.integer, time >= 0 else {
            throw .invalid("\(name) is not a time in whole milliseconds since 1970.")
        }
        return Timestamp(milliseconds: time)
    }

    /// A word from Apple's vocabulary.
    ///
    /// - Returns: `nil` if the member is missing.
    func word<Word: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, of words: Word.Type
    ) throws(Refusal) -> Open<Word>? {
        try text(name).read(
            as: { Word(rawValue: $0).map { Open($0) } }, else: Refusal.invalid("\(name) is not one of \(words.list)."))
    }
}
