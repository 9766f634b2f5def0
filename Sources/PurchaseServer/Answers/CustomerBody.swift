// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a customer.
///
/// All responses except verifyReceipt's have camelCase names and times in whole milliseconds. The comment of a
/// member is its description in `docs/openapi.json`.
struct CustomerBody: Encodable, Sendable {
    /// The id in the request.
    var id: String
    /// All ids of the customer; for a client key only the id in the request.
    var ids: [String]
    /// The app of the key.
    var bundleId: String
    /// The environments that count: only the purchases in these environments are in the answer and grant entitlements.
    /// Production is first.
    var environments: [String]
    /// The time as of which the answer was computed, in milliseconds since 1970.
    var asOf: Timestamp
    /// The time at which the answer may change if no document arrives, in milliseconds since 1970; `null` for never.
    @Nullable var nextChange: Timestamp?
    /// The active entitlements, at most one per name, in order of the names.
    var entitlements: [EntitlementBody]
    /// The environments outside ``environments`` in which the customer has active entitlements; absent if there are
    /// none.
    var activeIn: [String]?
    /// The subscriptions, including expired subscriptions.
    var subscriptions: [SubscriptionBody] = []
    /// All transactions, including the transactions of subscriptions.
    var purchases: [PurchaseBody] = []
    /// The purchase of the app itself; absent if no document proves it.
    var app: AppPurchaseBody?
    /// The consumables, to be credited once for each `transactionId`.
    var consumables: [ConsumableBody] = []
    /// The customer's products that are missing from the configuration, in order.
    var unknownProducts: [String]
    /// The start of the customer's consent to answers about consumption, in milliseconds since 1970; not for a
    /// client key.
    var consentedAt: Timestamp?

    /// What the customer has and had, in sentences for people; only in the answer of `GET /v1/support/{id}`, as are the
    /// next two members.
    var sentences: [String]?
    /// What happened to each purchase and grant, the newest first.
    var timeline: [TimeLine]?
    /// The number of purchases and renewals that `timeline` leaves out, because it has the newest 120 of subscriptions
    /// and the newest 120 other purchases; absent if there are none.
    var timelineOmitted: Int?

    /// - Parameters:
    ///   - answers: The customer by environment; empty if the ledger does not know the customer.
    ///   - role: The role of the API key. A client key gets neither the customer's other ids, nor the consent, nor the
    ///     `evidence` and `claimants` of purchases.
    init(
        _ id: String, _ answers: [Environment: Ledger.CustomerAnswer], _ rule: EnvironmentRule, of bundleId: String,
        at now: Timestamp, for role: APIKey.Role
    ) {
        let isReader = Roles.readers.contains(role)
        let account = id.normalizedCustomerID
        let any = answers.values.first
        let known = any?.ids ?? []
        let holdings = CountedHoldings(answers.mapValues(\.holdings), rule, ids: known)
        self.id = id
        ids = isReader ? known : known.filter { $0.utf8.elementsEqual(account.utf8) }
        self.bundleId = bundleId
        environments = holdings.counted.map(\.environment.rawValue)
        asOf = now
        nextChange = holdings.nextChange
        entitlements = holdings.entitlements.map { EntitlementBody($0.entitlement, in: $0.environment) }
        activeIn = holdings.activeElsewhere()
        unknownProducts = holdings.unknownProducts
        consentedAt = isReader ? any?.consentedAt : nil
        for (environment, holdings) in holdings.counted {
            add(holdings, answers[environment], in: environment, role)
        }
    }

