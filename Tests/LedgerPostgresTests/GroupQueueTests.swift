// SPDX-License-Identifier: Apache-2.0

import AppStoreSimulator
import Synchronization
import Testing

@testable import LedgerPostgres

/// Tests how items that wait are put into groups. The database is not needed for that.
@Suite(.timeLimit(.minutes(60))) struct GroupQueueTests {
    private struct Item: Sendable {
        var number: Int
        var keys: Set<Int>
        var isAlone: Bool
    }

    /// What the groups did.
    private struct Record: Sendable {
        var open: [[Item]] = []
        var handled: [Item] = []
        var refused: [Int] = []
        var faults: [String] = []

        mutating func begin(_ group: [Item], width: Int, largest: Int) {
            open.append(group)
            if open.count > width { faults.append("\(open.count) groups at once") }
            if group.isEmpty || group.count > largest { faults.append("a group of \(group.count)") }
            if group.count > 1, group.contains(where: \.isAlone) { faults.append("one that is alone has company") }
            for other in open.dropLast() where !Self.keys(other).isDisjoint(with: Self.keys(group)) {
                faults.append("two groups have a key in common")
            }
        }

        mutating func end(_ group: [Item]) {
            open.removeAll { $0.first?.number == group.first?.number }
            handled += group
        }

        private static func keys(_ group: [Item]) -> Set<Int> { group.reduce(into: []) { $0.formUnion($1.keys) } }
    }

    private static func queue(
        width: Int, largest: Int, limit: Duration = .seconds(3600), _ record: Shared
    ) -> GroupQueue<Item, Int> {
        GroupQueue(
            width: width, largest: largest, limit: limit, clock: ContinuousClock(), on: { globalConcurrentExecutor },
            refuse: { item in record.state.withLock { $0.refused.append(item.number) } })
    }

    private final class Shared: Sendable {
        let state = Mutex(Record())
    }

    @Test(arguments: 0..<12 as Range<UInt64>)
    func `each item is handled once, and those with a key in common in the order of their arrival`(
        seed: UInt64
    ) async {
        var random = SeededRandom(seed: seed)
        let (width, largest) = (Int.random(in: 1...5, using: &random), Int.random(in: 1...9, using: &random))
        let record = Shared()
        let queue = Self.queue(width: width, largest: largest, record)
        let items = (0..<400).map { number in
            let keys = (0..<Int.random(in: 0...3, using: &random)).map { _ in Int.random(in: 0..<8, using: &random) }
            return Item(number: number, keys: Set(keys), isAlone: Int.random(in: 0..<10, using: &random) == 0)
        }
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            for item in items {
                queue.add(item, item.keys, isAlone: item.isAlone) { group in
                    record.state.withLock { $0.begin(group, width: width, largest: largest) }
                    for _ in 0..<group[0].number % 7 { await Task.yield() }
                    let isOver = record.state.withLock { state in
                        state.end(group)
                        return state.handled.count == items.count
                    }
                    if isOver { done.resume() }
                }
            }
        }
        let (handled, faults) = record.state.withLock { ($0.handled, $0.faults) }
        #expect(faults.isEmpty, "seed \(seed), width \(width), largest \(largest)")
        #expect(handled.map(\.number).sorted() == items.map(\.number))
        for key in 0..<8 {
            let numbers = handled.filter { $0.keys.contains(key) }.map(\.number)
            #expect(numbers == numbers.sorted(), "seed \(seed), key \(key)")
        }
    }

    @Test func `what has waited too long is refused, and not handled`() async {
        let item = Item(number: 1, keys: [], isAlone: false)
        await withCheckedContinuation { (refused: CheckedContinuation<Void, Never>) in
            let queue = GroupQueue<Item, Int>(
                width: 1, largest: 1, limit: .zero, clock: ContinuousClock(), on: { globalConcurrentExecutor },
                refuse: { _ in refused.resume() })
            queue.add(item) { _ in Issue.record("It was handled") }
        }
    }

    @Test func `what finds too many others is refused at once, and those are handled`() async {
        let record = Shared()
        let queue = Self.queue(width: 1, largest: 1, record)
        let (gate, opener) = AsyncStream<Void>.makeStream()
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            // 2,000 may wait, and one may be at its turn.
            for number in 0..<2002 {
                queue.add(Item(number: number, keys: [], isAlone: false)) { group in
                    for await _ in gate { break }
                    let isOver = record.state.withLock { state in
                        state.handled += group
                        return state.handled.count + state.refused.count == 2002
                    }
                    if isOver { done.resume() }
                }
            }
            opener.finish()
        }
        let (handled, refused) = record.state.withLock { ($0.handled.map(\.number), $0.refused) }
        #expect(handled == Array(0..<handled.count))
        #expect(refused == Array(handled.count..<2002))
        #expect((2000...2001).contains(handled.count))
    }
}
