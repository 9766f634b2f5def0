// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The purchases of customers: first purchases, returns, changes of plan.

extension World {
    /// A customer buys a product.
    ///
    /// The purchase of a subscription is a first purchase, a return after the end, or a change of plan. The customer's
    /// present subscription in the same group decides which of these it is. If a parent must approve the purchase, the
    /// customer gets nothing yet: see ``decide(_:approves:)``.
    ///
    /// - Returns: The id of the new transaction. For a change of plan that takes effect at the next renewal, the id of
    ///   the present period's transaction. `nil` if the purchase waits for approval.
    @discardableResult
    public mutating func buy(
        _ product: String, by name: String, _ options: PurchaseOptions = PurchaseOptions()
    ) throws(ImpossibleEvent) -> String? {
        if try customer(name).asksToBuy {
            _ = try sale(of: product, to: name, options)
            waiting.append(WaitingPurchase(product: product, customer: name, options: options))
            return nil
        }
        return try complete(product, by: name, options)
    }

    /// A parent approves or declines the customer's first waiting purchase (Ask to Buy).
    ///
    /// - Returns: The transaction's id; `nil` if the parent declined.
    @discardableResult
    public mutating func decide(_ name: String, approves: Bool) throws(ImpossibleEvent) -> String? {
        guard let index = waiting.firstIndex(where: { $0.customer == name }) else {
            throw ImpossibleEvent(description: "No purchase of \(name) waits for approval")
        }
        let purchase = waiting.remove(at: index)
        return approves ? try complete(purchase.product, by: name, purchase.options) : nil
    }

    private mutating func complete(
        _ product: String, by name: String, _ options: PurchaseOptions
    ) throws(ImpossibleEvent) -> String {
        let sale = try sale(of: product, to: name, options)
        guard try customer(name).canPay || options.hasNewCard || isLater(sale, for: name) else {
            throw ImpossibleEvent(description: "\(name) cannot pay")
        }
        // The new card also pays the failed renewals of other subscriptions. If that is impossible, the purchase stands
        // all the same.
        defer { if options.hasNewCard { try? fixBilling(of: name) } }
        guard let plan = sale.product.plan else { return try buyOnce(sale, by: name) }
        let running = runningSubscription(of: name, in: plan.group)
        let transaction =
            if let running { try changePlan(of: running, to: sale, plan) } else { try subscribe(sale, by: name) }
        customers[name]?.groupsUsed.insert(plan.group)
        return transaction
    }

    /// The sale of a product to a customer with some options. Throws if the product, the customer and the options do
    /// not fit.
    func sale(
        of id: String, to name: String, _ options: PurchaseOptions = PurchaseOptions()
    ) throws(ImpossibleEvent) -> Sale {
        let customer = try customer(name)
        guard let product = catalogue[id], product.isForSale else {
            throw ImpossibleEvent(description: "The catalogue has no product \(id) for sale")
        }
        guard options.quantity == 1 || product.type == .consumable && (1...10).contains(options.quantity) else {
            throw ImpossibleEvent(description: "A quantity of \(options.quantity) of \(id) is not possible")
        }
        guard !options.isMonthly || product.plan?.monthly != nil else {
            throw ImpossibleEvent(description: "\(id) has no monthly plan")
        }
        guard !options.isMonthly || Commitment.isSold(in: customer.storefront) else {
            throw ImpossibleEvent(
                description: "The App Store sells no monthly commitment in \(customer.storefront.country)")
        }
        return Sale(
            product: product, offer: try offer(options, of: product, for: customer), quantity: options.quantity,
            isMonthly: options.isMonthly, bundleId: catalogue.bundleId, environment: customer.environment,
            storefront: customer.storefront, appTransactionId: customer.appTransactionId,
            appAccountToken: options.appAccountToken ?? customer.appAccountToken)
    }