    /// Adds the purchases in one environment.
    private mutating func add(
        _ holdings: Holdings, _ answer: Ledger.CustomerAnswer?, in environment: Environment, _ role: APIKey.Role
    ) {
        func standing(_ chain: String) -> PurchaseStanding {
            PurchaseStanding(of: chain, answer, in: environment, for: role)
        }
        subscriptions += holdings.subscriptions.sorted { $0.key < $1.key }
            .map { SubscriptionBody($0.value, standing($0.key)) }
        purchases += (answer?.purchases ?? []).map {
            PurchaseBody(
                $0, standing($0.chainName), answer?.access[$0.transactionId],
                showsEvidence: Roles.readers.contains(role))
        }
        // Production is the first environment that counts.
        app =
            app
            ?? answer?.app.map { app in
                AppPurchaseBody(
                    app, standing(app.chainName), answer?.access[app.transactionId],
                    showsEvidence: Roles.readers.contains(role))
            }
        consumables += holdings.consumables.map {
            let isTransferred = answer?.transferred.contains($0.transactionId) ?? false
            return ConsumableBody($0, standing($0.chainName), isTransferred: isTransferred)
        }
    }
}

/// The JSON of an entitlement and its source.
struct EntitlementBody: Encodable, Sendable {
    /// The name in the configuration.
    var name: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// `subscription`, `billingGrace`, `stale`, `purchase`, `appPurchase` or `grant`.
    var reason: String
    /// The product that gives the entitlement; absent for `appPurchase` and `grant`, as are the next two members.
    var productId: String?
    /// The transaction that gives the entitlement.
    var transactionId: String?
    /// The transaction id of the first purchase.
    var originalTransactionId: String?
    /// The id of the grant that gives the entitlement; absent if a purchase does.
    var grantId: String?
    /// The end, exclusive, in milliseconds since 1970; `null` for no end.
    @Nullable var until: Timestamp?
    /// `PURCHASED` or `FAMILY_SHARED`, as the App Store signed it.
    var inAppOwnershipType: Open<InAppOwnershipType>?

    init(_ entitlement: Entitlement, in environment: Environment) {
        name = entitlement.name
        self.environment = environment.rawValue
        reason = entitlement.reason.rawValue
        productId = entitlement.productId
        transactionId = entitlement.transactionId
        originalTransactionId = entitlement.originalTransactionId
        grantId = entitlement.grantId
        until = entitlement.until
        inAppOwnershipType = entitlement.ownership
    }
}

/// The JSON of an entitlement check for a customer.
struct EntitlementCheckBody: Encodable, Sendable {
    /// The name in the request.
    var name: String
    /// Whether the customer has the entitlement now.
    var isActive: Bool
    /// The time as of which the answer was computed, in milliseconds since 1970.
    var asOf: Timestamp
    /// The time at which the answer may change if no document arrives, in milliseconds since 1970; `null` for never.
    @Nullable var nextChange: Timestamp?
    /// The entitlement, if it is active.
    var entitlement: EntitlementBody?
    /// The environments that do not count for the answer (see ``CustomerBody/environments``) but in which the
    /// entitlement is active; absent if there are none.
    var activeIn: [String]?
    /// The customer's products that are missing from the configuration; only if the entitlement is not active.
    var unknownProducts: [String]?

    init(_ name: String, _ holdings: CountedHoldings, at now: Timestamp) {
        self.name = name
        entitlement = holdings.entitlements.first { $0.entitlement.name == name }
            .map { EntitlementBody($0.entitlement, in: $0.environment) }
        isActive = entitlement != nil
        asOf = now
        nextChange = holdings.nextChange
        activeIn = isActive ? nil : holdings.activeElsewhere(name)
        let unknown = holdings.unknownProducts
        unknownProducts = isActive || unknown.isEmpty ? nil : unknown
    }
}

/// The JSON of a purchase of a consumable.
struct ConsumableBody: Encodable, Sendable {
    /// The product.
    var productId: String
    /// The transaction. The app credits each transaction once across all customers.
    var transactionId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// The time of the purchase, in milliseconds since 1970; `null` if no document says it.
    @Nullable var purchaseDate: Timestamp?
    /// The number of bought items.
    var quantity: Int
    /// The number of revoked items: 0 to `quantity`.
    var revokedQuantity: Int
    /// Whether the consumable may have been credited to a different customer before: a claim moved the purchase from
    /// that customer, or that customer was erased.
    var transferred: Bool
    /// True if the configuration refuses the purchase, otherwise absent.
    var refused: Bool?
    /// The number of customers that presented the purchase, if greater than one; not for a client key. See
    /// ``PurchaseStanding/claimants``.
    var claimants: Int?

