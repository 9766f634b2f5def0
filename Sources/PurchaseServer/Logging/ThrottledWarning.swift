// SPDX-License-Identifier: Apache-2.0

import Logging
import Synchronization

/// A warning with at most one log line per interval. The line has the number of occurrences since the last line.
final class ThrottledWarning: Sendable {
    private struct State {
        var count = 0
        /// The time since the last line.
        var age: (@Sendable () -> Duration)?
    }

    private let interval: Duration
    private let level: Logger.Level
    private let message: Logger.Message
    private let metadata: Logger.Metadata
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let state = Mutex(State())

    init(
        every interval: Duration = .seconds(60), level: Logger.Level = .warning, _ message: Logger.Message,
        _ metadata: Logger.Metadata = [:], clock: any Clock<Duration>, _ logger: Logger
    ) {
        self.interval = interval
        self.level = level
        self.message = message
        self.metadata = metadata
        self.clock = clock
        self.logger = logger
    }

    /// Runs `body` and logs its error, but not the cancellation of the task. The error is not thrown; the caller may
    /// retry.
    ///
    /// - Parameter about: Metadata of the error.
    /// - Returns: Whether `body` succeeded.
    @discardableResult
    func attempt(about: Logger.Metadata = [:], _ body: () async throws -> Void) async -> Bool {
        do {
            try await body()
            return true
        } catch is CancellationError {
            return false
        } catch {
            log(about.merging(["error": "\(error)"]) { $1 })
            return false
        }
    }

    /// Logs the warning, or counts it if the last line is younger than the interval.
    ///
    /// - Parameter more: Metadata of this occurrence.
    func log(_ more: Logger.Metadata = [:]) {
        let count: Int? = state.withLock { state in
            state.count += 1
            if let age = state.age, age() < interval { return nil }
            defer { state = State(age: clock.stopwatch()) }
            return state.count
        }
        guard let count else { return }
        let all = metadata.merging(more) { $1 }.merging(["times": "\(count)"]) { $1 }
        logger.log(level: level, message, metadata: all)
    }
}
