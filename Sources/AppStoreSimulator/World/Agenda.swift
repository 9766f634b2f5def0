// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The pending events of a simulated App Store, earliest first.
struct Agenda: Sendable {
    enum Event: Hashable, Sendable {
        /// The App Store charges for the next period.
        case charge
        /// The period ends.
        case end
        case endOfGrace
        case endOfRetry
        /// The sandbox decides about a refund.
        case refundDecision
        /// An external purchase token is ten days old without a report.
        case unreportedToken
        /// The monthly reminder about an external purchase token.
        case tokenReminder
        /// The App Store extends all subscriptions of a product.
        case massExtension
    }

    struct Entry: Hashable, Sendable {
        var date: Timestamp
        var event: Event
        /// The original transaction id of a subscription, a transaction id, an external purchase id, or a request's
        /// identifier, depending on the event.
        var subject: String
        /// The end of the affected period, if the event is about a subscription's period. If the subscription's period
        /// ends at a different time when the entry is due, the entry no longer applies.
        var end: Timestamp?
    }

    /// A binary heap with the earliest entry first. Of two entries with the same time, the entry that was added first
    /// comes first.
    private var heap: [(order: UInt64, entry: Entry)] = []
    private var added: UInt64 = 0

    /// Adds the next events of a subscription.
    mutating func plan(_ chain: SubscriptionChain, _ id: String) {
        // The App Store charges the purchaser. A family member's subscription follows the purchaser's.
        guard chain.sharedFrom == nil else { return }
        let end = chain.end
        switch chain.state {
        case .active:
            // Apple charges within the day before the end. This store charges 33 seconds before the end, or at the end
            // if the period is at most two days long, as accelerated periods are.
            let isLong = end.milliseconds - (chain.current.purchaseDate?.milliseconds ?? 0) > 2 * 86_400_000
            let charge = isLong ? Timestamp(milliseconds: end.milliseconds - 33_000) : end
            add(Entry(date: charge, event: .charge, subject: id, end: end))
            add(Entry(date: end, event: .end, subject: id, end: end))
        case .grace(let until): add(Entry(date: until, event: .endOfGrace, subject: id, end: end))
        case .retry(let until): add(Entry(date: until, event: .endOfRetry, subject: id, end: end))
        case .expired, .revoked: break
        }
    }

    /// Adds an event that does not belong to a subscription's period.
    mutating func add(_ date: Timestamp, _ event: Event, _ subject: String) {
        add(Entry(date: date, event: event, subject: subject))
    }

    /// The due time of the earliest entry.
    var nextDate: Timestamp? { heap.first?.entry.date }

    /// Removes and returns the earliest entry that is due by a time.
    mutating func next(until date: Timestamp) -> Entry? {
        guard let first = heap.first?.entry, first.date <= date else { return nil }
        let last = heap.removeLast()
        guard !heap.isEmpty else { return first }
        heap[0] = last
        sink(0)
        return first
    }

    private mutating func add(_ entry: Entry) {
        added += 1
        heap.append((added, entry))
        var child = heap.count - 1
        while child > 0, precedes(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var parent = start
        while true {
            let children = [2 * parent + 1, 2 * parent + 2].filter { $0 < heap.count && precedes($0, parent) }
            guard let least = children.min(by: precedes) else { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }

    private func precedes(_ left: Int, _ right: Int) -> Bool {
        let one = heap[left]
        let other = heap[right]
        return one.entry.date != other.entry.date ? one.entry.date < other.entry.date : one.order < other.order
    }
}
