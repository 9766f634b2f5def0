// SPDX-License-Identifier: Apache-2.0

import NIOCore

/// The bounds on the use of a simulator. A simulator is a tool on one machine: the bounds stop mistakes, not attackers.
package enum SimulatorBounds {
    /// The longest body of a request to the App Store, in bytes. The limit of verifyReceipt, 3 MiB, is lower.
    static let storeBody = 4 << 20

    /// The longest body of a control command, in bytes. The longest command is that of a family, which names all
    /// members.
    static let controlBody = 64 << 10

    /// The bytes that are discarded after the last request of a connection: the length of a command.
    static let discarded = controlBody

    /// The most connections to each port. A load test has some hundreds.
    static let connections = 1000

    /// The longest time between two requests on a connection.
    static let idleTimeout = TimeAmount.seconds(60)

    /// The time for which a request with a withheld response stays unanswered: twice the timeout of Apple's own
    /// clients.
    static let silence = Duration.seconds(60)

    /// The time for which a shutdown, and then each listener, waits for running requests. It suffices, because requests
    /// take milliseconds. Requests with a withheld response end at once.
    static let shutdown = Duration.seconds(2)

    /// The longest time for which a command waits for answers to its notifications. Many clients wait a minute for a
    /// response.
    static let command = Duration.seconds(50)

    /// The interval at which a waiting command looks for the answers.
    static let look = Duration.milliseconds(5)

    /// The interval at which a waiting command says in the log how far the clock is.
    static let progress = Duration.seconds(5)

    /// The longest time until the response to a notification has arrived. Apple documents no number.
    package static let delivery = Duration.seconds(30)

    /// The longest response to a notification, in bytes: a page of HTML with an error. Nobody reads it.
    static let answer = 1 << 20

    /// The most redirects of a notification: the number that browsers follow.
    static let redirects = 20

    /// The most notifications of an environment on their way at once. If the server under test does not answer a
    /// notification, the notification counts as failed after ``delivery``, and a waiting notification is sent.
    package static let deliveriesAtOnce = 16

    /// The time for which later notifications wait for an unanswered notification, if notifications are sent in order.
    /// A working server answers in milliseconds. A server under test that is stopped in a debugger holds up later
    /// notifications for this time only.
    static let orderTimeout = Duration.seconds(1)

    /// The host of a simulator keeps (saves) a virtual time, from which the next simulator can start after a crash.
    /// When the host saves a time, it saves the virtual time expected this many seconds of the wall clock later. After
    /// a crash, the next simulator skips at most the virtual time that passes in these seconds, or as many virtual
    /// seconds if the clock is slow or stands still.
    static let keptAhead = 60.0

    /// How far a kept time may be ahead of the present, in virtual seconds: two months. Without
    /// this bound, a minute at the clock's highest speed would move the kept time past the end of the certificates.
    static let maxKeptAhead = 60.0 * 86_400

    /// The interval at which the virtual clock moves and due notifications are sent, and therefore the longest delay of
    /// a due event or notification.
    static let tick = Duration.milliseconds(20)
}
