// SPDX-License-Identifier: Apache-2.0

/// Runs a service. If this task is cancelled, the service is first ended by a call of `end`, and five seconds later
/// cancelled.
///
/// A cancelled listener of SwiftNIO ends the process if it has accepted a connection that nobody serves yet. One that
/// is shut down gracefully accepts no more, and serves at once what it has accepted. A group shuts its services down
/// one after the other, webhooks within two seconds. If one needs longer than the five, the listeners after it are
/// cancelled as they are.
package func runEnding(
    _ clock: any Clock<Duration>, _ run: @escaping @Sendable () async throws -> Void,
    by end: @escaping @Sendable () async -> Void
) async throws {
    let running = Task { try await run() }
    try await withTaskCancellationHandler {
        try await running.value
    } onCancel: {
        Task {
            await end()
            try await clock.sleep(for: .seconds(5))
            running.cancel()
        }
    }
}
