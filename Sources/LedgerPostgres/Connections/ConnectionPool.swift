// SPDX-License-Identifier: Apache-2.0

import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A few connections, each served by a ``ConnectionLoop``.
///
/// A request that finds too many others, or that waited too long, fails: the client may retry at once, and memory stays
/// bounded while the database is away.
final class ConnectionPool: Sendable {
    /// How many requests may wait.
    private static let waitingLimit = 2000

    /// The schema of the ledger, see ``LedgerSchema``.
    let schema: String
    let clock: ContinuousClock
    private let loops: [ConnectionLoop]
    private let opener: ConnectionOpener
    private let turn = Atomic(0)

    /// - Parameter hosts: The hosts in the order in which to try them.
    /// - Throws: `PostgresFailure.settings`, or `unavailable` if the process has too many open files.
    init(
        _ settings: PostgresSettings, hosts: [PostgresHost] = [PostgresHost()], clock: ContinuousClock
    ) throws(PostgresFailure) {
        let opener = try ConnectionOpener(settings, hosts: hosts, clock: clock)
        let width = max(1, settings.connections)
        let count = min(width, max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        var loops: [ConnectionLoop] = []
        for index in 0..<count {
            loops.append(
                try ConnectionLoop(
                    opener, width: width * (index + 1) / count - width * index / count,
                    waitingLimit: Self.waitingLimit / count, clock: clock))
        }
        self.loops = loops
        self.opener = opener
        self.clock = clock
        schema = settings.schema ?? LedgerSchema.usual
    }

    /// Sends a request, on a connection of the loop on which the task runs if it runs on one.
    ///
    /// - Returns: The rows of each of its statements.
    /// - Throws: `PostgresFailure`.
    func run(_ request: PostgresRequest) async throws -> [PostgresRows] {
        let executor = withUnsafeCurrentTask { $0?.unownedTaskExecutor }
        let loop = loops.first { $0.asUnownedTaskExecutor() == executor } ?? self.loop
        return try await withCheckedThrowingContinuation { continuation in
            loop.send(request) { continuation.resume(with: $0.mapError { $0 as any Error }) }
        }
    }

    /// See ``ConnectionOpener/epoch``.
    var epoch: Int { opener.epoch }

    /// See ``ConnectionOpener/session``.
    var session: DatabaseSession? { opener.session }

    /// One of the loops, each in turn.
    var loop: ConnectionLoop { loops[turn.add(1, ordering: .relaxed).oldValue % loops.count] }

    /// Whether it was closed. It still sends requests, for which it opens connections.
    var isClosed: Bool { loops.contains { $0.isClosed } }

    /// Closes the connections that are not in use, and the others after their requests.
    func close() { for loop in loops { loop.close() } }
}
