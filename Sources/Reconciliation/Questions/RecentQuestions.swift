// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The subscriptions about which the App Store was asked recently. They are remembered, so that many reads of a
/// customer's state do not lead to as many questions.
final class RecentQuestions: Sendable {
    /// The time for which a question is recent.
    private let lifetime: Duration
    /// The maximum number of subscriptions in memory. At this number, entries that are no longer recent are removed
    /// and, if that is not enough, all entries. With the default lifetime, this number is hardly ever reached: at
    /// Apple's limit of 50 questions a second, 30 seconds have 1,500 questions.
    private static let capacity = 10_000

    private let times = Mutex<[ChainKey: Timestamp]>([:])

    /// - Parameter lifetime: The time for which a question is recent. Within the default of 30 seconds, the App Store's
    ///   answer hardly changes.
    init(lifetime: Duration = .seconds(30)) {
        self.lifetime = lifetime
    }

    /// Notes a question about subscriptions of a customer.
    func note(_ keys: some Sequence<ChainKey>, at now: Timestamp) {
        times.withLock { note(keys, in: &$0, at: now) }
    }

    /// Notes a question, unless a question about any of the subscriptions is recent. Of concurrent callers only the
    /// first asks.
    ///
    /// - Returns: Whether to ask.
    func begin(_ keys: some Sequence<ChainKey>, at now: Timestamp) -> Bool {
        times.withLock { times in
            guard !contains(keys, in: times, at: now) else { return false }
            note(keys, in: &times, at: now)
            return true
        }
    }

    /// Whether a question about any of the subscriptions is recent.
    func contains(_ keys: some Sequence<ChainKey>, at now: Timestamp) -> Bool {
        times.withLock { contains(keys, in: $0, at: now) }
    }

    /// Whether a question about any of the subscriptions is recent. A question is recent for ``lifetime``. An end of
    /// that time further ahead is ignored, because it was noted before the clock was set back.
    private func contains(
        _ keys: some Sequence<ChainKey>, in times: [ChainKey: Timestamp], at now: Timestamp
    ) -> Bool {
        keys.contains { times[$0].map { now < $0 && $0 <= now.advanced(by: lifetime) } ?? false }
    }

    private func note(_ keys: some Sequence<ChainKey>, in times: inout [ChainKey: Timestamp], at now: Timestamp) {
        if times.count >= Self.capacity { times = times.filter { $0.value > now } }
        if times.count >= Self.capacity { times.removeAll() }
        for key in keys { times[key] = now.advanced(by: lifetime) }
    }
}
