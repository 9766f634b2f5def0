// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// What was bought in one chain: its transactions judged together, since none of them says alone what it counts for.
///
/// An upgrade ends a period at once, and the App Store does not sign that period again in its notifications. One purchase may
/// have two transaction ids. So transactions are merged into periods, the periods are put in the order in which they were
/// bought, and what another purchase superseded is left out before anything is decided.
///
/// Statements are looked at in place, by index: to copy one counts a reference to each of its texts, and every answer comes here.
struct PurchaseHistory {
    /// Each transaction, the earliest purchase first.
    let purchases: [TransactionStatement]
    /// The periods of a subscription that were neither upgraded nor superseded, in the order in which they were bought.
    let periods: [TransactionStatement]
    /// The period that was bought last, also if it was superseded; `nil` if the chain is no subscription.
    let lastPeriod: TransactionStatement?
    /// What was bought once and for good. Transactions with one original id are one such purchase.
    let lasting: TransactionStatement?
    /// When each transaction began, in order, also those that are not shown: each may supersede another.
    let starts: [Timestamp]
    /// Whether anything was taken back, upgraded or superseded, or is a consumable, which is used once.
    let isMarked: Bool

    /// - Parameter now: A purchase of a later time, as one of a clock that is ahead of ours, supersedes nothing yet.
    init(_ chain: Chain, at now: Timestamp) {
        let statements = chain.statements
        let erased = statements.erased
        var purchases = statements.all
        purchases.sort { $0.isBought(before: $1) }
        let timeline = Timeline(purchases, cancelledByReceipt: statements.cancelledByReceiptAlone, at: now)
        for index in purchases.indices where timeline.upgraded.contains(purchases[index].transactionId) {
            purchases[index].markUpgraded()
        }
        // What was erased is judged with the rest, and not shown.
        let lasting = purchases.those(where: \.isLasting)
        self.lasting =
            lasting.allSatisfy { erased.contains($0.transactionId) } ? nil : TransactionStatement(merging: lasting)
        isMarked =
            timeline.entries.contains(where: \.isSuperseded)
            || purchases.contains { $0.revocation != nil || $0.isUpgraded || $0.type == .consumable }
        starts = purchases.indices.map { purchases[$0].start }
        self.purchases = erased.isEmpty ? purchases : purchases.those { !erased.contains($0.transactionId) }
        periods = timeline.periods(without: erased)
        lastPeriod = timeline.lastPeriod(without: erased)
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
        /// What it was merged of; empty if it is a single transaction.
        var transactions: [TransactionStatement] = []
        /// Whether the App Store sold it because the one before it ended. A renewal supersedes nothing.
        var isRenewal = false
        /// Whether it never entitles again, also if what superseded it is refunded or ends first.
        var isSuperseded = false

        /// Takes in another transaction of the same period.
        mutating func add(_ transaction: TransactionStatement) {
            if transactions.isEmpty { transactions = [period] }
            transactions.append(transaction)
        }

        mutating func merge() {
            if let merged = TransactionStatement(merging: transactions) { period = merged }
        }

        /// Whether only receipts say that it was taken back. They have one word for a refund and for an upgrade.
        func isCancelled(byReceipts cancelled: Set<String>) -> Bool {
            guard period.revocation != nil else { return false }
            let revoked = (transactions.isEmpty ? [period] : transactions).filter { $0.revocation != nil }
            return revoked.allSatisfy { cancelled.contains($0.transactionId) }
        }

        func isErased(_ erased: Set<String>) -> Bool { !erased.isEmpty && erased.isSuperset(of: transactionIds) }

        var transactionIds: [String] {
            transactions.isEmpty ? [period.transactionId] : transactions.map(\.transactionId)
        }
    }

    private(set) var entries: [Entry] = []
    /// Those that were neither upgraded nor superseded.
    ///
    /// - Parameter erased: Transactions that are not shown.
    func periods(without erased: Set<String>) -> [TransactionStatement] {
        entries.indices.filter { !entries[$0].isSuperseded && !entries[$0].isErased(erased) }.map { entries[$0].period }
    }

