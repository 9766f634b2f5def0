// SPDX-License-Identifier: Apache-2.0

/// Sends requests that are safe to repeat. A request is repeated after a conflict, or if its connection is no longer
/// usable.
struct RepeatedRequests: Sendable {
    let pool: ConnectionPool

    /// The maximum number of repetitions.
    static let maxLosses = 3

    /// - Returns: The rows of each statement.
    /// - Throws: `PostgresFailure`.
    @discardableResult
    func send(_ request: PostgresRequest) async throws -> [PostgresRows] {
        var failures = 0
        while true {
            do {
                return try await pool.run(request)
            } catch let failure as PostgresFailure where isRepeated(request, failure) && failures < Self.maxLosses {
                failures += 1
            }
        }
    }

    /// A request bound to an epoch (a time in which the database surely stays the same, see ``ConnectionOpener/epoch``)
    /// is not repeated after its connection has ended, because the epoch has ended too.
    private func isRepeated(_ request: PostgresRequest, _ failure: PostgresFailure) -> Bool {
        failure.isConflict || failure.isWorthAnotherConnection && request.epoch == nil
    }

    /// Runs statements that all read the same state of the database.
    ///
    /// - Parameters:
    ///   - epoch: The epoch of the request, see ``PostgresRequest/during(_:)``; `nil` for any epoch.
    ///   - statementLimit: The timeout of each statement; `nil` for the session's timeout.
    func read(
        _ statements: [PostgresStatement], during epoch: Int? = nil, statementLimit: Duration? = nil
    ) async throws -> [PostgresRows] {
        let request = PostgresRequest.snapshot(statements, statementLimit: statementLimit)
        return statements.isEmpty ? [] : try await send(epoch.map(request.during) ?? request)
    }

    func read(_ statement: PostgresStatement) async throws -> PostgresRows {
        try await read([statement]).first ?? PostgresRows()
    }
}