    /// - Parameter isTransferred: Whether the purchase belonged to a different customer before, who may have used the
    ///   consumable already.
    init(_ purchase: ConsumablePurchase, _ standing: PurchaseStanding, isTransferred: Bool) {
        productId = purchase.productId
        transactionId = purchase.transactionId
        environment = standing.environment.rawValue
        purchaseDate = purchase.purchaseDate
        quantity = purchase.quantity
        revokedQuantity = purchase.revokedQuantity
        transferred = isTransferred
        refused = standing.refused
        claimants = standing.claimants
    }
}

/// The JSON of the result of a submission.
struct SubmissionBody: Encodable, Sendable {
    /// The number of new documents in the ledger.
    var recorded: Int
    /// The number of documents without new facts: the ledger already had the document, or the same facts from other
    /// documents.
    var alreadyKnown: Int
    /// The original transaction ids of the submitted purchases that still belong to other customers, in order; for a
    /// purchase of the app itself `app:` and its `appTransactionId`.
    var keptByOthers: [String]
    /// The purchases in `keptByOthers` whose owner changed too often: for now, the ledger refuses further claims to
    /// them.
    var tooManyClaims: [RefusedClaim]
    /// The purchases in `keptByOthers` that have as many owners as may share them: purchases of the app itself without
    /// an id. Absent if there are none.
    var tooManyOwners: [String]?
    /// The number of customers that presented the submitted purchase, if greater than one; of several submitted
    /// purchases, the greatest number. Not for a client key. See ``PurchaseStanding/claimants``.
    var claimants: Int?
    /// The customer after the submission.
    var customer: CustomerBody

    /// The JSON of a purchase that the ledger does not let go to another customer now.
    struct RefusedClaim: Encodable, Sendable {
        /// The transaction id of the first purchase.
        var originalTransactionId: String
        /// The earliest time at which the same claim may succeed, in milliseconds since 1970.
        var retryAt: Timestamp
    }

    /// - Parameter role: The role of the API key. A client key does not see `claimants`.
    init(_ recorded: RecordResult, _ customer: CustomerBody, for role: APIKey.Role) {
        self.recorded = recorded.new
        alreadyKnown = recorded.known
        keptByOthers = recorded.kept.map(\.originalTransactionId).sorted()
        tooManyClaims = recorded.tooManyClaims
            .map { RefusedClaim(originalTransactionId: $0.originalTransactionId, retryAt: $1) }
            .sorted { $0.originalTransactionId < $1.originalTransactionId }
        let shared = recorded.tooManyOwners.map(\.originalTransactionId).sorted()
        tooManyOwners = shared.isEmpty ? nil : shared
        claimants = Roles.readers.contains(role) ? recorded.claimants.values.max() : nil
        self.customer = customer
    }
}

/// The JSON of the result of a customer's deletion.
struct DeletionBody: Encodable, Sendable {
    /// Always true.
    var deleted: Bool = true
    /// The number of purchases that belonged to the customer, in all environments.
    var unlinkedPurchases: Int
    /// The number of erased documents about these purchases.
    var forgottenDocuments: Int
    /// The number of documents about these purchases that were kept because they are also about purchases that stay; 0
    /// if the setting `keepEvidence` keeps all documents.
    var keptDocuments: Int

    init(_ deleted: DeletionReport) {
        unlinkedPurchases = deleted.purchases
        forgottenDocuments = deleted.erasedDocuments
        keptDocuments = deleted.keptDocuments
    }
}
