// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding

/// A random history of signed and verified documents about an app's customers, made from a seed. It contains
/// subscriptions of several groups with all their events, one-time purchases, refunds, app receipts, and documents that
/// contradict each other, some of them signed at the same instant.
///
/// Every signature is new. Which of two documents of the same instant counts may therefore differ between runs with the
/// same seed, but never within a run.
struct RandomHistory: Sendable {
    static let bundleId = "com.example"

    /// The accounts that purchases are made for.
    static let accounts = [
        "0d6e5c0a-6a52-4a0b-9d4b-0f1f4e3a9b11", "5f7a1b1e-98f4-4d37-8a57-3c1f0e6f2a22",
        "c1d9e3b4-7f60-4be1-b3a8-6d0e2f4c8b33",
    ]

    static let catalogue = Catalogue(products: [
        "low": .init(entitlements: ["pro"], level: 2), "high": .init(entitlements: ["pro", "plus"], level: 1),
        "news": .init(entitlements: ["news"], level: 1), "book": .init(entitlements: ["book"]),
        "season": .init(entitlements: ["season"], duration: .seconds(20 * 86_400)),
    ])

    /// The documents in the order in which they were signed.
    private(set) var documents: [Evidence] = []
    /// The newest app receipt among them.
    let receipt: [UInt8]
    /// When the last document was signed.
    let end: Timestamp

    static func day(_ days: Double) -> Timestamp {
        Timestamp(milliseconds: 1_700_000_000_000 + Int64(days * 86_400_000))
    }

    /// - Parameter length: The minimum number of documents. There may be more, since an upgrade adds two.
    init(seed: UInt64, length: Int) async throws {
        let signer = try HistorySigner.shared.get()
        var store = RandomStore(seed: seed)
        for _ in 1..<max(2, length) { store.step() }
        store.issueReceipt()
        end = store.now
        var newest: [UInt8] = []
        for draft in store.drafts {
            let document = try await signer.evidence(draft)
            documents.append(document)
            if document.kind == .receipt { newest = document.document }
        }
        receipt = newest
    }
}

/// Signs as the App Store does, with the same certificates every time: issuing them takes longer than signing does.
struct HistorySigner: Sendable {
    static let shared = Result { try HistorySigner() }

    let verifier: AppStoreVerifier
    private let token: TokenPlan
    private let receipt: ReceiptPlan

    private init() throws {
        let authority = try CertificateAuthority(from: RandomHistory.day(-10))
        let roots = try authority.roots.map { try TrustRoots(reading: $0) }
        verifier = AppStoreVerifier(
            apps: .only([AppIdentity(bundleId: RandomHistory.bundleId)]), environments: [.production, .sandbox],
            roots: roots.dropFirst().reduce(roots[0]) { $0.union($1) })
        token = try TokenPlan("", by: authority.tokens)
        receipt = try ReceiptPlan([], by: authority.receipts)
    }

    private func sign(_ payload: some Encodable & SignedPayload) throws -> String {
        var plan = token
        plan.payload = Array(try JSONValue(encoding: payload).compactText.utf8)
        return try plan.signed()
    }

    /// Signs a document and verifies it, because evidence is made only from verified documents.
    fileprivate func evidence(_ draft: RandomStore.Draft) async throws -> Evidence {
        let now = RandomHistory.day(0)
        let evidence: Evidence?
        switch draft {
        case .transaction(let payload):
            let document = try sign(payload)
            evidence = Evidence(
                try await verifier.verify(document.utf8, as: JWSTransactionDecodedPayload.self, at: now))
        case .notification(var payload, let transaction, let renewal):
            payload.data?.signedTransactionInfo = try transaction.map { try sign($0) }
            payload.data?.signedRenewalInfo = try renewal.map { try sign($0) }
            evidence = Evidence(try await verifier.verify(notification: sign(payload).utf8, at: now))
        case .receipt(let payload):
            var plan = receipt
            plan.payload = payload.encoded
            evidence = Evidence(try await verifier.verify(receipt: plan.signed(), at: now))
        }
        guard let evidence else { preconditionFailure("the document is no evidence, as if it named no app") }
        return evidence
    }
}

