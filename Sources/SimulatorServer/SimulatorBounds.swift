// SPDX-License-Identifier: Apache-2.0

package import NIOCore

/// The bounds on what clients of a simulator may use. It is a tool on one machine: they stop slips, not attackers.
package enum SimulatorBounds {
    /// The longest body of a request to the App Store, in bytes: a verifyReceipt request with the longest receipt,
    /// which has 3 MiB.
    static let storeBody = 4 << 20

    /// The longest body of a control command, in bytes. The longest names a family's members.
    static let controlBody = 64 << 10

    /// The most connections to each port. A load test has some hundreds.
    static let connections = 1000

    /// The longest time between two requests of a connection.
    static let idleTimeout = TimeAmount.seconds(60)

    /// How long a request stays unanswered if the simulator is to be silent: twice as long as Apple's own clients wait.
    static let silence = Duration.seconds(60)

    /// How long shutdown waits for running requests: all but silent ones take milliseconds.
    static let shutdown = Duration.seconds(2)

    /// The longest time until the response to a notification has arrived. Apple documents no number.
    package static let delivery = TimeAmount.seconds(30)

    /// The most redirects of a notification that are followed, as a browser would.
    static let redirects = 20

    /// The most notifications of an environment on their way at once. Slots that a silent server takes are free again
    /// after ``delivery``.
    package static let deliveriesAtOnce = 16

    /// How long a kind network keeps the order: the notifications after one that is not answered wait so long. A server
    /// that works answers in milliseconds, and one in a debugger is overtaken.
    static let orderTimeout = Duration.seconds(1)

    /// For how many seconds of the wall clock a time is kept ahead: how much of the virtual time a simulator skips that
    /// starts after a crash.
    static let keptAhead = 60.0

    /// The most virtual seconds that a time is kept ahead, two months: at the highest speed a minute would be longer
    /// than the certificates are valid.
    static let maxKeptAhead = 60.0 * 86_400

    /// How often the virtual clock moves and due notifications are sent, and so how late either may be.
    static let tick = Duration.milliseconds(20)
}
