// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

/// The JSON of a customer in one environment.
///
/// All responses except those of verifyReceipt have camelCase names and times in whole milliseconds. `docs/api.md`
/// explains each member.
struct CustomerBody: Encodable, Sendable {
    /// The id in the request.
    var id: String
    var ids: [String]
    var bundleId: String
    var environment: String
    var asOf: Timestamp
    @Nullable var nextChange: Timestamp?
    var entitlements: [EntitlementBody]
    var subscriptions: [SubscriptionBody]
    var purchases: [PurchaseBody]
    var consumables: [ConsumableBody]
    var unknownProducts: [String]
    var consentedAt: Timestamp?

    /// - Parameter role: The role of the API key. A client key gets neither the customer's other ids and consent nor
    ///   the `evidence` of purchases.
    init(
        _ id: String, _ answer: Ledger.CustomerAnswer, in scope: LedgerScope, at now: Timestamp, for role: APIKey.Role
    ) {
        let (isServer, account) = (role == .server, id.normalizedCustomerID)
        self.id = id
        ids = isServer ? answer.ids : answer.ids.filter { $0.utf8.elementsEqual(account.utf8) }
        (bundleId, environment) = (scope.bundleId, scope.environment.rawValue)
        asOf = now
        nextChange = answer.holdings.nextChange
        entitlements = answer.holdings.entitlements.map { EntitlementBody($0) }
        func standing(_ id: String) -> PurchaseStanding { PurchaseStanding(of: id, answer, for: role) }
        subscriptions = answer.holdings.subscriptions.sorted { $0.key < $1.key }
            .map { SubscriptionBody($0, $1, standing($0)) }
        purchases = answer.purchases.map {
            PurchaseBody($0, standing($0.originalTransactionId), showsEvidence: isServer)
        }
        consumables = answer.holdings.consumables.map {
            let isTransferred = answer.transferred.contains($0.transactionId)
            return ConsumableBody($0, standing($0.originalTransactionId), isTransferred: isTransferred)
        }
        unknownProducts = answer.holdings.unknownProducts.sorted()
        consentedAt = isServer ? answer.consentedAt : nil
    }
}

/// The JSON of an entitlement and its source.
struct EntitlementBody: Encodable, Sendable {
    var name: String
    var reason: String
    var productId: String
    var transactionId: String
    var originalTransactionId: String
    @Nullable var until: Timestamp?
    var inAppOwnershipType: Open<InAppOwnershipType>?

    init(_ entitlement: Entitlement) {
        name = entitlement.name
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

    init(_ name: String, _ holdings: Holdings, at now: Timestamp) {
        self.name = name
        entitlement = holdings.entitlements.first { $0.name == name }.map { EntitlementBody($0) }
        isActive = entitlement != nil
        asOf = now
        nextChange = holdings.nextChange
    }
}

/// The JSON of a purchase of a consumable.
struct ConsumableBody: Encodable, Sendable {
    var productId: String
    var transactionId: String
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
