// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// Family Sharing: for a subscription that a family shares, each member has transactions of their own (a chain), which
// follow the purchaser's.

extension World {
    /// Makes customers a family. Each member shares the others' purchases of shareable products.
    ///
    /// - Parameter names: Customers without a family, all in the same environment.
    public mutating func makeFamily(of names: [String]) throws(ImpossibleEvent) {
        let environments = Set(try names.map { name throws(ImpossibleEvent) in try customer(name).environment })
        guard environments.count == 1, names.allSatisfy({ customers[$0]?.family.isEmpty == true }) else {
            throw ImpossibleEvent(description: "All members of a family share an environment and have no other family")
        }
        for name in names { customers[name]?.family = names.filter { $0 != name } }
        for name in names {
            for member in names where member != name { shareAll(of: name, with: member) }
        }
    }

    /// A member leaves the family. The member's access to the others' purchases ends, and the others' access to the
    /// member's purchases: REVOKE.
    public mutating func leaveFamily(_ name: String) throws(ImpossibleEvent) {
        let family = try customer(name).family
        guard !family.isEmpty else { throw ImpossibleEvent(description: "\(name) is in no family") }
        customers[name]?.family = []
        for member in family {
            customers[member]?.family.removeAll { $0 == name }
            revokeShares(of: member, from: name)
            revokeShares(of: name, from: member)
        }
    }

    private mutating func shareAll(of name: String, with member: String) {
        for id in subscriptions(of: name) {
            guard let chain = subscriptions[id], chain.state == .active, chain.sharedFrom == nil,
                isShareable(chain.current)
            else { continue }
            share(chain, id, with: member)
        }
        for id in customers[name]?.purchases ?? [] {
            guard let purchase = purchases[id], purchase.inAppOwnershipType == .purchased, isShareable(purchase),
                purchase.revocationDate == nil
            else { continue }
            share(purchase, with: member)
        }
    }

    private func isShareable(_ transaction: JWSTransactionDecodedPayload) -> Bool {
        transaction.productId.flatMap { catalogue[$0]?.isFamilyShareable } == true
    }

    /// Gives a member a separate transaction for the purchaser's purchase: ONE_TIME_CHARGE.
    mutating func share(_ purchase: JWSTransactionDecodedPayload, with member: String) {
        guard let customer = customers[member] else { return }
        var shared = purchase
        let id = newIds(purchase.environment).transactionId
        shared.transactionId = id
        shared.originalTransactionId = id
        shared.belong(to: customer)
        enter(shared, of: member)
        sharedPurchases[id] = purchase.transactionId
        occur(NotificationTopic(.oneTimeCharge), .purchase(shared), of: member, in: customer.environment)
    }

    /// Gives a member a subscription that follows the purchaser's: SUBSCRIBED, INITIAL_BUY. If the purchaser's
    /// subscription was already shared with the member before, the subtype is RESUBSCRIBE.
    private mutating func share(_ chain: SubscriptionChain, _ id: String, with member: String) {
        guard let customer = customers[member] else { return }
        let before = subscriptions(of: member).last { subscriptions[$0]?.sharedFrom == id }
        let ids = newIds(chain.current.environment)
        let own = before ?? ids.transactionId
        var shared = chain
        shared.sharedFrom = id
        shared.transactions = before.flatMap { subscriptions[$0]?.transactions } ?? []
        shared.addCopy(of: chain.current, ids, originalId: own, for: customer)
        shared.renewal = chain.renewal.copy(originalId: own, for: customer)
        enter(shared, own, of: member)
        occur(NotificationTopic(.subscribed, before == nil ? .initialBuy : .resubscribe), of: own, shared)
    }

    /// Updates the family's subscriptions after an event of the purchaser's subscription.
    ///
    /// Members get notifications about periods, failed charges and ends. The purchaser's own decisions (renewal, next
    /// plan, consent) change a member's renewal info without a notification. The member's next notification shows the
    /// change.
    mutating func followPurchaser(_ id: String, _ chain: SubscriptionChain, after topic: NotificationTopic) {
        guard let name = customer(ofTransaction: id)?.name, chain.sharedFrom == nil else { return }
        for member in customers[name]?.family ?? [] {
            let shared = subscriptions(of: member).last { subscriptions[$0]?.sharedFrom == id }
            if chain.state == .active, isShareable(chain.current),
                shared.flatMap({ subscriptions[$0]?.isRunning }) != true
            {
                share(chain, id, with: member)
            } else if let shared, var own = subscriptions[shared], let customer = customers[member], own.isRunning {
                follow(&own, chain, topic, customer, shared)
            }
        }
    }

