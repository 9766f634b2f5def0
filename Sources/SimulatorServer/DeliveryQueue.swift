// SPDX-License-Identifier: Apache-2.0

package import AppStoreSimulator

/// The notifications of an environment that are due, and those that are on their way: which one is sent next, and when.
///
/// At most ``SimulatorBounds/deliveriesAtOnce`` are on their way. A queue that keeps the order sends one at a time. If
/// the server under test does not answer it for ``SimulatorBounds/orderTimeout``, those behind it overtake it, so that
/// one silent delivery does not hold up the others.
package struct DeliveryQueue {
    private var waiting: ArraySlice<Outbox.Delivery> = []
    private var sent = 0
    private var onTheWay: Set<Int> = []
    /// The delivery that all others wait for, in a queue that keeps the order.
    private var awaited: Int?

    package init() {}

    /// Whether all that was due is on its way. The outbox keeps the rest, which is bounded.
    package var isEmpty: Bool { waiting.isEmpty }

    package mutating func add(_ deliveries: [Outbox.Delivery]) {
        waiting += deliveries
    }

    /// Takes the next delivery if it may be sent now.
    ///
    /// - Returns: The delivery with its ticket, under which it is reported as answered or late.
    package mutating func next(keepsOrder: Bool) -> (ticket: Int, delivery: Outbox.Delivery)? {
        guard onTheWay.count < SimulatorBounds.deliveriesAtOnce, !keepsOrder || awaited == nil,
            let delivery = waiting.popFirst()
        else { return nil }
        sent += 1
        onTheWay.insert(sent)
        if keepsOrder { awaited = sent }
        return (sent, delivery)
    }

    /// A delivery was answered, or failed.
    package mutating func end(_ ticket: Int) {
        onTheWay.remove(ticket)
        overtake(ticket)
    }

    /// A delivery has been on its way for too long: others no longer wait for it.
    package mutating func overtake(_ ticket: Int) {
        if awaited == ticket { awaited = nil }
    }
}
