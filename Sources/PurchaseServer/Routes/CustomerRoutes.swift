// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes under `/v1/customers`: holdings, submissions, aliases and deletion.
struct CustomerRoutes: Sendable {
    let authentication: Authentication

    /// The maximum length of a body with an alias in bytes: one id, with every character escaped.
    private static let aliasBodyLimit = 4096

    private static let alias = APIBody(["alias"], ["alias": .customerID], upTo: aliasBodyLimit)

    var routes: [APIRoute] {
        [
            authentication.route(
                .get, "/v1/customers/{id}", "returns what a customer has in the environments that count", role: .client,
                parameters: [.customer, .environments]
            ) { try await customer($0) },
            authentication.route(
                .get, "/v1/customers/{id}/entitlements/{name}", "says whether a customer has an entitlement",
                role: .client,
                parameters: [
                    .customer, .init("name", "an entitlement in the configuration", .catalogueName), .environments,
                ],
                errors: [.unknownEntitlement]
            ) { try await Answer(entitlement($0)) },
            authentication.route(
                .post, "/v1/customers/{id}/purchases", "submits purchases of a customer", role: .client,
                parameters: [.customer, .environments],
                body: APIBody(["document", "documents", "correct"], upTo: Submission.bodyLimit),
                errors: ErrorCode.ofDocuments.union([.otherRoots])
            ) { request in
                let (request, recorded) = try await request.withBody { ($0, try await submit($1, $0)) }
                return try await customer(request) { SubmissionBody(recorded, $0, for: request.role) }
            },
            authentication.route(
                .post, "/v1/customers/{id}/aliases", "adds another id of the same customer", role: .server,
                parameters: [.customer, .environment], body: Self.alias, unknown: Self.unknown
            ) { request in
                let (request, isKnown) = try await request.withBody { ($0, try await addAlias($1, $0)) }
                return isKnown ? try await customer(request) : nil
            },
            authentication.route(
                .delete, "/v1/customers/{id}", "erases a customer", role: .server,
                parameters: [.customer, .environment],
                unknown: Self.unknown
            ) { try await Answer(delete($0)) },
        ]
    }

    private static let unknown = "The customer"

    /// Answers with all data about a customer that the key may read. An unknown customer has no purchases.
    func customer<Body: Encodable>(
        _ request: AuthenticatedRequest, in answer: @Sendable (CustomerBody) -> Body = { $0 }
    ) async throws -> Answer<Body>? {
        let id = CustomerID(try request.customerId, of: request.scope.bundleId)
        let query = LedgerQuery.holdings(of: [id], in: request.environmentRule.loaded)
        return try await request.withAnswer(from: query) { try Answer(answer(await body(request))) }
    }

    private func body(_ request: AuthenticatedRequest) async throws -> CustomerBody {
        let id = try request.customerId
        let rule = request.environmentRule
        func load() async throws -> [AppStoreModel.Environment: Ledger.CustomerAnswer] {
            try await request.ledger.customer(
                id, of: request.scope.bundleId, in: rule.loaded, at: request.now) ?? [:]
        }
        var answers = try await load()
        let ids = answers.values.first?.ids ?? []
        if await request.refresh(CountedHoldings(answers.mapValues(\.holdings), rule, ids: ids).counted) {
            answers = try await load()
        }
        let body = CustomerBody(
            id, answers, rule, of: request.scope.bundleId, at: request.now, for: request.role)
        request.noteLeftOut(body.activeIn)
        request.note(body.app)
        return body
    }

    /// Whether a customer has an active entitlement of this name. An unknown customer has none.
    private func entitlement(_ request: AuthenticatedRequest) async throws -> EntitlementCheckBody {
        let id = try request.customerId
        let name = try request.parameter("name")
        let rule = request.environmentRule
        try request.requireEntitlement(name)
        func load() async throws -> CountedHoldings {
            let found = try await request.ledger.holdings(
                of: id, of: request.scope.bundleId, in: rule.loaded, at: request.now)
            return CountedHoldings(found?.environments ?? [:], rule, ids: found?.ids ?? [])
        }
        var holdings = try await load()
        if await request.refresh(holdings.counted) { holdings = try await load() }
        let body = EntitlementCheckBody(name, holdings, at: request.now)
        // The entitlement may be missing because its product was removed from the configuration after the purchase. The
        // ledger stores notices only when documents arrive, so this route puts the notice on the board itself.
        if !body.isActive { request.note(holdings.notices(of: request.scope.bundleId)) }
        request.noteLeftOut(body.activeIn)
        return body
    }

    /// Records the documents that a customer presents.
    private func submit(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> RecordResult {
        let id = try request.customerId
        try request.requireRecorded()
        let submission = try Submission(parsing: body, role: request.role)
        let evidence = try await verified(submission, request)
        // With a server key, a purchase may change its owner any number of times, because a backend submits for all of
        // its customers.
        return try await request.ledger.record(
            evidence, claimedBy: id, limitsClaims: request.role == .client, corrects: submission.corrects,
            at: request.now)
    }

    private func verified(_ submission: Submission, _ request: AuthenticatedRequest) async throws -> [Evidence] {
        do {
            return try await submission.verified(by: request.verifier, at: request.now)
        } catch let refusal as Refusal {
            throw request.explained(refusal)
        }
    }

    /// Adds an alias to a customer. The body is `{"alias": …}`.
    ///
    /// - Returns: False if the customer is unknown.
    private func addAlias(_ body: [UInt8], _ request: AuthenticatedRequest) async throws -> Bool {
        let id = try request.customerId
        guard let alias = try BodyMembers(parsing: body, known: Self.alias).text("alias") else {
            throw Refusal.invalid("alias is missing.")
        }
        return try await request.ledger.addAlias(alias, to: id, in: request.scope, at: request.now)
    }

    /// Erases a customer, and returns a report about the erased and kept documents.
    private func delete(_ request: AuthenticatedRequest) async throws -> DeletionBody? {
        let report = try await request.ledger.delete(
            request.customerId, in: request.scope, at: request.now, isTimeConfirmed: request.isTimeConfirmed)
        return report.map { DeletionBody($0) }
    }
}
