// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import PurchaseLedger

/// The routes for subscriptions, transactions and stored documents by id.
struct PurchaseRoutes: Sendable {
    let authentication: Authentication

    var routes: [APIRoute] {
        [
            authentication.route(
                .get, "/v1/subscriptions/{id}", "returns a subscription with its newest 500 periods", role: .server,
                parameters: [
                    .subscription, .environments,
                    .init("periods", "the `periodsCursor` of the last page; the newest periods without it"),
                ],
                unknown: "The subscription", errors: [.invalidCursor]
            ) { try await subscription($0) },
            authentication.route(
                .get, "/v1/transactions/{id}", "returns a transaction", role: .server,
                parameters: [.transaction, .environments], unknown: "The transaction"
            ) { try await Answer(transaction($0)) },
            authentication.route(
                .get, "/v1/evidence/{id}", "returns the signed document behind an answer", role: .server,
                parameters: [.init("id", "the name of a document, as in `evidence` of an answer"), .environments],
                unknown: "The document"
            ) { try await Answer(evidence($0)) },
        ]
    }

    /// A subscription with its newest periods or, with a cursor, the periods before the page that gave the cursor.
    private func subscription(_ request: AuthenticatedRequest) async throws -> Answer<SubscriptionHistoryBody>? {
        let id = try request.parameter("id")
        let keys = request.scopes.map { ChainKey(id, in: $0) }
        return try await request.withAnswer(from: LedgerQuery(keys.map(LedgerKey.chain))) {
            for key in keys {
                guard let chain = try await request.ledger.chain(key) else { continue }
                let cursor = request.query["periods"]
                let body = try SubscriptionHistoryBody(chain, request.catalogue, before: cursor, at: request.now)
                guard var body else { continue }
                body.customers = try await request.ledger.ownerIds(of: chain.key)
                return try Answer(body)
            }
            return nil
        }
    }

    private func transaction(_ request: AuthenticatedRequest) async throws -> PurchaseBody? {
        let id = try request.parameter("id")
        for scope in request.scopes {
            guard let chain = try await request.ledger.chain(of: TransactionKey(id, in: scope)),
                var body = PurchaseBody(id, of: chain, request.catalogue, at: request.now)
            else { continue }
            body.customers = try await request.ledger.ownerIds(of: chain.key)
            return body
        }
        return nil
    }

    /// A document by the name in `evidence` of an answer; `nil` if the document is unknown, belongs to a different app,
    /// or is from an environment outside the request.
    private func evidence(_ request: AuthenticatedRequest) async throws -> EvidenceBody? {
        guard let name = Provenance(try request.parameter("id")) else {
            throw Refusal.invalid(
                "A document's name is a date in milliseconds, a hyphen and 64 hexadecimal digits.")
        }
        guard let found = try await request.ledger.documents([name])[name],
            request.scopes.contains(found.scope)
        else { return nil }
        return EvidenceBody(found)
    }
}