    func lastPeriod(without erased: Set<String>) -> TransactionStatement? {
        entries.indices.last { !entries[$0].isErased(erased) }.map { entries[$0].period }
    }
    /// The transactions that receipts call cancelled and that were upgraded.
    private(set) var upgraded: Set<String> = []

    /// - Parameters:
    ///   - purchases: In the order in which they were bought. Those that are no subscription are left out.
    ///   - cancelled: Those that only receipts say were taken back.
    init(_ purchases: [TransactionStatement], cancelledByReceipt cancelled: Set<String>, at now: Timestamp) {
        findPeriods(in: purchases)
        findRenewals()
        findSuperseded(at: now)
        if !cancelled.isEmpty { markUpgrades(of: cancelled) }
    }

    /// Transactions with one web order line item are one period.
    private mutating func findPeriods(in purchases: [TransactionStatement]) {
        entries.reserveCapacity(purchases.count)
        var places: [String: Int] = [:]
        for index in purchases.indices where purchases[index].isSubscription {
            let line = purchases[index].webOrderLineItemId ?? ""
            if !line.isEmpty, let place = places[line] {
                entries[place].add(purchases[index])
                continue
            }
            if !line.isEmpty { places[line] = entries.count }
            entries.append(Entry(period: purchases[index]))
        }
        guard entries.count < purchases.count else { return }
        for index in entries.indices { entries[index].merge() }
        entries.sort { $0.period.isBought(before: $1.period) }
    }

    /// Receipts and old payloads do not say what a renewal is: there it begins when another period ends.
    private mutating func findRenewals() {
        var ends: Set<Int64>?
        for index in entries.indices {
            if let reason = entries[index].period.transactionReason {
                entries[index].isRenewal = reason == .renewal
                continue
            }
            let known = ends ?? Set(entries.indices.map { entries[$0].period.end.second })
            ends = known
            entries[index].isRenewal = known.contains(entries[index].period.start.second)
        }
    }

    /// A purchase of another product supersedes the period that ran then, and a renewal of that period, which may have been
    /// charged ahead, ends with it.
    private mutating func findSuperseded(at now: Timestamp) {
        for index in entries.indices {
            entries[index].isSuperseded =
                entries[index].period.isUpgraded || hasSuccessor(index) { $0.start <= now }
        }
        if entries.contains(where: \.isSuperseded) { supersedeRenewals() }
    }

    private mutating func supersedeRenewals() {
        /// By the second at which periods ended, whether all of them were superseded.
        var areSuperseded: [Int64: Bool] = [:]
        for index in entries.indices {
            let (start, end) = (entries[index].period.start.second, entries[index].period.end.second)
            if entries[index].isRenewal, areSuperseded[start] ?? false { entries[index].isSuperseded = true }
            areSuperseded[end] = entries[index].isSuperseded && (areSuperseded[end] ?? true)
        }
    }

    /// A receipt says that an upgraded period was cancelled, at the second of the purchase that took its place.
    private mutating func markUpgrades(of cancelled: Set<String>) {
        for index in entries.indices where entries[index].isCancelled(byReceipts: cancelled) {
            let second = entries[index].period.revocation?.date.second
            guard hasSuccessor(index, where: { $0.start.second == second }) else { continue }
            entries[index].period.markUpgraded()
            upgraded.formUnion(entries[index].transactionIds)
        }
    }

    /// Whether one of the purchases of another product that were made while a period ran is as asked.
    private func hasSuccessor(_ index: Int, where isAsked: (TransactionStatement) -> Bool) -> Bool {
        let (start, end) = (entries[index].period.start, entries[index].period.end)
        for other in entries.indices[(index + 1)...] {
            let next = entries[other].period.start
            guard next < end else { return false }
            if !entries[other].isRenewal, next > start,
                entries[other].period.productId != entries[index].period.productId, isAsked(entries[other].period)
            {
                return true
            }
        }
        return false
    }
}

extension Array<TransactionStatement> {
    /// Those that are as asked. `filter` would copy the others too.
    func those(where isAsked: (TransactionStatement) -> Bool) -> [TransactionStatement] {
        var those: [TransactionStatement] = []
        for index in indices where isAsked(self[index]) { those.append(self[index]) }
        return those
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
        if start != other.start { return start < other.start }
        if end != other.end { return end < other.end }
        return transactionId < other.transactionId
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
