// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import HTTPTypes
import Hummingbird
import PurchaseLedger

/// The routes by which a backend gives entitlements to customers without a purchase.
struct GrantRoutes: Sendable {
    let authentication: Authentication

    /// The maximum length of a body in bytes: all members at their greatest lengths, with every character escaped.
    private static let bodyLimit = 8192

    private static let grant = APIBody(
        ["id", "entitlement", "from", "until", "why", "by"],
        ["id": .grantID, "entitlement": .catalogueName, "why": .why, "by": .author], upTo: bodyLimit)
    private static let end = APIBody(["by"], ["by": .author], upTo: bodyLimit)

    var routes: [APIRoute] {
        let path = "/v1/customers/{id}/grants"
        return [
            authentication.route(
                .post, path, "gives a customer an entitlement, once for each `id`", role: .server,
                parameters: [.customer, .environment], body: Self.grant, statuses: [.created, .ok],
                errors: [.unknownEntitlement, .otherGrant, .tooManyGrants]
            ) { request in try await request.withBody { try await make($1, $0) } },
            authentication.route(
                .get, path, "returns the grants of a customer in all environments", role: .server,
                parameters: [.customer]
            ) { try await Answer(grants($0)) },
            authentication.route(
                .post, path + "/{grant}/end", "ends a grant", role: .server,
                parameters: [.customer, .init("grant", "the id of a grant of the customer", .grantID)], body: Self.end,
                unknown: "The grant"
            ) { request in try await request.withBody { try await Answer(end($1, $0)) } },
        ]
    }

    private func make(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> Answer<GrantBody> {
        let id = try request.customerId
        try request.requireRecorded()
        let members = try BodyMembers(parsing: body, known: Self.grant)
        let grant = try GrantRequest(members, request)
        try request.requireEntitlement(grant.entitlement)
        let outcome = try await request.ledger.make(
            grant, forCustomer: id, of: request.scope.bundleId, at: request.now)
        switch outcome {
        case .made(let grant): return try Answer(GrantBody(grant, at: request.now), .created)
        case .known(let grant): return try Answer(GrantBody(grant, at: request.now))
        case .refused(let refusal): throw Refusal(refusal)
        }
    }

    private func grants(_ request: AuthenticatedRequest) async throws -> GrantListBody {
        let grants = try await request.ledger.grants(
            ofCustomer: request.customerId, of: request.scope.bundleId)
        return GrantListBody(grants, at: request.now)
    }

    /// Ends a grant. The body may be empty.
    private func end(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> GrantBody? {
        let members = try BodyMembers(parsing: body.isEmpty ? Array("{}".utf8) : body, known: Self.end)
        let author = try CustomerGrant.Author(members, request)
        let grant = try await request.ledger.endGrant(
            request.parameter("grant"), ofCustomer: request.customerId, of: request.scope.bundleId, by: author,
            at: request.now)
        return grant.map { GrantBody($0, at: request.now) }
    }
}

extension GrantRequest {
    fileprivate init(_ members: BodyMembers, _ request: AuthenticatedRequest) throws(Refusal) {
        guard let entitlement = try members.text("entitlement") else { throw .invalid("entitlement is missing.") }
        guard let why = try members.text("why") else { throw .invalid("why, the reason for the grant, is missing.") }
        self.init(
            id: try members.text("id"), entitlement: entitlement, environment: request.scope.environment,
            from: try members.time("from"), until: try members.time("until"), why: why,
            author: try CustomerGrant.Author(members, request))
        if let fault { throw .invalid(fault) }
    }
}

extension CustomerGrant.Author {
    fileprivate init(_ members: BodyMembers, _ request: AuthenticatedRequest) throws(Refusal) {
        self.init(keyId: request.keyId, name: try members.text("by"))
        if let fault { throw .invalid(fault) }
    }
}

extension Refusal {
    fileprivate init(_ refusal: GrantRefusal) {
        let code: ErrorCode =
            switch refusal {
            case .otherGrant: .otherGrant
            case .tooMany: .tooManyGrants
            case .beginIsAhead, .endIsPast: .invalidRequest
            }
        self.init(code, refusal.message)
    }
}
