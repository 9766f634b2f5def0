// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
import Synchronization

/// Handles the signals that the server itself does not: SIGHUP, and a second SIGINT or SIGTERM.
///
/// - Parameter onHangUp: Handles SIGHUP.
/// - Returns: The handlers, which work until they are cancelled.
func handleServerSignals(onHangUp: @escaping @Sendable () -> Void) -> [any DispatchSourceSignal] {
    let stops = StopCounter()
    return [SIGHUP, SIGINT, SIGTERM].map { number in
        // Otherwise the signal ends the process.
        signal(number, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
        source.setEventHandler {
            if number == SIGHUP {
                onHangUp()
            } else if stops.isSecond() {
                Terminal.printError("quittance: Stopped by a second signal: running requests were not answered.")
                _exit(128 + number)
            }
        }
        source.activate()
        return source
    }
}

/// Counts the signals that stop the server.
private final class StopCounter: Sendable {
    private let count = Atomic<Int>(0)

    func isSecond() -> Bool { count.wrappingAdd(1, ordering: .relaxed).newValue > 1 }
}
