// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// What was bought in one chain: its transactions judged together, since none of them says alone what it counts for.
///
/// An upgrade ends a period at once, and the App Store does not sign that period again in its notifications. One purchase may
/// have two transaction ids. So transactions are merged into periods, the periods are put in the order in which they were
/// bought, and what another purchase superseded is left out before anything is decided.
struct PurchaseHistory {
    /// Each transaction, the earliest purchase first.
    let purchases: [TransactionStatement]
    /// The periods of a subscription that were neither upgraded nor superseded, in the order in which they were bought.
    let periods: [TransactionStatement]
    /// The period that was bought last, also if it was superseded; `nil` if the chain is no subscription.
    let lastPeriod: TransactionStatement?
    /// What was bought once and for good. Transactions with one original id are one such purchase.
    let lasting: TransactionStatement?

    /// - Parameter now: A purchase of a later time, as one of a clock that is ahead of ours, supersedes nothing yet.
    init(_ chain: Chain, at now: Timestamp) {
        var purchases = chain.statements.sorted { $0.isBought(before: $1) }
        let facts = chain.transactions.values
        let cancelled = Set(facts.lazy.filter(\.isCancelledByReceiptAlone).map(\.key.transactionId))
        let timeline = Timeline(purchases.filter(\.isSubscription), cancelledByReceipt: cancelled, at: now)
        for index in purchases.indices where timeline.upgraded.contains(purchases[index].transactionId) {
            purchases[index].markUpgraded()
        }
        self.purchases = purchases
        periods = timeline.entries.lazy.filter { !$0.isSuperseded }.map(\.period)
        lastPeriod = timeline.entries.last?.period
        lasting = TransactionStatement(merging: purchases.filter(\.isLasting))
    }
}

extension Chain {
    /// Its transactions judged together.
    func history(at now: Timestamp) -> PurchaseHistory { PurchaseHistory(self, at: now) }

    /// What is known of each transaction, the earliest purchase first, at whatever time. A period that a receipt calls cancelled
    /// since it was upgraded is upgraded here.
    public var purchases: [TransactionStatement] { history(at: .distantFuture).purchases }
}

/// The periods of a subscription in the order in which they were bought, and which of them another purchase superseded.
private struct Timeline {
    struct Entry {
        var period: TransactionStatement
        let transactionIds: [String]
        /// Whether only receipts say that it was taken back. They have one word for a refund and for an upgrade.
        let isCancelledByReceipt: Bool
        /// Whether the App Store sold it because the one before it ended. A renewal supersedes nothing.
        var isRenewal = false
        /// Whether it never entitles again, also if what superseded it is refunded or ends first.
        var isSuperseded = false

        init?(_ transactions: [TransactionStatement], cancelledByReceipt cancelled: Set<String>) {
            guard let period = TransactionStatement(merging: transactions) else { return nil }
            self.period = period
            transactionIds = transactions.map(\.transactionId)
            let revoked = transactions.filter { $0.revocation != nil }
            isCancelledByReceipt = !revoked.isEmpty && revoked.allSatisfy { cancelled.contains($0.transactionId) }
        }
    }

    private(set) var entries: [Entry]
    /// The transactions that receipts call cancelled and that were upgraded.
    private(set) var upgraded: Set<String> = []

    /// - Parameters:
    ///   - transactions: In the order in which they were bought.
    ///   - cancelled: Those that only receipts say were taken back.
    init(_ transactions: [TransactionStatement], cancelledByReceipt cancelled: Set<String>, at now: Timestamp) {
        entries = Self.byPeriod(transactions).compactMap { Entry($0, cancelledByReceipt: cancelled) }
        entries.sort { $0.period.isBought(before: $1.period) }
        findRenewals()
        findSuperseded(at: now)
        markUpgrades()
    }

    /// Transactions with one web order line item are one period.
    private static func byPeriod(_ transactions: [TransactionStatement]) -> [[TransactionStatement]] {
        var periods: [[TransactionStatement]] = []
        var places: [String: Int] = [:]
        for transaction in transactions {
            guard let line = transaction.webOrderLineItemId, !line.isEmpty else {
                periods.append([transaction])
                continue
            }
            let place = places[line] ?? periods.count
            if place == periods.count { periods.append([]) }
            periods[place].append(transaction)
            places[line] = place
        }
        return periods
    }

