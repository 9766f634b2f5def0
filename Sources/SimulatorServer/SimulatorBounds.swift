// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// The bounds on the use of a simulator. A simulator is a tool on one machine: the bounds stop mistakes, not attackers.
package enum SimulatorBounds {
    /// The longest body of a request to the App Store, in bytes. The limit of verifyReceipt, 3 MiB, is lower.
    static let storeBody = 4 << 20

    /// The longest body of a control command, in bytes. The longest command names the members of a family.
    static let controlBody = 64 << 10

    /// The most connections to each port. A load test has some hundreds.
    static let connections = 1000

    /// The longest time between two requests on a connection.
    static let idleTimeout = TimeAmount.seconds(60)

    /// The time for which a request with a withheld response stays unanswered: twice the timeout of Apple's own
    /// clients.
    static let silence = Duration.seconds(60)

    /// The time for which shutdown waits for running requests. All requests except silent ones take milliseconds.
    static let shutdown = Duration.seconds(2)

    /// The longest time until the response to a notification has arrived. Apple documents no number.
    package static let delivery = TimeAmount.seconds(30)

    /// The most redirects of a notification: the number that browsers follow.
    static let redirects = 20

    /// The most notifications of an environment on their way at once. If the server under test does not answer, a
    /// notification gives up its place after ``delivery``.
    package static let deliveriesAtOnce = 16

    /// The time for which later notifications wait for an unanswered notification, on a network that keeps the order. A
    /// working server answers in milliseconds. A server that is stopped in a debugger does not hold up later
    /// notifications for longer.
    static let orderTimeout = Duration.seconds(1)

    /// How far the time that ``SimulatorHost`` keeps is ahead of the present, in seconds of the wall clock. After a
    /// crash, the next simulator starts at the kept time, and so skips up to this much time at the clock's speed.
    static let keptAhead = 60.0

    /// How far a kept time may be ahead of the present, in virtual seconds: two months. At the highest speed, a minute
    /// of the wall clock would be longer than the validity of the certificates.
    static let maxKeptAhead = 60.0 * 86_400

    /// The interval at which the virtual clock moves and due notifications are sent, and therefore the longest delay of
    /// either.
    static let tick = Duration.milliseconds(20)
}