    private func offer(
        _ options: PurchaseOptions, of product: StoreProduct, for customer: StoreCustomer
    ) throws(ImpossibleEvent) -> StoreOffer? {
        guard let id = options.offer else {
            // The catalogue's introductory offers belong to the plan with payment in advance.
            guard !options.isMonthly else { return nil }
            return product.plan.flatMap { customer.groupsUsed.contains($0.group) ? nil : $0.introductoryOffer }
        }
        guard let offer = product.offers.first(where: { $0.id == id }) else {
            throw ImpossibleEvent(description: "\(product.id) has no offer \(id)")
        }
        guard offer.type == .winBack else { return offer }
        let isEligible = customer.subscriptions.contains {
            subscriptions[$0]?.renewal.eligibleWinBackOfferIds?.contains(id) == true
        }
        guard isEligible else { throw ImpossibleEvent(description: "\(customer.name) has no right to offer \(id)") }
        return offer
    }

    private mutating func buyOnce(_ sale: Sale, by name: String) throws(ImpossibleEvent) -> String {
        let owned = customers[name]?.purchases.contains { id in
            purchases[id]?.productId == sale.product.id && purchases[id]?.revocationDate == nil
        }
        guard sale.product.type != .nonConsumable || owned != true else {
            throw ImpossibleEvent(description: "\(name) owns \(sale.product.id) already")
        }
        let id = newIds(Open(sale.environment)).transactionId
        let transaction = sale.transaction(id, original: nil, reason: .purchase, from: now, until: nil)
        enter(transaction, of: name)
        occur(NotificationTopic(.oneTimeCharge), .purchase(transaction), of: name, in: sale.environment)
        if sale.product.isFamilyShareable, sale.ownership == .purchased {
            for member in customers[name]?.family ?? [] { share(transaction, with: member) }
        }
        return id
    }

    private mutating func subscribe(_ sale: Sale, by name: String) throws(ImpossibleEvent) -> String {
        let ids = newIds(Open(sale.environment))
        let id = ids.transactionId
        enter(try SubscriptionChain(sale, ids, at: now, speed(in: sale.environment)), id, of: name)
        try change(id) { _ in NotificationTopic(.subscribed, .initialBuy) }
        return id
    }

    private mutating func changePlan(
        of id: String, to sale: Sale, _ plan: SubscriptionPlan
    ) throws(ImpossibleEvent) -> String {
        let chain = try subscription(id)
        let now = now
        let speed = speed(of: chain)
        let ids = newIds(chain.current.environment)
        switch planChange(of: chain, to: sale, plan) {
        case .resubscribe:
            try change(id) { chain throws(ImpossibleEvent) in try chain.resubscribe(sale, ids, at: now, speed) }
        case .upgrade:
            try change(id) { chain throws(ImpossibleEvent) in try chain.upgrade(to: sale, ids, at: now, speed) }
        case .next:
            try change(id) { chain throws(ImpossibleEvent) in try chain.changeNextPlan(to: sale) }
            return chain.current.transactionId ?? id
        }
        return ids.transactionId
    }

    private enum PlanChange { case resubscribe, upgrade, next }

    /// The kind of the purchase of a plan, for a customer with a subscription in the plan's group.
    private func planChange(of chain: SubscriptionChain, to sale: Sale, _ plan: SubscriptionPlan) -> PlanChange {
        let isSame = sale.product.id == chain.current.productId
        let isUnchanged = isSame && chain.renewal.autoRenewProductId == sale.product.id && sale.offer == nil
        // After the grace period, the purchase of the same plan with a new card begins a new period.
        if !chain.isRunning || chain.isInRetry && isUnchanged { return .resubscribe }
        guard !isSame, let present = chain.current.productId.flatMap({ catalogue[$0]?.plan }) else { return .next }
        let isHigher = plan.level < present.level || plan.level == present.level && plan.period == present.period
        return isHigher ? .upgrade : .next
    }

    /// Whether a purchase is only a change of plan at the next renewal, so that the customer pays nothing now.
    private func isLater(_ sale: Sale, for name: String) -> Bool {
        guard let plan = sale.product.plan, let id = runningSubscription(of: name, in: plan.group),
            let chain = subscriptions[id]
        else { return false }
        return planChange(of: chain, to: sale, plan) == .next
    }

    private func runningSubscription(of name: String, in group: String) -> String? {
        subscriptions(of: name).last { id in
            subscriptions[id]?.current.subscriptionGroupIdentifier == group && subscriptions[id]?.sharedFrom == nil
        }
    }
}
