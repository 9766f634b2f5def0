// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger

/// Opens the database of a server, and waits for one that is away: machines and containers start in any order.
///
/// Until the server listens, a signal ends the process, and so the wait.
struct DatabaseWait<Time: Clock<Duration>>: Sendable {
    /// As long as a PostgreSQL takes to start after a crash, or a name to be known.
    static var timeout: Duration { .seconds(60) }

    /// Between two attempts.
    static var pause: Duration { .seconds(1) }

    let clock: Time
    /// Whether nothing answers. Anything else is for people: a wrong password, a database that does not exist.
    let isAway: @Sendable () async -> Bool
    /// Called once, with the reason.
    let onWait: @Sendable (String) -> Void

    /// - Throws: The error of `open`, at once if the database answers.
    func open<Storage>(_ open: () async throws -> Storage) async throws -> Storage {
        let deadline = clock.now.advanced(by: Self.timeout)
        var waits = false
        var answers = 0
        while true {
            do {
                return try await open()
            } catch let error as LedgerStorageError where error.code == .unavailable && clock.now < deadline {
                // It may have come between the attempt and the question.
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
