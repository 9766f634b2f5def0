// SPDX-License-Identifier: Apache-2.0

/// The timeouts of requests to the database, and of the statements and waits for locks in them.
///
/// The timeouts of statements and locks are shorter than the timeout of a request, so that PostgreSQL ends a slow
/// statement before this server abandons the request. The connection then stays usable, and no session waits for a lock
/// on behalf of an abandoned request.
struct PostgresLimits: Sendable {
    /// For a request without a limit of its own. The timeout is far longer than a request normally takes, and shorter
    /// than the time for which a client of the server waits.
    var request = Duration.seconds(10)
    /// For a statement of any request.
    var statement = Duration.seconds(9)
    /// For the wait for a lock of a concurrent transaction. Servers hold locks only for the duration of a commit.
    var lock = Duration.seconds(3)
    /// For a reading statement of a batch: several commits or loads sent together, see
    /// ``PostgresSettings/sharesStatements``. The timeout is short, because a slow read delays the other reads of the
    /// batch.
    var sharedRead = Duration.seconds(3)
    /// For the wait for a lock in the commit of a batch. A committing server holds a lock for milliseconds, and for
    /// half a second only if its disk stalls.
    var sharedLock = Duration.milliseconds(500)
    /// For a reader of events that waits for the lock of the counter, from which events get their numbers. A server
    /// that numbers events holds the lock for a few milliseconds. After the timeout, the reader gets only events that
    /// already have numbers.
    var counter = Duration.seconds(1)
    /// After a timeout, each commit or load of a batch is retried alone, if the batch is not older than this. In an
    /// older batch, all commits or loads fail. Loads are also retried alone if the database has refused a statement of
    /// their batch, or if a record is unreadable.
    var group = Duration.seconds(5)
    /// For a reading statement of a single commit or load after the timeout of its batch. By default, ``group`` and
    /// this timeout add up to ``request``.
    var readAlone = Duration.seconds(5)

    /// The timeouts of a server.
    init() {}

    /// - Parameter request: The timeout of a request. The other timeouts are derived from it. They may be long, because
    ///   a program that sets the timeout has the database to itself, so that a slow statement delays nobody else.
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
