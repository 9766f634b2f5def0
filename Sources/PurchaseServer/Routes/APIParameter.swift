// SPDX-License-Identifier: Apache-2.0

// The inputs of a route besides its path: parameters and a body.

/// A parameter of a path or of a query.
package struct APIParameter: Hashable, Sendable {
    package let name: String
    package let meaning: String

    init(_ name: String, _ meaning: String) {
        self.name = name
        self.meaning = meaning
    }

    static let customer = APIParameter("id", "your app's own id for a customer")
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
    /// The greatest length in bytes.
    package let limit: Int

    init(_ members: [String], upTo limit: Int) {
        self.members = members
        self.limit = limit
    }
}
