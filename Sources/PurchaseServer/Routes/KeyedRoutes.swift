// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import HTTPTypes
import Hummingbird
import PurchaseLedger
import Reconciliation

/// Authenticates requests to the routes under `/v1`: by API key, and for client keys also by customer token if the app
/// requires one.
struct KeyedRoutes: Sendable {
    let service: LedgerService
    let bodies: BodyIntake
    let now: @Sendable () -> Timestamp

    /// A handler that authenticates a request, then encodes the result of `answer`.
    ///
    /// - Parameters:
    ///   - role: The role that the key must have. A server key may do all that a client key may.
    ///   - what: The subject of the error message for status 404, which is sent if `answer` returns `nil`.
    ///   - parameters: The names of the query parameters that the route accepts.
    func handler(
        needs role: APIKey.Role, _ what: String, parameters: [String] = ["environment"],
        _ answer: @escaping @Sendable (KeyedRequest) async throws -> (some Encodable & Sendable)?
    ) -> @Sendable (Request, BasicRequestContext) async throws -> Response {
        handler(needs: role, parameters: parameters) { keyed in
            guard let body = try await answer(keyed) else { throw Refusal.notFound(what) }
            return try Response(body)
        }
    }

    /// A handler that authenticates a request, then answers it.
    func handler(
        needs role: APIKey.Role, parameters: [String] = ["environment"],
        _ answer: @escaping @Sendable (KeyedRequest) async throws -> Response
    ) -> @Sendable (Request, BasicRequestContext) async throws -> Response {
        { request, context in try await answer(admit(request, context, needs: role, parameters)) }
    }

    private func admit(
        _ request: Request, _ context: BasicRequestContext, needs role: APIKey.Role, _ parameters: [String]
    ) async throws -> KeyedRequest {
        let now = now()
        let key = try await key(of: request, at: now)
        guard key.role == .server || role == .client else { throw Refusal.notServer }
        let query = try QueryParameters(request.uri.query, allowed: parameters)
        let keyed = KeyedRequest(
            routes: self, request: request, parameters: context.parameters, query: query, role: key.role,
            scope: LedgerScope(bundleId: key.bundleId, environment: try query.environment), now: now)
        // Checked here, for all routes, so that no route can omit it.
        if key.role == .client { try keyed.requireProof() }
        return keyed
    }

    private func key(of request: Request, at now: Timestamp) async throws -> APIKey {
        guard let header = request.headers[.authorization] else { throw Refusal.noKey }
        // One or more spaces separate the scheme from the key (RFC 9110 section 11.4).
        guard header.prefix(7).lowercased() == "bearer ",
            let (id, secret) = APIKey.parts(of: header.dropFirst(7).drop { $0 == " " }),
            let key = try await service.keys.key(id, in: service.ledger, at: now), key.admits(secret)
        else { throw Refusal.invalidKey }
        RequestNotes.add { $0.key = key.id }
        guard service.verifier.apps.contain(key.bundleId) else { throw Refusal.keyOfUnknownApp }
        return key
    }
}

/// An authenticated request.
struct KeyedRequest: Sendable {
    fileprivate let routes: KeyedRoutes
    let request: Request
    fileprivate let parameters: Parameters
    let query: QueryParameters
    /// The role of the key.
    let role: APIKey.Role
    /// The app of the key, and the environment of the request.
    let scope: LedgerScope
    /// When the request arrived: its head, or in ``withBody(upTo:_:)`` its whole body.
    private(set) var now: Timestamp

    var ledger: Ledger { routes.service.ledger }

    /// The catalogue of the app.
    var catalogue: Catalogue { ledger.rules.catalogue(scope) }

    /// Asks the App Store about a customer's stale subscriptions, if the app has a key.
    ///
    /// - Returns: Whether the customer should be read again.
    func refresh(_ holdings: Holdings?) async -> Bool {
        await routes.service.questions?.refresh(holdings, in: scope) ?? false
    }

    /// Asks the App Store about the app of the key in the request's environment.
    ///
    /// - Throws: ``Refusal`` if the app has no In-App Purchase key, or the environment no App Store.
    func reconciler() throws(Refusal) -> Reconciler {
        guard let questions = routes.service.questions, questions.knows(scope.bundleId) else { throw .noSigningKey }
        guard let reconciler = questions.reconcilers[scope] else {
            throw .invalid("The server does not ask the App Store about the environment \(scope.environment.rawValue).")
        }
        return reconciler
    }

    /// Accepts documents of the request's scope only.
    var verifier: AppStoreVerifier { routes.service.verifier.only(scope) }

    /// Reads the body, then handles the request as of the time at which the whole body arrived.
    func withBody<Answer: Sendable>(
        upTo limit: Int, _ handle: @Sendable (KeyedRequest, [UInt8]) async throws -> Answer
    ) async throws -> Answer {
        try await routes.bodies.withBody(of: request, upTo: limit) { body in
            var keyed = self
            keyed.now = routes.now()
            return try await handle(keyed, body)
        }
    }

    /// A parameter of the path, with its percent encoding removed (RFC 3986 section 2.1), since clients differ about
    /// encoding `@`.
    func parameter(_ name: String) throws -> String {
        let encoded = try parameters.require(name)
        guard encoded.utf8.contains(UInt8(ascii: "%")) else { return encoded }
        guard let text = encoded.removingPercentEncoding else {
            throw Refusal.invalid("The path has a % without two hexadecimal digits, or is not UTF-8.")
        }
        return text
    }

    /// The customer id in the path.
    var customerId: String {
        get throws {
            let id = try parameter("id")
            guard !id.isEmpty, id.utf8.count <= ServerBounds.customerID else {
                throw Refusal.invalid("A customer's id has 1 to \(ServerBounds.customerID) bytes.")
            }
            return id
        }
    }

    /// Checks the customer token of a request with a client key, if the app requires one.
    fileprivate func requireProof() throws {
        let customer = try customerId
        try routes.service.apps[scope.bundleId]?.customerProof?.check(
            HTTPField.Name(Refusal.tokenHeader).flatMap { request.headers[$0] }, for: customer, of: scope.bundleId,
            at: now)
    }
}

extension QueryParameters {
    /// The environment; production if there is none.
    fileprivate var environment: AppStoreModel.Environment {
        get throws(Refusal) {
            guard let name = self["environment"] else { return .production }
            guard let environment = AppStoreModel.Environment(named: name) else {
                throw .invalid("environment must be production, sandbox, xcode or localTesting.")
            }
            return environment
        }
    }
}

extension Response {
    /// Encodes `body` as JSON.
    init(_ body: some Encodable, _ status: HTTPResponse.Status = .ok) throws {
        self.init(status, json: try JSONWriter.bytes(encoding: body))
    }

    /// Sends JSON that is encoded already.
    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }
}
