// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The purchases of a chain (``Chain``), evaluated together at an instant. The effect of a transaction depends on the
/// chain's other transactions.
///
/// An upgrade ends a period at once, and the App Store does not sign the upgraded period again in its notifications. A
/// purchase may have two transaction ids. Therefore transactions are first merged into periods, periods are ordered by
/// purchase, and superseded periods are left out: periods during which the customer bought a different product of the
/// same subscription group.
///
/// The code reads statements in place, by index. A copy would retain each of a statement's strings, and every answer
/// runs this code.
struct PurchaseHistory {
    /// The transactions, the earliest purchase first. A transaction is left out if an erasure left only its residue
    /// (``Chain/residue``).
    let purchases: [TransactionStatement]
    /// The subscription periods that were neither upgraded nor superseded, the earliest purchase first.
    let periods: [TransactionStatement]
    /// The period that was bought last, even if superseded; `nil` if the chain is no subscription, or has only residue.
    let lastPeriod: TransactionStatement?
    /// The non-consumable; `nil` if there is none. All non-consumable transactions of a chain count as the same
    /// purchase.
    let nonConsumable: TransactionStatement?
    /// The purchase of the app itself; `nil` in all other chains. Such a chain has neither purchases nor periods.
    let app: TransactionStatement?
    /// Whether the operator refuses the chain. A refused chain grants nothing; see ``Catalogue/refuses(_:)``.
    let isRefused: Bool
    /// All periods, including superseded periods and residue.
    private let timeline: Timeline
    let catalogue: Catalogue
    /// The instant of the evaluation.
    let now: Timestamp

    fileprivate init(_ chain: Chain, _ catalogue: Catalogue, isRefused: Bool, at now: Timestamp) {
        self.init(chain.key, chain.statements, catalogue, isRefused: isRefused, at: now)
    }

    /// - Parameter statements: What is known about the transactions of the chain at `now`.
    init(
        _ key: ChainKey, _ statements: consuming Chain.Statements, _ catalogue: Catalogue, isRefused: Bool,
        at now: Timestamp
    ) {
        self.catalogue = catalogue
        self.now = now
        self.isRefused = isRefused
        let erased = statements.erased
        if key.isAppPurchase {
            app = statements.all.first { !erased.contains($0.transactionId) }
            statements.all = []
        } else {
            app = nil
        }
        statements.all.sort { $0.isBought(before: $1) }
        var purchases = statements.all
        timeline = Timeline(
            purchases, cancelledByReceipt: statements.cancelledByReceiptAlone, catalogue, at: now)
        for index in purchases.indices where timeline.upgraded.contains(purchases[index].transactionId) {
            purchases[index].markUpgraded()
        }
        // Residue is evaluated with the other statements. A purchase with nothing left but residue then counts only in
        // `timeline`.
        let nonConsumables = purchases.indices.filter { purchases[$0].isNonConsumable }.map { purchases[$0] }
        nonConsumable =
            nonConsumables.allSatisfy { erased.contains($0.transactionId) }
            ? nil : TransactionStatement(merging: nonConsumables)
        self.purchases = erased.isEmpty ? purchases : purchases.elements { !erased.contains($0.transactionId) }
        periods = timeline.periods(without: erased)
        lastPeriod = timeline.lastPeriod(without: erased)
    }
}

extension Chain {
    /// The purchases of the chain, evaluated together at `now`.
    func history(_ catalogue: Catalogue, at now: Timestamp) -> PurchaseHistory {
        PurchaseHistory(self, catalogue, isRefused: catalogue.refuses(self), at: now)
    }

    /// The statements about the transactions, the earliest purchase first. A transaction with nothing left but residue
    /// is left out. An upgraded period that a receipt reports as cancelled is marked as upgraded instead.
    public var purchases: [TransactionStatement] {
        PurchaseHistory(self, .empty, isRefused: false, at: .distantFuture).purchases
    }

    /// The residue to keep if the chain's customer is erased: all statements. If a customer later presents a document
    /// of the chain again, the residue keeps this from undoing a refund, crediting a consumable twice, or telling a
    /// payment twice. A purchase of the app itself has no payment, and leaves no residue.
    var residueOfErasure: [String: TransactionFact] {
        guard !key.isAppPurchase else { return [:] }
        var erased = self
        for statement in transactions.values.flatMap(\.statements) { erased.mergeResidue(statement) }
        return erased.residue
    }
}

