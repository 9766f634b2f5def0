// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import PurchaseLedger

/// The routes for subscriptions, transactions and stored documents by id.
struct PurchaseRoutes: Sendable {
    let keyed: KeyedRoutes

    func add(to router: Router<BasicRequestContext>) {
        router.get(
            "/v1/subscriptions/{id}",
            use: keyed.handler(needs: .server, "The subscription", spansEnvironments: true) {
                try await subscription($0)
            })
        router.get(
            "/v1/transactions/{id}",
            use: keyed.handler(needs: .server, "The transaction", spansEnvironments: true) {
                try await transaction($0)
            })
        router.get("/v1/evidence/{id}", use: keyed.handler(needs: .server, "The document") { try await evidence($0) })
    }

    private func subscription(_ request: KeyedRequest) async throws -> SubscriptionHistoryBody? {
        for scope in request.scopes {
            let chain = try await request.ledger.chain(ChainKey(request.parameter("id"), in: scope))
            let body = chain.flatMap { SubscriptionHistoryBody($0, request.catalogue, at: request.now) }
            if let body { return body }
        }
        return nil
    }

    private func transaction(_ request: KeyedRequest) async throws -> PurchaseBody? {
        let id = try request.parameter("id")
        for scope in request.scopes {
            let chain = try await request.ledger.chain(of: TransactionKey(id, in: scope))
            if let body = chain.flatMap({ PurchaseBody(id, of: $0, request.catalogue) }) { return body }
        }
        return nil
    }

    /// A document by the name in `evidence` of an answer; `nil` if it is unknown, or another app's.
    private func evidence(_ request: KeyedRequest) async throws -> EvidenceBody? {
        guard let name = Provenance(try request.parameter("id")) else {
            throw Refusal.invalid(
                "A document's name is a date in milliseconds, a hyphen and 64 hexadecimal digits.")
        }
        guard let found = try await request.ledger.documents([name])[name],
            found.scope.bundleId == request.scope.bundleId
        else { return nil }
        return EvidenceBody(found)
    }
}
