// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import PurchaseLedger

/// An example of an event, for tests of an endpoint: with the members of a genuine event of its kind, and a member
/// `test` to tell the two apart.
///
/// A receiver may ignore `test`. It still changes none of its own customers: no app has the customer, the products and
/// the entitlement of the examples, and the App Store sells nothing under the transaction id 1.
package struct WebhookExample: Sendable {
    /// The id of the message and of the event. Ids of genuine events begin with a number.
    package let id: String
    /// The kind of the event.
    package let kind: LedgerEvent.Kind
    private let scope: LedgerScope
    private let now: Timestamp

    /// The id of the customer in each example.
    package static let customer = "quittance-test"

    /// The member that marks an example, at the beginning of the event's own members.
    private static let mark = #""test":true,"#

    /// - Parameter id: The id of the message, without `test_` at its beginning.
    package init(_ kind: LedgerEvent.Kind, id: String, for endpoint: WebhookEndpoint, at now: Timestamp) {
        self.id = "test_\(id)"
        self.kind = kind
        // Without a filter the sandbox, because many receivers count production alone.
        scope = LedgerScope(bundleId: endpoint.bundleId, environment: endpoint.environment ?? .sandbox)
        self.now = now
    }

    /// The kinds of events for an endpoint.
    package static func kinds(for endpoint: WebhookEndpoint) -> [LedgerEvent.Kind] {
        LedgerEvent.Kind.allCases.filter { $0 == .ledgerRestored || endpoint.kinds?.contains($0.rawValue) ?? true }
    }

    /// The body of the message: the event in the form of the feed.
    package var body: [UInt8] {
        get throws {
            // The numbers only link the event to the names on its page.
            let customer = Customer(number: 1, bundleId: scope.bundleId)
            let merged = Customer(number: 2, bundleId: scope.bundleId)
            var content = WrittenExample(at: now, in: scope.environment).content(of: kind)
            if kind == .customersMerged { content.mergedCustomer = merged.number }
            if kind == .aliasRemoved { content.removedId = 1 }
            var event = LedgerEvent(
                kind, in: scope, at: now, customer: kind.hasNoCustomer ? nil : customer,
                chainName: kind.isAboutPurchase ? WrittenExample.chainName(of: kind) : nil, content)
            event.cursor = EventCursor(rawValue: id)
            event.body = Array("{\(Self.mark)".utf8) + event.body.dropFirst()
            var page = EventPage(
                events: [event], customerIds: [customer: Self.customer], next: EventCursor(rawValue: id))
            page.formerIds = [merged: "\(Self.customer)-merged"]
            page.removedIds = [customer: [1: "\(Self.customer)-removed"]]
            page.allIds = [customer: [Self.customer, "\(Self.customer)-2"]]
            page.attributes = [customer: try Self.attributes(of: customer, at: now)]
            if kind == .customerDeleted {
                page.deletedIds = [customer: Self.customer]
                page.allDeletedIds = [customer: [Self.customer]]
            }
            return try JSONWriter.bytes(encoding: EventBody(event, in: page))
        }
    }

    private static func attributes(of customer: Customer, at now: Timestamp) throws -> CustomerAttributes {
        let payload = #"{"plan":["a",\#(now.milliseconds)]}"#
        return try CustomerAttributes(LedgerRecord(CustomerAttributes.key(customer), payload: Array(payload.utf8)))
    }
}

extension LedgerEvent.Kind {
    /// Whether events of this kind name a purchase.
    fileprivate var isAboutPurchase: Bool {
        switch self {
        case .grantMade, .grantMoved, .grantEnded: false
        default: !isAboutCustomer && !hasNoCustomer
        }
    }

    fileprivate var hasNoCustomer: Bool {
        [.notificationReceived, .environmentsChanged, .ledgerRestored].contains(self)
    }
}

/// The content of the examples.
private struct WrittenExample {
    let now: Timestamp
    let environment: Environment

    /// The transaction, and the original transaction.
    static let transactionId = "1"
    /// The transaction of a renewal, and the purchase to which a subscription migrated.
    private static let laterId = "2"

    static func chainName(of kind: LedgerEvent.Kind) -> String {
        kind == .appRecorded ? "app:\(transactionId)" : transactionId
    }

    private static let entitlement = "test"

    init(at now: Timestamp, in environment: Environment) {
        self.now = now
        self.environment = environment
    }