extension PurchaseHistory {
    /// Whether a purchase has begun. The App Store charges renewals up to a day ahead; only they wait for
    /// their date. Any other purchase was paid for when it was signed, and a renewal signed at its date or later has
    /// begun: if its date is ahead of the clock, then the clock is behind, or the App Store's is ahead.
    func hasBegun(_ purchase: TransactionStatement) -> Bool {
        purchase.start <= now || !timeline.waits(purchase, catalogue)
    }

    /// All periods, superseded or not, each with its transaction ids.
    var allPeriods: [(period: TransactionStatement, transactionIds: [String], isSuperseded: Bool)] {
        timeline.entries.indices.map { index in
            let entry = timeline.entries[index]
            return (entry.period, entry.transactionIds, entry.isSuperseded)
        }
    }

    /// The purchase with a transaction id; `nil` if there is none.
    func purchase(_ transactionId: String) -> TransactionStatement? {
        purchases.indices.last { purchases[$0].transactionId == transactionId }.map { purchases[$0] }
    }

    /// The place of a period among all periods of its subscription.
    struct Place {
        /// The number of the period, from 1.
        var number: Int
        /// The period before it; `nil` for the first.
        var previous: TransactionStatement?
    }

    /// The place of the period with a transaction; `nil` unless all earlier periods are known. The first is known if
    /// its transaction gave the subscription its id. Periods are missing if one of the length of its neighbours fits
    /// between two others.
    func place(ofTransaction id: String) -> Place? {
        let entries = timeline.entries
        guard let index = entries.indices.last(where: { entries[$0].transactionIds.contains(id) }),
            ChainName.originalTransactionId(in: entries[0].period.namedChain) == entries[0].period.transactionId
        else { return nil }
        var end = entries[0].period.end
        for next in entries.indices.prefix(through: index).dropFirst() {
            guard !entries[next].period.leavesRoom(after: end, entries[next - 1].period) else { return nil }
            end = max(end, entries[next].period.end)
        }
        return Place(number: index + 1, previous: index > 0 ? entries[index - 1].period : nil)
    }

    /// The end of a non-renewing subscription, which is its product's configured duration after the purchase; `nil` for
    /// no end.
    func nonRenewingEnd(of purchase: TransactionStatement) -> Timestamp? {
        guard let purchaseDate = purchase.purchaseDate,
            let duration = catalogue.products[exactly: purchase.productId]?.duration
        else { return nil }
        return purchaseDate.advanced(by: duration)
    }

    /// The instant from which on every period is over, superseded or not, with ``Catalogue/staleLeeway``; `nil` if a
    /// period has no end.
    var periodsEnd: Timestamp? {
        var last = Timestamp.distantPast
        for index in timeline.entries.indices {
            guard let end = timeline.entries[index].period.expiresDate else { return nil }
            last = max(last, timeline.entries[index].period.start, end, end.advanced(by: catalogue.staleLeeway))
        }
        return last
    }

    /// The next date after `now` at which a period begins; `nil` if there is none.
    func nextStart(after now: Timestamp) -> Timestamp? {
        let entries = timeline.entries
        let next = entries.indices.first { index in
            now < entries[index].period.start && timeline.waits(entries[index].period, catalogue)
        }
        return next.map { entries[$0].period.start }
    }
}

/// The periods of a subscription, the earliest purchase first, each with its relation to other purchases.
private struct Timeline {
    struct Entry {
        var period: TransactionStatement
        /// The transactions merged into the period; empty for a single transaction.
        var transactions: [TransactionStatement] = []
        /// Whether the period continues the preceding period. A renewal supersedes nothing.
        var isRenewal = false
        /// Whether the period was upgraded, or superseded by a different purchase. A superseded period never entitles
        /// again, even if the superseding purchase is refunded or ends first.
        var isSuperseded = false

        /// Adds a further transaction of the same period.
        mutating func add(_ transaction: TransactionStatement) {
            if transactions.isEmpty { transactions = [period] }
            transactions.append(transaction)
        }

        mutating func merge() {
            if let merged = TransactionStatement(merging: transactions) { period = merged }
        }

        /// Whether only receipts report the period as cancelled. Receipts do not distinguish a refund from an upgrade.
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
    /// The ids of upgraded transactions that receipts report as cancelled.
    private(set) var upgraded: Set<String> = []

