// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A simulated App Store of one app: customers, what they buy, and a clock that the caller turns.
///
/// A world is a value without sockets, wall clock or global randomness: a seed and the same calls give the same
/// occurrences with the same identifiers, in every process. ``WorldSigner`` makes documents of them.
public struct World: Sendable {
    public var catalogue: StoreCatalogue
    /// How fast subscriptions of the sandbox go. Those of production go by the calendar.
    public var sandboxSpeed = RenewalSpeed.fiveMinutes
    public private(set) var now: Timestamp
    /// Everything that happened, in order.
    public private(set) var occurrences: [Occurrence] = []
    /// By name.
    public private(set) var customers: [String: StoreCustomer] = [:]
    /// By original transaction id.
    public private(set) var subscriptions: [String: SubscriptionChain] = [:]
    /// What was bought once, by transaction id.
    public private(set) var purchases: [String: JWSTransactionDecodedPayload] = [:]
    /// The customer of each original transaction id.
    private var owners: [String: String] = [:]
    private var identifiers: Identifiers
    private var agenda = Agenda()

    /// - Parameters:
    ///   - seed: What all identifiers follow from.
    ///   - now: Where the clock begins.
    public init(seed: UInt64, catalogue: StoreCatalogue, now: Timestamp) {
        self.catalogue = catalogue
        self.now = now
        identifiers = Identifiers(seed: seed)
    }
}

// MARK: - Customers

extension World {
    /// Adds a customer who downloads the app now.
    ///
    /// - Parameter name: Any text that no other customer of the world has.
    /// - Throws: ``ImpossibleEvent`` if there is such a customer.
    @discardableResult
    public mutating func addCustomer(
        _ name: String, environment: Environment = .production, storefront: Storefront? = nil,
        hasAccount: Bool = true
    ) throws(ImpossibleEvent) -> StoreCustomer {
        guard customers[name] == nil else { throw ImpossibleEvent(description: "There is a customer \(name) already") }
        let customer = StoreCustomer(
            name: name, environment: environment, storefront: storefront ?? catalogue.storefront,
            appAccountToken: hasAccount ? identifiers.uuid(.account) : nil,
            appTransactionId: "\(identifiers.number(.appTransaction, from: 700_000_000_000_000_000))", downloadDate: now)
        customers[name] = customer
        return customer
    }

    private func customer(_ name: String) throws(ImpossibleEvent) -> StoreCustomer {
        guard let customer = customers[name] else { throw ImpossibleEvent(description: "There is no customer \(name)") }
        return customer
    }

    /// The original transaction ids of a customer's subscriptions, in the order of the first purchases.
    public func subscriptions(of name: String) -> [String] {
        owners.filter { $0.value == name && subscriptions[$0.key] != nil }.keys.sorted()
    }

    /// Lets the customer's charges fail from now on.
    public mutating func breakBilling(of name: String) throws(ImpossibleEvent) {
        _ = try customer(name)
        customers[name]?.canPay = false
    }

    /// Lets the customer's charges succeed again. The App Store charges at once for what could not be renewed.
    public mutating func fixBilling(of name: String) throws(ImpossibleEvent) {
        _ = try customer(name)
        customers[name]?.canPay = true
        for id in subscriptions(of: name) {
            guard let chain = subscriptions[id], chain.isInGrace || chain.isInRetry else { continue }
            let sale = try nextSale(of: chain, name)
            let ids = newIds(chain.current.environment)
            let (now, speed) = (now, speed(of: chain))
            try change(id) { chain throws(ImpossibleEvent) in try chain.recover(sale, ids, at: now, speed) }
        }
    }
}

// MARK: - Buying

