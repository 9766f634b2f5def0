// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import Synchronization

/// Shows the number of processed lines of a list, and the estimated remaining time, if standard error is a terminal.
final class BackfillProgress: Sendable {
    private struct State {
        var isShown = false
        var shownAt: Timestamp?
    }

    /// The number of lines; `nil` if unknown.
    private let total: Int?
    private let start = SystemClock.now()
    private let state = Mutex(State())

    /// The interval between two updates on the terminal.
    private static let interval = Duration.milliseconds(500)

    init(of total: Int?) {
        self.total = total
    }

    /// - Parameter skipped: The number of lines that earlier runs completed. They do not count in the estimate of the
    ///   remaining time.
    func update(done: Int, skipped: Int, failed: Int) {
        guard Terminal.isErrorInteractive else { return }
        let now = SystemClock.now()
        state.withLock { state in
            guard (state.shownAt ?? start).duration(to: now) >= Self.interval else { return }
            state.isShown = true
            state.shownAt = now
            let text = Self.text(
                done: done, skipped: skipped, failed: failed, of: total,
                after: now.milliseconds - start.milliseconds)
            Terminal.writeError(Array("\r\(text)\u{1b}[K".utf8))
        }
    }

    /// The progress line.
    ///
    /// - Parameter elapsed: Milliseconds since the start.
    static func text(done: Int, skipped: Int, failed: Int, of total: Int?, after elapsed: Int64) -> String {
        let asked = done + failed
        let failures = failed == 0 ? "" : ", \(failed) not taken in"
        guard let total else { return "\(asked + skipped) lines\(failures) …" }
        let left = max(0, total - asked - skipped)
        let time = asked == 0 ? "" : ", \((Int(elapsed) / asked * left / 1000).asDuration) left"
        return "\(asked + skipped) of \(total) lines\(failures)\(time) …"
    }

    /// Prints an error on a line of its own.
    func printError(_ message: String) {
        clear()
        Terminal.report(message)
    }

    /// Erases the progress line.
    func clear() {
        state.withLock { state in
            if state.isShown { Terminal.writeError(Array("\r\u{1b}[K".utf8)) }
            state.isShown = false
        }
    }
}

extension Int {
    /// This number of seconds in the largest suitable unit, such as `90 s`, `12 min` or `7 h`.
    var asDuration: String {
        switch self {
        case ..<120: "\(self) s"
        case ..<7200: "\(self / 60) min"
        default: "\(self / 3600) h"
        }
    }
}