    /// The periods that were neither upgraded nor superseded.
    ///
    /// - Parameter erased: The ids of transactions to leave out.
    func periods(without erased: Set<String>) -> [TransactionStatement] {
        entries.indices.filter { !entries[$0].isSuperseded && !entries[$0].isErased(erased) }.map { entries[$0].period }
    }

    func lastPeriod(without erased: Set<String>) -> TransactionStatement? {
        entries.indices.last { !entries[$0].isErased(erased) }.map { entries[$0].period }
    }

    /// - Parameters:
    ///   - purchases: All purchases, the earliest first. Only periods of subscriptions are used.
    ///   - cancelled: The ids of transactions that only receipts report as cancelled.
    init(
        _ purchases: [TransactionStatement], cancelledByReceipt cancelled: Set<String>, _ catalogue: Catalogue,
        at now: Timestamp
    ) {
        findPeriods(in: purchases)
        findRenewals()
        if !cancelled.isEmpty { markUpgrades(of: cancelled) }
        findSuperseded(catalogue, at: now)
    }

    /// How late a renewal may begin after its period has ended, if documents do not mark renewals. Genuine renewals
    /// begin up to ten minutes late.
    private static let renewalDelay = Duration.seconds(3600)

    /// Whether a period whose date is ahead waits for it like a renewal. Without a mark it does if a period has just
    /// ended, unless the product has a higher level: an upgrade is a purchase.
    func waits(_ period: TransactionStatement, _ catalogue: Catalogue) -> Bool {
        guard period.provenance.signedDate < period.start else { return false }
        if let reason = period.transactionReason { return reason == .renewal }
        let rank = catalogue.rank(period.productId)
        return entries.contains { entry in
            let end = entry.period.end
            return end.second <= period.start.second && period.start <= end.advanced(by: Self.renewalDelay)
                && catalogue.rank(entry.period.productId) <= rank
        }
    }

    /// Merges transactions with the same ``TransactionStatement/lineItem`` into one period, because they belong to the
    /// same purchase event.
    private mutating func findPeriods(in purchases: [TransactionStatement]) {
        entries.reserveCapacity(purchases.count)
        var indexes: [String: Int] = [:]
        indexes.reserveCapacity(purchases.count)
        for index in purchases.indices where purchases[index].isSubscription {
            if let line = purchases[index].lineItem {
                if let known = indexes[line] {
                    entries[known].add(purchases[index])
                    continue
                }
                indexes[line] = entries.count
            }
            entries.append(Entry(period: purchases[index]))
        }
        guard entries.count < purchases.count else { return }
        for index in entries.indices { entries[index].merge() }
        entries.sort { $0.period.isBought(before: $1.period) }
    }

    /// Finds the renewals. Receipts and old payloads do not mark renewals. Without such a mark, a period counts as a
    /// renewal if it begins when some period ends, or in the same second, if a receipt's whole second stands for one of
    /// the dates.
    private mutating func findRenewals() {
        var ends: [Int64: Set<Timestamp>]?
        for index in entries.indices {
            if let reason = entries[index].period.transactionReason {
                entries[index].isRenewal = reason == .renewal
                continue
            }
            let known = ends ?? Dictionary(grouping: entries.map(\.period.end), by: \.second).mapValues { Set($0) }
            ends = known
            let start = entries[index].period.start
            guard let same = known[start.second] else { continue }
            entries[index].isRenewal = start.isWholeSecond || same.contains { $0 == start || $0.isWholeSecond }
        }
    }

    /// Finds the superseded periods. A purchase of a different product supersedes the running period, and also the
    /// renewals of that period that were charged ahead. A purchase that waits for its date supersedes nothing before.
    private mutating func findSuperseded(_ catalogue: Catalogue, at now: Timestamp) {
        for index in entries.indices {
            entries[index].isSuperseded =
                entries[index].period.isUpgraded
                || hasPurchase(insteadOf: index, after: index, before: entries[index].period.end) {
                    $0.start <= now || !waits($0, catalogue)
                }
        }
        if entries.indices.contains(where: { entries[$0].isSuperseded }) { supersedeRenewals() }
    }

    private mutating func supersedeRenewals() {
        // For each second: whether all periods that ended in this second were superseded.
        var areSuperseded: [Int64: Bool] = [:]
        for index in entries.indices {
            let start = entries[index].period.start.second
            let end = entries[index].period.end.second
            if entries[index].isRenewal, areSuperseded[start] ?? false { entries[index].isSuperseded = true }
            areSuperseded[end] = entries[index].isSuperseded && (areSuperseded[end] ?? true)
        }
    }

