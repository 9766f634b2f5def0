// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

/// The queue from which a ``JobRunner`` begins jobs between two searches of the storage.
struct JobQueue {
    /// The maximum number of concurrent jobs of an app and environment in a server. Eight suffice for Apple's 50
    /// requests a second if an answer takes a seventh of a second.
    private static let maxOfScope = 8

    /// The maximum number of jobs that a search finds in a ``RecordLane``: here, the jobs of a kind in an app and
    /// environment. If more are due, a new search follows when the found jobs have begun.
    static let maxFound = 32

    /// The kinds, the greatest weight first.
    private let kinds: [JobKind]
    /// The apps and environments, sorted, so that the same course of events begins the same jobs in each process.
    private let scopes: [LedgerScope]
    /// The due jobs without a lease, the earliest first.
    private var found: [RecordLane: ArraySlice<RecordKey>] = [:]
    /// The lanes in which the last search may have left due jobs.
    private var unfinished: Set<RecordLane> = []
    private var running: [RecordLane: Int] = [:]
    private var runningOfScope: [LedgerScope: Int] = [:]
    /// The pauses of apps and environments after failures.
    var pauses = JobPauses()
    /// Whether to search, even if due jobs are known.
    var wantsSearch = true

    init(_ kinds: [JobKind]) {
        self.kinds = kinds.sorted { $0.weight > $1.weight }
        scopes = kinds.reduce(into: Set()) { $0.formUnion($1.scopes) }.sorted()
    }

    /// The lanes to search: a job may begin in the lane, but no due job is known. Empty if no lane needs a search.
    mutating func lanesToSearch(at now: Timestamp) -> [RecordLane] {
        let wanted: Set<RecordLane>? = wantsSearch ? nil : unfinished.filter { found[$0]?.isEmpty ?? true }
        wantsSearch = false
        guard wanted?.isEmpty != true else { return [] }
        var lanes: [RecordLane] = []
        for kind in kinds {
            for scope in scopes where kind.scopes.contains(scope) && pauses.admits(scope, at: now) {
                let lane = RecordLane(kind.kind, of: .scope(scope))
                guard wanted?.contains(lane) ?? true, found[lane]?.isEmpty ?? true, hasRoom(kind, scope) else {
                    continue
                }
                lanes.append(lane)
            }
        }
        return lanes
    }

    /// Adds the results of a search in some lanes.
    mutating func add(_ records: [RecordKey], in lanes: [RecordLane]) {
        let found = Dictionary(grouping: records, by: \.lane)
        for lane in lanes {
            let keys = found[lane] ?? []
            self.found[lane] = keys.isEmpty ? nil : keys[...]
            if keys.count >= Self.maxFound { unfinished.insert(lane) } else { unfinished.remove(lane) }
        }
    }

    /// The jobs that begin now. They count as running.
    mutating func take(atMost limit: Int, at now: Timestamp) -> [Job.ID] {
        var jobs: [Job.ID] = []
        for position in kinds.indices {
            for scope in scopes {
                let kind = kind(at: position, of: scope)
                let lane = RecordLane(kind.kind, of: .scope(scope))
                while jobs.count < limit, hasRoom(kind, scope), pauses.admits(scope, at: now),
                    let key = found[lane]?.popFirst()
                {
                    let job = Job.ID(kind.kind, key.name, in: scope)
                    begin(job, at: now)
                    jobs.append(job)
                }
            }
        }
        return jobs
    }

    /// The kind at a position in the order in which the jobs of an app and environment begin. After a failure, the
    /// order begins after the failed kind.
    private func kind(at position: Int, of scope: LedgerScope) -> JobKind {
        guard let failed = pauses.failedKind(scope), let index = kinds.firstIndex(where: { $0.kind == failed }) else {
            return kinds[position]
        }
        return kinds[(index + 1 + position) % kinds.count]
    }

    private func hasRoom(_ kind: JobKind, _ scope: LedgerScope) -> Bool {
        running[RecordLane(kind.kind, of: .scope(scope)), default: 0] < kind.maxAtOnce
            && runningOfScope[scope, default: 0] < Self.maxOfScope
    }

    private mutating func begin(_ job: Job.ID, at now: Timestamp) {
        running[job.key.lane, default: 0] += 1
        runningOfScope[job.scope, default: 0] += 1
        pauses.begin(job, at: now)
    }

    /// Notes the end of a job.
    mutating func end(_ job: Job.ID) {
        running[job.key.lane, default: 0] -= 1
        runningOfScope[job.scope, default: 0] -= 1
    }
}
