// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// A simulated App Store of one app: customers, their purchases, and a clock that the caller turns.
///
/// A world is a value without sockets, wall clock or global randomness. Equal seeds and calls give equal occurrences
/// with equal identifiers, in every process. ``WorldSigner`` signs the documents of the occurrences.
public struct World: Sendable {
    /// The app and its products.
    public var catalogue: StoreCatalogue
    /// The speed of sandbox subscriptions. Production subscriptions run by the calendar.
    public var sandboxSpeed = RenewalSpeed.fiveMinutes
    /// The world's time.
    public internal(set) var now: Timestamp
    /// The occurrences, oldest first. The world keeps all of them until ``forgetOccurrences(keeping:)``.
    public private(set) var occurrences: [Occurrence] = []
    /// The number of all occurrences, including forgotten ones.
    public private(set) var occurrenceCount = 0
    private var newestOccurrence: Timestamp?
    /// The customers, by name.
    public internal(set) var customers: [String: StoreCustomer] = [:]
    /// The subscriptions, by original transaction id.
    public internal(set) var subscriptions: [String: SubscriptionChain] = [:]
    /// Purchases of consumables, non-consumables and non-renewing subscriptions, by transaction id.
    public internal(set) var purchases: [String: JWSTransactionDecodedPayload] = [:]
    /// Purchases that wait for a parent's approval, in the order of the customers' requests.
    public internal(set) var waiting: [WaitingPurchase] = []
    /// Refund requests without a decision, by transaction id.
    public internal(set) var refundRequests: [String: RefundRequest] = [:]
    /// Transactions that the app has finished.
    var finished: Set<String> = []
    /// Extensions of all subscriptions of a product, by `requestIdentifier`.
    public internal(set) var massExtensions: [String: MassExtension] = [:]
    /// Tokens for purchases outside the App Store, by `externalPurchaseId`.
    var externalTokens: [String: ExternalToken] = [:]
    /// The id of the purchaser's transaction, by the id of a family member's copy. Only purchases other than
    /// subscriptions are here; see ``SubscriptionChain/sharedFrom``.
    var sharedPurchases: [String: String] = [:]
    /// The original transaction id of every transaction, by transaction id.
    private var chains: [String: String] = [:]
    /// The customer's name, by original transaction id and by app transaction id.
    private var owners: [String: String] = [:]
    /// The number of each transaction's last change; see ``history(of:)``.
    private var changes: [String: UInt64] = [:]
    private var changeCount: UInt64 = 0
    /// Transaction ids, by order id.
    private var orders: [String: [String]] = [:]
    /// The order id, by transaction id.
    private var orderIds: [String: String] = [:]
    var identifiers: Identifiers
    var agenda = Agenda()

    /// Creates an empty world.
    ///
    /// - Parameters:
    ///   - seed: Determines all identifiers, together with `run`.
    ///   - run: The number of earlier worlds with this seed. Each world has its own identifiers, so that a single
    ///     ledger can keep the documents of all of them.
    ///   - now: The first time of the clock.
    public init(seed: UInt64, run: UInt64 = 0, catalogue: StoreCatalogue, now: Timestamp) {
        self.catalogue = catalogue
        self.now = now
        identifiers = Identifiers(seed: seed, run: run)
    }
}

// MARK: - Lookups

extension World {
    /// The customer of a transaction id, an original transaction id or an app transaction id.
    public func customer(ofTransaction id: String) -> StoreCustomer? {
        owners[chains[id] ?? id].flatMap { customers[$0] }
    }

    /// The present state of the transaction with this id, without `signedDate`.
    public func transaction(_ id: String) -> JWSTransactionDecodedPayload? {
        purchases[id] ?? chain(ofTransaction: id)?.transactions.last { $0.transactionId == id }
    }

    /// The subscription of a transaction.
    public func chain(ofTransaction id: String) -> SubscriptionChain? { chains[id].flatMap { subscriptions[$0] } }

    /// A customer's transactions in the order of their last changes, each with the number of the change.
    ///
    /// Every update of the transaction's payload is a change, such as its purchase, an upgrade, an extension, a refund
    /// or the reversal of a refund. Numbers ascend over the whole world and are never reused.
    public func history(of name: String) -> [(change: UInt64, transaction: JWSTransactionDecodedPayload)] {
        let bought = (customers[name]?.purchases ?? []).compactMap { purchases[$0] }
        let all = subscriptions(of: name).flatMap { subscriptions[$0]?.transactions ?? [] } + bought
        let numbers = all.map { changes[$0.transactionId ?? ""] ?? 0 }
        // The sort moves indices, because a transaction is large.
        return all.indices.sorted { numbers[$0] < numbers[$1] }.map { (numbers[$0], all[$0]) }
    }

    /// The order id of a transaction. Apple's emailed receipt shows the order id to the customer.
    public func orderId(ofTransaction id: String) -> String? { orderIds[id] }

    /// The transactions of an order.
    public func transactions(ofOrder id: String) -> [JWSTransactionDecodedPayload] {
        (orders[id] ?? []).compactMap { transaction($0) }
    }

    /// The original transaction ids of a customer's subscriptions, in the order of the first purchases.
    public func subscriptions(of name: String) -> [String] { customers[name]?.subscriptions ?? [] }

