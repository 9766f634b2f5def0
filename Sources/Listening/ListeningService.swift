// SPDX-License-Identifier: Apache-2.0

package import Logging
import NIOCore
package import ServiceLifecycle

/// Runs a listener of SwiftNIO, such as an application of Hummingbird, so that it ends well and fails with its address.
///
/// A cancelled listener of SwiftNIO ends the process if it has accepted a connection that nobody serves yet. One that
/// is shut down gracefully accepts no more, and serves at once what it has accepted. Therefore a cancellation, as of a
/// group whose shutdown takes too long, becomes a graceful shutdown of the listener first.
package struct ListeningService<Listening: Service>: Service, CustomStringConvertible {
    private let listening: Listening
    private let address: ListeningAddress
    private let grace: Duration
    private let clock: any Clock<Duration>
    private let logger: Logger
    private let failed: @Sendable (ListeningFailure) -> any Error

    /// - Parameters:
    ///   - grace: The time for running requests between a cancellation and their own cancellation.
    ///   - failed: The error to throw if the listener cannot listen. The system's error does not name the address.
    package init(
        _ listening: Listening, on address: ListeningAddress, grace: Duration, clock: any Clock<Duration>,
        logger: Logger, failed: @escaping @Sendable (ListeningFailure) -> any Error
    ) {
        self.listening = listening
        self.address = address
        self.grace = grace
        self.clock = clock
        self.logger = logger
        self.failed = failed
    }

    /// A log may show services whole, which would show all that they have.
    package var description: String { "the listener on \(address)" }

    package func run() async throws {
        do {
            try await runEnding()
        } catch let error as IOError {
            throw failed(ListeningFailure(address, error.errnoCode))
        } catch is SocketAddressError.UnknownHost {
            throw failed(ListeningFailure(unknown: address))
        }
    }

    private func runEnding() async throws {
        let group = ServiceGroup(services: [listening], logger: logger)
        let running = Task { try await group.run() }
        try await withTaskCancellationHandler {
            try await running.value
        } onCancel: {
            Task {
                await group.triggerGracefulShutdown()
                try await clock.sleep(for: grace)
                running.cancel()
            }
        }
    }
}
