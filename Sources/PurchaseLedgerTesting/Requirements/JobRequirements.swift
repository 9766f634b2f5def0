// SPDX-License-Identifier: Apache-2.0

// The requirements about jobs.

import AppStoreModel
import PurchaseLedger

extension Sample {
    static func job(
        _ name: String, _ kind: String = "kind", in scope: LedgerScope = production, due: Int64 = 0,
        attempts: Int = 0, payload: [UInt8] = [], failure: String? = nil
    ) -> Job {
        Job(
            Job.ID(Job.Kind(rawValue: kind), name, in: scope), dueAt: time(due), attempts: attempts, payload: payload,
            failure: failure)
    }
}

extension LedgerStorageContract {
    static let jobs = [
        Requirement("A job replaces the one with the same kind, scope and name, and no other") { trial in
            let others = [
                Sample.job("b"), Sample.job("a", "other"), Sample.job("a", in: Sample.sandbox),
                Sample.job("a", in: Sample.otherApp),
            ]
            try await trial.commit { $0.jobs = others }
            for job in [
                Sample.job("a"), Sample.job("a", due: -5, attempts: 3, payload: [0, 255], failure: ""),
                Sample.job("a", due: 7, payload: Array(repeating: 1, count: 100_000), failure: Sample.awkward[4]),
            ] {
                try await trial.commit { $0.jobs = [job] }
                let all = others + [job]
                let found = try await trial.load { $0.jobs = Set(all.map(\.id)) }.jobs
                try trial.expect(found, is: Dictionary(uniqueKeysWithValues: all.map { ($0.id, $0) }), "The jobs")
            }
        },
        Requirement("Names of jobs are any texts") { trial in
            let jobs = Sample.awkward.map { Sample.job($0, $0) }
            try await trial.commit { $0.jobs = jobs }
            let found = try await trial.load { $0.jobs = Set(jobs.map(\.id)) }.jobs
            try trial.expect(Set(found.values), is: Set(jobs), "The jobs")
        },
        Requirement("Jobs of a kind and scope are due from their instant, the earliest first, up to a limit") { trial in
            try await trial.commit { changes in
                changes.jobs = [("c", 3), ("a", 2), ("b", 1), ("d", 4)].map { Sample.job($0, due: $1) }
                changes.jobs += [Sample.job("x", "other"), Sample.job("x", in: Sample.sandbox)]
            }
            for (now, limit, expected) in [
                (3, 9, "bac"), (9, 2, "ba"), (0, 9, ""), (9, 0, ""), (2, 9, "ba"),
            ] as [(Int64, Int, String)] {
                let due = try await trial.second.dueJobs(
                    Job.Kind(rawValue: "kind"), in: Sample.production, at: Sample.time(now), limit: limit)
                try trial.expect(due.map(\.id.name).joined(), is: expected, "Due at \(now), at most \(limit)")
            }
            try await trial.commit { changes in
                changes.jobs = [Sample.job("b", due: 8)]
                changes.erasedJobs = [Sample.job("a").id, Sample.job("never stored").id]
            }
            let due = try await trial.second.dueJobs(
                Job.Kind(rawValue: "kind"), in: Sample.production, at: Sample.time(9), limit: 9)
            try trial.expect(due.map(\.id.name).joined(), is: "cdb", "Due after one was postponed and one erased")
        },
        Requirement("A scan finds each job once") { trial in
            let jobs = (0..<7).map { Sample.job("\($0)", in: $0 < 4 ? Sample.production : Sample.otherApp) }
            try await trial.commit { $0.jobs = jobs }
            var (found, cursor) = ([Job](), ScanCursor?.none)
            repeat {
                let page = try await trial.second.scanJobs(after: cursor, limit: 2)
                found += page.items
                cursor = page.next
                // A job that is stored again meanwhile is not found again.
                try await trial.commit { $0.jobs = [jobs[0]] }
            } while cursor != nil && found.count < 20
            try trial.expect(found.map(\.id.name).sorted(), is: jobs.map(\.id.name).sorted(), "The jobs")
        },
        Requirement("Of many workers, one gets each job") { trial in
            let (count, kind) = (20, Job.Kind(rawValue: "kind"))
            try await trial.commit { changes in changes.jobs = (0..<count).map { Sample.job("\($0)") } }
            let leased = try await withThrowingTaskGroup(of: [Job].self) { group in
                for worker in 0..<8 {
                    group.addTask {
                        let ledger = Ledger(storage: trial.handles[worker % 2])
                        return try await ledger.lease(
                            kind, in: Sample.production, until: Sample.time(100), limit: 7, at: Sample.time(50))
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            try trial.expect(Set(leased.map(\.id.name)).count, is: leased.count, "Jobs that were leased, each once")
            try trial.expect(leased.allSatisfy { $0.attempts == 1 && $0.dueAt == Sample.time(100) }, "Leases")
            let ledger = Ledger(storage: trial.second)
            let rest = try await ledger.lease(
                kind, in: Sample.production, until: Sample.time(100), limit: count, at: Sample.time(50))
            try trial.expect(leased.count + rest.count, is: count, "All jobs, after a last worker")
        },
        Requirement("A worker whose lease has ended changes nothing") { trial in
            let (kind, ledgers) = (Job.Kind(rawValue: "kind"), trial.handles.map { Ledger(storage: $0) })
            try await trial.commit { $0.jobs = [Sample.job("a")] }
            var jobs: [Job] = []
            for (worker, now) in [0, 10].enumerated() {
                jobs += try await ledgers[worker].lease(
                    kind, in: Sample.production, until: Sample.time(Int64(now) + 10), at: Sample.time(Int64(now)))
            }
            try trial.expect(jobs.map(\.attempts), is: [1, 2], "Attempts of both leases")
            try trial.expect(
                try await ledgers[0].finish(jobs[0], at: Sample.time(11)), is: false, "Finishing after the lease")
            try trial.expect(
                try await ledgers[0].replace(jobs[0], with: Sample.job("a"), at: Sample.time(11)), is: false,
                "Postponing after the lease")
            try trial.expect(try await ledgers[0].job(jobs[1].id), is: jobs[1], "The job")
            try trial.expect(
                try await ledgers[1].finish(jobs[1], at: Sample.time(11)), is: true, "Finishing within the lease")
            try trial.expect(try await ledgers[0].job(jobs[1].id), is: nil, "The finished job")
        },
    ]
}
