// SPDX-License-Identifier: Apache-2.0

// How notices are stored with decisions, listed and erased.

package import AppStoreModel

extension LedgerDraft {
    /// Stores a notice that was seen now.
    mutating func store(_ notice: Notice) {
        let end = now.advanced(by: Notice.lifetime)
        if let known = job(notice.id), end < known.dueAt.advanced(by: Notice.precision) { return }
        changes.jobs.append(Job(notice.id, dueAt: end))
    }
}

extension Ledger {
    /// The notices of an app and environment that were seen in the last 30 days, at most `limit` of each kind. Erases
    /// the older ones among them.
    package func currentNotices(in scope: LedgerScope, at now: Timestamp, limit: Int) async throws -> [Notice] {
        var notices: [Notice] = []
        for kind in Notice.Kind.allCases {
            let jobs = try await storage.dueJobs(kind.job, in: scope, at: .distantFuture, limit: limit)
            try await erase(jobs.filter { $0.dueAt <= now }, at: now)
            notices += jobs.filter { now < $0.dueAt }.map { Notice(kind, $0.id.name, in: scope) }
        }
        return notices
    }

    /// Erases notices that have ended, unless they were seen again meanwhile.
    private func erase(_ ended: [Job], at now: Timestamp) async throws {
        guard !ended.isEmpty else { return }
        let ids = Set(ended.map(\.id))
        try await commit(LedgerQuery { $0.jobs = ids }, at: now) { draft in
            draft.changes.erasedJobs = ids.filter { id in draft.job(id).map { $0.dueAt <= now } ?? false }
        }
    }
}
