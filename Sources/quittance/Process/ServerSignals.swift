// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
import Synchronization

/// Handles the signals that the server itself does not handle: SIGHUP, SIGUSR1, SIGUSR2, and a second SIGINT or
/// SIGTERM.
///
/// Until the server listens, SIGINT and SIGTERM end the process as usual. No code here ignores SIGINT or SIGTERM,
/// because a signal that arrives before the server installs its own handlers would then be lost.
enum ServerSignals {
    /// The signal sources, kept so that they work until the process ends.
    private static let handlers = Mutex<[any DispatchSourceSignal]>([])

    /// Ignores signals that would end the process although they do not ask it to end. Call this method first: a slow
    /// start may last minutes. The program starts no other program, which would ignore the signals too.
    static func ignore(_ numbers: [Int32] = [SIGHUP, SIGUSR1, SIGUSR2]) {
        for number in numbers { signal(number, SIG_IGN) }
    }

    /// Calls `onHangup` at each SIGHUP, and ends the process at once after a second SIGINT or SIGTERM, unless the
    /// second signal is only a repetition (``StopSignals/repetition``). Call this method once the server listens. From
    /// then on the server handles the first signal, and this method counts the signals.
    ///
    /// - Parameter beforeExit: Called after the second signal, before the process ends.
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

/// Decides which stop signal ends the server at once.
struct StopSignals {
    /// The interval after the first signal in which a further signal counts as a repetition. The command `timeout`
    /// sends each signal twice, to the process and to its group. An impatient person is slower.
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
