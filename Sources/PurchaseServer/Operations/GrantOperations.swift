// SPDX-License-Identifier: Apache-2.0

// Grants: entitlements that a backend or an operator gives to customers without a purchase.

import AppStoreModel
import HTTPTypes
import PurchaseLedger

private let path = "/v1/customers/{id}/grants"
private let line = lines(
    "id", "entitlement", "environment", "isActive", "from", "until", "endedAt", "why", "by:", "key:", "endedBy:")

package enum MakeGrant: NamedOperation {
    private static let id = Field(
        "id", "an id for the grant, unique in the app", .text(.grantID), standard: "an id that the ledger chooses")
    private static let entitlement = Field(
        "entitlement", "a name in the configuration of the app", .text(.catalogueName), isRequired: true)
    private static let from = Field(
        "from", "the start of the grant, not in the future", .time, isPast: true, standard: "now")
    private static let until = Field("until", "the end of the grant", .time)
    private static let forever = Field("forever", "whether the grant has no end", .flag)
    private static let why = Field("why", "the reason for the grant, for people", .text(.why), isRequired: true)

    package static let operation = Operation(
        .post, path, "gives a customer an entitlement, once for each `id`", command: "grants make",
        notes: """
            Needs --until or --forever. With --id, the same command again makes no second grant. An unknown customer \
            needs --new. Prints the id of the grant, and on standard error the rest.

              quittance grants make anna --entitlement pro --until 2027-01-31 \\
                  --why "outage of May 3" --config quittance.json
            """,
        roles: .helpers,
        [.customer, .environment, id, entitlement, from, until, why, forever, .isNew],
        statuses: [.created, .ok], errors: [.unknownEntitlement, .otherGrant, .tooManyGrants, .unknownCustomer],
        text: lines("id"), remark: remark
    ) { request in
        try request.requireRecorded()
        guard (request.time(until) != nil) != (request[forever]?.bool == true) else {
            throw Refusal.invalid("A grant needs either “until” or “forever”.")
        }
        let grant = GrantRequest(
            id: request[id]?.string, entitlement: request.text(entitlement), environment: request.scope.environment,
            from: request.time(from), until: request.time(until), why: request.text(why),
            author: CustomerGrant.Author(request))
        if let fault = grant.fault { throw Refusal.invalid(fault) }
        try request.requireEntitlement(grant.entitlement)
        try await request.requireKnown([request.customerId], makesNew: true)
        let outcome = try await request.ledger.make(
            grant, forCustomer: request.customerId, of: request.scope.bundleId, at: request.now)
        let paid = try await paidSubscription(request)
        switch outcome {
        case .made(let grant): return try Answer(GrantBody(grant, at: request.now, besides: paid), .created)
        case .known(let grant): return try Answer(GrantBody(grant, at: request.now, besides: paid))
        case .refused(let refusal): throw Refusal(refusal)
        }
    }
}

extension MakeGrant {
    /// The customer's running subscription that renews, if there is one: the grant does not stop its payments.
    fileprivate static func paidSubscription(_ request: AuthenticatedRequest) async throws -> String? {
        let scope = request.scope
        let found = try await request.ledger.openHoldings(
            of: request.customerId, of: scope.bundleId, in: [scope.environment], at: request.now)
        let subscriptions = found?.environments[scope.environment]?.subscriptions.values
        let paid = subscriptions?.filter { $0.hasAccess && $0.willRenew == true }
        return paid?.map(\.governing.originalTransactionId).min()
    }

    fileprivate static let remark: @Sendable (JSONValue) -> String = { grant in
        guard let id = grant["paidSubscription"]?.string else { return line(grant) }
        return line(grant) + """

            The customer goes on paying for the subscription \(id). quittance app-store extend gives free days \
            instead, and cannot be undone.
            """
    }
}

package enum ListGrants: NamedOperation {
    package static let operation = Operation(
        .get, path, "returns the grants of a customer in all environments", command: "grants list",
        notes: "Lists all grants that have not ended, and the last \(CustomerGrant.maxEnded) that have.",
        roles: .readers, [.customer], text: line
    ) { request in
        let grants = try await request.ledger.grants(ofCustomer: request.customerId, of: request.scope.bundleId)
        return try Answer(GrantListBody(grants, at: request.now))
    }
}

package enum EndGrant: NamedOperation {
    private static let grant = Field("grant", in: .path, "the id of a grant of the customer", .text(.grantID))

    package static let operation = Operation(
        .post, path + "/{grant}/end", "ends a grant", command: "grants end", roles: .helpers,
        [.customer, grant], unknown: "The grant", text: line
    ) { request in
        let ended = try await request.ledger.endGrant(
            request.text(grant), ofCustomer: request.customerId, of: request.scope.bundleId,
            by: CustomerGrant.Author(request), at: request.now)
        return try Answer(ended.map { GrantBody($0, at: request.now) })
    }
}

extension CustomerGrant.Author {
    fileprivate init(_ request: AuthenticatedRequest) {
        self.init(keyId: request.key?.id, name: request[Field.by]?.string)
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
