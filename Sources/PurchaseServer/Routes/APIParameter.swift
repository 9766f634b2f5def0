// SPDX-License-Identifier: Apache-2.0

// The inputs of a route besides its path: parameters and a body.

package import AppStoreModel
import PurchaseLedger

/// A parameter of a path or of a query.
package struct APIParameter: Hashable, Sendable {
    package let name: String
    package let meaning: String
    package let form: TextForm

    init(_ name: String, _ meaning: String, _ form: TextForm = .other) {
        self.name = name
        self.meaning = meaning
        self.form = form
    }

    static let customer = APIParameter("id", "your app's own id for a customer", .customerID)
    static let transaction = APIParameter("id", "a transaction id")
    /// For routes that find a purchase by any of its transactions.
    static let purchase = APIParameter("id", "any transaction id or the original transaction id of a purchase")
    static let subscription = APIParameter("id", "the original transaction id of a subscription")
    static let environment = APIParameter(
        "environment", "`production`, `sandbox`, `xcode` or `localTesting`; production without it")
    /// A filter of events.
    static let eventEnvironment = APIParameter(
        "environment",
        "`production`, `sandbox`, `xcode` or `localTesting`: only events of this environment; all without it")
    /// For routes that can answer about several environments.
    package static let environments = APIParameter(
        "environment", "`production`, `sandbox`, `any`, `xcode` or `localTesting`; see [Environments](#environments)")
}

/// The body that a route reads: a JSON object.
package struct APIBody: Sendable {
    /// The names of the known members; empty if the route passes the body on unchanged.
    package let members: [String]
    /// The forms of texts by their member, also of texts in a list. Texts of other members have ``TextForm/other``.
    package let forms: [String: TextForm]
    /// The greatest length in bytes.
    package let limit: Int

    init(_ members: [String], _ forms: [String: TextForm] = [:], upTo limit: Int) {
        self.members = members
        self.forms = forms
        self.limit = limit
    }

    /// Requires the forms of all texts in a body. A text that is missing is no fault.
    func requireForms(in json: JSONValue) throws(Refusal) {
        for member in json.members ?? [] {
            for text in (member.value.array ?? [member.value]).compactMap(\.string) {
                try (forms[member.name] ?? .other).require(text, in: member.name)
            }
        }
    }
}

extension TextForm {
    /// - Parameter name: The name of the parameter or member.
    func require(_ text: String, in name: String) throws(Refusal) {
        if let fault = fault(in: text) { throw .invalid("\(name): \(fault)") }
    }
}