extension World {
    /// A customer buys a product.
    ///
    /// A subscription is a first purchase, a return after the end, or a change of plan, by what the customer has.
    ///
    /// - Parameters:
    ///   - offer: The name of a promotional offer, offer code or win-back offer. Without one, a new subscriber of the group
    ///     gets the introductory offer if there is one.
    ///   - quantity: How many; 1 but for consumables.
    /// - Returns: The transaction's id, or the one of the running period if the change waits for the next renewal.
    @discardableResult
    public mutating func buy(
        _ productId: String, by name: String, offer offerId: String? = nil, quantity: Int = 1
    ) throws(ImpossibleEvent) -> String {
        let customer = try customer(name)
        guard let product = catalogue[productId] else {
            throw ImpossibleEvent(description: "The catalogue has no product \(productId)")
        }
        guard customer.canPay else { throw ImpossibleEvent(description: "\(name) cannot pay") }
        var sale = sale(of: product, to: customer)
        sale.quantity = quantity
        guard let plan = product.plan else { return buyOnce(sale, by: name) }
        sale.offer = try offer(offerId, of: product, for: customer)
        customers[name]?.groupsUsed.insert(plan.group)
        let running = subscriptions(of: name).first { subscriptions[$0]?.current.subscriptionGroupIdentifier == plan.group }
        guard let running else { return try subscribe(sale, by: name) }
        return try changePlan(of: running, to: sale, plan, by: name)
    }

    private func sale(of product: StoreProduct, to customer: StoreCustomer) -> Sale {
        Sale(
            product: product, bundleId: catalogue.bundleId, environment: customer.environment,
            storefront: customer.storefront, appTransactionId: customer.appTransactionId,
            appAccountToken: customer.appAccountToken)
    }

    private func offer(
        _ id: String?, of product: StoreProduct, for customer: StoreCustomer
    ) throws(ImpossibleEvent) -> StoreOffer? {
        guard let plan = product.plan else { return nil }
        guard let id else { return customer.groupsUsed.contains(plan.group) ? nil : plan.introductoryOffer }
        guard let offer = plan.offers.first(where: { $0.id == id }) else {
            throw ImpossibleEvent(description: "\(product.id) has no offer \(id)")
        }
        return offer
    }

    private mutating func buyOnce(_ sale: Sale, by name: String) -> String {
        let id = newIds(Open(sale.environment)).transactionId
        let transaction = sale.transaction(id, original: nil, reason: .purchase, from: now, until: nil)
        purchases[id] = transaction
        owners[id] = name
        occur(Notice(.oneTimeCharge, nil, id), transaction, nil, name)
        return id
    }

    private mutating func subscribe(_ sale: Sale, by name: String) throws(ImpossibleEvent) -> String {
        let ids = newIds(Open(sale.environment))
        subscriptions[ids.transactionId] = try SubscriptionChain(sale, ids, at: now, speed(of: sale.environment))
        owners[ids.transactionId] = name
        try change(ids.transactionId) { chain throws(ImpossibleEvent) in chain.notice(.subscribed, .initialBuy) }
        return ids.transactionId
    }

    private mutating func changePlan(
        of id: String, to sale: Sale, _ plan: SubscriptionPlan, by name: String
    ) throws(ImpossibleEvent) -> String {
        guard let chain = subscriptions[id] else { throw ImpossibleEvent(description: "There is no subscription \(id)") }
        let (now, speed) = (now, speed(of: chain))
        if chain.state == .expired || chain.state == .revoked {
            let ids = newIds(chain.current.environment)
            try change(id) { chain throws(ImpossibleEvent) in try chain.resubscribe(sale, ids, at: now, speed) }
            return ids.transactionId
        }
        let current = chain.current.productId.flatMap { catalogue[$0]?.plan }
        let isNow = current.map { plan.level < $0.level || plan.level == $0.level && plan.period == $0.period } ?? true
        if isNow, sale.product.id != chain.current.productId {
            let ids = newIds(chain.current.environment)
            try change(id) { chain throws(ImpossibleEvent) in try chain.upgrade(to: sale, ids, at: now, speed) }
            return ids.transactionId
        }
        let price = sale.product.price.milliunits(in: sale.storefront)
        try change(id) { chain throws(ImpossibleEvent) in try chain.changeNextPlan(to: sale.product.id, price: price) }
        return chain.current.transactionId ?? id
    }
}

