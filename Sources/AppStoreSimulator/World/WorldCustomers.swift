// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

// Customers, their families and their means to pay.

extension World {
    /// Adds a customer who downloads the app now.
    ///
    /// - Parameters:
    ///   - name: A text that is unique among the customers of the world.
    ///   - hasAccount: Whether the app attaches an account token to the customer's purchases.
    ///   - account: The account token, a UUID; `nil` for a token that the world makes.
    /// - Throws: ``ImpossibleEvent`` if the name is taken.
    @discardableResult
    public mutating func addCustomer(
        _ name: String, environment: Environment = .production, storefront: Storefront? = nil,
        hasAccount: Bool = true, account: String? = nil
    ) throws(ImpossibleEvent) -> StoreCustomer {
        guard customers[name] == nil else { throw ImpossibleEvent(description: "There is a customer \(name) already") }
        let customer = StoreCustomer(
            name: name, environment: environment, storefront: storefront ?? catalogue.storefront,
            appAccountToken: account ?? (hasAccount ? identifiers.uuid(.account) : nil),
            appTransactionId: "\(identifiers.number(.appTransaction, from: 700_000_000_000_000_000))",
            downloadDate: now, device: identifiers.uuid(.device),
            deviceVerificationID: identifiers.uuid(.deviceVerification))
        enter(customer)
        return customer
    }

    /// Makes the customer's charges fail from now on.
    public mutating func breakBilling(of name: String) throws(ImpossibleEvent) {
        _ = try customer(name)
        customers[name]?.canPay = false
    }

    /// Makes the customer's charges succeed again. The App Store immediately retries the failed renewals.
    public mutating func fixBilling(of name: String) throws(ImpossibleEvent) {
        _ = try customer(name)
        customers[name]?.canPay = true
        for id in subscriptions(of: name) {
            // The App Store does not charge for a product that is no longer for sale.
            guard let chain = subscriptions[id], chain.isInGrace || chain.isInRetry, chain.sharedFrom == nil,
                let sale = try? nextSale(of: chain, name)
            else { continue }
            let ids = newIds(chain.current.environment)
            let now = now
            let speed = speed(of: chain)
            try change(id) { chain throws(ImpossibleEvent) in try chain.recover(sale, ids, at: now, speed) }
        }
    }

    /// Sets whether a parent must approve the customer's purchases from now on (Ask to Buy).
    public mutating func setAskToBuy(_ asks: Bool, for name: String) throws(ImpossibleEvent) {
        _ = try customer(name)
        customers[name]?.asksToBuy = asks
    }

    /// Moves the customer to the App Store of a different country or region.
    public mutating func move(_ name: String, to storefront: Storefront) throws(ImpossibleEvent) {
        _ = try customer(name)
        customers[name]?.storefront = storefront
    }

    /// After a purchase, the app sets the token of the customer's account in the app, as with Set App Account Token.
    ///
    /// - Parameters:
    ///   - token: A UUID.
    ///   - id: An original transaction id.
    public mutating func setAppAccountToken(_ token: String, ofTransaction id: String) throws(ImpossibleEvent) {
        guard let name = customer(ofTransaction: id)?.name else { throw .noTransaction(id) }
        if var purchase = purchases[id] {
            purchase.appAccountToken = token
            enter(purchase, of: name)
        } else {
            var chain = try subscription(id)
            chain.setAppAccountToken(token)
            enter(chain, id, of: name)
        }
    }

    /// The customer's download of the app, without `receiptCreationDate`.
    public func appTransaction(of name: String) -> AppTransaction? {
        guard let customer = customers[name] else { return nil }
        var app = AppTransaction()
        app.receiptType = Open(customer.environment)
        app.appAppleId = catalogue.appAppleId
        app.bundleId = catalogue.bundleId
        app.originalPurchaseDate = customer.downloadDate
        app.originalApplicationVersion = customer.environment == .production ? catalogue.appVersion : "1.0"
        app.appTransactionId = customer.appTransactionId
        app.originalPlatform = Open(.iOS)
        return app
    }
}

extension ImpossibleEvent {
    static func noTransaction(_ id: String) -> ImpossibleEvent {
        ImpossibleEvent(description: "There is no transaction \(id)")
    }
}