    /// A product of the examples.
    private enum Product: String {
        case month = "test.month"
        case year = "test.year"
        case coins = "test.coins"
        case book = "test.book"
        case season = "test.season"

        var type: ProductType {
            switch self {
            case .month, .year: .autoRenewableSubscription
            case .coins: .consumable
            case .book: .nonConsumable
            case .season: .nonRenewingSubscription
            }
        }

        /// The price in thousandths of a euro.
        var price: Int64 {
            switch self {
            case .month: 4990
            case .year: 49_990
            case .coins: 990
            case .book: 2990
            case .season: 7990
            }
        }
    }

    private func days(_ count: Int64) -> Timestamp { now.advanced(by: .seconds(count * 86_400)) }

    // MARK: States

    private func state(
        _ status: SubscriptionState.Status, of product: Product, until end: Timestamp? = nil, willRenew: Bool? = nil,
        commitmentWillRenew: Bool? = nil, _ change: (inout RenewalTerms) -> Void = { _ in }
    ) -> ChainState {
        let hasAccess = status == .active || status == .billingGrace || status == .stale
        let until: Timestamp? =
            switch status {
            case .active, .billingGrace: end
            // The customer may use a stale subscription for a while after the end of its period.
            case .stale: now.advanced(by: .seconds(3600))
            case .expired, .billingRetry, .revoked, .upgraded: now
            }
        var renewal = RenewalTerms()
        renewal.autoRenewProductId = product.rawValue
        renewal.renewalPrice = product.price
        renewal.currency = "EUR"
        change(&renewal)
        return ChainState(
            status: status, productId: product.rawValue, transactionId: Self.transactionId, hasAccess: hasAccess,
            until: until, willRenew: willRenew, commitmentWillRenew: commitmentWillRenew,
            renewal: willRenew == nil ? nil : renewal)
    }

    private func active(willRenew: Bool? = true) -> ChainState {
        state(.active, of: .month, until: days(30), willRenew: willRenew)
    }

    private func committed(renews: Bool) -> ChainState {
        state(.active, of: .year, until: days(30), willRenew: true, commitmentWillRenew: renews)
    }

    /// A month whose next renewal has other terms.
    private func month(
        _ status: SubscriptionState.Status = .active, willRenew: Bool = true, _ change: (inout RenewalTerms) -> Void
    ) -> ChainState {
        state(status, of: .month, until: days(30), willRenew: willRenew, change)
    }

    private func increased(_ terms: inout RenewalTerms, _ status: PriceIncreaseStatus) {
        terms.renewalPrice = 5990
        terms.priceIncreaseStatus = Open(status)
    }

    private var ending: ChainState { state(.active, of: .month, until: now, willRenew: true) }
    private var expired: ChainState { state(.expired, of: .month, willRenew: false) }

    private func given(by state: ChainState?) -> GivenEntitlements {
        guard let state, let product = state.productId.flatMap(Product.init), product != .coins else { return .empty }
        let reason: Entitlement.Reason? =
            switch state.status.known {
            case .active: product.type == .autoRenewableSubscription ? .subscription : .purchase
            case .billingGrace: .billingGrace
            case .stale: .stale
            default: nil
            }
        guard let reason else { return .empty }
        var entitlement = GivenEntitlement(Self.entitlement, reason, in: environment, until: state.until)
        if product.type == .autoRenewableSubscription {
            entitlement.subscriptionGroup = "1"
            entitlement.level = 1
        }
        entitlement.transactionId = state.transactionId
        return GivenEntitlements([entitlement])
    }

    private func given(until end: Timestamp?) -> GivenEntitlements {
        GivenEntitlements([GivenEntitlement(Self.entitlement, .grant, in: environment, until: end)])
    }

    // MARK: Contents

    /// A change of a purchase, with the details of its transaction.
    private func change(
        of product: Product = .month, from before: ChainState?, to after: ChainState,
        transactionId: String = transactionId, _ change: (inout EventDetails) -> Void = { _ in }
    ) -> EventContent {
        var details = details(of: product)
        change(&details)
        var after = after
        after.transactionId = transactionId
        var content = owned(from: before, to: after)
        content.transactionId = transactionId
        content.productId = product.rawValue
        content.details = details
        return content
    }

