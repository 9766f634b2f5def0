// SPDX-License-Identifier: Apache-2.0

// A customer: what it has, its submissions, its ids and its deletion.

import AppStoreModel
import HTTPTypes
import PurchaseLedger

package enum GetCustomer: NamedOperation {
    package static let operation = Operation(
        .get, "/v1/customers/{id}", "returns what a customer has in the environments that count",
        command: "customer get",
        notes: "For a person's eyes, see quittance customer show.", roles: .all,
        [.customer, .environments]
    ) { try await $0.customer() }
}

package enum CheckEntitlement: NamedOperation {
    private static let name = Field(
        "name", in: .path, "an entitlement in the configuration", .text(.catalogueName), option: "entitlement")

    package static let operation = Operation(
        .get, "/v1/customers/{id}/entitlements/{name}", "says whether a customer has an entitlement",
        command: "customer entitlement", notes: "Exit status 1: the entitlement is not active.",
        roles: .all, [.customer, name, .environments], errors: [.unknownEntitlement],
        text: lines("name", "isActive:not active", "nextChange"), isFailure: { $0["isActive"] != .bool(true) }
    ) { try await Answer(check($0)) }

    /// Whether a customer has an active entitlement of this name. An unknown customer has none.
    private static func check(_ request: AuthenticatedRequest) async throws -> EntitlementCheckBody {
        let id = request.customerId
        let entitlement = request.text(name)
        let rule = request.environmentRule
        try request.requireEntitlement(entitlement)
        func load() async throws -> CountedHoldings {
            let found = try await request.ledger.openHoldings(
                of: id, of: request.scope.bundleId, in: rule.loaded, at: request.now)
            return CountedHoldings(found?.environments ?? [:], rule, ids: found?.ids ?? [])
        }
        var holdings = try await load()
        if await request.refresh(holdings.counted) { holdings = try await load() }
        let body = EntitlementCheckBody(entitlement, holdings, at: request.now)
        // The entitlement may be missing because its product was removed from the configuration after the purchase. The
        // ledger stores notices only when documents arrive, so this operation puts the notice on the board itself.
        if !body.isActive { request.note(holdings.notices(of: request.scope.bundleId)) }
        request.noteLeftOut(body.activeIn)
        return body
    }
}

package enum SubmitPurchases: NamedOperation {
    static let document = Field("document", "a signed document, or the base64 of an app receipt", .document)
    static let documents = Field(
        "documents", "several documents or receipts, with a client key at most \(Submission.clientLimit)",
        .list(nil, atMost: Submission.limit))
    static let correct = Field(
        "correct", "whether the customer becomes the owner whatever the claimPolicy; for a server key", .flag,
        standard: "false")

    package static let operation = Operation(
        .post, "/v1/customers/{id}/purchases", "submits purchases of a customer", command: "purchases submit",
        roles: .submitters, [.customer, .environments, document, documents, correct, .isNew],
        upTo: Submission.bodyLimit, isOpen: true,
        errors: ErrorCode.ofDocuments.union([.otherRoots, .unknownCustomer])
    ) { request in
        let recorded = try await record(request)
        let head = request.head
        return Answer { try await head.customer { SubmissionBody(recorded, $0, for: head.role) } }
    }

    /// Records the documents that a customer presents.
    private static func record(_ request: AuthenticatedRequest) async throws -> RecordResult {
        try request.requireRecorded()
        try await request.requireKnown([request.customerId], makesNew: true)
        let submission = try Submission(
            request[document]?.string, request[documents], corrects: request[correct]?.bool ?? false,
            role: request.role)
        // With a server key, a purchase may change its owner any number of times, because a backend submits for all of
        // its customers.
        return try await request.ledger.record(
            verified(submission, request), claimedBy: request.customerId,
            limitsClaims: Roles.apps.contains(request.role),
            corrects: submission.corrects, at: request.now)
    }

    private static func verified(
        _ submission: Submission, _ request: AuthenticatedRequest
    ) async throws -> [Evidence] {
        do {
            return try await submission.verified(by: request.verifier, at: request.now)
        } catch let refusal as Refusal {
            throw request.explained(refusal)
        }
    }
}