    /// Receipts and old payloads do not say what a renewal is: there it begins when another period ends.
    private mutating func findRenewals() {
        let ends = Set(entries.lazy.map(\.period.end.second))
        for index in entries.indices {
            let period = entries[index].period
            entries[index].isRenewal =
                period.transactionReason.map { $0 == .renewal } ?? ends.contains(period.start.second)
        }
    }

    /// A purchase of another product supersedes the period that ran then, and a renewal of that period, which may have been
    /// charged ahead, ends with it.
    private mutating func findSuperseded(at now: Timestamp) {
        /// By the second at which periods ended, whether all of them were superseded.
        var areSuperseded: [Int64: Bool] = [:]
        for index in entries.indices {
            let period = entries[index].period
            let isOvertaken = successors(of: index).contains { $0.period.start <= now }
            let renewsSuperseded = entries[index].isRenewal && (areSuperseded[period.start.second] ?? false)
            let isSuperseded = period.isUpgraded || isOvertaken || renewsSuperseded
            entries[index].isSuperseded = isSuperseded
            areSuperseded[period.end.second] = isSuperseded && (areSuperseded[period.end.second] ?? true)
        }
    }

    /// A receipt says that an upgraded period was cancelled, at the second of the purchase that took its place.
    private mutating func markUpgrades() {
        for index in entries.indices where entries[index].isCancelledByReceipt {
            let cancelled = entries[index].period.revocation?.date.second
            guard successors(of: index).contains(where: { $0.period.start.second == cancelled }) else { continue }
            entries[index].period.markUpgraded()
            upgraded.formUnion(entries[index].transactionIds)
        }
    }

    /// The purchases of another product that were made while a period ran.
    private func successors(of index: Int) -> [Entry] {
        let period = entries[index].period
        return entries[(index + 1)...].prefix { $0.period.start < period.end }.filter { other in
            !other.isRenewal && other.period.start > period.start && other.period.productId != period.productId
        }
    }
}

extension TransactionStatement {
    /// One purchase of all transactions that are it, in the order in which they were bought: the newest words under the first id
    /// and date. What takes back one of the ids takes back the purchase. `nil` if there are none.
    fileprivate init?(merging transactions: [TransactionStatement]) {
        guard let first = transactions.first, let newest = transactions.max(by: { $0.provenance < $1.provenance })
        else { return nil }
        self = newest
        guard transactions.count > 1 else { return }
        transactionId = first.transactionId
        purchaseDate = first.purchaseDate
        knownSince = transactions.map(\.knownSince).reduce(nil, earliest)
        isUpgraded = transactions.contains(where: \.isUpgraded)
        revocation = transactions.compactMap(\.revocation).min { $0.date < $1.date }
        if let renewal = transactions.first(where: { $0.transactionReason == .renewal }) {
            transactionReason = renewal.transactionReason
        }
    }

    /// When it began, or the beginning of time if that is not known.
    var start: Timestamp { purchaseDate ?? .distantPast }

    /// When it ends, or the end of time if that is not known.
    var end: Timestamp { expiresDate ?? .distantFuture }

    /// The order in which purchases are judged: by date, then by end, then by id.
    func isBought(before other: TransactionStatement) -> Bool {
        (start, end, transactionId) < (other.start, other.end, other.transactionId)
    }

    /// Whether it is a non-consumable. Receipts do not say, so it is what is none of the other kinds.
    fileprivate var isLasting: Bool {
        !isSubscription && type != .consumable && type != .nonRenewingSubscription
    }

    fileprivate mutating func markUpgraded() {
        isUpgraded = true
        revocation = nil
    }
}

extension Timestamp {
    /// Its second. Receipts have whole seconds, so dates of different documents are compared by it.
    var second: Int64 {
        let (second, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        return rest < 0 ? second - 1 : second
    }

    /// Before all that the App Store signs.
    static let distantPast = Timestamp(milliseconds: .min)

    /// After all that the App Store signs.
    static let distantFuture = Timestamp(milliseconds: .max)
}