    private func details(of product: Product) -> EventDetails {
        var details = EventDetails()
        details.type = Open(product.type)
        details.inAppOwnershipType = Open(.purchased)
        details.quantity = 1
        details.price = product.price
        details.currency = "EUR"
        details.storefront = "DEU"
        return details
    }

    /// A payment of a month.
    private func payment(_ change: (inout EventDetails) -> Void = { _ in }) -> EventContent {
        var details = details(of: .month)
        details.purchaseDate = now
        details.expiresDate = days(30)
        details.transactionReason = Open(.purchase)
        change(&details)
        return EventContent(
            payment: details, effectiveAt: now, transactionId: Self.transactionId, productId: Product.month.rawValue)
    }

    private func refunded(_ details: inout EventDetails) {
        details.revocationDate = now
        details.revocationReason = Open(.other)
        details.revocationType = Open(.refundFull)
        details.revocationPercentage = 100_000
    }

    /// A purchase of the app itself.
    private var app: EventContent {
        var content = EventContent(effectiveAt: now, after: ChainState(status: .active, hasAccess: true))
        content.entitlementsBefore = .empty
        content.entitlementsAfter = .empty
        var details = EventDetails()
        details.type = .app
        details.appTransactionId = Self.transactionId
        details.originalPurchaseDate = now
        details.originalApplicationVersion = "1.0"
        details.originalPlatform = Open(.iOS)
        details.receiptType = environment.rawValue
        content.details = details
        return content
    }

    /// A purchase that gets or loses an owner.
    private func linked(from before: ChainState?, to after: ChainState?, detail: String? = nil) -> EventContent {
        var content = owned(from: before, to: after, detail: detail)
        content.transactionId = Self.transactionId
        content.productId = Product.month.rawValue
        var details = EventDetails()
        details.type = Open(Product.month.type)
        details.price = Product.month.price
        details.currency = "EUR"
        content.details = details
        return content
    }

    /// A change of a purchase without a transaction.
    private func owned(from before: ChainState?, to after: ChainState?, detail: String? = nil) -> EventContent {
        var content = EventContent(effectiveAt: now, detail: detail, before: before, after: after)
        content.entitlementsBefore = given(by: before)
        content.entitlementsAfter = given(by: after)
        return content
    }

    private func refund(of product: Product, from before: ChainState, to after: ChainState) -> EventContent {
        change(of: product, from: before, to: after, refunded)
    }

    private func grant(from before: GivenEntitlements, to after: GivenEntitlements) -> EventContent {
        var content = EventContent(effectiveAt: now, detail: "an example", grantId: "test")
        content.entitlementsBefore = before
        content.entitlementsAfter = after
        return content
    }

    private func corrected(_ content: EventContent) -> EventContent {
        var content = content
        content.correction = Correction(by: Correction.operatorName, reason: "an example")
        return content
    }

    private func setting(of kind: LedgerEvent.Kind) -> EventContent {
        var content = EventContent(effectiveAt: now)
        switch kind {
        case .attributesChanged: content.attributes = ["plan"]
        case .consentChanged: content.consentedAt = now
        default:
            content.sandboxAccessBefore = "all"
            content.sandboxAccessAfter = "listed"
        }
        return content
    }