    private mutating func follow(
        _ own: inout SubscriptionChain, _ chain: SubscriptionChain, _ topic: NotificationTopic,
        _ customer: StoreCustomer,
        _ id: String
    ) {
        let hasNewPeriod = own.followed != chain.current.transactionId
        if chain.state == .revoked || hasNewPeriod && !isShareable(chain.current) {
            // `revokeSharing` throws only for a purchaser's own subscription, and this subscription is shared.
            guard let topic = try? own.revokeSharing(at: now) else { return }
            enter(own, id, of: customer.name)
            return occur(topic, of: id, own)
        }
        if hasNewPeriod {
            let isUpgrade = topic.subtype == .upgrade
            if isUpgrade { own.current.isUpgraded = true }
            let ids = newIds(chain.current.environment)
            own.addCopy(of: chain.current, ids, originalId: id, for: customer)
        } else {
            own.current.expiresDate = chain.current.expiresDate
        }
        own.state = chain.state
        own.renewal = chain.renewal.copy(originalId: id, for: customer)
        enter(own, id, of: customer.name)
        if let topic = Self.membersTopic(topic, hasNewPeriod, chain.state) { occur(topic, of: id, own) }
    }

    /// The member's notification after an event of the purchaser's subscription; `nil` for no notification.
    private static func membersTopic(
        _ topic: NotificationTopic, _ hasNewPeriod: Bool, _ state: SubscriptionChain.State
    ) -> NotificationTopic? {
        // After a failed charge, the purchaser can end the subscription by turning renewal off, and gets a notification
        // about the renewal status. A member has not turned renewal off, and so gets EXPIRED instead.
        if state == .expired { return topic.type == .expired ? topic : NotificationTopic(.expired, .voluntary) }
        let silent: [NotificationTypeV2] = [
            .didChangeRenewalStatus, .priceIncrease, .refund, .refundReversed, .refundDeclined, .consumptionRequest,
        ]
        let isPurchasersChoice =
            [.didChangeRenewalPref, .offerRedeemed].contains(topic.type) && !hasNewPeriod
        return silent.contains(topic.type) || isPurchasersChoice ? nil : topic
    }

    private mutating func revokeShares(of purchaser: String, from member: String) {
        for id in subscriptions(of: member) {
            // `revokeSharing` throws only for a purchaser's own subscription, and this subscription is shared.
            guard var chain = subscriptions[id], let source = chain.sharedFrom,
                customer(ofTransaction: source)?.name == purchaser, let topic = try? chain.revokeSharing(at: now)
            else { continue }
            enter(chain, id, of: member)
            occur(topic, of: id, chain)
        }
        for id in customers[member]?.purchases ?? [] {
            guard let source = sharedPurchases[id], customer(ofTransaction: source)?.name == purchaser else { continue }
            revokeShare(id, from: member)
        }
    }

    /// Revokes a member's access to a purchase: REVOKE.
    mutating func revokeShare(_ id: String, from member: String) {
        guard var purchase = purchases[id], purchase.revocationDate == nil else { return }
        purchase.revokeSharing(at: now)
        enter(purchase, of: member)
        occur(
            NotificationTopic(.revoke), .purchase(purchase), of: member,
            in: customers[member]?.environment ?? .production)
    }

    /// The ids of the transactions that family members got for a purchase, each with the member's name.
    func shares(of id: String) -> [(id: String, member: String)] {
        sharedPurchases.filter { $0.value == id }.keys.sorted().compactMap { share in
            customer(ofTransaction: share).map { (share, $0.name) }
        }
    }
}

extension SubscriptionChain {
    /// Adds a member's copy of the purchaser's period.
    fileprivate mutating func addCopy(
        of transaction: JWSTransactionDecodedPayload, _ ids: TransactionIds, originalId: String,
        for customer: StoreCustomer
    ) {
        var copy = transaction
        copy.transactionId = ids.transactionId
        copy.webOrderLineItemId = ids.webOrderLineItemId
        copy.originalTransactionId = originalId
        copy.originalPurchaseDate = transactions.first?.originalPurchaseDate ?? transaction.purchaseDate
        copy.belong(to: customer)
        followed = transaction.transactionId
        transactions.append(copy)
    }
}

extension JWSTransactionDecodedPayload {
    /// Turns the transaction into a family member's: without the purchaser's price, and without the purchaser's account
    /// in the app.
    fileprivate mutating func belong(to customer: StoreCustomer) {
        inAppOwnershipType = Open(.familyShared)
        appTransactionId = customer.appTransactionId
        appAccountToken = nil
        isUpgraded = nil
        price = nil
        currency = nil
    }
}

extension JWSRenewalInfoDecodedPayload {
    fileprivate func copy(originalId: String, for customer: StoreCustomer) -> JWSRenewalInfoDecodedPayload {
        var copy = self
        copy.originalTransactionId = originalId
        copy.appTransactionId = customer.appTransactionId
        copy.appAccountToken = nil
        return copy
    }
}