    /// The status of a subscription as Apple signs it.
    public func status(of subscription: String) -> SubscriptionStatus? { subscriptions[subscription]?.state.status }
}

// MARK: - Occurrences

extension World {
    /// The occurrences since ``occurrenceCount`` had the value `count`, without forgotten ones.
    public func occurrences(since count: Int) -> ArraySlice<Occurrence> {
        occurrences.suffix(max(0, occurrenceCount - count))
    }

    /// Forgets all occurrences except the newest. The world itself does not need old occurrences. A simulator that runs
    /// for months would otherwise need ever more memory.
    ///
    /// - Parameter count: The number of occurrences to keep, 0 or more.
    public mutating func forgetOccurrences(keeping count: Int) {
        occurrences.removeFirst(max(0, occurrences.count - max(0, count)))
    }
}

// MARK: - Changes

extension World {
    func customer(_ name: String) throws(ImpossibleEvent) -> StoreCustomer {
        guard let customer = customers[name] else { throw ImpossibleEvent(description: "There is no customer \(name)") }
        return customer
    }

    func subscription(_ id: String) throws(ImpossibleEvent) -> SubscriptionChain {
        guard let chain = subscriptions[id] else {
            throw ImpossibleEvent(description: "There is no subscription \(id)")
        }
        return chain
    }

    /// Adds a customer.
    mutating func enter(_ customer: StoreCustomer) {
        customers[customer.name] = customer
        owners[customer.appTransactionId] = customer.name
    }

    /// Adds a purchase other than a subscription, or updates its state.
    mutating func enter(_ purchase: JWSTransactionDecodedPayload, of name: String) {
        let id = purchase.transactionId ?? ""
        if purchases.updateValue(purchase, forKey: id) == nil {
            chains[id] = id
            owners[id] = name
            customers[name]?.purchases.append(id)
            addOrder(of: id)
        }
        noteChange(of: id)
    }

    /// Adds a subscription or updates its state, and plans its next events.
    mutating func enter(_ chain: SubscriptionChain, _ id: String, of name: String) {
        var chain = chain
        let before = subscriptions[id]
        if let before, before.isRenewing != chain.isRenewing { chain.renewalSwitched = now }
        subscriptions[id] = chain
        if before == nil {
            owners[id] = name
            customers[name]?.subscriptions.append(id)
        }
        for (index, transaction) in chain.transactions.enumerated() {
            let transactionId = transaction.transactionId ?? ""
            if index >= before?.transactions.count ?? 0 {
                chains[transactionId] = id
                addOrder(of: transactionId)
            } else if before?.transactions[index] == transaction {
                continue
            }
            noteChange(of: transactionId)
        }
        agenda.plan(chain, id)
    }

    /// Changes a subscription, records its notification, and updates the family's subscriptions.
    ///
    /// - Parameter transaction: The id of the transaction in the notification; `nil` for the newest transaction.
    mutating func change(
        _ id: String, about transaction: String? = nil,
        _ event: (inout SubscriptionChain) throws(ImpossibleEvent) -> NotificationTopic
    ) throws(ImpossibleEvent) {
        var chain = try subscription(id)
        let topic = try event(&chain)
        enter(chain, id, of: owners[id] ?? "")
        occur(topic, of: id, chain, about: transaction)
        followPurchaser(id, chain, after: topic)
    }

    /// Records a notification about a subscription.
    mutating func occur(
        _ topic: NotificationTopic, of id: String, _ chain: SubscriptionChain, about transaction: String? = nil
    ) {
        let transaction = chain.transactions.last { $0.transactionId == transaction } ?? chain.current
        let customer = owners[id].flatMap { customers[$0] }
        occur(
            topic, .subscription(transaction, chain.renewal, chain.state.status), of: customer?.name,
            in: customer?.environment ?? .production)
    }

    /// The identifiers of the next transaction.
    mutating func newIds(_ environment: Open<Environment>?) -> TransactionIds {
        let first: UInt64 = environment == .production ? 410_000_000_000_000 : 2_000_000_000_000_000
        return TransactionIds(
            transactionId: "\(identifiers.number(.transaction, from: first))",
            webOrderLineItemId: "\(identifiers.number(.webOrderLineItem, from: first))")
    }

    private mutating func addOrder(of transactionId: String) {
        let id = identifiers.orderId()
        orders[id, default: []].append(transactionId)
        orderIds[transactionId] = id
    }

    private mutating func noteChange(of transactionId: String) {
        changeCount += 1
        changes[transactionId] = changeCount
    }

    /// Records an event with its notification.
    mutating func occur(
        _ topic: NotificationTopic, _ subject: Occurrence.Subject, of name: String?, in environment: Environment
    ) {
        // A server cannot order two documents with equal signing dates. The real App Store's clock always moves on. The
        // world's clock therefore moves by a millisecond for each event, even if it stands still otherwise.
        if let last = newestOccurrence, now <= last { now = Timestamp(milliseconds: last.milliseconds + 1) }
        newestOccurrence = now
        occurrenceCount += 1
        occurrences.append(
            Occurrence(
                date: now, id: identifiers.uuid(.notification), customer: name, environment: environment,
                topic: topic, subject: subject))
    }
}
