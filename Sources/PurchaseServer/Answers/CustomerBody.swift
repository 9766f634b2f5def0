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
    /// All ids of the customer; for a client key only the id in the request.
    var ids: [String]
    /// The app of the key.
    var bundleId: String
    /// The environments that count, production first.
    var environments: [String]
    /// The time that the answer is about, in milliseconds since 1970.
    var asOf: Timestamp
    /// When the answer changes if no document arrives, in milliseconds since 1970; `null` for never.
    @Nullable var nextChange: Timestamp?
    /// The active entitlements, one of each name, by name.
    var entitlements: [EntitlementBody]
    /// The environments that do not count, and in which the customer has entitlements.
    var activeIn: [String]?
    /// The subscriptions, also those that are over.
    var subscriptions: [SubscriptionBody] = []
    /// All transactions, also those of subscriptions.
    var purchases: [PurchaseBody] = []
    /// The consumables, to be credited once for each `transactionId`.
    var consumables: [ConsumableBody] = []
    /// The products of the customer that the configuration lacks, in order.
    var unknownProducts: [String]
    /// Since when the customer consents to answers about consumption, in milliseconds since 1970; for a server key
    /// only.
    var consentedAt: Timestamp?

    /// - Parameters:
    ///   - answers: The customer by environment; empty for a customer that the ledger does not know.
    ///   - role: The role of the API key. A client key gets neither the customer's other ids and consent nor the
    ///     `evidence` of purchases.
    init(
        _ id: String, _ answers: [Environment: Ledger.CustomerAnswer], _ rule: EnvironmentRule, of bundleId: String,
        at now: Timestamp, for role: APIKey.Role
    ) {
        let isServer = role == .server
        let account = id.normalizedCustomerID
        let any = answers.values.first
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
        unknownProducts = holdings.unknownProducts
        consentedAt = isServer ? any?.consentedAt : nil
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
            PurchaseBody($0, standing($0.chainName), showsEvidence: role == .server)
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
    /// `subscription`, `billingGrace`, `stale` or `purchase`.
    var reason: String
    /// The product that gives the entitlement.
    var productId: String
    /// The transaction that gives the entitlement.
    var transactionId: String
    /// The transaction id of the first purchase.
    var originalTransactionId: String
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
        until = entitlement.until
        inAppOwnershipType = entitlement.ownership
    }
}

/// The JSON that says whether a customer has an entitlement.
struct EntitlementCheckBody: Encodable, Sendable {
    /// The name in the request.
    var name: String
    /// Whether the customer has the entitlement now.
    var isActive: Bool
    /// The time that the answer is about, in milliseconds since 1970.
    var asOf: Timestamp
    /// When the answer changes if no document arrives, in milliseconds since 1970; `null` for never.
    @Nullable var nextChange: Timestamp?
    /// The entitlement, if it is active.
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
    /// The product.
    var productId: String
    /// The transaction, which is to be credited once across all customers.
    var transactionId: String
    /// `Production`, `Sandbox`, `Xcode` or `LocalTesting`.
    var environment: String
    /// When it was bought, in milliseconds since 1970.
    @Nullable var purchaseDate: Timestamp?
    /// How many were bought.
    var quantity: Int
    /// How many of `quantity` were taken back: 0 to `quantity`.
    var revokedQuantity: Int
    /// Whether a claim ever took the purchase from another customer.
    var transferred: Bool
    /// True if the configuration refuses the purchase, otherwise absent.
    var refused: Bool?
    /// How many customers presented the purchase, if more than one did; for a server key only.
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
    /// How many documents the ledger has more than before.
    var recorded: Int
    /// How many documents the ledger had, or say nothing new.
    var alreadyKnown: Int
    /// The original transaction ids of the purchases that stay with another customer, in order.
    var keptByOthers: [String]
    /// Those of `keptByOthers` that stay because claims moved them too often.
    var tooManyClaims: [RefusedClaim]
    /// Of the submitted purchase that most customers presented: how many did.
    var claimants: Int?
    /// The customer after the submission.
    var customer: CustomerBody

    struct RefusedClaim: Encodable, Sendable {
        /// The transaction id of the first purchase.
        var originalTransactionId: String
        /// When the same claim may succeed, in milliseconds since 1970.
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
    /// Always true.
    var deleted = true
    /// How many purchases the customer had.
    var unlinkedPurchases: Int
    /// How many documents were erased.
    var forgottenDocuments: Int
    /// How many documents about the customer's purchases were kept.
    var keptDocuments: Int

    init(_ deleted: DeletionReport) {
        unlinkedPurchases = deleted.purchases
        forgottenDocuments = deleted.erasedDocuments
        keptDocuments = deleted.keptDocuments
    }
}
