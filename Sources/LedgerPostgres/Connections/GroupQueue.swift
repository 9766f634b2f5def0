// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Lets items that wait at the same time be handled together.
///
/// A few groups are handled at once. What arrives meanwhile waits for the next one, so that groups grow with the load.
/// Items with a key in common are in one group or in groups that follow each other, in the order of their arrival.
final class GroupQueue<Item: Sendable, Key: Hashable & Sendable>: Sendable {
    private struct Waiting: Sendable {
        var item: Item
        var keys: Set<Key>
        var isAlone: Bool
        var since: ContinuousClock.Instant
    }

    private struct State {
        var groups = 0
        /// The keys of the groups that are being handled.
        var held: Set<Key> = []
        var waiting: [Waiting] = []
    }

    /// How many items may wait: twice as many as there are open HTTP connections.
    private static var waitingLimit: Int { 2000 }

    private let state = Mutex(State())
    private let (width, largest): (Int, Int)
    private let limit: Duration
    private let clock: ContinuousClock
    private let executor: @Sendable () -> any TaskExecutor
    private let refuse: @Sendable (Item) -> Void

    /// - Parameters:
    ///   - width: How many groups are handled at once.
    ///   - largest: How many items a group has at most.
    ///   - limit: How long an item may wait: by default as long as a request may take. Groups take longer only if the
    ///     database does not answer, and then what waits for them would not be answered in time either.
    ///   - executor: Where to handle groups.
    ///   - refuse: Answers an item that is not handled, since too many wait or it has waited too long.
    init(
        width: Int, largest: Int, limit: Duration = .seconds(10), clock: ContinuousClock,
        on executor: @escaping @Sendable () -> any TaskExecutor,
        refuse: @escaping @Sendable (Item) -> Void
    ) {
        self.width = width
        self.largest = largest
        self.limit = limit
        self.clock = clock
        self.executor = executor
        self.refuse = refuse
    }

    /// Adds an item.
    ///
    /// - Parameters:
    ///   - isAlone: Whether it must be the only one of its group.
    ///   - handle: Handles a group.
    func add(
        _ item: Item, _ keys: Set<Key> = [], isAlone: Bool = false,
        handle: @escaping @Sendable ([Item]) async -> Void
    ) {
        let waiting = Waiting(item: item, keys: keys, isAlone: isAlone, since: clock.now)
        let isAdded = state.withLock { state in
            guard state.waiting.count < Self.waitingLimit else { return false }
            state.waiting.append(waiting)
            return true
        }
        if isAdded { begin(handle) } else { refuse(item) }
    }

    /// Handles groups until nothing waits, unless enough others do so already.
    private func begin(_ handle: @escaping @Sendable ([Item]) async -> Void) {
        let begins = state.withLock { state in
            guard state.groups < width, !state.waiting.isEmpty else { return false }
            state.groups += 1
            return true
        }
        guard begins else { return }
        Task(executorPreference: executor()) {
            while let (items, keys) = self.next() {
                self.begin(handle)
                await handle(items)
                self.state.withLock { $0.held.subtract(keys) }
            }
        }
    }

    /// Refuses what has waited too long.
    private func refuseLate() {
        let oldest = clock.now.advanced(by: .zero - limit)
        let late = state.withLock { state in
            let late = Array(state.waiting.prefix { $0.since <= oldest })
            state.waiting.removeFirst(late.count)
            return late
        }
        for late in late { refuse(late.item) }
    }

    /// The next group with its keys; `nil` if nothing waits that may begin. Then the caller counts as ended.
    private func next() -> (items: [Item], keys: Set<Key>)? {
        refuseLate()
        return state.withLock { state in
            var items: [Item] = []
            var keys: Set<Key> = []
            var left: [Waiting] = []
            var blocked = state.held
            var isClosed = false
            for (index, waiting) in state.waiting.enumerated() {
                guard !isClosed, items.count < largest else {
                    left += state.waiting[index...]
                    break
                }
                if blocked.isDisjoint(with: waiting.keys), items.isEmpty || !waiting.isAlone {
                    items.append(waiting.item)
                    keys.formUnion(waiting.keys)
                    isClosed = waiting.isAlone
                } else {
                    left.append(waiting)
                    blocked.formUnion(waiting.keys)
                }
            }
            state.waiting = left
            guard !items.isEmpty else {
                state.groups -= 1
                return nil
            }
            state.held.formUnion(keys)
            return (items, keys)
        }
    }
}
