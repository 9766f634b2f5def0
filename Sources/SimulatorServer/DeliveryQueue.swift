// SPDX-License-Identifier: Apache-2.0

package import AppStoreSimulator

/// The notifications of an environment that wait to be sent, and the notifications on their way: sent, but not yet
/// answered. The queue decides which notification is sent next, and when.
///
/// At most ``SimulatorBounds/deliveriesAtOnce`` notifications are on their way. A queue that keeps the order sends a
/// single notification at a time. If the server under test does not answer within ``SimulatorBounds/orderTimeout``, the
/// next notification overtakes the unanswered one, so that a single delivery does not hold up the rest.
package struct DeliveryQueue {
    private var waiting: ArraySlice<Outbox.Delivery> = []
    private var sent = 0
    private var onTheWay: Set<Int> = []
    /// The ticket of the delivery that blocks all later deliveries, in a queue that keeps the order.
    private var awaited: Int?

    package init() {}

    /// Whether no notification waits to be sent. The caller adds notifications only to an empty queue. Until then,
    /// notifications stay in the simulator's outbox, whose size is bounded.
    package var isEmpty: Bool { waiting.isEmpty }

    package mutating func add(_ deliveries: [Outbox.Delivery]) { waiting += deliveries }

    /// Takes the next delivery if the queue may send it now.
    ///
    /// - Returns: The delivery with its ticket. With the ticket, the caller reports that the delivery has ended or is
    ///   late.
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

    /// A delivery has been on its way for too long: later deliveries no longer wait for its end.
    package mutating func overtake(_ ticket: Int) {
        if awaited == ticket { awaited = nil }
    }
}
