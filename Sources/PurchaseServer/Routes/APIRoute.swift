// SPDX-License-Identifier: Apache-2.0

// The description of a route. The router, `docs/openapi.json` and the table in `docs/api.md` are made from it.

import AppStoreModel
package import HTTPTypes
import Hummingbird
import PurchaseLedger

/// A route of the HTTP API: its purpose, its inputs, its answers and its handler.
package struct APIRoute: Sendable {
    package let method: HTTPRequest.Method
    /// The path, with a `{name}` for each parameter.
    package let path: String
    /// The purpose of the route, as a predicate whose subject is the route, such as `returns a transaction`.
    package let summary: String
    /// The roles whose keys may call the route; empty if the route needs no key. Only ``Authentication`` can make a
    /// route with roles, so every such route authenticates its requests.
    package private(set) var roles: Roles = []
    package let fields: [Field]
    /// The greatest length of a body in bytes; `nil` if a body has no members.
    package let bodyLimit: Int?
    /// The statuses of successful answers.
    package let statuses: [HTTPResponse.Status]
    /// The type of the bodies of successful answers.
    package let answer: any (Encodable & Sendable).Type
    /// The codes of the route's own errors.
    package let ownErrors: Set<ErrorCode>
    /// Answers requests with a method that the path does not support, except OPTIONS and TRACE; `nil` if the server
    /// refuses such requests with 405.
    let otherMethods: (@Sendable () -> Response)?
    let handler: @Sendable (Request, BasicRequestContext) async throws -> Response

    /// A route of Apple's or for health checks.
    init<Body: Encodable & Sendable>(
        _ method: HTTPRequest.Method, _ path: String, _ summary: String, members: [String] = [],
        bodyLimit: Int? = nil, statuses: [HTTPResponse.Status] = [.ok],
        errors: Set<ErrorCode> = [], otherMethods: (@Sendable () -> Response)? = nil,
        handler: @escaping @Sendable (Request, BasicRequestContext) async throws -> Answer<Body>
    ) {
        self.method = method
        self.path = path
        self.summary = summary
        fields = members.map { Field($0, "", .document) }
        self.bodyLimit = bodyLimit
        self.statuses = statuses
        answer = Body.self
        ownErrors = errors
        self.otherMethods = otherMethods
        self.handler = { try await handler($0, $1).reply.response }
    }

    /// A route whose answer is not encoded for each request.
    init(
        _ method: HTTPRequest.Method, _ path: String, _ summary: String, answer: any (Encodable & Sendable).Type,
        statuses: [HTTPResponse.Status], handler: @escaping @Sendable (Request) -> Response
    ) {
        self.method = method
        self.path = path
        self.summary = summary
        fields = []
        bodyLimit = nil
        self.statuses = statuses
        self.answer = answer
        ownErrors = []
        otherMethods = nil
        self.handler = { request, _ in handler(request) }
    }

    fileprivate init(
        _ operation: Operation,
        handler: @escaping @Sendable (Request, BasicRequestContext) async throws -> Response
    ) {
        method = operation.method
        path = operation.path
        summary = operation.summary
        roles = operation.roles
        fields = operation.fields
        bodyLimit = operation.bodyLimit
        statuses = operation.statuses
        answer = operation.answer
        ownErrors = operation.errors
        otherMethods = nil
        self.handler = handler
    }

    /// The codes of all errors that the route may return.
    package var errors: Set<ErrorCode> {
        var errors = ownErrors.union(ErrorCode.ofAnyRoute)
        // A DELETE reads its body too, and refuses members.
        if bodyLimit != nil || method == .delete { errors.formUnion(ErrorCode.ofBodies) }
        if !roles.isEmpty { errors.formUnion(ErrorCode.ofKeys) }
        if !roles.isDisjoint(with: .apps), fields.contains(.customer) { errors.formUnion(ErrorCode.ofCustomerTokens) }
        return errors
    }
}

extension Authentication {
    /// The route of an operation, which authenticates each request.
    func route(_ operation: Operation) -> APIRoute {
        APIRoute(operation) { request, context in
            let admitted = try await admit(request, context, operation.roles, operation.fields)
            return try await operation.reply(to: admitted).response
        }
    }
}
