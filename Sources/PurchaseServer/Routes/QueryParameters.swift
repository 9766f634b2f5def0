// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The query parameters of a request, each at most once. Unknown parameters are refused: if the server ignored a
/// misspelt filter, the answer would include more than the client expects.
struct QueryParameters: Sendable {
    private var values: [String: String] = [:]

    /// - Parameters:
    ///   - query: The query as sent, such as `after=x&limit=5`.
    ///   - parameters: The parameters that the route accepts.
    /// - Throws: ``Refusal`` 400 if the query has an unknown name, a duplicate name, an escape that is not valid, or a
    ///   value in a form that the parameter does not have.
    init(_ query: String?, allowed parameters: [APIParameter]) throws(Refusal) {
        let allowed = parameters.map(\.name)
        for part in (query ?? "").split(separator: "&") {
            let end = part.firstIndex(of: "=") ?? part.endIndex
            guard let name = part[..<end].percentDecoded,
                let value = part[end...].dropFirst().percentDecoded
            else {
                throw Self.refusal(
                    String(part[..<end]), "has a % without two hexadecimal digits, or is not UTF-8", allowed)
            }
            guard let parameter = parameters.first(where: { $0.name == name }) else {
                throw Self.refusal(name, "is unknown", allowed)
            }
            try parameter.form.require(value, in: name)
            guard values.updateValue(value, forKey: name) == nil else {
                throw Self.refusal(name, "occurs twice", allowed)
            }
        }
    }

    subscript(name: String) -> String? { values[name] }

    /// The value of a parameter: a whole number without a plus sign. `nil` if the request does not name the parameter.
    func number(_ name: String, in range: ClosedRange<Int>) throws(Refusal) -> Int? {
        guard let text = values[name] else { return nil }
        guard text.utf8.first != UInt8(ascii: "+"), let number = Int(text), range.contains(number) else {
            throw .invalid("\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound).")
        }
        return number
    }

    /// The maximum length of a name in an error, in characters.
    private static let shown = 40

    private static func refusal(_ name: String, _ fault: String, _ allowed: [String]) -> Refusal {
        let accepted = allowed.isEmpty ? "none" : allowed.joined(separator: " and ")
        return .invalid("The query parameter “\(name.prefix(shown))” \(fault). This route accepts \(accepted).")
    }
}
