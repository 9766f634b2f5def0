// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A clock on which time passes only while a task sleeps, and then at once.
final class VirtualClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let offset = Mutex(Duration.zero)
    /// Whether the first task that sleeps is cancelled, so that a service does one round and ends.
    private let endsWithFirstSleep: Bool

    init(endsWithFirstSleep: Bool = false) {
        self.endsWithFirstSleep = endsWithFirstSleep
    }

    var now: Instant { Instant(offset: offset.withLock { $0 }) }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        if endsWithFirstSleep { withUnsafeCurrentTask { $0?.cancel() } }
        try Task.checkCancellation()
        offset.withLock { $0 = max($0, deadline.offset) }
        await Task.yield()
    }
}
