// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a customer.
///
/// All responses except those of verifyReceipt have camelCase names and times in whole milliseconds. `docs/api.md`
/// explains each member.
struct CustomerBody: Encodable, Sendable {
    /// The id in the request.
    var id: String
    var ids: [String]
    var bundleId: String
    /// The environments that count, production first.
    var environments: [String]
    var asOf: Timestamp
    @Nullable var nextChange: Timestamp?
    var entitlements: [EntitlementBody]
    /// The environments that do not count, and in which the customer has entitlements.
    var activeIn: [String]?
    var subscriptions: [SubscriptionBody]
    var purchases: [PurchaseBody]
    var consumables: [ConsumableBody]
    var unknownProducts: [String]
    var consentedAt: Timestamp?

    /// - Parameters:
    ///   - answers: The customer by environment; empty for a customer that the ledger does not know.
    ///   - role: The role of the API key. A client key gets neither the customer's other ids and consent nor the
    ///     `evidence` of purchases.
    init(
        _ id: String, _ answers: [Environment: Ledger.CustomerAnswer], _ rule: EnvironmentRule, of bundleId: String,
        at now: Timestamp, for role: APIKey.Role
    ) {
        let (isServer, account, any) = (role == .server, id.normalizedCustomerID, answers.values.first)
        let known = any?.ids ?? []
        let holdings = CountedHoldings(answers.mapValues(\.holdings), rule, ids: known)
        self.id = id
        ids = isServer ? known : known.filter { $0.utf8.elementsEqual(account.utf8) }
        self.bundleId = bundleId
        environments = holdings.counted.map(\.environment.rawValue)
        asOf = now
        nextChange = holdings.nextChange
        entitlements = holdings.entitlements.map { EntitlementBody($0.entitlement, in: $0.environment) }
        activeIn = holdings.activeElsewhere()
        let owned = holdings.counted.map { environment, holdings in
            OwnedPurchases(holdings, answers[environment], in: environment, role)
        }
        subscriptions = owned.flatMap(\.subscriptions)
        purchases = owned.flatMap(\.purchases)
        consumables = owned.flatMap(\.consumables)
        unknownProducts = holdings.unknownProducts
        consentedAt = isServer ? any?.consentedAt : nil
    }
}

/// The purchases of a customer in one environment.
private struct OwnedPurchases {
    let subscriptions: [SubscriptionBody]
    let purchases: [PurchaseBody]
    let consumables: [ConsumableBody]

    init(_ holdings: Holdings, _ answer: Ledger.CustomerAnswer?, in environment: Environment, _ role: APIKey.Role) {
        func standing(_ chain: String) -> PurchaseStanding {
            PurchaseStanding(of: chain, answer, in: environment, for: role)
        }
        subscriptions = holdings.subscriptions.sorted { $0.key < $1.key }
            .map { SubscriptionBody($0.value, standing($0.key)) }
        purchases = (answer?.purchases ?? []).map {
            PurchaseBody($0, standing($0.chainName), showsEvidence: role == .server)
        }
        consumables = holdings.consumables.map {
            let isTransferred = answer?.transferred.contains($0.transactionId) ?? false
            return ConsumableBody($0, standing($0.chainName), isTransferred: isTransferred)
        }
    }
}

/// The JSON of an entitlement and its source.
struct EntitlementBody: Encodable, Sendable {
    var name: String
    var environment: String
    var reason: String
    var productId: String
    var transactionId: String
    var originalTransactionId: String
    @Nullable var until: Timestamp?
    var inAppOwnershipType: Open<InAppOwnershipType>?

    init(_ entitlement: Entitlement, in environment: Environment) {
        name = entitlement.name
        self.environment = environment.rawValue
        reason = entitlement.reason.rawValue
        productId = entitlement.productId
        transactionId = entitlement.transactionId
        originalTransactionId = entitlement.originalTransactionId
        until = entitlement.until
        inAppOwnershipType = entitlement.ownership
    }
}

/// The JSON that says whether a customer has an entitlement.
struct EntitlementCheckBody: Encodable, Sendable {
    var name: String
    var isActive: Bool
    var asOf: Timestamp
    @Nullable var nextChange: Timestamp?
    var entitlement: EntitlementBody?
    /// The environments that do not count, and in which the entitlement is active.
    var activeIn: [String]?
    /// If the entitlement is not active: the customer's products that are not in the configuration.
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
    var productId: String
    var transactionId: String
    var environment: String
    @Nullable var purchaseDate: Timestamp?
    var quantity: Int
    var revokedQuantity: Int
    var transferred: Bool
    var refused: Bool?
    var claimants: Int?

    /// - Parameter isTransferred: Whether this customer claimed the purchase from another customer, who may have used
    ///   it already.
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
    var recorded: Int
    var alreadyKnown: Int
    var keptByOthers: [String]
    var tooManyClaims: [RefusedClaim]
    /// Of the submitted purchase that most customers presented: how many did.
    var claimants: Int?
    var customer: CustomerBody

    struct RefusedClaim: Encodable, Sendable {
        var originalTransactionId: String
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
        claimants = role == .server ? recorded.claimants.values.max() : nil
        self.customer = customer
    }
}

/// The JSON of the result of a deletion.
struct DeletionBody: Encodable, Sendable {
    var deleted = true
    var unlinkedPurchases: Int
    var forgottenDocuments: Int
    var keptDocuments: Int

    init(_ deleted: DeletionReport) {
        unlinkedPurchases = deleted.purchases
        forgottenDocuments = deleted.erasedDocuments
        keptDocuments = deleted.keptDocuments
    }
}
