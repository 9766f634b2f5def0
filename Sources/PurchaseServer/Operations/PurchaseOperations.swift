// SPDX-License-Identifier: Apache-2.0

// Subscriptions, transactions and stored documents by id.

import AppStoreModel
import HTTPTypes
import PurchaseLedger

package enum GetSubscription: NamedOperation {
    private static let subscription = Field(
        "id", in: .path, "the original transaction id of a subscription", .text(.purchaseID), option: "subscription")
    private static let periods = Field(
        "periods", in: .query, "the `periodsCursor` of the last page", standard: "the newest periods")

    package static let operation = Operation(
        .get, "/v1/subscriptions/{id}", "returns a subscription with its newest 500 periods",
        command: "purchases subscription", roles: .readers, [subscription, .searched, periods],
        unknown: "The subscription", errors: [.invalidCursor]
    ) { request -> Answer<SubscriptionHistoryBody>? in
        let keys = request.scopes.map { ChainKey(request.text(subscription), in: $0) }
        return try await request.withAnswer(from: LedgerQuery(keys.map(LedgerKey.chain))) {
            for key in keys {
                guard let chain = try await request.ledger.chain(key) else { continue }
                // The newest periods or, with a cursor, the periods before the page that gave the cursor.
                let cursor = request[periods]?.string
                let body = try SubscriptionHistoryBody(chain, request.catalogue, before: cursor, at: request.now)
                guard var body else { continue }
                body.customers = try await request.ledger.ownerIds(of: chain.key)
                return try Answer(body)
            }
            return nil
        }
    }
}

package enum GetTransaction: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/transactions/{id}", "returns a transaction", command: "purchases get",
        roles: .readers, [.transaction, .searched], unknown: "The transaction"
    ) { request -> Answer<PurchaseBody>? in
        let id = request.text(.transaction)
        for scope in request.scopes {
            guard let chain = try await request.ledger.chain(of: TransactionKey(id, in: scope)),
                var body = PurchaseBody(id, of: chain, request.catalogue, at: request.now)
            else { continue }
            body.customers = try await request.ledger.ownerIds(of: chain.key)
            return try Answer(body)
        }
        return nil
    }
}

package enum GetEvidence: NamedOperation {
    private static let document = Field(
        "id", in: .path, "the name of a document, as in `evidence` of an answer", option: "document")
    private static let explain = Field(
        "explain", in: .query, "whether to verify the document again, and to show each check and the payload", .flag,
        standard: "false")

    package static let operation = Operation(
        .get, "/v1/evidence/{id}", "returns the signed document behind an answer", command: "purchases evidence",
        roles: .readers, [document, .searched, explain], unknown: "The document"
    ) { request -> Answer<EvidenceBody>? in
        guard let name = Provenance(request.text(document)) else {
            throw Refusal.invalid(
                "“id”: A document's name is a date in milliseconds, a hyphen and 64 hexadecimal digits.")
        }
        // A document of a different app, or from an environment outside the request, counts as unknown.
        guard let found = try await request.ledger.documents([name])[name], request.scopes.contains(found.scope)
        else { return nil }
        var body = EvidenceBody(found)
        if request[explain] == .bool(true) { await body.explain(found, by: request.service.verifier.only(found.scope)) }
        return try Answer(body)
    }
}