/// Invents events in the App Store, and the documents that it would sign about them.
private struct RandomStore {
    /// A document before it is signed.
    enum Draft: Sendable {
        case transaction(JWSTransactionDecodedPayload)
        case notification(
            ResponseBodyV2DecodedPayload, JWSTransactionDecodedPayload?, JWSRenewalInfoDecodedPayload?)
        case receipt(AppReceipt)
    }

    /// A purchase with its renewals.
    struct Purchase {
        var environment: Environment
        var transactions: [JWSTransactionDecodedPayload]
        /// `nil` for a one-time purchase.
        var renewal: JWSRenewalInfoDecodedPayload?

        var last: Int { transactions.count - 1 }
    }

    private(set) var drafts: [Draft] = []
    private(set) var now = RandomHistory.day(0)
    private var purchases: [Purchase] = []
    private var lastId = 1000
    private var random: SeededRandom

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    /// Returns true in one of `count` calls on average.
    private mutating func happens(oneOf count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    private mutating func pick<Element>(_ list: [Element]) -> Element {
        list[Int.random(in: 0..<list.count, using: &random)]
    }

    /// Advances the time in three of four calls, then adds a document.
    mutating func step() {
        if !happens(oneOf: 4) { now = now.later(days: Double.random(in: 0...6, using: &random)) }
        switch Int.random(in: 0..<100, using: &random) {
        case _ where purchases.isEmpty, 0..<15: sellSomething()
        case 15..<65: letSomethingHappen()
        case 65..<82: contradict()
        case 82..<95: issueReceipt()
        default: notify(pick(["TEST", "FROM_THE_FUTURE"]), nil, environment: .production, nil, nil)
        }
    }

    // MARK: Purchases

    private mutating func newId() -> String {
        lastId += 1
        return "\(lastId)"
    }

    /// A period of a subscription, or a one-time purchase.
    private mutating func transaction(
        _ product: String, original: String?, from: Timestamp, environment: Environment
    ) -> JWSTransactionDecodedPayload {
        var payload = JWSTransactionDecodedPayload()
        payload.transactionId = newId()
        payload.originalTransactionId = original ?? payload.transactionId
        payload.bundleId = RandomHistory.bundleId
        payload.environment = Open(environment)
        payload.productId = product
        payload.purchaseDate = from
        payload.quantity = 1
        payload.inAppOwnershipType = Open(.purchased)
        switch product {
        case "book": payload.type = Open(.nonConsumable)
        case "season": payload.type = Open(.nonRenewingSubscription)
        case "coins":
            payload.type = Open(.consumable)
            payload.quantity = Int.random(in: 1...10, using: &random)
        default:
            payload.type = Open(.autoRenewableSubscription)
            payload.subscriptionGroupIdentifier = product == "news" ? "22" : "21"
            payload.expiresDate = from.later(days: 10)
            payload.webOrderLineItemId = "9\(payload.transactionId ?? "")"
        }
        return payload
    }

    private mutating func sellSomething() {
        let product = pick(["low", "high", "news", "low", "high", "news", "book", "season", "coins", "unheard-of"])
        let environment: Environment = happens(oneOf: 6) ? .sandbox : .production
        var payload = transaction(product, original: nil, from: now, environment: environment)
        if !happens(oneOf: 3) { payload.appAccountToken = pick(RandomHistory.accounts) }
        var purchase = Purchase(environment: environment, transactions: [payload])
        if payload.type == .autoRenewableSubscription {
            var renewal = JWSRenewalInfoDecodedPayload()
            renewal.originalTransactionId = payload.originalTransactionId
            renewal.environment = Open(environment)
            renewal.productId = product
            renewal.autoRenewProductId = product
            renewal.autoRenewStatus = Open(.on)
            purchase.renewal = renewal
        }
        purchases.append(purchase)
        let isSubscription = purchase.renewal != nil
        addDocument(purchases.count - 1, 0, isSubscription ? "SUBSCRIBED" : "ONE_TIME_CHARGE", nil)
    }

    private mutating func letSomethingHappen() {
        let index = Int.random(in: 0..<purchases.count, using: &random)
        let events = purchases[index].renewal == nil ? Self.oneTimeEvents : Self.subscriptionEvents
        let event = pick(events)
        let about = event.change(&self, index)
        addDocument(index, about, event.type, event.subtype)
    }

    /// An event, and the notification about it.
    struct Event: Sendable {
        var type: String
        var subtype: String?
        /// Changes the purchase with this index, and returns the index of the transaction to notify about.
        var change: @Sendable (inout RandomStore, Int) -> Int

        init(_ type: String, _ subtype: String? = nil, _ change: @escaping @Sendable (inout RandomStore, Int) -> Int) {
            self.type = type
            self.subtype = subtype
            self.change = change
        }

        /// Changes the renewal info.
        static func renewal(
            _ type: String, _ subtype: String? = nil,
            _ change: @escaping @Sendable (inout JWSRenewalInfoDecodedPayload, Timestamp) -> Void
        ) -> Event {
            Event(type, subtype) { store, index in
                if var renewal = store.purchases[index].renewal {
                    change(&renewal, store.now)
                    store.purchases[index].renewal = renewal
                }
                return store.purchases[index].last
            }
        }

        /// Changes a random transaction of the purchase, which may be an old one.
        static func transaction(
            _ type: String, _ subtype: String? = nil,
            _ change: @escaping @Sendable (inout JWSTransactionDecodedPayload, Timestamp) -> Void
        ) -> Event {
            Event(type, subtype) { store, index in
                let about = Int.random(in: 0...store.purchases[index].last, using: &store.random)
                change(&store.purchases[index].transactions[about], store.now)
                return about
            }
        }

        static func expired(_ subtype: String?, _ intent: ExpirationIntent) -> Event {
            renewal("EXPIRED", subtype) { renewal, _ in
                renewal.autoRenewStatus = Open(.off)
                renewal.isInBillingRetryPeriod = false
                renewal.expirationIntent = Open(intent)
            }
        }

        /// Starts another period, of another product if one is given.
        static func period(
            _ type: String, _ subtype: String? = nil, product: String? = nil, endsTheOld: Bool = false
        ) -> Event {
            Event(type, subtype) { store, index in
                let old = store.purchases[index].transactions[store.purchases[index].last]
                let start = endsTheOld || type == "SUBSCRIBED" ? store.now : old.expiresDate ?? store.now
                let next = product ?? store.purchases[index].renewal?.autoRenewProductId ?? "low"
                var payload = store.transaction(
                    next, original: old.originalTransactionId, from: start,
                    environment: store.purchases[index].environment)
                payload.subscriptionGroupIdentifier = old.subscriptionGroupIdentifier
                payload.appAccountToken = old.appAccountToken
                if endsTheOld {
                    let last = store.purchases[index].last
                    store.purchases[index].transactions[last].isUpgraded = true
                    store.addDocument(index, last, nil, nil)
                }
                store.purchases[index].transactions.append(payload)
                store.purchases[index].renewal?.productId = next
                store.purchases[index].renewal?.autoRenewProductId = next
                store.purchases[index].renewal?.isInBillingRetryPeriod = nil
                store.purchases[index].renewal?.gracePeriodExpiresDate = nil
                store.purchases[index].renewal?.expirationIntent = nil
                store.purchases[index].renewal?.autoRenewStatus = Open(.on)
                return store.purchases[index].last
            }
        }
    }

    private static let oneTimeEvents = [
        Event.transaction("REFUND") { transaction, now in
            transaction.revocationDate = now
            transaction.revocationReason = Open(.other)
            transaction.revocationType = Open(.refundProrated)
            transaction.revocationPercentage = 50_000
        },
        Event.transaction("REFUND_REVERSED") { transaction, _ in
            transaction.revocationDate = nil
            transaction.revocationReason = nil
            transaction.revocationType = nil
            transaction.revocationPercentage = nil
        },
        Event.transaction("CONSUMPTION_REQUEST") { _, _ in },
        Event.transaction("REFUND_DECLINED") { _, _ in },
    ]

    private static let subscriptionEvents =
        oneTimeEvents + [
            .period("DID_RENEW"), .period("DID_RENEW", "BILLING_RECOVERY"), .period("SUBSCRIBED", "RESUBSCRIBE"),
            .period("DID_CHANGE_RENEWAL_PREF", "UPGRADE", product: "high", endsTheOld: true),
            .renewal("DID_FAIL_TO_RENEW", "GRACE_PERIOD") { renewal, now in
                renewal.isInBillingRetryPeriod = true
                renewal.gracePeriodExpiresDate = now.later(days: 16)
            },
            .renewal("DID_FAIL_TO_RENEW") { renewal, _ in
                renewal.isInBillingRetryPeriod = true
                renewal.gracePeriodExpiresDate = nil
            },
            .renewal("GRACE_PERIOD_EXPIRED") { renewal, now in
                renewal.isInBillingRetryPeriod = true
                renewal.gracePeriodExpiresDate = now
            },
            .expired("VOLUNTARY", .customerCancelled), .expired("BILLING_RETRY", .billingError),
            .expired("PRICE_INCREASE", .noConsentToPriceIncrease),
            .expired("PRODUCT_NOT_FOR_SALE", .productNotAvailable), .expired(nil, .other),
            .renewal("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED") { renewal, _ in
                renewal.autoRenewStatus = Open(.off)
            },
            .renewal("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED") { renewal, _ in
                renewal.autoRenewStatus = Open(.on)
            },
            .renewal("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE") { renewal, _ in renewal.autoRenewProductId = "low" },
            .renewal("DID_CHANGE_RENEWAL_PREF") { renewal, _ in renewal.autoRenewProductId = renewal.productId },
            .renewal("PRICE_INCREASE", "PENDING") { renewal, _ in renewal.priceIncreaseStatus = Open(.pending) },
            .renewal("PRICE_INCREASE", "ACCEPTED") { renewal, _ in renewal.priceIncreaseStatus = Open(.agreed) },
            .transaction("OFFER_REDEEMED") { transaction, _ in transaction.offerType = Open(.offerCode) },
            .transaction("RENEWAL_EXTENDED") { transaction, _ in
                transaction.expiresDate = transaction.expiresDate?.later(days: 7)
            },
            .transaction("REVOKE") { transaction, now in
                transaction.inAppOwnershipType = Open(.familyShared)
                transaction.revocationDate = now
                transaction.revocationType = Open(.familyRevoke)
            },
        ]

    /// Adds a document that contradicts earlier ones about a transaction. Some are signed at the same instant.
    private mutating func contradict() {
        let index = Int.random(in: 0..<purchases.count, using: &random)
        let about = Int.random(in: 0...purchases[index].last, using: &random)
        let truth = purchases[index]
        var payload = truth.transactions[about]
        switch Int.random(in: 0..<8, using: &random) {
        case 0: payload.productId = payload.productId == "high" ? "low" : "high"
        case 1: payload.expiresDate = payload.expiresDate?.later(days: Double.random(in: -9...9, using: &random))
        case 2: payload.revocationDate = payload.revocationDate == nil ? now : nil
        case 3: payload.isUpgraded = payload.isUpgraded == true ? nil : true
        case 4: payload.appAccountToken = nil
        case 5: payload.appAccountToken = pick(RandomHistory.accounts).uppercased()
        case 6: payload.quantity = Int.random(in: 1...10, using: &random)
        // A migration: the same transaction in another chain.
        default: payload.originalTransactionId = pick(purchases).transactions[0].originalTransactionId
        }
        purchases[index].transactions[about] = payload
        if happens(oneOf: 2) { purchases[index].renewal?.appAccountToken = payload.appAccountToken }
        addDocument(index, about, pick(["METADATA_UPDATE", "MIGRATION", "EXPIRED", "DID_RENEW"]), nil)
        // Half the time, later documents do not repeat the contradiction.
        if happens(oneOf: 2) { purchases[index] = truth }
    }

    // MARK: Documents

    /// Adds a document about a purchase: a notification, or, by chance or if `type` is `nil`, the transaction alone.
    private mutating func addDocument(_ index: Int, _ about: Int, _ type: String?, _ subtype: String?) {
        var transaction = purchases[index].transactions[about]
        transaction.signedDate = now
        guard let type, !happens(oneOf: 4) else { return drafts.append(.transaction(transaction)) }
        var renewal = purchases[index].renewal
        renewal?.signedDate = now
        if renewal?.originalTransactionId != transaction.originalTransactionId { renewal = nil }
        notify(type, subtype, environment: purchases[index].environment, transaction, renewal)
    }

    private mutating func notify(
        _ type: String, _ subtype: String?, environment: Environment, _ transaction: JWSTransactionDecodedPayload?,
        _ renewal: JWSRenewalInfoDecodedPayload?
    ) {
        var data = NotificationData()
        data.bundleId = RandomHistory.bundleId
        data.environment = Open(environment)
        var payload = ResponseBodyV2DecodedPayload()
        payload.notificationType = Open(rawValue: type)
        payload.subtype = subtype.map { Open(rawValue: $0) }
        payload.notificationUUID = "\(drafts.count)"
        payload.signedDate = now
        payload.data = data
        drafts.append(.notification(payload, transaction, renewal))
    }

    /// Adds an app receipt with most of the purchases in production so far, in random order.
    mutating func issueReceipt() {
        var receipt = AppReceipt()
        receipt.receiptType = Open(.production)
        receipt.bundleId = RandomHistory.bundleId
        receipt.bundleIdBytes = DEREncoding.utf8String(RandomHistory.bundleId)[...]
        receipt.receiptCreationDate = now
        let bought = purchases.filter { $0.environment == .production }.flatMap(\.transactions)
        for transaction in bought.shuffled(using: &random) where !happens(oneOf: 5) {
            receipt.inAppPurchases.append(InAppPurchase(transaction))
        }
        drafts.append(.receipt(receipt))
    }
}

extension InAppPurchase {
    /// A purchase as a receipt states it.
    fileprivate init(_ transaction: JWSTransactionDecodedPayload) {
        self.init()
        quantity = transaction.quantity.map { Int64($0) }
        productId = transaction.productId
        transactionId = transaction.transactionId
        originalTransactionId = transaction.originalTransactionId
        purchaseDate = transaction.purchaseDate
        expiresDate = transaction.expiresDate
        webOrderLineItemId = transaction.webOrderLineItemId.flatMap { Int64($0) }
        // Receipts report an upgrade as a cancellation.
        cancellationDate =
            transaction.revocationDate ?? (transaction.isUpgraded == true ? transaction.purchaseDate : nil)
        switch transaction.type?.known {
        case .autoRenewableSubscription: productType = Open(.autoRenewableSubscription)
        case .nonConsumable: productType = Open(.nonConsumable)
        case .consumable: productType = Open(.consumable)
        case .nonRenewingSubscription: productType = Open(.nonRenewingSubscription)
        case nil: break
        }
    }
}

extension Timestamp {
    fileprivate func later(days: Double) -> Timestamp {
        // Whole seconds, as receipts write them.
        Timestamp(milliseconds: milliseconds + Int64(days * 86_400) * 1000)
    }
}
