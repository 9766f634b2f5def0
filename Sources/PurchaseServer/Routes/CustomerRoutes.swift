// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Hummingbird
import PurchaseLedger

/// What customers have, what they present, and their ids.
struct CustomerRoutes: Sendable {
    let keyed: KeyedRoutes

    /// The longest body with an alias, in bytes: one id, however it is escaped.
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

    /// Everything about a customer, as the key may see it; `nil` if the customer is not known.
    private func customer(_ request: KeyedRequest) async throws -> CustomerBody? {
        let id = try request.customerId
        let answer = try await request.ledger.customer(id, in: request.scope, at: request.now)
        return answer.map { CustomerBody(id, $0, in: request.scope, at: request.now, for: request.role) }
    }

    /// One entitlement of a customer, which is an answer also if there is none.
    private func entitlement(_ request: KeyedRequest) async throws -> EntitlementCheckBody? {
        let (id, name) = (try request.customerId, try request.parameter("name"))
        let holdings = try await request.ledger.holdings(of: id, in: request.scope, at: request.now)
        return holdings.map { EntitlementCheckBody(name, $0, at: request.now) }
    }

    /// Takes in what a customer presents.
    private func submit(_ body: [UInt8], _ request: KeyedRequest) async throws -> SubmissionBody? {
        let id = try request.customerId
        let submission = try Submission(parsing: body, role: request.role)
        let evidence = try await submission.verified(by: request.verifier, at: request.now)
        // A server key may change owners as often as it needs to: to put right what a client key did.
        let recorded = try await request.ledger.record(
            evidence, claimedBy: id, limitsClaims: request.role == .client, at: request.now)
        return try await customer(request).map { SubmissionBody(recorded, $0) }
    }

    /// `{"alias": …}`: another id of the same customer.
    private func addAlias(_ body: [UInt8], _ request: KeyedRequest) async throws -> CustomerBody? {
        let (id, alias) = (try request.customerId, (try? JSONValue(parsing: body))?["alias"]?.string ?? "")
        guard !alias.isEmpty, alias.utf8.count <= KeyedRequest.customerIdLimit else {
            throw Refusal.invalid("The body is not {\"alias\": …} with 1 to \(KeyedRequest.customerIdLimit) bytes.")
        }
        guard try await request.ledger.addAlias(alias, to: id, in: request.scope, at: request.now) else { return nil }
        return try await customer(request)
    }

    /// Forgets a customer, and says what that did.
    private func delete(_ request: KeyedRequest) async throws -> DeletionBody? {
        try await request.ledger.delete(request.customerId, in: request.scope, at: request.now).map { DeletionBody($0) }
    }
}
