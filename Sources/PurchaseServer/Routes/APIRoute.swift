// SPDX-License-Identifier: Apache-2.0

// The description of a route, from which the router and the table in `docs/api.md` are made.

import AppStoreModel
package import HTTPTypes
import Hummingbird
package import PurchaseLedger

/// A route of the HTTP API: what it does, takes and answers, and its handler.
package struct APIRoute: Sendable {
    package let method: HTTPRequest.Method
    /// The path, with a `{name}` for each parameter.
    package let path: String
    /// What the route does, as a clause whose subject is the route.
    package let summary: String
    /// The least role of the API key; `nil` if the route needs no key. See ``Authentication``.
    package let role: APIKey.Role?
    /// The parameters of the path and of the query.
    package let parameters: [APIParameter]
    /// `nil` if the route reads no body.
    package let body: APIBody?
    /// The statuses of answers that are no errors.
    package let statuses: [HTTPResponse.Status]
    /// The type of these answers.
    package let answer: any (Encodable & Sendable).Type
    /// The codes of the route's own errors.
    package let ownErrors: Set<ErrorCode>
    /// Answers the methods that the path does not have; `nil` if they are refused with 405.
    let otherMethods: (@Sendable () -> Response)?
    let handler: @Sendable (Request, BasicRequestContext) async throws -> Response

    init<Body: Encodable & Sendable>(
        _ method: HTTPRequest.Method, _ path: String, _ summary: String, role: APIKey.Role? = nil,
        parameters: [APIParameter] = [], body: APIBody? = nil, statuses: [HTTPResponse.Status] = [.ok],
        errors: Set<ErrorCode> = [], otherMethods: (@Sendable () -> Response)? = nil,
        handler: @escaping @Sendable (Request, BasicRequestContext) async throws -> Answer<Body>
    ) {
        self.method = method
        self.path = path
        self.summary = summary
        self.role = role
        self.parameters = parameters
        self.body = body
        self.statuses = statuses
        answer = Body.self
        ownErrors = errors
        self.otherMethods = otherMethods
        self.handler = { try await handler($0, $1).response }
    }

    /// The codes of all errors that the route may answer.
    package var errors: Set<ErrorCode> {
        var errors = ownErrors.union(ErrorCode.ofAnyRoute)
        if body != nil { errors.formUnion(ErrorCode.ofBodies) }
        if role != nil { errors.formUnion(ErrorCode.ofKeys) }
        if role == .client { errors.formUnion(ErrorCode.ofCustomerTokens) }
        return errors
    }
}

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
    static let subscription = APIParameter("id", "the original transaction id of a subscription")
    static let environment = APIParameter(
        "environment", "`production`, `sandbox`, `xcode` or `localTesting`; production without it")
    /// For routes that can answer about several environments.
    package static let environments = APIParameter(
        "environment", "`production`, `sandbox`, `any`, `xcode` or `localTesting`; see [Environments](#environments)")
}

/// The body that a route reads: a JSON object.
package struct APIBody: Sendable {
    /// The names of the members that the route knows; empty if the body is passed on as it is.
    package let members: [String]
    /// The greatest length in bytes.
    package let limit: Int

    init(_ members: [String], upTo limit: Int) {
        self.members = members
        self.limit = limit
    }
}