    /// Marks upgraded periods. Receipts report an upgrade as a cancellation. A cancelled period was upgraded if the
    /// customer bought a different product before the period was cancelled or ended, and after it began. If it is a
    /// renewal, the product may also have been bought during the period that it renewed.
    private mutating func markUpgrades(of cancelled: Set<String>) {
        for index in entries.indices where entries[index].isCancelled(byReceipts: cancelled) {
            // A purchase in the second of the cancellation counts: receipts have whole seconds.
            guard let date = entries[index].period.revocation?.date.advanced(by: .seconds(1)) else { continue }
            let end = min(date, entries[index].period.end)
            guard hasPurchase(insteadOf: index, after: renewed(by: index) ?? index, before: end, where: { _ in true })
            else { continue }
            entries[index].period.markUpgraded()
            upgraded.formUnion(entries[index].transactionIds)
        }
    }

    /// The period that a renewal continues; `nil` for a purchase.
    private func renewed(by index: Int) -> Int? {
        let start = entries[index].period.start.second
        guard entries[index].isRenewal else { return nil }
        return entries[..<index].lastIndex { $0.period.end.second == start }
    }

    /// Whether the customer bought a different product than that of the period `index`, after the period `first` began
    /// and before `end`. Renewals do not count.
    private func hasPurchase(
        insteadOf index: Int, after first: Int, before end: Timestamp, where counts: (TransactionStatement) -> Bool
    ) -> Bool {
        let start = entries[first].period.start
        for other in entries.indices[(first + 1)...] {
            let next = entries[other].period.start
            guard next < end else { return false }
            if !entries[other].isRenewal, next > start,
                entries[other].period.productId != entries[index].period.productId, counts(entries[other].period)
            {
                return true
            }
        }
        return false
    }
}

extension Array<TransactionStatement> {
    /// The elements that meet a condition. `filter` would also copy each element that it rejects, to hand the element
    /// to the closure.
    func elements(where condition: (TransactionStatement) -> Bool) -> [TransactionStatement] {
        var elements: [TransactionStatement] = []
        for index in indices where condition(self[index]) { elements.append(self[index]) }
        return elements
    }
}

extension TransactionStatement {
    /// Merges the transactions of a purchase, the earliest first. The result is the newest statement with the id and
    /// the date of the first transaction. If any transaction was revoked or upgraded, so was the purchase. `nil`
    /// without transactions.
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

    /// The date of the purchase; the beginning of time if unknown.
    var start: Timestamp { purchaseDate ?? .distantPast }

    /// The end of the period; the end of time if unknown.
    var end: Timestamp { expiresDate ?? .distantFuture }

    /// Whether a further period fits between `end` and this period.
    fileprivate func leavesRoom(after end: Timestamp, _ previous: TransactionStatement) -> Bool {
        let shortest = min(length, previous.length)
        // The months differ by up to a tenth.
        return Double(start.milliseconds) - Double(end.milliseconds) > shortest * 0.9
    }

    /// In milliseconds. Unknown dates lie beyond the range of a difference of integers.
    private var length: Double { Double(end.milliseconds) - Double(start.milliseconds) }

    /// The order of purchases: by date, then by end, then by id.
    func isBought(before other: TransactionStatement) -> Bool {
        if start != other.start { return start < other.start }
        if end != other.end { return end < other.end }
        return transactionId < other.transactionId
    }

    /// Whether the transaction counts as a non-consumable. It does if it has none of the other types, because some
    /// receipts do not name the type.
    fileprivate var isNonConsumable: Bool {
        !isSubscription && type != .consumable && type != .nonRenewingSubscription
    }

    fileprivate mutating func markUpgraded() {
        isUpgraded = true
        revocation = nil
    }
}

extension Timestamp {
    /// Whether two dates are less than a second apart, as the dates of the same event in a receipt and in a signed
    /// transaction may be: receipts have whole seconds.
    func isNear(_ other: Timestamp) -> Bool {
        let (difference, isOverflow) = milliseconds.subtractingReportingOverflow(other.milliseconds)
        return !isOverflow && (-999...999).contains(difference)
    }

    fileprivate var isWholeSecond: Bool { milliseconds.isMultiple(of: 1000) }

    /// The second that contains the timestamp. Dates of different documents are compared by second, because receipts
    /// have whole seconds.
    var second: Int64 {
        let (second, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        return rest < 0 ? second - 1 : second
    }
}
