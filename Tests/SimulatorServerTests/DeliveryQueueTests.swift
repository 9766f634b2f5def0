// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreSimulator
import SimulatorServer
import Testing

/// Which of the notifications that are due is sent next.
@Suite struct DeliveryQueueTests {
    /// A queue with the deliveries of so many test notifications.
    private static func queue(_ count: Int) throws -> DeliveryQueue {
        let catalogue = StoreCatalogue.example(bundleId: "com.example", appAppleId: 7)
        var store = SimulatedStore(
            World(seed: 1, catalogue: catalogue, now: RunningSimulator.start), WorldSigner(try .fixture()),
            try StoreKey(seed: 1))
        store.notificationURLs = [.production: "http://localhost"]
        for _ in 0..<count { store.world.sendTestNotification(in: .production) }
        var queue = DeliveryQueue()
        queue.add(try store.takeDeliveries(in: .production))
        #expect(try store.takeDeliveries(in: .sandbox).isEmpty)
        return queue
    }

    /// Takes all that may be sent now.
    private static func take(_ queue: inout DeliveryQueue, keepsOrder: Bool) -> [(ticket: Int, number: Int)] {
        var taken: [(ticket: Int, number: Int)] = []
        while let (ticket, delivery) = queue.next(keepsOrder: keepsOrder) { taken.append((ticket, delivery.number)) }
        return taken
    }

    @Test func `in order, each waits for the one before, until that is overtaken`() throws {
        var queue = try Self.queue(4)
        var steps: [[Int]] = []
        var tickets: [Int] = []
        func step(_ act: (inout DeliveryQueue) -> Void) {
            act(&queue)
            let taken = Self.take(&queue, keepsOrder: true)
            tickets += taken.map(\.ticket)
            steps.append(taken.map(\.number))
        }
        step { _ in }
        step { _ in }
        step { $0.end(tickets[0]) }
        // The first one was answered: nothing waits for it.
        step { $0.overtake(tickets[0]) }
        step { $0.overtake(tickets[1]) }
        // The late answer to the second one lets nothing pass.
        step { $0.end(tickets[1]) }
        step { $0.end(tickets[2]) }
        #expect(steps == [[0], [], [1], [], [2], [], [3]])
        #expect(queue.isEmpty)
    }

    @Test(arguments: [false, true]) func `at most so many are on their way, however silent the server is`(
        keepsOrder: Bool
    ) throws {
        let bound = SimulatorBounds.deliveriesAtOnce
        var queue = try Self.queue(bound + 2)
        var sent: [(ticket: Int, number: Int)] = []
        for _ in 0..<bound + 2 {
            sent += Self.take(&queue, keepsOrder: keepsOrder)
            for one in sent { queue.overtake(one.ticket) }
        }
        #expect(sent.map(\.number) == Array(0..<bound))
        // A slot is free once only, however often an end is reported.
        for _ in 0..<2 { queue.end(sent[3].ticket) }
        let next = Self.take(&queue, keepsOrder: keepsOrder)
        #expect(next.map(\.number) == [bound] && !queue.isEmpty)
    }
}
