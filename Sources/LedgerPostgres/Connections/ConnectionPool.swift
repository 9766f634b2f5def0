// SPDX-License-Identifier: Apache-2.0

import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The connections of a process to its database, each served by a ``ConnectionLoop``.
///
/// A request fails if too many requests wait already, or if it has waited too long. Clients therefore get an answer
/// soon and can retry, and memory stays bounded while the database is unreachable.
final class ConnectionPool: Sendable {
    /// The maximum number of waiting requests, divided among the loops.
    private static let waitingLimit = 2000

    /// The schema of the ledger, see ``LedgerSchema``.
    let schema: String
    let clock: ContinuousClock
    private let loops: [ConnectionLoop]
    private let opener: ConnectionOpener
    private let turn = Atomic(0)

    /// - Parameter hosts: The hosts, in the order of the attempts.
    /// - Throws: `PostgresFailure.settings`, or `PostgresFailure.unavailable` if the process has too many open files.
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

    /// Sends a request. If the task runs on a loop, the request uses a connection of the same loop.
    ///
    /// - Returns: The rows of each statement of the request.
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

    /// The next loop in round-robin order.
    var loop: ConnectionLoop { loops[turn.add(1, ordering: .relaxed).oldValue % loops.count] }

    /// Whether the pool was closed. A closed pool still opens connections for requests.
    var isClosed: Bool { loops.contains { $0.isClosed } }

    /// Closes idle connections at once, and busy connections after their requests.
    func close() { for loop in loops { loop.close() } }
}
