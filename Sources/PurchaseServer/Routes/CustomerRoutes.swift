// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// The routes under `/v1/customers`: what a customer has, submissions, aliases and deletion.
struct CustomerRoutes: Sendable {
    let keyed: KeyedRoutes

    /// The longest body with an alias, in bytes: one id, with every character escaped.
    private static let aliasBodyLimit = 4096

    func add(to router: Router<BasicRequestContext>) {
        let what = "The customer"
        router.get(
            "/v1/customers/{id}",
            use: keyed.handler(needs: .client, spansEnvironments: true) { request in
                try await customer(request) { try Response($0) }
            })
        router.get(
            "/v1/customers/{id}/entitlements/{name}",
            use: keyed.handler(needs: .client, what, spansEnvironments: true) { try await entitlement($0) })
        router.post(
            "/v1/customers/{id}/purchases",
            use: keyed.handler(needs: .client, spansEnvironments: true) { request in
                let (keyed, recorded) = try await request.withBody(upTo: Submission.bodyLimit) {
                    ($0, try await submit($1, $0))
                }
                return try await customer(keyed) { try Response(SubmissionBody(recorded, $0, for: keyed.role)) }
            })
        router.post(
            "/v1/customers/{id}/aliases",
            use: keyed.handler(needs: .server) { request in
                let (keyed, isKnown) = try await request.withBody(upTo: Self.aliasBodyLimit) {
                    ($0, try await addAlias($1, $0))
                }
                guard isKnown else { throw Refusal.notFound(what) }
                return try await customer(keyed) { try Response($0) }
            })
        router.delete("/v1/customers/{id}", use: keyed.handler(needs: .server, what) { try await delete($0) })
    }

    /// Answers with everything about a customer that the key may read. A customer that the ledger does not know has
    /// nothing.
    private func customer(
        _ request: KeyedRequest, _ encode: @escaping @Sendable (CustomerBody) throws -> Response
    ) async throws -> Response {
        let id = CustomerID(try request.customerId, of: request.scope.bundleId)
        let query = LedgerQuery.holdings(of: [id], in: request.environmentRule.loaded)
        return try await request.withAnswer(from: query) { try encode(try await body(request)) }
    }

    private func body(_ request: KeyedRequest) async throws -> CustomerBody {
        let (id, rule) = (try request.customerId, request.environmentRule)
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
        return body
    }

    /// One entitlement of a customer, active or not. A customer that the ledger does not know has none.
    private func entitlement(_ request: KeyedRequest) async throws -> EntitlementCheckBody? {
        let (id, name, rule) = (try request.customerId, try request.parameter("name"), request.environmentRule)
        try request.requireEntitlement(name)
        func load() async throws -> CountedHoldings {
            let found = try await request.ledger.holdings(
                of: id, of: request.scope.bundleId, in: rule.loaded, at: request.now)
            return CountedHoldings(found?.environments ?? [:], rule, ids: found?.ids ?? [])
        }
        var holdings = try await load()
        if await request.refresh(holdings.counted) { holdings = try await load() }
        let body = EntitlementCheckBody(name, holdings, at: request.now)
        // The configuration may have lost the product after the purchase. A question stores nothing.
        if !body.isActive { request.note(holdings.notices(of: request.scope.bundleId)) }
        request.noteLeftOut(body.activeIn)
        return body
    }

    /// Records the documents that a customer presents.
    private func submit(_ body: [UInt8], _ request: KeyedRequest) async throws -> RecordResult {
        let id = try request.customerId
        try request.requireRecorded()
        let submission = try Submission(parsing: body, role: request.role)
        let evidence = try await verified(submission, request)
        // A server key may change owners without limit, to correct claims made with client keys.
        return try await request.ledger.record(
            evidence, claimedBy: id, limitsClaims: request.role == .client, at: request.now)
    }

    private func verified(_ submission: Submission, _ request: KeyedRequest) async throws -> [Evidence] {
        do {
            return try await submission.verified(by: request.verifier, at: request.now)
        } catch let refusal as Refusal {
            throw request.explained(refusal)
        }
    }

    /// Adds another id of the same customer. The body is `{"alias": …}`.
    ///
    /// - Returns: False if the customer is not known.
    private func addAlias(_ body: [UInt8], _ request: KeyedRequest) async throws -> Bool {
        let (id, alias) = (try request.customerId, (try? JSONValue(parsing: body))?["alias"]?.string ?? "")
        guard !alias.isEmpty, alias.utf8.count <= ServerBounds.customerID else {
            throw Refusal.invalid("The body is not {\"alias\": …} with 1 to \(ServerBounds.customerID) bytes.")
        }
        return try await request.ledger.addAlias(alias, to: id, in: request.scope, at: request.now)
    }

    /// Erases a customer, and returns what was erased.
    private func delete(_ request: KeyedRequest) async throws -> DeletionBody? {
        let report = try await request.ledger.delete(
            request.customerId, in: request.scope, at: request.now, isTimeConfirmed: request.isTimeConfirmed)
        return report.map { DeletionBody($0) }
    }
}
