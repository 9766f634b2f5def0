// SPDX-License-Identifier: Apache-2.0

// How notices are stored with decisions, listed and erased.

public import AppStoreModel

extension LedgerDraft {
    /// Stores a notice that was seen now.
    mutating func store(_ notice: Notice) {
        let end = now.advanced(by: Notice.lifetime)
        if let known = job(notice.id), end < known.dueAt.advanced(by: Notice.precision) { return }
        changes.jobs.append(Job(notice.id, dueAt: end))
    }
}

extension Ledger {
    /// The notices of a kind in an app and environment that were seen in the last 30 days, at most `limit`.
    public func notices(
        _ kind: Notice.Kind, in scope: LedgerScope, at now: Timestamp, limit: Int
    ) async throws -> [Notice] {
        try await storage.dueJobs(kind.job, in: scope, at: .distantFuture, limit: limit)
            .filter { now < $0.dueAt }.map { Notice(kind, $0.id.name, in: scope) }
    }

    /// Erases the notices of an app and environment that were not seen for 30 days, at most `limit` of each kind.
    public func eraseNotices(in scope: LedgerScope, at now: Timestamp, limit: Int) async throws {
        for kind in Notice.Kind.allCases {
            let ids = Set(try await storage.dueJobs(kind.job, in: scope, at: now, limit: limit).map(\.id))
            guard !ids.isEmpty else { continue }
            try await commit(LedgerQuery { $0.jobs = ids }, at: now) { draft in
                draft.changes.erasedJobs = ids.filter { id in draft.job(id).map { $0.dueAt <= now } ?? false }
            }
        }
    }
}
