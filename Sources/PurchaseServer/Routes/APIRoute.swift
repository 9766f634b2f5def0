// SPDX-License-Identifier: Apache-2.0

// The description of a route. The router and the table in `docs/api.md` are made from these descriptions.

import AppStoreModel
package import HTTPTypes
import Hummingbird
package import PurchaseLedger

/// A route of the HTTP API: its purpose, its inputs, its answers and its handler.
package struct APIRoute: Sendable {
    package let method: HTTPRequest.Method
    /// The path, with a `{name}` for each parameter.
    package let path: String
    /// The purpose of the route, as a predicate whose subject is the route, such as `returns a transaction`.
    package let summary: String
    /// The minimum role of the API key; `nil` if the route needs no key. Only ``Authentication`` can make a route with
    /// a role, so every such route authenticates its requests.
    package fileprivate(set) var role: APIKey.Role?
    /// The parameters of the path and of the query.
    package let parameters: [APIParameter]
    /// The request body; `nil` if the route reads no body.
    package let body: APIBody?
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

    init<Body: Encodable & Sendable>(
        _ method: HTTPRequest.Method, _ path: String, _ summary: String, parameters: [APIParameter] = [],
        body: APIBody? = nil, statuses: [HTTPResponse.Status] = [.ok],
        errors: Set<ErrorCode> = [], otherMethods: (@Sendable () -> Response)? = nil,
        handler: @escaping @Sendable (Request, BasicRequestContext) async throws -> Answer<Body>
    ) {
        self.method = method
        self.path = path
        self.summary = summary
        self.parameters = parameters
        self.body = body
        self.statuses = statuses
        answer = Body.self
        ownErrors = errors
        self.otherMethods = otherMethods
        self.handler = { try await handler($0, $1).response }
    }

    /// The codes of all errors that the route may return.
    package var errors: Set<ErrorCode> {
        var errors = ownErrors.union(ErrorCode.ofAnyRoute)
        if body != nil { errors.formUnion(ErrorCode.ofBodies) }
        if role != nil { errors.formUnion(ErrorCode.ofKeys) }
        if role == .client { errors.formUnion(ErrorCode.ofCustomerTokens) }
        return errors
    }
}

extension Authentication {
    /// Creates a route that authenticates each request before it calls the handler.
    ///
    /// - Parameters:
    ///   - role: The minimum role of the key. A server key has all rights of a client key.
    ///   - subject: The subject of the error message for status 404. The server sends 404 if `handler` returns `nil`.
    func route<Body: Encodable & Sendable>(
        _ method: HTTPRequest.Method, _ path: String, _ summary: String, role: APIKey.Role,
        parameters: [APIParameter], body: APIBody? = nil, statuses: [HTTPResponse.Status] = [.ok],
        unknown subject: String? = nil, errors: Set<ErrorCode> = [],
        handler: @escaping @Sendable (AuthenticatedRequest) async throws -> Answer<Body>?
    ) -> APIRoute {
        let inPath = parameters.filter { path.contains("{\($0.name)}") }
        let query = parameters.filter { !path.contains("{\($0.name)}") }
        var route = APIRoute(
            method, path, summary, parameters: parameters, body: body, statuses: statuses,
            errors: subject == nil ? errors : errors.union([.notFound])
        ) { request, context in
            let admitted = try await admit(request, context, needs: role, inPath, query: query, body)
            guard let answer = try await handler(admitted) else { throw Refusal.notFound(subject ?? "It") }
            return answer
        }
        route.role = role
        return route
    }
}
