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
        router.get("/v1/customers/{id}", use: keyed.handler(needs: .client, what) { try await customer($0) })
        router.get(
            "/v1/customers/{id}/entitlements/{name}",
            use: keyed.handler(needs: .client, what) { try await entitlement($0) })
        router.post(
            "/v1/customers/{id}/purchases",
            use: keyed.handler(needs: .client, what) { request -> SubmissionBody? in
                try await request.withBody(upTo: Submission.bodyLimit) { try await submit($1, $0) }
            })
        router.post(
            "/v1/customers/{id}/aliases",
            use: keyed.handler(needs: .server, what) { request in
                try await request.withBody(upTo: Self.aliasBodyLimit) { try await addAlias($1, $0) }
            })
        router.delete("/v1/customers/{id}", use: keyed.handler(needs: .server, what) { try await delete($0) })
    }

    /// Everything about a customer that the key may read; `nil` if the customer is unknown.
    private func customer(_ request: KeyedRequest) async throws -> CustomerBody? {
        let id = try request.customerId
        var answer = try await request.ledger.customer(id, in: request.scope, at: request.now)
        if await request.refresh(answer?.holdings) {
            answer = try await request.ledger.customer(id, in: request.scope, at: request.now)
        }
        return answer.map { CustomerBody(id, $0, in: request.scope, at: request.now, for: request.role) }
    }

    /// One entitlement of a customer, active or not; `nil` if the customer is unknown.
    private func entitlement(_ request: KeyedRequest) async throws -> EntitlementCheckBody? {
        let (id, name) = (try request.customerId, try request.parameter("name"))
        var holdings = try await request.ledger.holdings(of: id, in: request.scope, at: request.now)
        if await request.refresh(holdings) {
            holdings = try await request.ledger.holdings(of: id, in: request.scope, at: request.now)
        }
        return holdings.map { EntitlementCheckBody(name, $0, at: request.now) }
    }

    /// Records the documents that a customer presents.
    private func submit(_ body: [UInt8], _ request: KeyedRequest) async throws -> SubmissionBody? {
        let id = try request.customerId
        let submission = try Submission(parsing: body, role: request.role)
        let evidence = try await submission.verified(by: request.verifier, at: request.now)
        // A server key may change owners without limit, to correct claims made with client keys.
        let recorded = try await request.ledger.record(
            evidence, claimedBy: id, limitsClaims: request.role == .client, at: request.now)
        return try await customer(request).map { SubmissionBody(recorded, $0, for: request.role) }
    }

    /// Adds another id of the same customer. The body is `{"alias": …}`.
    private func addAlias(_ body: [UInt8], _ request: KeyedRequest) async throws -> CustomerBody? {
        let (id, alias) = (try request.customerId, (try? JSONValue(parsing: body))?["alias"]?.string ?? "")
        guard !alias.isEmpty, alias.utf8.count <= ServerBounds.customerID else {
            throw Refusal.invalid("The body is not {\"alias\": …} with 1 to \(ServerBounds.customerID) bytes.")
        }
        guard try await request.ledger.addAlias(alias, to: id, in: request.scope, at: request.now) else { return nil }
        return try await customer(request)
    }

    /// Erases a customer, and returns what was erased.
    private func delete(_ request: KeyedRequest) async throws -> DeletionBody? {
        try await request.ledger.delete(request.customerId, in: request.scope, at: request.now).map { DeletionBody($0) }
    }
}
