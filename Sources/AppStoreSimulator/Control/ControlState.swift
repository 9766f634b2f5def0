// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The JSON forms in which the control port shows a ``World``, the state of a simulated App Store. Times are ISO 8601 in
// UTC, for people; only the clock's `now` is in milliseconds.

/// The response of `GET /clock`.
struct ClockState: Encodable {
    /// Milliseconds since 1970, as in signed documents.
    var now: Timestamp
    var date: String
    /// Virtual seconds per second of the wall clock.
    var speed: Double

    init(_ now: Timestamp, speed: Double) {
        self.now = now
        date = now.iso8601
        self.speed = speed
    }
}

/// The response of `GET /state`.
struct WorldState: Encodable {
    var clock: ClockState
    var bundleId: String
    var appAppleId: Int64
    var products: [ProductState]
    var customers: [CustomerState]
    /// The number of notifications in the world so far.
    var notifications: Int

    init(_ world: World, _ clock: ClockState) {
        self.clock = clock
        bundleId = world.catalogue.bundleId
        appAppleId = world.catalogue.appAppleId
        products = world.catalogue.products.map(ProductState.init)
        customers = world.customers.keys.sorted().compactMap { CustomerState($0, in: world) }
        notifications = world.occurrenceCount
    }
}

/// A product with the options of its purchase.
struct ProductState: Encodable {
    var id: String
    var type: String
    var isForSale: Bool
    var group: String?
    var level: Int?
    var period: String?
    var introductoryOffer: String?
    /// The names of the offers other than the introductory offer.
    var offers: [String]
    /// Whether customers can commit to twelve months and pay monthly.
    var monthly: Bool

    init(_ product: StoreProduct) {
        id = product.id
        type = product.type.rawValue
        isForSale = product.isForSale
        group = product.plan?.group
        level = product.plan?.level
        period = product.plan?.period.iso8601
        introductoryOffer = product.plan?.introductoryOffer?.payment.rawValue
        offers = product.offers.compactMap(\.id)
        monthly = product.plan?.monthly != nil
    }
}

/// A customer with all purchases: the response of `GET /customers/{name}`.
struct CustomerState: Encodable {
    var name: String
    var environment: String
    var storefront: String
    var appAccountToken: String?
    var appTransactionId: String
    /// `AppStore.deviceVerificationID` of the customer's device. With this id, an app can check that a signed document
    /// is for the device.
    var deviceVerificationID: String
    var canPay: Bool
    var asksToBuy: Bool
    var family: [String]
    var subscriptions: [SubscriptionChainState]
    var purchases: [TransactionState]
    /// Products that wait for a parent's approval.
    var waiting: [String]

    init?(_ name: String, in world: World) {
        guard let customer = world.customers[name] else { return nil }
        self.name = name
        environment = customer.environment.rawValue
        storefront = customer.storefront.country
        appAccountToken = customer.appAccountToken
        appTransactionId = customer.appTransactionId
        deviceVerificationID = customer.deviceVerificationID
        canPay = customer.canPay
        asksToBuy = customer.asksToBuy
        family = customer.family
        subscriptions = customer.subscriptions.compactMap { id in
            world.subscriptions[id].map { SubscriptionChainState(id, $0, in: world) }
        }
        purchases = customer.purchases.compactMap { id in
            world.purchases[id].map { TransactionState($0, in: world) }
        }
        waiting = world.waiting.filter { $0.customer == name }.map(\.product)
    }
}

/// A subscription with its transactions.
struct SubscriptionChainState: Encodable {
    var originalTransactionId: String
    var productId: String?
    var status: String
    /// Whether the App Store charges at the end of the period.
    var renews: Bool
    var nextProductId: String?
    /// The id of the purchaser's subscription, if this subscription is a family member's.
    var sharedFrom: String?
    var next: Due?
    /// The transactions in the order of their purchases.
    var transactions: [TransactionState]

    /// The next due event.
    struct Due: Encodable {
        var event: String
        var date: String
    }

    init(_ id: String, _ chain: SubscriptionChain, in world: World) {
        originalTransactionId = id
        productId = chain.current.productId
        renews = chain.isRenewing
        nextProductId = chain.renewal.autoRenewProductId
        sharedFrom = chain.sharedFrom
        (status, next) = Self.standing(of: chain)
        transactions = chain.transactions.map { TransactionState($0, in: world) }
    }

    private static func standing(of chain: SubscriptionChain) -> (String, Due?) {
        switch chain.state {
        case .active: ("active", Due(event: chain.isRenewing ? "renewal" : "end", date: chain.end.iso8601))
        case .grace(let until): ("grace", Due(event: "end of grace", date: until.iso8601))
        case .retry(let until): ("retry", Due(event: "end of retry", date: until.iso8601))
        case .expired: ("expired", nil)
        case .revoked: ("revoked", nil)
        }
    }
}

struct TransactionState: Encodable {
    var transactionId: String?
    var orderId: String?
    var productId: String?
    var quantity: Int?
    var purchaseDate: String?
    var expiresDate: String?
    var revocationDate: String?
    var isUpgraded: Bool?
    /// In milliunits of the currency.
    var price: Int64?
    var currency: String?
    var offerType: Int?
    /// True if a refund request awaits a decision; otherwise `nil`.
    var isRefundRequested: Bool?
    /// The signed transaction as StoreKit gives it to the app.
    var jwsRepresentation: String?

    init(_ transaction: JWSTransactionDecodedPayload, in world: World) {
        let id = transaction.transactionId ?? ""
        transactionId = transaction.transactionId
        orderId = world.orderId(ofTransaction: id)
        productId = transaction.productId
        quantity = transaction.quantity
        purchaseDate = transaction.purchaseDate?.iso8601
        expiresDate = transaction.expiresDate?.iso8601
        revocationDate = transaction.revocationDate?.iso8601
        isUpgraded = transaction.isUpgraded
        price = transaction.price
        currency = transaction.currency
        offerType = transaction.offerType?.rawValue
        isRefundRequested = world.refundRequests[id] == nil ? nil : true
    }
}

/// The app transaction: the response of `GET /customers/{name}/app-transaction`.
struct AppTransactionState: Encodable {
    var appTransactionId: String
    /// The signed app transaction as StoreKit gives it to the app.
    var jwsRepresentation: String
}

/// A notification that a command caused.
struct NotificationState: Encodable {
    var notificationUUID: String
    var date: String
    var type: String
    var subtype: String?
    var customer: String?
    var transactionId: String?

    init(_ occurrence: Occurrence) {
        notificationUUID = occurrence.id
        date = occurrence.date.iso8601
        type = occurrence.topic.type.rawValue
        subtype = occurrence.topic.subtype?.rawValue
        customer = occurrence.customer
        transactionId = occurrence.transaction?.transactionId
    }
}
