// SPDX-License-Identifier: Apache-2.0

import PurchaseLedger
import PurchaseServer

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
    /// Whether the database does not answer at all, or others hold its locks. Any other failure, such as a wrong
    /// password or a missing database, needs a person.
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

/// Says for whom the opening of a database waits: after two seconds, and then every ten.
struct OpeningWatch<Time: Clock<Duration>>: Sendable {
    let clock: Time
    /// For whom the database waits now; `nil` if nobody is known.
    let blockers: @Sendable () async -> String?
    let say: @Sendable (String) -> Void
    /// For whom the last attempt waited.
    let last = Concern()

    func watch<Value>(_ open: () async throws -> Value) async throws -> Value {
        async let _: Void = watch()
        return try await open()
    }

    /// Asks twice a second, because attempts and pauses alternate. Ends when the opening ends.
    private func watch() async {
        var due = clock.now.advanced(by: .seconds(2))
        // The sleep throws once the opening has ended.
        while (try? await clock.sleep(for: .milliseconds(500))) != nil {
            if let found = await blockers() { last.sentence = found }
            guard clock.now >= due, !Task.isCancelled else { continue }
            say(last.sentence ?? "nobody that the database names")
            due = due.advanced(by: .seconds(10))
        }
    }
}
