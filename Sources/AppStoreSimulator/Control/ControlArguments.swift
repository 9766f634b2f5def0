// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Foundation

/// The arguments of a control command: the parameters in its path and the members of its JSON body.
struct ControlArguments {
    /// The path's parameters in order, without percent-encoding.
    let parameters: [String]
    private let body: JSONValue

    /// - Parameters:
    ///   - body: A JSON object. An empty body stands for an object without members.
    ///   - known: The members that the command has.
    /// - Throws: ``ControlError`` if the body is not a JSON object, or has unknown members.
    init(_ parameters: [String], body: [UInt8], known: [String]) throws(ControlError) {
        self.parameters = parameters
        let isEmpty = body.allSatisfy { [0x20, 0x09, 0x0a, 0x0d].contains($0) }
        do {
            self.body = isEmpty ? .object([]) : try JSONValue(parsing: body)
        } catch {
            throw ControlError(.malformed, "The body is not JSON: \(error.message).")
        }
        guard let members = self.body.members else {
            throw ControlError(.malformed, "The body is not a JSON object such as {\"days\": 1}.")
        }
        guard let unknown = members.first(where: { !known.contains($0.name) }) else { return }
        let list = known.isEmpty ? "takes no members" : "knows \(known.joined(separator: ", "))"
        throw ControlError(.invalid, "\(unknown.name): Unknown member. This command \(list).")
    }

    /// The first parameter of the path.
    var parameter: String { parameters.first ?? "" }

    /// The members of the body.
    var members: [JSONValue.Member] { body.members ?? [] }

    /// Whether a member is present, even if its value is null.
    func has(_ name: String) -> Bool { body[name] != nil }

    /// The text of a member; `nil` if the member is absent or null.
    func text(_ name: String) throws(ControlError) -> String? {
        try value(name).read(as: \.text, else: invalid(name, "a text"))
    }

    func requiredText(_ name: String) throws(ControlError) -> String {
        try text(name).require(
            as: \.self, else: ControlError(.invalid, "\(name) is missing: send {\"\(name)\": \"…\"}."))
    }

    /// The UUID of a member in lower case, as the App Store signs it.
    func uuid(_ name: String) throws(ControlError) -> String? {
        try text(name).read(as: { $0.isUUID ? $0.lowercased() : nil }, else: invalid(name, "a UUID"))
    }

    func flag(_ name: String) throws(ControlError) -> Bool? {
        try value(name).read(as: \.bool, else: invalid(name, "true or false"))
    }

    func integer(_ name: String, in range: ClosedRange<Int64>) throws(ControlError) -> Int64? {
        try value(name).read(
            as: { $0.integer(in: range) },
            else: invalid(name, "a whole number from \(range.lowerBound) to \(range.upperBound)"))
    }

    func number(_ name: String, in range: ClosedRange<Double>) throws(ControlError) -> Double? {
        guard let value = value(name) else { return nil }
        guard case .number(let literal) = value, let number = Double(literal), range.contains(number) else {
            throw invalid(name, "a number from \(Int(range.lowerBound)) to \(Int(range.upperBound))")
        }
        return number
    }

    func texts(_ name: String) throws(ControlError) -> [String] {
        let values = value(name)?.array?.map(\.string) ?? [nil]
        guard !values.isEmpty, !values.contains(nil) else { throw invalid(name, "an array of texts") }
        return values.compactMap(\.self)
    }

    /// The word that is a member's value, regardless of its case; `nil` if the member is absent or null. Any other
    /// value is an error.
    func word<Word: RawRepresentable<String>>(_ name: String, of words: [Word]) throws(ControlError) -> Word? {
        try text(name).read(
            as: { text in words.first { $0.rawValue.lowercased() == text.lowercased() } },
            else: invalid(name, words.map(\.rawValue).joined(separator: ", ")))
    }

    func invalid(_ name: String, _ expected: String) -> ControlError {
        let found = value(name)?.compactText ?? "nothing"
        return ControlError(.invalid, "\(name): Expected \(expected), found \(found.prefix(80)).")
    }

    private func value(_ name: String) -> JSONValue? {
        guard let value = body[name], value != .null else { return nil }
        return value
    }
}

/// The path of a control command. A path is compared with the pattern of a route such as `/customers/{name}/buy`.
struct ControlPath {
    private let segments: [String?]

    /// - Parameter path: The path of the request, percent-encoded and without a query.
    init(_ path: String) {
        segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map {
            String($0).removingPercentEncoding
        }
    }

    /// The parts of the path at the places where the pattern has a name in braces; `nil` if the path does not match the
    /// pattern.
    func parameters(_ pattern: String) -> [String]? {
        let pattern = pattern.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard pattern.count == segments.count else { return nil }
        var parameters: [String] = []
        for (expected, found) in zip(pattern, segments) {
            guard let found, !found.isEmpty else { return nil }
            if expected.hasPrefix("{") {
                parameters.append(found)
            } else if expected != found {
                return nil
            }
        }
        return parameters
    }
}
