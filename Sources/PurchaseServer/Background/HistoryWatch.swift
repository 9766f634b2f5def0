// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel
package import Logging
package import PurchaseLedger
import Reconciliation
import ServiceLifecycle
import Synchronization

// Notices that a notification history is not read any more: then nobody finds what the App Store sent in vain.

/// A notification history that was not read to its end for long.
package struct LateHistory: Hashable, Sendable {
    /// The app and environment.
    package var scope: LedgerScope
    /// Since when there may be notifications that nobody knows.
    package var since: Timestamp
    /// Why the last reading failed; `nil` if no attempt ended.
    package var failure: String?
}

/// How old the notification histories are, as one sentence for each that is too old.
package final class HistoryWatch: Sendable {
    /// A history is read every quarter of an hour, and one that is busy once within the hour.
    private static let maxAge = Duration.seconds(3600)

    /// The most histories that a sentence names.
    private static let named = 5

    private struct State {
        /// When this server looked first: a history that was never read is not late before an hour has passed.
        var start: Timestamp?
        var late: [LateHistory] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Reads how old the histories are.
    ///
    /// - Returns: Those that are late now, and those that were late before and are not any more.
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

    /// Until when a history was read; `nil` if it was never read to its end.
    private static func age(of job: Job?) -> Timestamp? {
        guard let cursor = job.flatMap({ HistoryCursor($0) }), let success = cursor.succeededAt else { return nil }
        return min(success, cursor.through)
    }

    /// What the operator should look at; `nil` for nothing.
    var concern: String? {
        let late = state.withLock { $0.late }
        guard !late.isEmpty else { return nil }
        let more = late.count > Self.named ? " There are \(late.count - Self.named) more." : ""
        return late.prefix(Self.named).map(\.sentence).joined(separator: " ") + more
            + " quittance jobs --kind notificationHistory has the whole reasons."
    }
}

extension LateHistory {
    /// Readiness is public, so the sentence has no more than the beginning of the failure: what follows names the key.
    fileprivate var sentence: String {
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

/// Looks again and again how old the notification histories are.
package struct HistoryWatcher: Service {
    /// How often it looks. Each look is one search.
    private static let interval = Duration.seconds(60)

    private let watch: HistoryWatch
    private let scopes: Set<LedgerScope>
    private let ledger: Ledger
    private let now: @Sendable () -> Timestamp
    private let clock: any Clock<Duration>
    private let logger: Logger

    /// - Parameter scopes: The apps and environments whose histories are read.
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
            // A server that was down first reads what was missed.
            while await clock.pause(for: Self.interval) { await failure.attempt { try await look(&known) } }
        }
    }

    /// Logs when a history becomes late, and when that is over.
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
