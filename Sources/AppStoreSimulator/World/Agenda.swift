// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// What falls due in a simulated App Store, by its time.
struct Agenda: Sendable {
    enum Event: Hashable, Sendable {
        /// The App Store charges for the next period.
        case charge
        /// The period ends.
        case end
        case endOfGrace
        case endOfRetry
    }

    struct Entry: Hashable, Sendable {
        var date: Timestamp
        var event: Event
        var subscription: String
        /// The end of the period that it is about: an entry about another period is out of date.
        var end: Timestamp
    }

    /// A binary heap with the earliest entry first; of one instant, the one that was planned first.
    private var heap: [(order: UInt64, entry: Entry)] = []
    private var planned: UInt64 = 0

    /// Plans what falls due next of a subscription.
    mutating func plan(_ chain: SubscriptionChain, _ id: String) {
        let end = chain.end
        switch chain.state {
        case .active:
            // The App Store charges within the day before; of accelerated periods, at their end.
            let isLong = end.milliseconds - (chain.current.purchaseDate?.milliseconds ?? 0) > 2 * 86_400_000
            let charge = isLong ? Timestamp(milliseconds: end.milliseconds - 33_000) : end
            add(Entry(date: charge, event: .charge, subscription: id, end: end))
            add(Entry(date: end, event: .end, subscription: id, end: end))
        case .grace(let until): add(Entry(date: until, event: .endOfGrace, subscription: id, end: end))
        case .retry(let until): add(Entry(date: until, event: .endOfRetry, subscription: id, end: end))
        case .expired, .revoked: break
        }
    }

    /// Takes out the earliest entry that is due by a time.
    mutating func next(until date: Timestamp) -> Entry? {
        guard let first = heap.first?.entry, first.date <= date else { return nil }
        let last = heap.removeLast()
        guard !heap.isEmpty else { return first }
        heap[0] = last
        sink(0)
        return first
    }

    private mutating func add(_ entry: Entry) {
        planned += 1
        heap.append((planned, entry))
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
        let (one, other) = (heap[left], heap[right])
        return one.entry.date != other.entry.date ? one.entry.date < other.entry.date : one.order < other.order
    }
}
