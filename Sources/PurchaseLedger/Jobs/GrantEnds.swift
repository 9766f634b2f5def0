// SPDX-License-Identifier: Apache-2.0

// The jobs that end grants (``CustomerGrant``) at their end. They ask no server.

public import AppStoreModel

extension Ledger {
    /// The longest time to the end of a grant: more than all years up to ``CustomerGrant/latestEnd``.
    private static let longestGrant = Duration.seconds(10_000 * 366 * 86_400)

    /// The row for the ends of grants in the table of a ``JobRunner``.
    ///
    /// - Parameters:
    ///   - scopes: The apps and environments of the server. Other grants wait for a server that has them.
    ///   - now: Returns the time.
    public func grantEnds(in scopes: some Sequence<LedgerScope>, now: @escaping @Sendable () -> Timestamp) -> JobKind {
        // Ends have the greatest weight, because they are quick, and applications may be waiting for their events.
        var kind = JobKind(.grantEnd, in: scopes, weight: 6, maxAtOnce: 4) { lease in
            let job = lease.job
            guard let end = try await endDueGrant(job.id.name, in: job.id.scope, at: now()) else { return .done }
            return .later(job.next(at: end, nil))
        }
        // The end of the grant is plausible, however far ahead. Any other due time is the end of a lease.
        kind.maxWait = { job in
            let end = Int64(String(decoding: job.payload, as: UTF8.self)).map(Timestamp.init(milliseconds:))
            return job.dueAt == end ? Self.longestGrant : Job.lease
        }
        return kind
    }
}
