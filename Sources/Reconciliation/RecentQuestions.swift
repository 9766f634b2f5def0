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

    func note(_ key: ChainKey, at now: Timestamp) {
        times.withLock { times in
            if times.count >= Self.capacity { times = times.filter { $0.value > now } }
            if times.count >= Self.capacity { times.removeAll() }
            times[key] = now.advanced(by: Self.lifetime)
        }
    }

    func contains(_ key: ChainKey, at now: Timestamp) -> Bool {
        times.withLock { times in times[key].map { $0 > now } ?? false }
    }
}
