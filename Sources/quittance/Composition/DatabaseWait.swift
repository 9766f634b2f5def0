// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Opens a server's database. If the database is unreachable, waits for it, because machines and containers start in
/// any order.
///
/// Until the server listens, a signal ends the process, and thus the wait.
struct DatabaseWait<Time: Clock<Duration>>: Sendable {
    /// The maximum wait: long enough for PostgreSQL to start after a crash, or for a host name to become known.
    static var timeout: Duration { .seconds(60) }

    /// The pause between two attempts.
    static var pause: Duration { .seconds(1) }

    let clock: Time
    /// Whether the database does not answer at all. Any other failure, such as a wrong password or a missing database,
    /// needs a person.
    let isAway: @Sendable () async -> Bool
    /// Called once, with the reason for the wait.
    let onWait: @Sendable (String) -> Void

    /// - Throws: The error of `open`: without a wait if the database answers, otherwise after ``timeout``.
    func open<Storage>(_ open: () async throws -> Storage) async throws -> Storage {
        let deadline = clock.now.advanced(by: Self.timeout)
        var waits = false
        var answers = 0
        while true {
            do {
                return try await open()
            } catch let error as LedgerStorageError where error.code == .unavailable && clock.now < deadline {
                // The database may have started between the failed attempt and the call of `isAway`, so a first answer
                // leads to a retry.
                answers = await isAway() ? 0 : answers + 1
                guard answers < 2 else { throw error }
                if !waits, answers == 0 {
                    onWait("\(error)")
                    waits = true
                }
                if answers == 0 { try await clock.sleep(for: Self.pause) }
            }
        }
    }
}