// MARK: - What customers and the App Store do

extension World {
    /// The customer turns renewal off.
    public mutating func cancel(_ subscription: String) throws(ImpossibleEvent) {
        try change(subscription) { chain throws(ImpossibleEvent) in try chain.cancel() }
    }

    /// The customer turns renewal on again.
    public mutating func resume(_ subscription: String) throws(ImpossibleEvent) {
        try change(subscription) { chain throws(ImpossibleEvent) in try chain.resume() }
    }

    /// The App Store raises the price of a subscription, in milliunits of its currency.
    public mutating func increasePrice(
        of subscription: String, to price: Int64, needsConsent: Bool
    ) throws(ImpossibleEvent) {
        try change(subscription) { chain throws(ImpossibleEvent) in
            try chain.increasePrice(to: price, needsConsent: needsConsent)
        }
    }

    /// The customer agrees to the price that was asked for.
    public mutating func consent(_ subscription: String) throws(ImpossibleEvent) {
        try change(subscription) { chain throws(ImpossibleEvent) in try chain.consent() }
    }

    /// The developer moves the end of the running period by some days, in the sandbox by as many minutes.
    public mutating func extend(_ subscription: String, days: Int) throws(ImpossibleEvent) {
        try change(subscription) { chain throws(ImpossibleEvent) in
            let isProduction = chain.current.environment == .production
            let end = isProduction
                ? chain.end.adding(days: days) : Timestamp(milliseconds: chain.end.milliseconds + Int64(days) * 60_000)
            return try chain.extend(until: end)
        }
    }

    /// The App Store refunds a transaction.
    public mutating func refund(_ transactionId: String, _ refund: Refund = Refund()) throws(ImpossibleEvent) {
        let now = now
        if var purchase = purchases[transactionId] {
            guard purchase.revocationDate == nil else {
                throw ImpossibleEvent(description: "Transaction \(transactionId) is refunded already")
            }
            purchase.refund(refund, at: now)
            purchases[transactionId] = purchase
            occur(Notice(.refund, nil, transactionId), purchase, nil, owners[transactionId])
        } else {
            try change(subscription(of: transactionId)) { chain throws(ImpossibleEvent) in
                try chain.refund(transactionId, refund, at: now)
            }
        }
    }

    /// The App Store takes a refund back.
    public mutating func reverseRefund(_ transactionId: String) throws(ImpossibleEvent) {
        let now = now
        if var purchase = purchases[transactionId] {
            guard purchase.revocationDate != nil else {
                throw ImpossibleEvent(description: "Transaction \(transactionId) is not refunded")
            }
            purchase.reverseRefund()
            purchases[transactionId] = purchase
            occur(Notice(.refundReversed, nil, transactionId), purchase, nil, owners[transactionId])
        } else {
            try change(subscription(of: transactionId)) { chain throws(ImpossibleEvent) in
                try chain.reverseRefund(transactionId, at: now)
            }
        }
    }

    /// The original transaction id of the subscription that a transaction belongs to.
    private func subscription(of transactionId: String) throws(ImpossibleEvent) -> String {
        let found = subscriptions.first { $0.value.transactions.contains { $0.transactionId == transactionId } }
        guard let found else { throw ImpossibleEvent(description: "There is no transaction \(transactionId)") }
        return found.key
    }
}

// MARK: - Time

extension World {
    /// Turns the clock forward. What falls due on the way happens at its own instant.
    public mutating func advance(to date: Timestamp) {
        while let entry = agenda.next(until: date) {
            now = max(now, entry.date)
            happen(entry)
        }
        now = max(now, date)
    }