package enum AddAlias: NamedOperation {
    package static let operation = Operation(
        .post, "/v1/customers/{id}/aliases", "adds another id of the same customer", command: "customer link",
        notes: "If the other id is that of a customer, the two are merged. quittance customer unmerge undoes it.",
        [.customer, .environmentOfChange, .alias], unknown: "The customer", text: CustomerBody.line,
        remark: { _ in "If the other id was a customer, quittance customer unmerge ends the merge." }
    ) { request in
        let isKnown = try await request.ledger.addAlias(
            request.text(.alias), to: request.customerId, in: request.scope, at: request.now)
        return isKnown ? Answer { try await request.customer() } : nil
    }
}

package enum DeleteCustomer: NamedOperation {
    package static let operation = Operation(
        .delete, "/v1/customers/{id}", "erases a customer", command: "customer delete",
        notes: """
            Beside a running server, pass --server: the server keeps the journal of erasures.

              quittance customer delete anna --config quittance.json
            """,
        [.customer, .environmentOfChange], unknown: "The customer", text: { _ in "Deleted." },
        question: { "Erase the customer “\($0.customerId)” of \($0.scope.bundleId)? It cannot be undone." }
    ) { request in
        let report = try await request.ledger.delete(
            request.customerId, in: request.scope, at: request.now, isTimeConfirmed: request.isTimeConfirmed)
        return try Answer(report.map { DeletionBody($0) })
    }
}

package enum RecordConsent: NamedOperation {
    private static let isGiven = Field(
        "customerConsented", "whether the customer consents to answers about consumption", .flag, isRequired: true)

    package static let operation = Operation(
        .put, "/v1/customers/{id}/consent", "records whether the customer consents to answers about consumption",
        command: "customer consent",
        notes: "The App Store asks for such an answer before it decides about a refund.",
        [.customer, .environmentOfChange, isGiven, .isNew], errors: [.unknownCustomer],
        text: lines("id", "consentedAt:does not consent")
    ) { request in
        try await request.requireKnown([request.customerId], makesNew: true)
        let time = try await request.ledger.recordConsent(
            request[isGiven]?.bool ?? false, of: request.customerId, in: request.scope, at: request.now)
        return try Answer(ConsentBody(id: request.customerId, consentedAt: Nullable(wrappedValue: time)))
    }
}

extension CustomerBody {
    /// The ids of the customer.
    static let line = lines("id", "ids")
}

extension AuthenticatedRequest {
    /// Answers with all data about a customer that the key may read. An unknown customer has no purchases.
    func customer<Body: Encodable>(
        in answer: @Sendable (CustomerBody) -> Body = { $0 }
    ) async throws -> Answer<Body>? {
        let id = CustomerID(customerId, of: scope.bundleId)
        let query = LedgerQuery.holdings(of: [id], in: environmentRule.loaded)
        return try await withAnswer(from: query) { try Answer(answer(await body())) }
    }

    private func body() async throws -> CustomerBody {
        let rule = environmentRule
        func load() async throws -> [AppStoreModel.Environment: Ledger.CustomerAnswer] {
            try await ledger.customer(customerId, of: scope.bundleId, in: rule.loaded, at: now) ?? [:]
        }
        var answers = try await load()
        let ids = answers.values.first?.ids ?? []
        if await refresh(CountedHoldings(answers.mapValues(\.holdings), rule, ids: ids).counted) {
            answers = try await load()
        }
        let body = CustomerBody(customerId, answers, rule, of: scope.bundleId, at: now, for: role)
        noteLeftOut(body.activeIn)
        note(body.app)
        return body
    }
}
