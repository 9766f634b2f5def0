// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// What a server's routes and its ``WebhookService`` tell each other: that an endpoint was changed, and which endpoints
/// get nothing.
package final class WebhookWatch: Sendable {
    private struct State {
        var concerns: [String] = []
        var waiting: AsyncStream<Void>.Continuation?
    }

    /// The most sentences in ``concern``.
    private static let named = 5

    private let state = Mutex(State())

    package init() {}

    /// A stream with an element after each call of ``noteChange()`` from now on. Calls while the reader is busy are
    /// merged into a single element.
    func changes() -> AsyncStream<Void> {
        let (changes, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.waiting = continuation }
        return changes
    }

    /// Notes that an endpoint was added or changed.
    package func noteChange() { state.withLock { $0.waiting }?.yield() }

    /// Sets the reasons why endpoints get nothing, as sentences.
    func show(_ concerns: [String]) { state.withLock { $0.concerns = concerns } }

    /// The reasons why endpoints get nothing, as a text for the operator; `nil` if all active endpoints are served.
    var concern: String? {
        let concerns = state.withLock { $0.concerns }
        guard !concerns.isEmpty else { return nil }
        let more = concerns.count > Self.named ? " There are \(concerns.count - Self.named) more." : ""
        return concerns.prefix(Self.named).joined(separator: " ") + more
    }
}
