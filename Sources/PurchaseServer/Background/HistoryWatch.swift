// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import Reconciliation
import ServiceLifecycle
import Synchronization

// Detects notification histories that the server no longer reads. Otherwise it would go unnoticed that the ledger may
// lack notifications.

/// A notification history whose last complete reading is too long ago.
package struct LateHistory: Hashable, Sendable {
    /// The app and environment.
    package var scope: LedgerScope
    /// The time after which the ledger may lack notifications.
    package var since: Timestamp
    /// The reason why the last attempt to read failed; `nil` if it did not fail, or if no attempt has ended.
    package var failure: String?
}

/// The late notification histories, with a sentence per history for the operator.
package final class HistoryWatch: Sendable {
    /// The age from which a history is late. The server starts to read each history every quarter of an hour, so an
    /// hour leaves time for a retry, or for a long reading.
    private static let maxAge = Duration.seconds(3600)

    /// The most histories named in ``concern``.
    private static let named = 5

    private struct State {
        /// The time of this server's first check. A history without any complete reading becomes late an hour after
        /// this time.
        var start: Timestamp?
        var late: [LateHistory] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Finds out which histories are late.
    ///
    /// - Returns: The late histories, and the histories whose lateness has ended since the last check.
    package func look(
        at scopes: Set<LedgerScope>, in ledger: Ledger, at now: Timestamp
    ) async throws -> (late: [LateHistory], over: [LateHistory]) {
        let start = state.withLock { state in
            let start = min(state.start ?? now, now)
            state.start = start
            return start
        }
        var jobs: [LedgerScope: Job] = [:]
        var cursor: ScanCursor?
        repeat {
            let page = try await ledger.jobs(.notificationHistory, after: cursor)
            for job in page.items { jobs[job.id.scope] = job }
            cursor = page.next
        } while cursor != nil
        let late = scopes.map { scope in
            LateHistory(scope: scope, since: Self.age(of: jobs[scope]) ?? start, failure: jobs[scope]?.failure)
        }.filter { $0.since.advanced(by: Self.maxAge) < now }.sorted { $0.scope < $1.scope }
        let before = state.withLock { state in
            defer { state.late = late }
            return state.late
        }
        return (late, before.filter { old in !late.contains { $0.scope == old.scope } })
    }

    /// The time up to which a history was read completely; `nil` if no reading has reached the end of the history.
    private static func age(of job: Job?) -> Timestamp? {
        guard let cursor = job.flatMap({ HistoryCursor($0) }), let success = cursor.succeededAt else { return nil }
        return min(success, cursor.through)
    }

    /// The late histories, as a text for the operator; `nil` if no history is late.
    var concern: String? {
        let late = state.withLock { $0.late }
        guard !late.isEmpty else { return nil }
        let more = late.count > Self.named ? " There are \(late.count - Self.named) more." : ""
        return late.prefix(Self.named).map(\.sentence).joined(separator: " ") + more
            + " quittance jobs --kind notificationHistory has the whole reasons."
    }
}

extension LateHistory {
    /// The sentence appears in the readiness response, which is public. It therefore quotes only the first sentence of
    /// the failure: the others may name the key.
    package var sentence: String {
        let reason = failure.map { failure in
            let sentence = failure.firstRange(of: ". ").map { String(failure[..<$0.lowerBound]) } ?? failure
            return sentence.hasSuffix(".") ? sentence : sentence + "."
        }
        return """
            The notification history of \(scope.bundleId) (\(scope.environment.rawValue)) has not been read since \
            \(since.iso8601): \(reason ?? "no attempt has ended.")
            """
    }

    /// The fields of a log line.
    fileprivate var metadata: Logger.Metadata {
        [
            "bundleId": .string(scope.bundleId), "environment": .string(scope.environment.rawValue),
            "since": .string(since.iso8601), "reason": .string(failure ?? ""),
        ]
    }
}

/// Checks the age of the notification histories periodically.
package struct HistoryWatcher: Service {
    /// The time between two checks. Each check is one search of the ledger.
    private static let interval = Duration.seconds(60)

    private let watch: HistoryWatch
    private let scopes: Set<LedgerScope>
    private let ledger: Ledger
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger

    /// - Parameter scopes: The apps and environments whose histories the server reads.
    package init(
        _ watch: HistoryWatch, _ scopes: Set<LedgerScope>, in ledger: Ledger, now: @escaping @Sendable () -> Timestamp,
        clock: any Clock<Duration>, logger: Logger
    ) {
        self.watch = watch
        self.scopes = scopes
        self.ledger = ledger
        self.now = now
        self.clock = clock
        self.logger = logger
    }

    package func run() async throws {
        let failure = ThrottledWarning(level: .error, "The histories' age could not be read", clock: clock, logger)
        await cancelWhenGracefulShutdown {
            var known: Set<LedgerScope> = []
            // The first check comes after a pause, because after downtime every history is old until the server has
            // read it.
            while await clock.pause(for: Self.interval) { await failure.attempt { try await look(&known) } }
        }
    }

    /// Logs when a history becomes late, and when it is read again.
    private func look(_ known: inout Set<LedgerScope>) async throws {
        let (late, over) = try await watch.look(at: scopes, in: ledger, at: now())
        for history in late where !known.contains(history.scope) {
            logger.warning("A notification history is not read", metadata: history.metadata)
        }
        for history in over {
            logger.notice("A notification history is read again", metadata: history.metadata)
        }
        known = Set(late.map(\.scope))
    }
}
