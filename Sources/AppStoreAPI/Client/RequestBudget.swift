// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// How many requests Apple still accepts now, by the environment and the rate of the endpoint.
///
/// Apple counts R × 3,600 requests an hour, and a tenth of that in the sandbox. A bucket holds the requests of one
/// second and is refilled so slowly that no hour has more than Apple's number, whatever the order of requests.
/// Endpoints of one rate share a bucket: Apple's page does not say whether each has its own.
package struct RequestBudget: Sendable {
    private struct Key: Hashable {
        var environment: Environment
        var rate: Int
    }

    private struct Bucket {
        /// Requests × ``hour``. Below 0 if requests wait for their turn.
        var level: Int64
        var updated: Timestamp
        var closedUntil: Timestamp?

        /// The milliseconds until calls may resume. A time that lies too far ahead is from before the clock was set
        /// back.
        func pause(at now: Timestamp) -> Int64 {
            let pause = (closedUntil?.milliseconds ?? 0) - now.milliseconds
            return 0...RetryAfter.longest ~= pause ? pause : 0
        }
    }

    /// When a request may be sent.
    package enum Turn: Hashable {
        /// After so many milliseconds. They are taken from the budget.
        case after(Int64)
        /// Not before this time, which is too late. Nothing is taken.
        case tooLate(Timestamp)
    }

    /// Milliseconds.
    private static let hour: Int64 = 3_600_000

    private let share: Int64
    private var buckets: [Key: Bucket] = [:]

    /// - Parameter share: How much of Apple's numbers to use, in percent.
    package init(share: Int = 100) {
        self.share = Int64(min(max(1, share), 100))
    }

    /// Takes a request from the budget.
    ///
    /// - Parameters:
    ///   - rate: The endpoint's ``Endpoint/ratePerSecond``.
    ///   - timeout: How many milliseconds the request can wait.
    package mutating func take(
        _ rate: Int, in environment: Environment, at now: Timestamp, within timeout: Int64
    ) -> Turn {
        let key = Key(environment: environment, rate: rate)
        let limits = Limits(rate, share, in: environment)
        var bucket = refilled(key, limits, at: now)
        let missing = max(0, Self.hour - bucket.level)
        let wait = max((missing + limits.refill - 1) / limits.refill, bucket.pause(at: now))
        if wait <= timeout { bucket.level -= Self.hour }
        buckets[key] = bucket
        return wait <= timeout ? .after(wait) : .tooLate(Timestamp(milliseconds: now.milliseconds + wait))
    }

    /// Sends nothing until this time: Apple said that it would be refused.
    package mutating func close(_ rate: Int, in environment: Environment, until time: Timestamp, at now: Timestamp) {
        let key = Key(environment: environment, rate: rate)
        var bucket = refilled(key, Limits(rate, share, in: environment), at: now)
        bucket.closedUntil = time
        buckets[key] = bucket
    }

    private func refilled(_ key: Key, _ limits: Limits, at now: Timestamp) -> Bucket {
        let full = limits.capacity * Self.hour
        guard var bucket = buckets[key] else { return Bucket(level: full, updated: now) }
        // A clock that was set back refills nothing; after an hour any bucket is full.
        let elapsed = min(max(0, now.milliseconds - bucket.updated.milliseconds), Self.hour)
        bucket.level = min(full, bucket.level + elapsed * limits.refill)
        bucket.updated = now
        return bucket
    }

    /// The numbers of one bucket.
    private struct Limits {
        /// The most requests at once.
        let capacity: Int64
        /// The requests that are added in an hour, evenly.
        let refill: Int64

        init(_ rate: Int, _ share: Int64, in environment: Environment) {
            let perHour = Int64(max(1, rate)) * (environment == .production ? 3600 : 360) * share / 100
            capacity = max(1, perHour / 3600)
            refill = perHour - capacity
        }
    }
}