    func content(of kind: LedgerEvent.Kind) -> EventContent {
        let coins = state(.active, of: .coins)
        let book = state(.active, of: .book)
        let deniedBook = state(.revoked, of: .book)
        switch kind {
        case .transactionRecorded: return payment { $0.renewalNumber = 1 }
        case .transactionCompleted, .transactionRevocationReversed: return payment()
        case .transactionRevoked: return payment(refunded)
        case .appRecorded: return app
        case .subscriptionStarted: return change(from: nil, to: active())
        case .subscriptionRenewed: return change(from: ending, to: active(), transactionId: Self.laterId)
        case .subscriptionExtended:
            return change(from: active(), to: state(.active, of: .month, until: days(33), willRenew: true))
        case .subscriptionRecovered: return change(from: expired, to: active(), transactionId: Self.laterId)
        case .subscriptionUpdated: return change(from: active(willRenew: nil), to: active())
        case .subscriptionProductChanged:
            let year = state(.active, of: .year, until: days(365), willRenew: true)
            return change(of: .year, from: active(), to: year, transactionId: Self.laterId)
        case .subscriptionRenewalDisabled:
            return change(from: active(), to: active(willRenew: false)) {
                $0.expirationIntent = Open(.customerCancelled)
            }
        case .subscriptionRenewalEnabled: return change(from: active(willRenew: false), to: active())
        case .subscriptionCommitmentRenewalDisabled:
            return change(of: .year, from: committed(renews: true), to: committed(renews: false))
        case .subscriptionCommitmentRenewalEnabled:
            return change(of: .year, from: committed(renews: false), to: committed(renews: true))
        case .subscriptionNextProductChanged:
            let year = month {
                $0.autoRenewProductId = Product.year.rawValue
                $0.renewalPrice = Product.year.price
            }
            return change(from: active(), to: year)
        case .subscriptionPriceIncreaseAsked:
            return change(from: active(), to: month { increased(&$0, .pending) })
        case .subscriptionPriceIncreaseAccepted:
            return change(from: month { increased(&$0, .pending) }, to: month { increased(&$0, .agreed) })
        case .subscriptionPriceIncreaseRefused:
            let ended = month(.expired, willRenew: false) { increased(&$0, .pending) }
            return change(from: month { increased(&$0, .pending) }, to: ended) {
                $0.expirationIntent = Open(.noConsentToPriceIncrease)
            }
        case .subscriptionGraceEntered:
            let grace = state(.billingGrace, of: .month, until: days(16), willRenew: true)
            return change(from: ending, to: grace) { details in
                details.expirationIntent = Open(.billingError)
                details.gracePeriodExpiresDate = days(16)
            }
        case .subscriptionRetryEntered:
            return change(from: ending, to: state(.billingRetry, of: .month, willRenew: true)) {
                $0.expirationIntent = Open(.billingError)
            }
        case .subscriptionExpired:
            return change(from: ending, to: expired) { $0.expirationIntent = Open(.customerCancelled) }
        case .subscriptionStale: return change(from: ending, to: state(.stale, of: .month, willRenew: true))
        case .subscriptionRevoked:
            return refund(of: .month, from: active(), to: state(.revoked, of: .month, willRenew: false))
        case .subscriptionMigrated:
            var content = owned(from: expired, to: nil, detail: Self.laterId)
            content.transactionId = Self.transactionId
            content.productId = Product.month.rawValue
            return content
        case .purchased: return change(of: .coins, from: nil, to: coins)
        case .refunded: return refund(of: .coins, from: coins, to: state(.revoked, of: .coins))
        case .shareEnded:
            return change(of: .book, from: book, to: deniedBook) { details in
                details.inAppOwnershipType = Open(.familyShared)
                details.price = nil
                details.currency = nil
                details.revocationDate = now
                details.revocationReason = Open(.other)
                details.revocationType = Open(.familyRevoke)
            }
        case .refundReversed: return change(of: .coins, from: state(.revoked, of: .coins), to: coins)
        case .accessEnded:
            let season = state(.active, of: .season, until: now)
            return change(of: .season, from: season, to: state(.expired, of: .season))
        case .purchaseUpdated, .consumptionRequested, .refundDeclined:
            return change(of: .coins, from: coins, to: coins)
        case .linked: return linked(from: nil, to: active(), detail: "appAccountToken")
        case .unlinked: return linked(from: active(), to: nil)
        case .purchaseDenied: return corrected(change(of: .book, from: book, to: deniedBook))
        case .purchaseAllowed: return corrected(change(of: .book, from: deniedBook, to: book))
        case .customersMerged, .customerDeleted, .aliasAdded, .ledgerRestored: return EventContent(effectiveAt: now)
        case .attributesChanged, .consentChanged, .environmentsChanged: return setting(of: kind)
        case .customerUnmerged, .aliasRemoved: return corrected(EventContent(effectiveAt: now))
        case .grantMade: return grant(from: .empty, to: given(until: days(30)))
        case .grantMoved: return grant(from: .empty, to: given(until: days(30)))
        case .grantEnded: return grant(from: given(until: now), to: .empty)
        case .notificationReceived:
            var content = EventContent(effectiveAt: now, detail: "TEST")
            content.evidence = "\(now.milliseconds)-\(String(repeating: "0", count: 64))"
            let data = JSONValue.object([.init("environment", .string(environment.rawValue))])
            content.notification = .object([.init("data", data)])
            return content
        }
    }
}
