// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger

// What the ledger knows, as JSON: camelCase, times in whole milliseconds, and `null` where something is known to be none.

/// Everything about one customer in one environment.
struct CustomerAnswer {
    /// As the client asked for it.
    var id: String
    var ids: [String]
    var scope: LedgerScope
    var now: Timestamp
    var holdings: Holdings
    var purchases: [TransactionStatement]
    /// The consumables, by transaction id, that a claim moved here from another customer.
    var transferred: Set<String> = []
    var showsEvidence = true

    /// What a key inside an app may see: neither the customer's other ids nor the names of documents.
    var forClient: CustomerAnswer {
        var answer = self
        answer.ids = ids.filter { $0.utf8.elementsEqual(id.asAccount.utf8) }
        answer.showsEvidence = false
        return answer
    }
}

extension JSONWriter {
    mutating func instant(_ name: StaticString, _ instant: Timestamp?) {
        self.name(name)
        if let instant { number(instant.milliseconds) } else { null() }
    }

    mutating func flag(_ name: StaticString, _ value: Bool?) {
        self.name(name)
        if let value { bool(value) } else { null() }
    }

    mutating func customer(_ answer: CustomerAnswer) {
        let holdings = answer.holdings
        object { json in
            json.member("id", answer.id)
            json.name("ids")
            json.array(answer.ids) { $0.string($1) }
            json.member("bundleId", answer.scope.bundleId)
            json.member("environment", answer.scope.environment.rawValue)
            json.instant("asOf", answer.now)
            json.instant("nextChange", holdings.nextChange)
            json.name("entitlements")
            json.array(holdings.entitlements) { $0.entitlement($1) }
            json.name("subscriptions")
            json.array(holdings.subscriptions.sorted { $0.key < $1.key }) { $0.subscription($1.key, $1.value) }
            json.name("purchases")
            json.array(answer.purchases) { $0.purchase($1, withEvidence: answer.showsEvidence) }
            json.name("consumables")
            json.array(holdings.consumables) {
                $0.consumable($1, isTransferred: answer.transferred.contains($1.transactionId))
            }
            json.name("unknownProducts")
            json.array(holdings.unknownProducts.sorted()) { $0.string($1) }
        }
    }

    mutating func entitlement(_ entitlement: Entitlement) {
        object { json in
            json.member("name", entitlement.name)
            json.member("reason", entitlement.reason.rawValue)
            json.member("productId", entitlement.productId)
            json.member("transactionId", entitlement.transactionId)
            json.member("originalTransactionId", entitlement.originalTransactionId)
            json.instant("until", entitlement.until)
            json.member("inAppOwnershipType", entitlement.ownership?.rawValue)
        }
    }

    mutating func subscription(_ originalTransactionId: String, _ state: SubscriptionState) {
        object { json in
            json.member("originalTransactionId", originalTransactionId)
            json.member("status", state.status.rawValue)
            json.name("statusCode")
            if let number = state.status.number { json.number(number) } else { json.null() }
            json.member("productId", state.governing.productId)
            json.member("transactionId", state.governing.transactionId)
            json.member("subscriptionGroupIdentifier", state.governing.subscriptionGroup)
            json.instant("expiresDate", state.governing.expiresDate)
            json.instant("accessUntil", state.accessUntil)
            json.instant("nextChange", state.nextChange)
            json.flag("willRenew", state.willRenew)
            json.member("autoRenewProductId", state.nextProductId)
            if let intent = state.expirationIntent { json.member("expirationIntent", number: intent.rawValue) }
            if let status = state.priceIncreaseStatus { json.member("priceIncreaseStatus", number: status.rawValue) }
        }
    }

    /// A transaction, and the document that its facts are from.
    mutating func purchase(_ statement: TransactionStatement, withEvidence: Bool = true) {
        object { json in
            json.member("transactionId", statement.transactionId)
            json.member("originalTransactionId", statement.originalTransactionId)
            json.member("productId", statement.productId)
            json.member("type", statement.type?.rawValue)
            json.instant("purchaseDate", statement.purchaseDate)
            json.instant("expiresDate", statement.expiresDate)
            json.member("quantity", number: statement.quantity)
            json.flag("isUpgraded", statement.isUpgraded)
            json.instant("revocationDate", statement.revocation?.date)
            if let reason = statement.revocation?.reason { json.member("revocationReason", number: reason.rawValue) }
            json.member("revocationType", statement.revocation?.type?.rawValue)
            json.member("inAppOwnershipType", statement.ownership?.rawValue)
            json.member("webOrderLineItemId", statement.webOrderLineItemId)
            guard withEvidence else { return }
            json.name("evidence")
            json.evidence(statement.provenance, statement.source)
        }
    }

    private mutating func evidence(_ provenance: Provenance, _ source: TransactionStatement.Source) {
        object { json in
            json.member("id", "\(provenance)")
            json.member("kind", source == .receipt ? "receipt" : "signedTransaction")
            json.instant("signedDate", provenance.signedDate)
        }
    }

    /// - Parameter isTransferred: Whether a claim moved it here from another customer, which may have used it.
    mutating func consumable(_ purchase: ConsumablePurchase, isTransferred: Bool) {
        object { json in
            json.member("productId", purchase.productId)
            json.member("transactionId", purchase.transactionId)
            json.instant("purchaseDate", purchase.purchaseDate)
            json.member("quantity", number: purchase.quantity)
            json.member("revokedQuantity", number: purchase.revokedQuantity)
            json.flag("transferred", isTransferred)
        }
    }

    mutating func event(_ event: LedgerEvent, customer: String?) {
        object { json in
            json.member("id", "\(event.sequence)")
            json.member("kind", event.kind.rawValue)
            json.instant("recordedAt", event.recordedAt)
            json.member("bundleId", event.scope.bundleId)
            json.member("environment", event.scope.environment.rawValue)
            json.member("customer", customer)
            json.member("originalTransactionId", event.originalTransactionId)
            json.member("transactionId", event.transactionId)
            json.member("productId", event.productId)
            json.member("detail", event.detail)
        }
    }
}
