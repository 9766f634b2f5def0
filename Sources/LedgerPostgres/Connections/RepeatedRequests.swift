// SPDX-License-Identifier: Apache-2.0

/// Requests that may be sent twice: again if their connection ended, or if they met another transaction.
struct RepeatedRequests: Sendable {
    let pool: ConnectionPool

    /// How often a request is sent again.
    static let maxLosses = 3

    /// - Returns: The rows of each of its statements.
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

    /// If a connection has ended, so has the epoch in which a request must be sent.
    private func isRepeated(_ request: PostgresRequest, _ failure: PostgresFailure) -> Bool {
        failure.isConflict || failure.isWorthAnotherConnection && request.epoch == nil
    }

    /// Reads one state of the database.
    ///
    /// - Parameters:
    ///   - epoch: The epoch that must last, see ``PostgresRequest/during(_:)``.
    ///   - statementLimit: How long each statement may take.
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
