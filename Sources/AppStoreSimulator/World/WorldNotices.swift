// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Notifications without a purchase in the App Store, and the notifications of the Advanced Commerce API.

extension World {
    /// The app's server asks for a test notification: TEST.
    ///
    /// - Returns: `notificationUUID` of the notification.
    @discardableResult
    public mutating func sendTestNotification(in environment: Environment) -> String {
        occur(NotificationTopic(.test), .nothing, of: nil, in: environment)
        return occurrences.last?.id ?? ""
    }

    /// A parent withdraws the consent to a child's use of the app: RESCIND_CONSENT.
    public mutating func rescindConsent(of name: String) throws(ImpossibleEvent) {
        let customer = try customer(name)
        guard let app = appTransaction(of: name) else { return }
        occur(NotificationTopic(.rescindConsent), .app(app), of: name, in: customer.environment)
    }

    /// The app gets a token for a customer's purchases outside the App Store: EXTERNAL_PURCHASE_TOKEN, CREATED.
    /// UNREPORTED follows ten days later, because no app reports purchases to this store. A reminder follows every
    /// month.
    ///
    /// - Returns: `externalPurchaseId`.
    @discardableResult
    public mutating func createExternalPurchaseToken(for name: String) throws(ImpossibleEvent) -> String {
        let customer = try customer(name)
        let isSandbox = customer.environment != .production
        var token = ExternalPurchaseToken()
        token.externalPurchaseId = (isSandbox ? "SANDBOX_" : "") + identifiers.uuid(.external)
        token.tokenCreationDate = now
        token.appAppleId = catalogue.appAppleId
        token.bundleId = catalogue.bundleId
        token.tokenType = "SERVICES"
        let id = token.externalPurchaseId ?? ""
        externalTokens[id] = ExternalToken(token: token, customer: name)
        occur(
            NotificationTopic(.externalPurchaseToken, .created), .externalPurchase(token), of: name,
            in: customer.environment)
        agenda.add(now.adding(days: 10), .unreportedToken, id)
        agenda.add(now.adding(months: 1), .tokenReminder, id)
        return id
    }

    /// The number of a token's monthly reminders after the first reminder. Without this bound, a world with a token
    /// would have events forever.
    private static let reminders = 12

    mutating func remindOfToken(_ id: String, _ subtype: NotificationSubtype) {
        guard let token = externalTokens[id], let customer = customers[token.customer] else { return }
        occur(
            NotificationTopic(.externalPurchaseToken, subtype), .externalPurchase(token.token), of: customer.name,
            in: customer.environment)
        guard subtype == .activeTokenReminder, token.reminders < Self.reminders else { return }
        externalTokens[id]?.reminders += 1
        agenda.add(now.adding(months: 1), .tokenReminder, id)
    }

    /// A developer's change of a subscription with the Advanced Commerce API.
    public enum AdvancedCommerceChange: Hashable, Sendable {
        /// Names and descriptions: METADATA_UPDATE.
        case metadata(displayName: String)
        /// The price from the next renewal on, in milliunits: PRICE_CHANGE.
        case price(Int64)
        /// The migration of the subscription to the Advanced Commerce API: MIGRATION.
        case migration(taxCode: String)
    }

    /// The developer changes a subscription with the Advanced Commerce API.
    public mutating func change(
        _ subscription: String, with change: AdvancedCommerceChange
    ) throws(ImpossibleEvent) {
        let request = identifiers.uuid(.request)
        try self.change(subscription) { chain throws(ImpossibleEvent) in
            chain.applyAdvancedCommerce(change, request: request)
        }
    }
}

extension SubscriptionChain {
    mutating func applyAdvancedCommerce(
        _ change: World.AdvancedCommerceChange, request: String
    ) -> NotificationTopic {
        var transaction = current.advancedCommerceInfo ?? AdvancedCommerceTransactionInfo()
        var info = renewal.advancedCommerceInfo ?? AdvancedCommerceRenewalInfo()
        let topic: NotificationTopic
        switch change {
        case .metadata(let displayName):
            var descriptors = info.descriptors ?? AdvancedCommerceDescriptors()
            descriptors.displayName = displayName
            info.descriptors = descriptors
            transaction.descriptors = descriptors
            topic = NotificationTopic(.metadataUpdate)
        case .price(let price):
            renewal.renewalPrice = price
            agreedPrice = price
            topic = NotificationTopic(.priceChange)
        case .migration(let taxCode):
            info.taxCode = taxCode
            transaction.taxCode = taxCode
            topic = NotificationTopic(.migration)
        }
        info.requestReferenceId = request
        transaction.requestReferenceId = request
        current.advancedCommerceInfo = transaction
        renewal.advancedCommerceInfo = info
        return topic
    }
}
