// SPDX-License-Identifier: Apache-2.0

/// The timeouts of requests.
///
/// The database ends a statement before the server abandons the request. The connection then stays usable, and no
/// session waits for a lock on behalf of an abandoned request.
struct PostgresLimits: Sendable {
    /// For a request without a limit of its own: far longer than any request takes, and shorter than a client waits.
    var request = Duration.seconds(10)
    /// For a statement of any request.
    var statement = Duration.seconds(9)
    /// For the wait for a lock of a concurrent transaction. A server holds its locks as long as a commit takes.
    var lock = Duration.seconds(3)
    /// For a reading statement of a batch. A slow read must not delay the other reads of the batch.
    var sharedRead = Duration.seconds(3)
    /// For the wait for a lock in the commit of a batch. A committing server holds a lock for milliseconds, and for
    /// half a second only if its disk stalls.
    var sharedLock = Duration.milliseconds(500)
    /// For a reader's wait until a concurrent server has numbered events. The server holds the counter for some
    /// milliseconds. After the timeout, the reader gets only events with numbers.
    var counter = Duration.seconds(1)
    /// The time, from the start of a batch, in which its commits or loads are retried alone after a timeout.
    var group = Duration.seconds(5)
    /// For a reading statement of a single commit or load after the timeout of its batch. Added to ``group`` it equals
    /// ``request``.
    var readAlone = Duration.seconds(5)

    /// The timeouts of a server.
    init() {}

    /// - Parameter request: The timeout of a request. The other timeouts follow from it, because no other client waits
    ///   for the database.
    init(request: Duration) {
        let statement = request * 9 / 10
        self.request = request
        self.statement = statement
        lock = statement
        sharedRead = statement
        sharedLock = statement
        group = request
        readAlone = statement
        counter = statement
    }
}
