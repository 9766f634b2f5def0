// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import AppStoreTrust
import PurchaseLedger
import ReceiptCoding
import TestWorld

/// A random history of signed and verified documents about the customers of a simulated App Store, made from a seed:
/// notifications, transactions and app receipts, and documents that contradict each other, signed at the same instant.
///
/// The App Store does not contradict itself, so ``contradiction(of:)`` changes what the world says.
struct RandomHistory: Sendable {
    static let bundleId = "com.example"

    static let catalogue = Catalogue(products: [
        "silver.week": .init(entitlements: ["pro"], level: 2), "silver.month": .init(entitlements: ["pro"], level: 2),
        "gold.month": .init(entitlements: ["pro", "plus"], level: 1),
        "gold.year": .init(entitlements: ["pro", "plus"], level: 1), "news": .init(entitlements: ["news"], level: 1),
        "book": .init(entitlements: ["book"]),
        "season": .init(entitlements: ["season"], duration: .seconds(20 * 86_400)),
    ])

    static let store = Result { try TestStore() }

    /// The documents in the order in which they were signed.
    private(set) var documents: [Evidence] = []
    /// The newest app receipt among them.
    private(set) var receipt: [UInt8] = []
    /// The accounts that purchases are made for.
    let accounts: [String]

    private var events: RandomWorld
    private var random: SeededRandom
    private let store: TestStore
    private let verifier: AppStoreVerifier

    /// When the customers came.
    var start: Timestamp { RandomWorld.start }
    /// When the last document was signed.
    var end: Timestamp { events.world.now }

    /// - Parameter length: The number of documents. The last one is a receipt.
    init(seed: UInt64, length: Int) async throws {
        store = try Self.store.get()
        verifier = store.verifier()
        random = SeededRandom(seed: seed)
        events = try RandomWorld(seed: seed, newCustomers: 4)
        // The first one lives in the USA, where the App Store sells no commitments.
        if let germany = Storefront.known.first(where: { $0.country == "DEU" }) {
            try events.world.move("customer 0", to: germany)
        }
        var news = StoreProduct(id: "news", type: .autoRenewableSubscription, price: StorePrice(milliunits: 990))
        news.plan = SubscriptionPlan(group: "21000002", level: 1, period: Period(1, .month))
        events.world.catalogue.add(news)
        accounts = events.world.customers.values.compactMap(\.appAccountToken).sorted()
        while documents.count < length - 1 { try await step() }
        documents.removeLast(max(0, documents.count - (length - 1)))
        try await issueReceipt(of: "customer 0")
    }

    /// Returns true in one of `count` calls on average.
    private mutating func happens(oneOf count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }

    private mutating func step() async throws {
        let before = events.world.occurrences.count
        events.step(hours: 6 * 24)
        for occurrence in events.world.occurrences.dropFirst(before) {
            try await add(occurrence)
            if let transaction = occurrence.transaction, happens(oneOf: 4) {
                try await contradict(transaction, at: occurrence)
            }
        }
        let names = events.world.customers.values.filter { $0.environment == .production }.map(\.name).sorted()
        guard let name = names.randomElement(using: &random) else { return }
        if happens(oneOf: 8) { try await issueReceipt(of: name) }
        if happens(oneOf: 8), let (_, known) = events.world.history(of: name).randomElement(using: &random) {
            try await add(known, at: end)
        }
    }

    // MARK: Documents

    /// Adds the notification about an event, or by chance its transaction alone.
    private mutating func add(_ occurrence: Occurrence) async throws {
        if let transaction = occurrence.transaction, happens(oneOf: 4) {
            return try await add(transaction, at: occurrence.date)
        }
        let isFromTheFuture = happens(oneOf: 20)
        try await add(occurrence) { payload in
            if isFromTheFuture { payload.notificationType = Open(rawValue: "FROM_THE_FUTURE") }
        }
    }

    private mutating func add(
        _ occurrence: Occurrence, changed change: (inout ResponseBodyV2DecodedPayload) throws -> Void
    ) async throws {
        let token = try store.signer.notification(occurrence, from: events.world.catalogue, changed: change)
        let verified = try await verifier.verify(notification: token.utf8, at: occurrence.date)
        if let evidence = Evidence(verified) { documents.append(evidence) }
    }

    private mutating func add(_ transaction: JWSTransactionDecodedPayload, at date: Timestamp) async throws {
        let token = try store.signer.sign(transaction, at: date)
        let verified = try await verifier.verify(token.utf8, as: JWSTransactionDecodedPayload.self, at: date)
        if let evidence = Evidence(verified) { documents.append(evidence) }
    }

    /// Adds a customer's app receipt with most of the purchases so far, in random order.
    private mutating func issueReceipt(of name: String) async throws {
        guard var receipt = events.world.receipt(of: name) else { return }
        receipt.inAppPurchases = receipt.inAppPurchases.shuffled(using: &random).filter { _ in !happens(oneOf: 5) }
        self.receipt = try store.signer.sign(receipt, at: end)
        let verified = try await verifier.verify(receipt: self.receipt, at: end)
        if let evidence = Evidence(verified) { documents.append(evidence) }
    }

    // MARK: Contradictions

    /// Adds a document that contradicts an event, signed at the same instant: a notification, or by chance a
    /// transaction.
    private mutating func contradict(
        _ transaction: JWSTransactionDecodedPayload, at occurrence: Occurrence
    ) async throws {
        let other = contradiction(of: transaction)
        guard happens(oneOf: 2) else { return try await add(other, at: occurrence.date) }
        let (token, uuid) = (try store.signer.sign(other, at: occurrence.date), "\(documents.count)")
        let isMoved = other.originalTransactionId != transaction.originalTransactionId
        try await add(occurrence) { payload in
            payload.notificationUUID = uuid
            payload.data?.signedTransactionInfo = token
            if isMoved { payload.data?.signedRenewalInfo = nil }
        }
    }

    private mutating func contradiction(of truth: JWSTransactionDecodedPayload) -> JWSTransactionDecodedPayload {
        var payload = truth
        switch Int.random(in: 0..<8, using: &random) {
        case 0: payload.productId = payload.productId == "gold.month" ? "silver.month" : "gold.month"
        case 1:
            let days = Int64.random(in: -9...9, using: &random)
            payload.expiresDate = payload.expiresDate?.advanced(by: .seconds(days * 86_400))
        case 2: payload.revocationDate = payload.revocationDate == nil ? payload.purchaseDate : nil
        case 3: payload.isUpgraded = payload.isUpgraded == true ? nil : true
        case 4: payload.appAccountToken = nil
        case 5: payload.appAccountToken = accounts.randomElement(using: &random)?.uppercased()
        case 6: payload.quantity = Int.random(in: 2...10, using: &random)
        // A migration: the same transaction in another chain.
        default:
            let chains = events.world.subscriptions.filter { $1.current.environment == truth.environment }.keys.sorted()
            payload.originalTransactionId = chains.randomElement(using: &random) ?? truth.transactionId
        }
        return payload
    }
}
