// SPDX-License-Identifier: Apache-2.0

// The jobs that end grants (``CustomerGrant``) at their end. They ask no server.

public import AppStoreModel

extension Ledger {
    /// The longest time to the end of a grant: more than all years up to ``CustomerGrant/latestEnd``.
    private static let longestGrant = Duration.seconds(10_000 * 366 * 86_400)

    /// How long a published end is looked at again. By then a clock that was ahead is right again, or nobody doubts it.
    private static let afterlife = Duration.seconds(86_400)

    /// The row for the ends of grants in the table of a ``JobRunner``.
    ///
    /// After the end, the job stays for a day. If the clock is set back, ``JobRunner/pullBack()`` makes the job due at
    /// once, because it then lies too far ahead.
    ///
    /// - Parameters:
    ///   - scopes: The apps and environments of the server. Other grants wait for a server that has them.
    ///   - now: Returns the time.
    public func grantEnds(in scopes: some Sequence<LedgerScope>, now: @escaping @Sendable () -> Timestamp) -> JobKind {
        // Ends have the greatest weight, because they are quick, and applications may be waiting for their events.
        var kind = JobKind(.grantEnd, in: scopes, weight: 6, maxAtOnce: 4) { lease in
            let now = now()
            guard let end = try await endDueGrant(lease.job.id.name, in: lease.job.id.scope, at: now),
                let next = lease.job.next(after: end, at: now, within: Self.afterlife)
            else { return .done }
            return .later(next)
        }
        // The end of the grant is plausible, however far ahead. Any other due time is the end of a lease, or of the
        // day after the end.
        kind.maxWait = { job in
            switch job.times.firstIndex(of: job.dueAt) {
            case 0: Self.longestGrant
            case 1: (Self.afterlife + ChainReport.clockTolerance) / 2
            default: Job.lease
            }
        }
        return kind
    }
}

extension Job {
    /// The end of the grant, and once it is published, the time until which the job stays.
    fileprivate var times: [Timestamp] {
        String(decoding: payload, as: UTF8.self).split(separator: " ").compactMap { Int64($0) }
            .map(Timestamp.init(milliseconds:))
    }

    /// The job at the end of the grant, or at the end of the time after it; `nil` if both are over.
    fileprivate func next(after end: Timestamp, at now: Timestamp, within afterlife: Duration) -> Job? {
        let last = min(times.dropFirst().first ?? .distantFuture, now.advanced(by: afterlife))
        guard now < max(end, last) else { return nil }
        var job = next(at: end > now ? end : last, nil)
        job.payload = Array((end > now ? "\(end.milliseconds)" : "\(end.milliseconds) \(last.milliseconds)").utf8)
        return job
    }
}
