// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
import Synchronization

/// Handles the signals that a server itself does not: SIGHUP, and a second SIGINT or SIGTERM.
///
/// Until the server listens, SIGINT and SIGTERM end the process as they end any other. No call here sets them to be
/// ignored: a signal that arrived before the server handles it would be lost.
enum ServerSignals {
    /// The handlers, which work until the process ends.
    private static let handlers = Mutex<[any DispatchSourceSignal]>([])

    /// Ignores SIGHUP, which would end the process. Call this first.
    static func ignoreHangup() { signal(SIGHUP, SIG_IGN) }

    /// Calls `onHangup` at each SIGHUP, and ends the process at once with a second SIGINT or SIGTERM. Call this once
    /// the server listens: it then handles the first one, and must not miss what is counted here.
    ///
    /// - Parameter beforeExit: Called before the process ends at once.
    static func handle(
        onHangup: @escaping @Sendable () -> Void, beforeExit: @escaping @Sendable () -> Void = {}
    ) {
        let stops = Mutex(StopSignals())
        handle(SIGHUP, onHangup)
        for number in [SIGINT, SIGTERM] {
            handle(number) {
                guard stops.withLock({ $0.endsAtOnce(at: ContinuousClock.now) }) else { return }
                beforeExit()
                Terminal.printError("quittance: Stopped at once by a second signal.")
                _exit(128 + number)
            }
        }
    }

    private static func handle(_ number: Int32, _ work: @escaping @Sendable () -> Void) {
        handlers.withLock { handlers in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler(handler: work)
            source.activate()
            handlers.append(source)
        }
    }
}

/// Decides which of the signals that stop a server ends it at once.
struct StopSignals {
    /// How long after the first signal another one is a repetition: `timeout` sends each signal twice, to the process
    /// and to its group. No person who loses patience is as fast.
    static let repetition = Duration.milliseconds(500)

    private var first: ContinuousClock.Instant?

    mutating func endsAtOnce(at now: ContinuousClock.Instant) -> Bool {
        guard let first else {
            first = now
            return false
        }
        return now - first >= Self.repetition
    }
}
