// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Collects waiting items, such as commits, into batches. A batch is called a group here.
///
/// A few groups are handled concurrently. New items wait for the next group, so groups grow with the load. Items with a
/// common key are handled in the order of their arrival: in the same group, or in successive groups.
final class GroupQueue<Item: Sendable, Key: Hashable & Sendable>: Sendable {
    private struct Waiting: Sendable {
        var item: Item
        var keys: Set<Key>
        var isAlone: Bool
        var since: ContinuousClock.Instant
    }

    private struct State {
        var groups = 0
        /// The keys of the groups in progress.
        var held: Set<Key> = []
        var waiting: [Waiting] = []
    }

    /// The maximum number of waiting items: twice the default limit of the server's open HTTP connections.
    private static var waitingLimit: Int { 2000 }

    private let state = Mutex(State())
    private let (width, largest): (Int, Int)
    private let limit: Duration
    private let clock: ContinuousClock
    private let executor: @Sendable () -> any TaskExecutor
    private let refuse: @Sendable (Item) -> Void

    /// - Parameters:
    ///   - width: The maximum number of concurrent groups.
    ///   - largest: The maximum number of items in a group.
    ///   - limit: The maximum wait of an item. The default equals the timeout of a request: an item waits longer only
    ///     if the database does not answer, and then its own requests would time out too.
    ///   - executor: The executor for groups.
    ///   - refuse: Answers an item that will not be handled, because too many items wait or because it has waited too
    ///     long.
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
    ///   - isAlone: Whether the item needs a group of its own.
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

    /// Handles groups until no waiting item can be handled. Does nothing if `width` groups are in progress already.
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

    /// Refuses items that have waited too long.
    private func refuseLate() {
        let oldest = clock.now.advanced(by: .zero - limit)
        let late = state.withLock { state in
            let late = Array(state.waiting.prefix { $0.since <= oldest })
            state.waiting.removeFirst(late.count)
            return late
        }
        for late in late { refuse(late.item) }
    }

    /// The next group with its keys; `nil` if no item can be handled now. After `nil` the caller must stop.
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
