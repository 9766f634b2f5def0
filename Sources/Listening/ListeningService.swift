// SPDX-License-Identifier: Apache-2.0

package import Logging
import NIOCore
package import ServiceLifecycle

/// Runs a listener of SwiftNIO, such as an application of Hummingbird, and never cancels it while it accepts.
///
/// A cancelled listener of SwiftNIO ends the process if it has accepted a connection that nobody serves yet. One that
/// is shut down gracefully accepts no more, and serves at once what it has accepted. Therefore a cancellation, as of a
/// group whose shutdown takes too long, becomes a graceful shutdown of the listener first.
package struct ListeningService: Service {
    private let listener: any Service
    private let address: ListeningAddress
    private let grace: Duration
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let makeError: @Sendable (ListeningFailure) -> any Error

    /// - Parameters:
    ///   - grace: How long running requests may go on after a cancellation.
    ///   - makeError: Makes the error to throw if the listener cannot listen. The system's error does not name the
    ///     address.
    package init(
        _ listener: any Service, on address: ListeningAddress, grace: Duration, clock: any Clock<Duration>,
        logger: Logger, makeError: @escaping @Sendable (ListeningFailure) -> any Error
    ) {
        self.listener = listener
        self.address = address
        self.grace = grace
        self.clock = clock
        self.logger = logger
        self.makeError = makeError
    }

    package func run() async throws {
        let group = ServiceGroup(services: [listener], logger: logger)
        let running = Task { try await group.run() }
        do {
            try await withTaskCancellationHandler {
                try await running.value
            } onCancel: {
                Task {
                    await group.triggerGracefulShutdown()
                    try await clock.sleep(for: grace)
                    running.cancel()
                }
            }
        } catch let error as IOError {
            throw makeError(ListeningFailure(address, errno: error.errnoCode))
        } catch is SocketAddressError.UnknownHost {
            throw makeError(ListeningFailure(unknownHostOf: address))
        }
    }
}