    /// What falls due. An entry about a period that is not the running one any more is out of date, and nothing happens.
    private mutating func happen(_ entry: Agenda.Entry) {
        guard let chain = subscriptions[entry.subscription], chain.end == entry.end, let name = owners[entry.subscription]
        else { return }
        let speed = speed(of: chain)
        let isPayable = chain.isRenewing && chain.askedPrice == nil && customers[name]?.canPay == true
            && !hasRenewedEnough(chain)
        switch (entry.event, chain.state) {
        case (.charge, .active) where isPayable, (.end, .active) where isPayable:
            guard let sale = try? nextSale(of: chain, name) else { return }
            let ids = newIds(chain.current.environment)
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in try chain.renew(sale, ids, speed) }
        case (.end, .active) where hasRenewedEnough(chain):
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in try chain.expire(.other) }
        case (.end, .active) where !chain.isRenewing:
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in try chain.expire(.customerCancelled) }
        case (.end, .active) where chain.askedPrice != nil:
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in try chain.expire(.noConsentToPriceIncrease) }
        case (.end, .active):
            let period = chain.current.productId.flatMap { catalogue[$0]?.plan?.period } ?? Period(1, .month)
            let grace = catalogue.graceDays.map { speed.graceEnd($0, of: period, from: chain.end) }
            let retry = speed.retryEnd(from: chain.end)
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in
                try chain.failToRenew(graceUntil: grace, retryUntil: retry)
            }
        case (.endOfGrace, .grace):
            let retry = speed.retryEnd(from: chain.end)
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in try chain.endGrace(retryUntil: retry) }
        case (.endOfRetry, .retry):
            try? change(entry.subscription) { chain throws(ImpossibleEvent) in try chain.expire(.billingError) }
        default: return
        }
    }

    /// How often the sandbox renews a subscription before it ends.
    private static let sandboxRenewals = 12

    private func hasRenewedEnough(_ chain: SubscriptionChain) -> Bool {
        chain.current.environment != .production && chain.isRenewing && chain.renewals >= Self.sandboxRenewals
    }

    private func nextSale(of chain: SubscriptionChain, _ name: String) throws(ImpossibleEvent) -> Sale {
        let id = chain.renewal.autoRenewProductId ?? ""
        guard let product = catalogue[id] else { throw ImpossibleEvent(description: "There is no product \(id)") }
        var sale = try sale(of: product, to: customer(name))
        sale.offer = chain.runningOffer?.offer
        return sale
    }

    private func speed(of chain: SubscriptionChain) -> RenewalSpeed {
        chain.current.environment == .production ? .realTime : sandboxSpeed
    }

    private func speed(of environment: Environment) -> RenewalSpeed {
        environment == .production ? .realTime : sandboxSpeed
    }

    private mutating func newIds(_ environment: Open<Environment>?) -> TransactionIds {
        let first: UInt64 = environment == .production ? 410_000_000_000_000 : 2_000_000_000_000_000
        return TransactionIds(
            transactionId: "\(identifiers.number(.transaction, from: first))",
            webOrderLineItemId: "\(identifiers.number(.webOrderLineItem, from: first))")
    }

    /// Changes a subscription, keeps what the App Store notifies of, and plans what falls due next.
    private mutating func change(
        _ id: String, _ event: (inout SubscriptionChain) throws(ImpossibleEvent) -> Notice
    ) throws(ImpossibleEvent) {
        guard var chain = subscriptions[id] else { throw ImpossibleEvent(description: "There is no subscription \(id)") }
        let notice = try event(&chain)
        subscriptions[id] = chain
        let transaction = chain.transactions.last { $0.transactionId == notice.transactionId }
        occur(notice, transaction, chain, owners[id])
        agenda.plan(chain, id)
    }

    private mutating func occur(
        _ notice: Notice, _ transaction: JWSTransactionDecodedPayload?, _ chain: SubscriptionChain?, _ name: String?
    ) {
        occurrences.append(
            Occurrence(
                date: now, id: identifiers.uuid(.notification), customer: name,
                environment: name.flatMap { customers[$0]?.environment } ?? .production, notice: notice,
                transaction: transaction, renewal: chain?.renewal, status: chain?.state.status))
    }
}
