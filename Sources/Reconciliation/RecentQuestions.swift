// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import PurchaseLedger
import Synchronization

/// The subscriptions that were asked about a moment ago, so that many reads of one customer do not ask many times.
final class RecentQuestions: Sendable {
    /// How long a question is recent: the App Store's answer will hardly be another one.
    private static let lifetime = Duration.seconds(30)
    /// The most questions that are remembered: at Apple's 50 a second there are 1,500 in this time.
    private static let capacity = 10_000

    private let times = Mutex<[ChainKey: Timestamp]>([:])

    /// Notes a question about some subscriptions of one customer.
    func note(_ keys: some Sequence<ChainKey>, at now: Timestamp) {
        times.withLock { Self.note(keys, in: &$0, at: now) }
    }

    /// Notes a question unless one about any of the subscriptions is recent. Of concurrent callers one asks.
    ///
    /// - Returns: Whether to ask.
    func begin(_ keys: some Sequence<ChainKey>, at now: Timestamp) -> Bool {
        times.withLock { times in
            guard !keys.contains(where: { times[$0].map { $0 > now } ?? false }) else { return false }
            Self.note(keys, in: &times, at: now)
            return true
        }
    }

    private static func note(
        _ keys: some Sequence<ChainKey>, in times: inout [ChainKey: Timestamp], at now: Timestamp
    ) {
        if times.count >= capacity { times = times.filter { $0.value > now } }
        if times.count >= capacity { times.removeAll() }
        for key in keys { times[key] = now.advanced(by: lifetime) }
    }
}
