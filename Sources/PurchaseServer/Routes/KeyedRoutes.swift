// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import Foundation
import HTTPTypes
import Hummingbird
import PurchaseLedger

/// What the routes of our own API have in common: the API key, the scope that it is for, and the proof of the customer.
struct KeyedRoutes: Sendable {
    let service: LedgerService
    let bodies: BodyIntake
    let now: @Sendable () -> Timestamp

    /// A handler that answers the holder of a key, and 404 if there is nothing to answer.
    ///
    /// - Parameters:
    ///   - role: What the key must be allowed to do.
    ///   - what: What is not known if `answer` returns `nil`.
    func handler(
        needs role: APIKey.Role, _ what: String,
        _ answer: @escaping @Sendable (KeyedRequest) async throws -> (some Encodable & Sendable)?
    ) -> @Sendable (Request, BasicRequestContext) async throws -> Response {
        { request, context in
            let keyed = try await admit(request, context, needs: role)
            guard let body = try await answer(keyed) else { throw Refusal.notFound(what) }
            return try Response(body)
        }
    }

    private func admit(
        _ request: Request, _ context: BasicRequestContext, needs role: APIKey.Role
    ) async throws -> KeyedRequest {
        let now = now()
        let key = try await key(of: request, at: now)
        guard key.role == .server || role == .client else { throw Refusal.notServer }
        let keyed = KeyedRequest(
            routes: self, request: request, parameters: context.parameters, role: key.role,
            scope: LedgerScope(bundleId: key.bundleId, environment: try request.environment), now: now)
        // Here and for all routes, so that none can be without.
        if key.role == .client { try keyed.requireProof() }
        return keyed
    }

    private func key(of request: Request, at now: Timestamp) async throws -> APIKey {
        let header = request.headers[.authorization] ?? ""
        guard header.prefix(7).lowercased() == "bearer ", let (id, secret) = APIKey.parts(of: header.dropFirst(7)),
            let key = try await service.keys.key(id, in: service.ledger, at: now), key.admits(secret)
        else { throw Refusal.noKey }
        RequestNotes.add { $0.key = key.id }
        return key
    }
}

/// A request by the holder of an API key.
struct KeyedRequest: Sendable {
    fileprivate let routes: KeyedRoutes
    let request: Request
    fileprivate let parameters: Parameters
    /// What the key may do.
    let role: APIKey.Role
    /// What the key is for, and the environment that the request names.
    let scope: LedgerScope
    private(set) var now: Timestamp

    fileprivate init(
        routes: KeyedRoutes, request: Request, parameters: Parameters, role: APIKey.Role, scope: LedgerScope,
        now: Timestamp
    ) {
        (self.routes, self.request, self.parameters) = (routes, request, parameters)
        (self.role, self.scope, self.now) = (role, scope, now)
    }

    var ledger: Ledger { routes.service.ledger }

    /// For the scope of the request alone.
    var verifier: AppStoreVerifier { routes.service.verifier.only(scope) }

    /// Reads the body and does what it asks for. It counts from when all of it is here, which may be long after its head.
    func withBody<Answer: Sendable>(
        upTo limit: Int, _ handle: @Sendable (KeyedRequest, [UInt8]) async throws -> Answer
    ) async throws -> Answer {
        try await routes.bodies.withBody(of: request, upTo: limit) { body in
            var keyed = self
            keyed.now = routes.now()
            return try await handle(keyed, body)
        }
    }

    /// A part of the path, without percent encoding (RFC 3986 section 2.1): whether a client encodes an `@` must not matter.
    func parameter(_ name: String) throws -> String {
        let encoded = try parameters.require(name)
        guard encoded.utf8.contains(UInt8(ascii: "%")) else { return encoded }
        guard let text = encoded.removingPercentEncoding else {
            throw Refusal.invalid("The path has a % that is followed by something else than two hexadecimal digits.")
        }
        return text
    }

    /// The longest id of a customer, in bytes: any identifier that apps have.
    static let customerIdLimit = 256

    /// The customer in the path.
    var customerId: String {
        get throws {
            let id = try parameter("id")
            guard !id.isEmpty, id.utf8.count <= Self.customerIdLimit else {
                throw Refusal.invalid("A customer's id has 1 to \(Self.customerIdLimit) bytes.")
            }
            return id
        }
    }

    /// Accepts what a client key asks only with proof of the customer, if the app asks for it.
    fileprivate func requireProof() throws {
        let customer = try customerId
        try routes.service.customerProofs[scope.bundleId]?.check(
            HTTPField.Name(Refusal.tokenHeader).flatMap { request.headers[$0] }, for: customer, of: scope.bundleId,
            at: now)
    }
}

extension Request {
    /// The environment that it names; production if it names none.
    fileprivate var environment: AppStoreModel.Environment {
        get throws {
            let name = uri.queryParameters["environment"].map(String.init) ?? Environment.production.rawValue
            let environment = Environment.allCases.first { $0.rawValue.lowercased() == name.lowercased() }
            guard let environment else {
                throw Refusal.invalid("environment is production, sandbox, xcode or localTesting.")
            }
            return environment
        }
    }
}

extension Response {
    init(_ body: some Encodable, _ status: HTTPResponse.Status = .ok) throws {
        self.init(status, json: try JSONWriter.bytes(encoding: body))
    }

    init(_ status: HTTPResponse.Status = .ok, json: [UInt8]) {
        self.init(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }
}
