// SPDX-License-Identifier: Apache-2.0

package import AppStoreModel

/// The number of requests that Apple still accepts now, by environment and endpoint rate.
///
/// For a rate R, Apple allows R × 3,600 requests an hour, and a tenth in the sandbox. Each environment and rate has a
/// bucket: the number of requests that may be sent at once. A full bucket holds the requests of one second, each
/// request takes one, and the bucket refills evenly. The refill is slow enough that no hour exceeds Apple's number,
/// however the requests are spread. Endpoints with the same rate share a bucket, because Apple's page does not say
/// whether each endpoint has its own limit.
package struct RequestBudget: Sendable {
    private struct Key: Hashable {
        var environment: Environment
        var rate: Int
    }

    private struct Bucket {
        /// The number of requests in the bucket, times ``hour``. The level is negative while requests wait for their
        /// turn.
        var level: Int64
        var updated: Timestamp
        var closedUntil: Timestamp?

        /// The milliseconds until calls may resume. A time too far ahead is ignored: it was stored before the clock was
        /// set back.
        func pause(at now: Timestamp) -> Int64 {
            let pause = (closedUntil?.milliseconds ?? 0) - now.milliseconds
            return 0...RetryAfter.longest ~= pause ? pause : 0
        }
    }

    /// The time at which a request may be sent.
    package enum Turn: Hashable {
        /// The request may be sent after this number of milliseconds. The budget is charged.
        case after(Int64)
        /// The request may not be sent before this time, which is after the deadline. The budget is not charged.
        case tooLate(Timestamp)
    }

    /// The length of an hour in milliseconds.
    private static let hour: Int64 = 3_600_000

    private let share: Int64
    private var buckets: [Key: Bucket] = [:]

    /// - Parameter share: The share of Apple's numbers to use, in percent.
    package init(share: Int = 100) {
        self.share = Int64(min(max(1, share), 100))
    }

    /// Charges a request to the budget.
    ///
    /// - Parameters:
    ///   - rate: The endpoint's ``Endpoint/ratePerSecond``.
    ///   - timeout: The maximum wait of the request in milliseconds.
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

    /// Stops the requests of a rate and an environment until this time, because Apple has announced that it will refuse
    /// them.
    package mutating func close(_ rate: Int, in environment: Environment, until time: Timestamp, at now: Timestamp) {
        let key = Key(environment: environment, rate: rate)
        var bucket = refilled(key, Limits(rate, share, in: environment), at: now)
        bucket.closedUntil = time
        buckets[key] = bucket
    }

    private func refilled(_ key: Key, _ limits: Limits, at now: Timestamp) -> Bucket {
        let full = limits.capacity * Self.hour
        guard var bucket = buckets[key] else { return Bucket(level: full, updated: now) }
        // If the clock was set back, nothing is refilled. After an hour any bucket is full.
        let elapsed = min(max(0, now.milliseconds - bucket.updated.milliseconds), Self.hour)
        bucket.level = min(full, bucket.level + elapsed * limits.refill)
        bucket.updated = now
        return bucket
    }

    /// The limits of one bucket.
    private struct Limits {
        /// The maximum number of requests at once.
        let capacity: Int64
        /// The requests added evenly within an hour.
        let refill: Int64

        init(_ rate: Int, _ share: Int64, in environment: Environment) {
            let perHour = Int64(max(1, rate)) * (environment == .production ? 3600 : 360) * share / 100
            capacity = max(1, perHour / 3600)
            refill = perHour - capacity
        }
    }
}
